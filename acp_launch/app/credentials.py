"""
What proves to the remote servers of a plan who their user is: looked up with the plan's secrets before anything starts,
and used by each request.

A server needs a login if the profile says so (`oauth`), or if the user has logged in to it before. The record of a
login is only a memory: what counts is the item in the secret store. A server needs none for which a command of the user
prints headers (`headers_command`); that is called once before anything starts.
"""

import asyncio
import time
from asyncio import AbstractEventLoop, Lock
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from time import monotonic
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from acp_launch.app.stores import protect_secrets, run_at_home_in_loop, say_waiting
from acp_launch.engine.loop import hear_guards
from acp_launch.errors import LaunchError, StateError
from acp_launch.mcp.http.wire import Challenge, Credentials, Failure, Headers, NoToken
from acp_launch.oauth.exchange import ClientSecret
from acp_launch.oauth.grant import LOCK_TIMEOUT, NOT_LOGGED_IN, STEP_UPS, Grant, Login, Logins, decode_grant
from acp_launch.oauth.keeper import TokenStore
from acp_launch.plan.model import RemotePlan, ServerPlan
from acp_launch.problem import Problem, ours
from acp_launch.process.guard_client import start_guards
from acp_launch.profile.values import header_fault, header_name_fault
from acp_launch.regex import regex
from acp_launch.secret.command import Captured, failure, sentence
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import MAX_VALUE, Outcome, Secret, Store
from acp_launch.session.files import run_in_thread
from acp_launch.settings.address import nearest
from acp_launch.settings.model import HeadersCommand, Settings
from acp_launch.waits import awaited

if TYPE_CHECKING:
    MakeTokenStore = Callable[[Login, Grant | None, Callable[[str], None]], TokenStore]

AUTHORIZATION, BEARER = "Authorization", "Bearer "
GRACE_SECONDS = 2.0  # beyond the limit in which a command that reaches it is stopped
RECORD_SECONDS = 60.0  # between two looks at the record of a login, if no token is refused
REFUSED = "answered 401 Unauthorized, even to a new token"
HOPELESS = f"{STEP_UPS} logins in a row did not grant them: ask its operator which scopes your account may have"
RETRY_SECONDS = 10.0  # after a command that failed, or that a refusal led to
EXAMPLE = 'it must print one JSON object with a string for each header: {"Authorization": "Bearer ..."}'
_NAME = regex(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # RFC 9110 "token"


class ServerLogin(Struct, frozen=True):
    """A server that may want a login, with the record of the login, None if there is none.

    `headers_command` names the setting of that kind that takes the place of a login, empty if none does.
    """

    server: RemotePlan
    record: Login | None
    headers_command: str = ""

    @property
    def is_needed(self) -> bool:
        """Whether it cannot do without: the settings or the profile say so, or the user has logged in before."""
        return bool(self.headers_command) or self.server.oauth is not None or self.record is not None

    @property
    def item(self) -> str:
        """The name of its item in the secret store, empty if there is none."""
        return self.record.item if self.record is not None else ""


class MissingLogin(Struct, frozen=True):
    """A server that the user cannot prove to who they are, and why: `what` completes "the MCP server …"."""

    server: RemotePlan
    what: str
    fix: str

    @property
    def message(self) -> str:
        return f'the MCP server "{self.server.name}" {self.what}'

    def problem(self, *, is_fatal: bool) -> Problem:
        if is_fatal:
            return self.server.url.origin.problem(self.message, self.fix)
        left = self.server.url.origin.problem(f"{self.message}; the session opens without it", self.fix)
        return left._replace(severity="warning")


def server_logins(servers: Iterable[ServerPlan], settings: Settings) -> list[ServerLogin]:
    """List the servers that may want a login; those with credentials of their own in their headers do not.

    Raises:
        StateError: the records cannot be read.
    """
    records, found = Logins(settings.state), list[ServerLogin]()
    for server in servers:
        if not isinstance(server, RemotePlan) or not server.bridge:
            continue
        if printer := headers_command_of(server, settings):
            found.append(ServerLogin(server, None, printer))
        elif _may_have_login(server):
            found.append(ServerLogin(server, record_of(server, records)))
    return found


def headers_command_of(server: RemotePlan, settings: Settings) -> str:
    """Return the address of the entry whose command prints headers for a server, empty if none does."""
    if not settings.headers_command:
        return ""

    unknown = {reference.name: Secret("-") for reference in server.url.secrets}  # no part of an address in the settings
    return nearest(settings.headers_command, server.url.reveal(unknown)) or ""


def record_of(server: RemotePlan, records: Logins) -> Login | None:
    return None if server.url.secrets else records.find(*_key(server))


def secret_of(server: RemotePlan, login: Login | None, secrets: Mapping[str, Secret]) -> "ClientSecret | None":
    """Return the secret of the client that the profile names, with who may get it by the profile or by the login."""
    if server.oauth is None or (written := server.oauth.client_secret) is None:
        return None

    issuer = server.oauth.issuer or (login.secret_to if login is not None else "")
    return ClientSecret(written.concealed(secrets), issuer, str(written.origin))


def _may_have_login(server: RemotePlan) -> bool:
    return not server.url.secrets and not any(name.lower() == "authorization" for name in server.headers)


def is_login_asked(server: RemotePlan, records: Logins) -> bool:
    """Tell whether the profile asks for a login to a server, or the server has."""
    return server.oauth is not None or (_may_have_login(server) and records.is_wanted(*_key(server)))


def forget_login_asked(server: RemotePlan, records: Logins) -> None:
    records.forget_wanted(*_key(server))


def _key(server: RemotePlan) -> tuple[str, str]:
    """Return what the record of a server's login is found by."""
    return server.url.reveal({}), server.oauth.client_id if server.oauth is not None else ""


def list_lacking(logins: Iterable[ServerLogin], found: Mapping[str, Outcome], called: str) -> Iterator[MissingLogin]:
    """Yield the servers to which the user is not logged in; `called` is the profile's name in commands.

    `found` are the outcomes of the look-up, logins included.
    """
    for login in logins:
        if login.headers_command or not login.is_needed:
            continue
        fix = ours("mcp", "login", called, login.server.name)
        outcome = found.get(login.item)
        if outcome is None or outcome.state == "missing":
            yield MissingLogin(login.server, NOT_LOGGED_IN, fix)
        elif outcome.secret is None:
            reason = outcome.reason or f"the {outcome.source} says: {outcome.state}"
            yield MissingLogin(login.server, f"{NOT_LOGGED_IN}: its login cannot be read: {reason}", outcome.fix or fix)
        elif (grant := _grant(outcome)) is None:
            yield MissingLogin(login.server, f"{NOT_LOGGED_IN}: what the {outcome.source} holds is not its login", fix)
        elif grant.refresh is None and grant.expires is not None and grant.expires <= time.time():
            yield MissingLogin(login.server, f"{NOT_LOGGED_IN}: the login has expired", fix)


def _grant(outcome: Outcome) -> Grant | None:
    """Read the grant that was found; its tokens are hidden from now on in all that is shown."""
    grant = decode_grant(outcome.secret) if outcome.secret is not None else None
    if grant is not None:
        redactor.register(*grant.secrets)
    return grant


class LoginCredentials:
    """The `Credentials` of a login: its access token (RFC 6750), none as long as there is no login. One that the user
    does in the meantime counts from the next refusal on, or after a minute.

    `make` returns the token store of a login; its grant may be known already. `command` logs in. `note` shows a
    sentence to the user; it is called in the event loop of the requests.
    """

    def __init__(
        self, login: ServerLogin, grant: Grant | None, make: "MakeTokenStore", logins: Logins, command: str
    ) -> None:
        self.note: Callable[[str], None] = lambda text: None  # the verbs of `mcp` end with what they have to say
        self._server, self._make, self._logins, self._command = login.server, make, logins, command
        self._record = login.record
        self._looked = monotonic()  # at the record
        self._is_refused = False  # whether the server has refused what this record gives
        self._tokens = make(login.record, grant, self._show) if login.record is not None else None
        self._is_wanted = login.is_needed
        self._loop: AbstractEventLoop | None = None

    @property
    def is_login(self) -> bool:
        return self._is_wanted

    @property
    def has_news(self) -> bool:
        """Whether the user has logged in since, which may have brought other scopes, or another item of the store."""
        self._looked = monotonic()
        try:
            record = record_of(self._server, self._logins)
        except StateError:
            return False
        old = self._record
        if record is None or (old is not None and (record.item, record.since) == (old.item, old.since)):
            return False
        self._record, self._tokens, self._is_refused = record, self._make(record, None, self._show), False
        return True

    @property
    def refusal(self) -> Failure | None:
        return None if self._tokens is None else Failure(REFUSED, self._command, is_final=True)

    async def headers(self, refused: Headers | None = None) -> Headers:
        self._loop = asyncio.get_running_loop()
        is_old = refused or self._is_refused or monotonic() - self._looked >= RECORD_SECONDS
        if is_old and self.has_news:
            refused = None
        if self._tokens is None:
            return {}
        old = Secret(refused[AUTHORIZATION].expose().removeprefix(BEARER)) if refused else None
        try:
            token = await self._tokens.token(old)
        except NoToken:
            if not self.has_news:
                raise
            token = await self._tokens.token()
        return {AUTHORIZATION: Secret(BEARER + token.expose())}

    async def note_challenge(self, challenge: Challenge) -> str:
        """Keep the scopes that the server wants, so that the next login asks for them."""
        self._is_refused = True
        note: Callable[[], Login | None]
        if self._record is not None and challenge.wants_more:
            note = partial(self._logins.note_demand, self._record, challenge.scopes)
        elif self._record is None and challenge.is_bearer:
            self._is_wanted = True
            note = partial(self._logins.note_wanted, *_key(self._server))
        else:
            return ""

        try:
            record = await run_in_thread(note, name="login", limit=LOCK_TIMEOUT + 1)
        except (StateError, TimeoutError, OSError):
            return ""  # the user has to write them into the profile
        return HOPELESS if record is not None and record.is_hopeless else self._command

    async def leave(self) -> None:
        if self._tokens is not None:
            await self._tokens.leave()

    def _show(self, text: str) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.note, f"mcp server {self._server.name}: {text}")


# Headers that a command prints (`headers_command`). Its output is never shown. If it fails later on, the headers in use
# stay so until the server refuses them.


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
        raise ValueError("did not print a JSON object of strings") from None
    credentials = [value.partition(" ")[2].strip() for value in found.values()]  # `x` in `Bearer x`
    redactor.register(*(Secret(text) for text in (*found.values(), *credentials) if text))
    if not found or len({name.lower() for name in found}) < len(found):
        raise ValueError("printed no header, or one twice")
    for number, (name, value) in enumerate(found.items(), 1):
        if not (value and _NAME.fullmatch(name)) or header_name_fault(name) or header_fault(value):
            raise ValueError(f"printed a header that cannot be sent: number {number}")
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
        self._lock = Lock()
        self._fix = f"run {self._program} yourself and correct what it reports, or headers_command in config.yaml"

    @property
    def refusal(self) -> Failure:
        return Failure(f"answered 401 Unauthorized, even to new headers from {self._program}", self._fix, is_final=True)

    async def headers(self, refused: Headers | None = None) -> Headers:
        async with self._lock:  # a caller that is cancelled here kills the command; the next one starts it again
            now = self._clock()
            is_fresh = 0 <= now - self._made < self._ttl  # a clock that was set back says nothing
            is_resting = self._error is not None and 0 <= now - self._failed < RETRY_SECONDS
            if (self._headers in (None, refused) or not is_fresh) and not is_resting:
                began, self._error = self._clock(), None
                try:
                    self._headers, self._made = await self._print(), began
                    if refused is not None:  # should the server refuse these, too
                        how = f"rejects the headers that {self._program} has just printed"
                        self._error = NoToken(how, self._fix)
                except NoToken as error:
                    self._error = error
                self._failed = self._clock()
            if self._error is not None and self._headers in (None, refused):
                raise self._error.with_traceback(None)
            return self._headers or {}

    async def note_challenge(self, challenge: Challenge) -> str:
        """Know nothing better than the machine."""
        return ""

    async def leave(self) -> None:
        """Return at once: a command that is killed loses nothing."""

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
            raise NoToken(f"has no headers from its command: {fault}", fix, is_final=False)
        return headers


class CredentialFactory(Struct, frozen=True, kw_only=True):
    """Makes credentials. `opening` returns the prepared store; `called` is the profile's name in commands."""

    settings: Settings
    opening: Callable[[], Store]
    secrets: Mapping[str, Secret]
    called: str

    def credentials(self, logins: Iterable[ServerLogin], found: Mapping[str, Outcome]) -> dict[str, Credentials]:
        """Return the credentials of each server; `found` are the outcomes of the look-up, as far as there was one."""
        records, made = Logins(self.settings.state), dict[str, Credentials]()
        commands, limit = self.settings.headers_command, self.settings.secrets.timeout
        printers = {login.headers_command for login in logins if login.headers_command}
        printed = {each: PrintedHeaders(commands[each], run_at_home_in_loop, limit=limit) for each in printers}
        for login in logins:
            server = login.server
            if login.headers_command:
                made[server.name] = printed[login.headers_command]
                continue
            make = partial(self._token_store, records, server)
            command = ours("mcp", "login", self.called, server.name)
            known = _grant(found[login.item]) if login.item in found else None
            made[server.name] = LoginCredentials(login, known, make, records, command)
        return made

    def _token_store(
        self, records: Logins, server: RemotePlan, record: Login, grant: Grant | None, note: Callable[[str], None]
    ) -> "TokenStore":
        return TokenStore(
            record.item,
            self.opening,
            records,
            command=ours("mcp", "login", self.called, server.name),
            grant=grant,
            secret=secret_of(server, record, self.secrets),
            limit=self.settings.secrets.timeout,
            note=note,
        )


def print_headers(
    logins: Collection[ServerLogin], made: Mapping[str, Credentials], settings: Settings
) -> list[MissingLogin]:
    """Call the commands that print headers, each once and all at once; return the servers that get none."""
    printers = {login.headers_command: made[login.server.name] for login in logins if login.headers_command}
    if not printers:
        return []

    failed = dict[str, NoToken]()

    async def call(address: str) -> None:
        try:
            await printers[address].headers()
        except NoToken as error:
            failed[address] = error

    async def call_all() -> None:
        what, limit = f"headers for {', '.join(printers)}", settings.secrets.timeout + GRACE_SECONDS
        with hear_guards(start_guards()):
            await awaited(asyncio.gather(*map(call, printers)), what=what, limit=limit, waiting=say_waiting)

    protect_secrets()
    asyncio.run(call_all())
    lacking = ((login.server, failed[login.headers_command]) for login in logins if login.headers_command in failed)
    return [MissingLogin(server, error.how, error.fix) for server, error in lacking]
