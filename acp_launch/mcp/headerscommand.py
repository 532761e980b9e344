"""
Headers that a command of the user prints for a remote server, for companies that mint tokens (`headers_command`).

The command runs once before anything starts, again when its headers are older than their time to live, and once more
when the server has refused them. It prints a JSON object; its output is never shown. If it fails later on, the present
headers stay in use until the server refuses them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import PurePath

import msgspec

from acp_launch.errors import LaunchError
from acp_launch.mcp.http.wire import Challenge, Failure, Headers, NoToken
from acp_launch.profile.values import header_fault, header_name_fault
from acp_launch.regex import regex
from acp_launch.secret.command import Captured, failure, sentence
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import MAX_VALUE, Secret
from acp_launch.settings.model import HeadersCommand

REST = 10.0  # seconds without a further call after one that failed, or that a refusal led to
EXAMPLE = 'it must print one JSON object with a text for each header: {"Authorization": "Bearer ..."}'
NO_HEADERS = "has no headers from its command: "
_NAME = regex(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # RFC 9110 "token"


def read_headers(out: bytes) -> dict[str, Secret]:
    """Read the output of a command, and hide the values from now on in all that is shown.

    Raises:
        ValueError: it is not an object of headers. The message completes "the command …" and quotes nothing.
    """
    if len(out) > MAX_VALUE:
        raise ValueError(f"printed more than {MAX_VALUE // 1024} KiB")
    try:
        found = {name: value.strip() for name, value in msgspec.json.decode(out, type=dict[str, str]).items()}
    except (ValueError, RecursionError):
        raise ValueError("printed something else than a JSON object of texts") from None
    credentials = [value.partition(" ")[2].strip() for value in found.values()]  # `x` in `Bearer x`
    redactor.register(*(Secret(text) for text in (*found.values(), *credentials) if text))
    if not found or len({name.lower() for name in found}) < len(found):
        raise ValueError("printed no header, or one twice")
    for number, (name, value) in enumerate(found.items(), 1):
        if not (value and _NAME.fullmatch(name)) or header_name_fault(name) or header_fault(value):
            raise ValueError(f"printed a header that cannot be sent, the one at place {number}")
    return {name: Secret(value) for name, value in found.items()}


class PrintedHeaders:
    """The `Credentials` that a command prints, for all servers of one address. They belong to one event loop."""

    is_login = has_news = False

    def __init__(
        self,
        entry: HeadersCommand,
        run: Callable[[Sequence[str], float], Awaitable[Captured]],
        *,
        limit: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`limit` is for each call of the command, in seconds."""
        self.note: Callable[[str], None] = lambda text: None
        self._argv, self._ttl, self._program = entry.command, float(entry.ttl), PurePath(entry.command[0]).name
        self._run, self._limit, self._clock = run, limit, clock
        self._headers: Headers | None = None
        self._made = self._failed = 0.0  # when the call began that printed them, and the last one that did not help
        self._error: NoToken | None = None  # why that did not help
        self._lock = asyncio.Lock()
        self._fix = (
            f"run {self._program} yourself and correct what it reports, or correct headers_command in config.yaml"
        )

    @property
    def refusal(self) -> Failure:
        return Failure(f"answered 401 Unauthorized to new headers of {self._program}, too", self._fix, is_final=True)

    async def headers(self, refused: Headers | None = None) -> Headers:
        async with self._lock:  # a caller that is cancelled here kills the command; the next one starts it again
            now = self._clock()
            is_fresh = 0 <= now - self._made < self._ttl  # a clock that was set back says nothing
            is_resting = self._error is not None and 0 <= now - self._failed < REST
            if (self._headers in (None, refused) or not is_fresh) and not is_resting:
                await self._renew(refused)
            if self._error is not None and self._headers in (None, refused):
                raise NoToken(self._error.how, self._error.fix, is_final=self._error.is_final)
            return self._headers or {}

    async def note_challenge(self, challenge: Challenge) -> str:
        """Know nothing better than the machine."""
        return ""

    async def leave(self) -> None:
        """Return at once: a command that is killed loses nothing."""

    async def _renew(self, refused: Headers | None) -> None:
        """Run the command; keep why that did not help, and tell the user once why the headers grow old."""
        began, before, self._error = self._clock(), self._error, None
        try:
            headers = await self._print()
        except NoToken as error:
            self._error = error
            if self._headers not in (None, refused) and (before is None or before.is_final):
                why = error.how.removeprefix(NO_HEADERS)
                self.note(f"the headers of {self._program} cannot be renewed, so those in use stay: {why}")
        else:
            if refused is not None and self._headers == refused:  # should the server refuse these, too
                which = "printed the same ones again" if headers == refused else "just printed them"
                self._error = NoToken(f"does not accept the headers of {self._program}, which has {which}", self._fix)
            self._headers, self._made = headers, began
        self._failed = self._clock()

    async def _print(self) -> Headers:
        headers, fault, fix = dict[str, Secret](), "", self._fix
        try:
            captured = await self._run(self._argv, self._limit)
            fault = failure(self._program, captured, self._limit) if len(captured.out) <= MAX_VALUE else ""
            fix = f"it may be waiting for you to sign in; {fix}" if captured.timed_out else fix
            headers = read_headers(captured.out)  # also of a call that failed: its stderr may repeat them
        except LaunchError as error:
            fault = sentence(error)
        except ValueError as error:
            fault = fault or f"{self._program} {error}; {EXAMPLE}"
        if fault:
            raise NoToken(f"{NO_HEADERS}{fault}", fix, is_final=False)
        return headers
