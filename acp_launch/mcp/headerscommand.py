"""
Headers that a command of the user prints for a remote server, for companies that mint tokens (`headers_command`).

The command runs once before anything starts, again when its headers are older than their time to live, and once more
when the server has refused them. It prints a JSON object; its output is never shown. If it fails later on, the present
headers stay in use until the server refuses them.
"""

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import PurePath
from time import monotonic

from msgspec import Struct
from msgspec.json import Decoder

from acp_launch.errors import LaunchError
from acp_launch.mcp.http.challenge import Challenge
from acp_launch.mcp.http.wire import Failure, Headers, NoToken
from acp_launch.profile.values import header_fault, header_name_fault
from acp_launch.regex import regex
from acp_launch.secret.command import Captured, Run, failure, sentence
from acp_launch.secret.detect import masked
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import MAX_VALUE, Secret
from acp_launch.settings.model import HeadersCommand

RunInLoop = Callable[[Sequence[str], float], Awaitable[Captured]]  # as `Run`, in the event loop
REST = 10.0  # seconds without a further attempt after one that failed
NEW = 30.0  # seconds in which headers that were printed because of a refusal are not printed again because of another
MOST = 32  # headers
EXAMPLE = 'it must print one JSON object with a text for each header: {"Authorization": "Bearer ..."}'
_NAME = regex(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # RFC 9110 "token"
_SCHEME = regex(r"[A-Za-z][\w-]* +(?=\S)")  # before credentials (RFC 9110 11.4)
NO_HEADERS = "has no headers from its command: "
_decoder = Decoder(dict[str, object])


class Unusable(Exception):  # noqa: N818 - the name states the fault
    """Raised if what a command printed is not headers; the message completes "the command …" and quotes no value."""


def printed(out: bytes) -> dict[str, Secret]:
    """Read the output of a command, and hide the values from now on in all that is shown.

    Raises:
        Unusable: it is not an object of headers.
    """
    if len(out) > MAX_VALUE:
        raise Unusable(f"printed more than {MAX_VALUE // 1024} KiB")
    try:
        found = _decoder.decode(out)
    except (ValueError, RecursionError):  # its message may quote the text
        raise Unusable("printed something else than a JSON object" if out.strip() else "printed nothing") from None
    hide(*(value for value in found.values() if isinstance(value, str)))
    if not 0 < len(found) <= MOST:
        raise Unusable(f"printed {len(found)} headers; from 1 to {MOST} are allowed")
    names: set[str] = set()
    for name, value in found.items():
        if fault := _fault(name, value):
            raise Unusable(f"printed a header that cannot be sent: {masked(fault)}")
        if name.lower() in names:
            raise Unusable(f"printed the header {name} twice; upper and lower case are the same")
        names.add(name.lower())
    return {name: Secret(value) for name, value in found.items() if isinstance(value, str)}


def _fault(name: str, value: object) -> str:
    if _NAME.fullmatch(name) is None:
        return "its name holds other characters than letters, digits and -"
    if fault := header_name_fault(name):
        return fault
    if not isinstance(value, str):
        return f"the value of {name} is not a text"
    if not value.strip():
        return f"the value of {name} is empty"
    if value != value.strip():
        return f"the value of {name} begins or ends with a space"
    return f"in {name}, {fault}" if (fault := header_fault(value)) else ""


def hide(*values: str) -> None:
    """Let the redactor know values of headers, and the credentials in them: `x` in `Bearer x`."""
    credentials = (_SCHEME.sub("", value, count=1) for value in values if _SCHEME.match(value))
    redactor.register(*map(Secret, values), *map(Secret, credentials))


class _Failed(Struct, frozen=True):
    """Why the last attempt gave no headers. `until`: no further one before that moment of the monotonic clock."""

    how: str
    fix: str
    until: float


class PrintedHeaders:
    """The `Credentials` that a command prints, for all servers of one address. They belong to one event loop."""

    is_login = has_news = False

    def __init__(
        self,
        address: str,
        entry: HeadersCommand,
        *,
        limit: float,
        run: RunInLoop,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`address` is that of the entry in the settings, `limit` in seconds for each call of the command."""
        self.address = address
        self.note: Callable[[str], None] = _unsaid
        self._argv, self._ttl = entry.command, float(entry.ttl)
        self._program = PurePath(entry.command[0]).name
        self._limit, self._run, self._clock = limit, run, clock
        self._headers: Headers | None = None
        self._made = 0.0  # by the clock; when the command that printed them was started
        self._is_mended = False  # they were printed because others had been refused
        self._failed: _Failed | None = None
        self._has_told = False
        self._lock = asyncio.Lock()

    @property
    def fix(self) -> str:
        line = masked(shlex.join(self._argv))
        shown = self._program if ": " in line else line  # the reason of an end is split there
        return f"run {shown} yourself and correct what it reports, or correct headers_command in config.yaml"

    @property
    def refusal(self) -> Failure:
        how = f"answered 401 Unauthorized to new headers of {self._program}, too"
        return Failure(how, self.fix, is_final=True)

    def first(self, run: Run) -> None:
        """Run the command before there is an event loop.

        Raises:
            NoToken: there are no headers.
        """
        began = self._clock()
        try:
            self._take(run(self._argv, self._limit), began)
        except LaunchError as error:
            raise self._unstarted(error) from None

    def late(self) -> NoToken:
        """Return the fault of a first call that has not ended."""
        return self._without(f"{self._program} did not answer within {self._limit:g} s", is_late=True)

    async def headers(self, refused: Headers | None = None) -> Headers:
        if (present := self._present(refused)) is not None:
            return present
        async with self._lock:  # a caller that is cancelled here kills the command; the next one starts it again
            if (present := self._present(refused)) is not None:
                return present
            try:
                return await self._renewed(refused)
            except NoToken as error:
                if self._headers is None or self._headers == refused:
                    raise
                self._tell(error)
                return self._headers

    async def challenged(self, challenge: Challenge) -> str:
        """Know nothing better than the machine."""
        return ""

    async def leave(self) -> None:
        """Return at once: a command that is killed loses nothing."""

    def _present(self, refused: Headers | None) -> Headers | None:
        """Return the headers that can be used without asking the command."""
        if self._headers is None or self._headers == refused:
            return None
        is_fresh = 0 <= self._clock() - self._made < self._ttl  # a clock that was set back says nothing
        return self._headers if is_fresh or self._is_resting else None

    @property
    def _is_resting(self) -> bool:
        return self._failed is not None and monotonic() < self._failed.until

    async def _renewed(self, refused: Headers | None) -> Headers:
        if self._failed is not None and self._is_resting:
            raise NoToken(self._failed.how, self._failed.fix, is_final=False)
        is_refused = refused is not None and self._headers == refused
        if is_refused and self._is_mended and 0 <= self._clock() - self._made < NEW:
            raise NoToken(f"does not accept the headers that {self._program} has just printed", self.fix)
        began = self._clock()
        try:
            captured = await self._run(self._argv, self._limit)
            headers = self._take(captured, began)
        except LaunchError as error:
            raise self._noted(self._unstarted(error)) from None
        except NoToken as error:
            raise self._noted(error) from None
        self._is_mended = is_refused
        if headers == refused:
            how = f"does not accept the headers of {self._program}, which has printed the same ones again"
            raise NoToken(how, self.fix)
        return headers

    def _take(self, captured: Captured, began: float) -> Headers:
        """Use what the command has printed."""
        headers, unfit = dict[str, Secret](), ""
        try:
            headers = printed(captured.out)  # first: its stderr may repeat what is hidden by that
        except Unusable as unusable:
            unfit = f"{self._program} {unusable}; {EXAMPLE}"
        if len(captured.out) <= MAX_VALUE and (how := failure(self._program, captured, self._limit)):
            raise self._without(how, is_late=captured.timed_out)
        if unfit:
            raise self._without(unfit)
        self._headers, self._made, self._failed, self._has_told = headers, began, None, False
        return headers

    def _unstarted(self, error: LaunchError) -> NoToken:
        return self._without(sentence(error))

    def _without(self, how: str, *, is_late: bool = False) -> NoToken:
        waiting = "it may be waiting for you to sign in; " if is_late else ""
        return NoToken(f"{NO_HEADERS}{how}", f"{waiting}{self.fix}", is_final=False)

    def _noted(self, error: NoToken) -> NoToken:
        self._failed = _Failed(error.how, error.fix, monotonic() + REST)
        return error

    def _tell(self, error: NoToken) -> None:
        """Tell the user, once until it works again, why the headers grow old."""
        if not self._has_told:
            self._has_told = True
            why = error.how.removeprefix(NO_HEADERS)
            self.note(f"the headers for {self.address} cannot be renewed, so those in use stay: {why}")


def _unsaid(text: str) -> None:
    """Tell nothing: the verbs of `mcp` end with what they have to say."""
