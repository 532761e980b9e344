"""
The logins of a plan's remote servers: looked up with its secrets before anything starts, and used by their requests.

A server needs one if the profile says so (`oauth`), or if the user has logged in to it before. The record of a login is
only a memory: what counts is the item in the secret store.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from acp_launch.errors import StateError
from acp_launch.mcp.http.challenge import Challenge
from acp_launch.mcp.http.wire import Failure, Headers
from acp_launch.oauth.grant import NOT_LOGGED_IN, STEP_UPS, Grant, Login, decoded
from acp_launch.oauth.records import PATIENCE, Logins
from acp_launch.plan.model import RemotePlan, ServerPlan
from acp_launch.problem import Problem, ours
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Outcome, Secret, Store
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from acp_launch.oauth.keeper import Keeper

    MakeKeeper = Callable[[Login, Grant | None, Callable[[str], None]], Keeper]

AUTHORIZATION, BEARER = "Authorization", "Bearer "
REFUSED = "answered 401 Unauthorized to a new token of its login, too"


HOPELESS = f"{STEP_UPS} logins in a row have not brought them: ask its operator which scopes your account may have"


class ServerLogin(Struct, frozen=True):
    """A server that may want a login, with the record of the login, None if there is none."""

    server: RemotePlan
    record: Login | None

    @property
    def is_needed(self) -> bool:
        """Whether the profile asks for it, or the user has logged in before."""
        return self.server.oauth is not None or self.record is not None

    @property
    def item(self) -> str:
        """The name of its item in the secret store, empty if there is none."""
        return self.record.item if self.record is not None else ""


class Lack(Struct, frozen=True):
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
    records = Logins(settings.state)
    return [
        ServerLogin(server, record_of(server, records))
        for server in servers
        if isinstance(server, RemotePlan) and server.bridge and not _has_own_credentials(server)
    ]


def _has_own_credentials(server: RemotePlan) -> bool:
    return bool(server.url.secrets) or any(name.lower() == "authorization" for name in server.headers)


def record_of(server: RemotePlan, records: Logins) -> Login | None:
    """Find the record of the login to a server."""
    return None if server.url.secrets else records.find(*_key(server))


def _key(server: RemotePlan) -> tuple[str, str]:
    """Return what the record of a server's login is found by."""
    return server.url.reveal({}), server.oauth.client_id if server.oauth is not None else ""


def lacking(logins: Iterable[ServerLogin], found: Mapping[str, Outcome], called: str) -> Iterator[Lack]:
    """Yield the servers to which the user is not logged in; `called` is the profile's name in commands.

    `found` are the outcomes of the look-up, with those of the logins.
    """
    for login in logins:
        fix = ours("mcp", "login", called, login.server.name)
        outcome = found.get(login.item)
        if outcome is None or outcome.state == "missing":
            yield Lack(login.server, NOT_LOGGED_IN, fix)
        elif outcome.secret is None:
            reason = outcome.reason or f"the {outcome.source} says: {outcome.state}"
            yield Lack(login.server, f"{NOT_LOGGED_IN}: its login cannot be read: {reason}", outcome.fix or fix)
        elif (grant := _grant(outcome)) is None:
            yield Lack(login.server, f"{NOT_LOGGED_IN}: what the {outcome.source} holds is not its login", fix)
        elif grant.refresh is None and grant.expires is not None and grant.expires <= time.time():
            yield Lack(login.server, f"{NOT_LOGGED_IN}: the login has expired", fix)


def _known(login: ServerLogin, found: Mapping[str, Outcome]) -> Grant | None:
    return _grant(found[login.item]) if login.item in found else None


def _grant(outcome: Outcome) -> Grant | None:
    """Read the grant that was found; its tokens are hidden from now on in all that is shown."""
    grant = decoded(outcome.secret) if outcome.secret is not None else None
    if grant is not None:
        redactor.register(*grant.secrets)
    return grant


class ServerTokens:
    """The `Credentials` of a login: its access token (RFC 6750), none as long as there is no login. One that the user
    does meanwhile counts from the next request on.

    `make` returns the keeper of a login; its grant may be known already. `command` logs in. `note` shows a sentence to
    the user; it is called in the event loop of the requests.
    """

    def __init__(
        self, login: ServerLogin, grant: Grant | None, make: "MakeKeeper", logins: Logins, command: str
    ) -> None:
        self.note: Callable[[str], None] = _unsaid
        self._server, self._make, self._logins, self._command = login.server, make, logins, command
        self._record = login.record
        self._next: Login | None = None  # done since
        self._stamp: object = object()  # no file has that one, so the first use reads the record
        self._keeper = make(login.record, grant, self._noted) if login.record is not None else None
        self._is_wanted = login.is_needed
        self._loop: AbstractEventLoop | None = None

    @property
    def is_login(self) -> bool:
        return self._is_wanted

    @property
    def has_news(self) -> bool:
        """Whether the user has logged in since, which may have brought other scopes, or another item of the store."""
        if self._next is None:
            self._next = self._other()
        return self._next is not None

    @property
    def refusal(self) -> Failure | None:
        return None if self._keeper is None else Failure(REFUSED, self._command, is_final=True)

    async def headers(self, refused: Headers | None = None) -> Headers:
        import asyncio  # by now it is there

        self._loop = asyncio.get_running_loop()
        if self.has_news and self._next is not None:
            self._record, self._next, refused = self._next, None, None
            self._keeper = self._make(self._record, None, self._noted)
        if self._keeper is None:
            return {}
        if refused:
            token = await self._keeper.token(Secret(refused[AUTHORIZATION].expose().removeprefix(BEARER)))
        else:
            token = await self._keeper.token()
        return {AUTHORIZATION: Secret(BEARER + token.expose())}

    async def challenged(self, challenge: Challenge) -> str:
        """Keep the scopes that the server wants, so that the next login asks for them."""
        if self._record is None or not challenge.wants_more:
            self._is_wanted |= challenge.is_bearer
            return ""
        from acp_launch.session.files import run_in_thread

        note = partial(self._logins.lacking, self._record, challenge.scopes)
        try:
            record = await run_in_thread(note, name="login", limit=PATIENCE + 1)
        except (StateError, TimeoutError, OSError):
            return ""  # the user has to write them into the profile
        return HOPELESS if record is not None and record.is_hopeless else self._command

    async def leave(self) -> None:
        if self._keeper is not None:
            await self._keeper.leave()

    def _other(self) -> Login | None:
        """Return the record of a login that was done since; None if there is none."""
        try:
            if (stamp := self._logins.stamp(*_key(self._server))) == self._stamp:
                return None
            record, self._stamp = record_of(self._server, self._logins), stamp
        except StateError:
            return None
        is_same = record is None or (
            self._record is not None and (record.item, record.since) == (self._record.item, self._record.since)
        )
        return None if is_same else record

    def _noted(self, text: str) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.note, f"mcp server {self._server.name}: {text}")


def _unsaid(text: str) -> None:
    """Tell nothing: the verbs of `mcp` end with what they have to say."""


class Wallet(Struct, frozen=True, kw_only=True):
    """What tokens are kept with. `opening` returns the prepared store; `called` is the profile's name in commands."""

    settings: Settings
    opening: Callable[[], Store]
    secrets: Mapping[str, Secret]
    called: str

    def bearers(self, logins: Iterable[ServerLogin], found: Mapping[str, Outcome]) -> dict[str, ServerTokens]:
        """Return the tokens of each server; `found` are the outcomes of the look-up, as far as there was one."""
        records, made = Logins(self.settings.state), dict[str, ServerTokens]()
        for login in logins:
            make = partial(self._keeper, records, login.server)
            command = self._command(login.server)
            made[login.server.name] = ServerTokens(login, _known(login, found), make, records, command)
        return made

    def _command(self, server: RemotePlan) -> str:
        return ours("mcp", "login", self.called, server.name)

    def _keeper(
        self, records: Logins, server: RemotePlan, record: Login, grant: Grant | None, note: Callable[[str], None]
    ) -> "Keeper":
        from acp_launch.oauth.keeper import Keeper  # runs without a login do without it

        written = server.oauth.client_secret if server.oauth is not None else None
        return Keeper(
            record.item,
            self.opening,
            records,
            command=self._command(server),
            grant=grant,
            secret=written.concealed(self.secrets) if written is not None else None,
            limit=self.settings.secrets.timeout,
            note=note,
        )
