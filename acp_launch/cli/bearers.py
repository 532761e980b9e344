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
from acp_launch.mcp.http.wire import Failure, Headers
from acp_launch.oauth.grant import NOT_LOGGED_IN, Grant, Login, decoded
from acp_launch.oauth.records import Logins
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


class ServerLogin(Struct, frozen=True):
    """A server that needs a login, with the record of the login, None if there is none."""

    server: RemotePlan
    record: Login | None

    @property
    def item(self) -> str:
        """The name of its item in the secret store, empty if there is none."""
        return self.record.item if self.record is not None else ""


class Lack(Struct, frozen=True):
    """A server whose login cannot be used, and why: `what` completes "the MCP server …"."""

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
    """List the servers that need a login.

    Raises:
        StateError: the records cannot be read.
    """
    records = Logins(settings.state)
    found = [
        ServerLogin(server, _used(server, records))
        for server in servers
        if isinstance(server, RemotePlan) and server.bridge
    ]
    return [login for login in found if login.server.oauth is not None or login.record is not None]


def record_of(server: RemotePlan, records: Logins) -> Login | None:
    """Find the record of the login to a server."""
    return None if server.url.secrets else records.find(*_key(server))


def _key(server: RemotePlan) -> tuple[str, str]:
    """Return what the record of a server's login is found by."""
    return server.url.reveal({}), server.oauth.client_id if server.oauth is not None else ""


def _used(server: RemotePlan, records: Logins) -> Login | None:
    """Do the same for a run, in which credentials in the headers of the profile take the place of a login."""
    has_own = any(name.lower() == "authorization" for name in server.headers)
    return None if has_own else record_of(server, records)


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


def _grant(outcome: Outcome) -> Grant | None:
    """Read the grant that was found; its tokens are hidden from now on in all that is shown."""
    grant = decoded(outcome.secret) if outcome.secret is not None else None
    if grant is not None:
        redactor.register(*grant.secrets)
    return grant


class ServerTokens:
    """The `Credentials` of a login: its access token (RFC 6750). One that the user does anew meanwhile counts from the
    next request on.

    `make` returns the keeper of a login; its grant may be known already. `command` logs in. `note` shows a sentence to
    the user; it is called in the event loop of the requests.
    """

    is_login = True

    def __init__(
        self, login: ServerLogin, grant: Grant | None, make: "MakeKeeper", logins: Logins, command: str
    ) -> None:
        assert login.record is not None
        self.refusal = Failure(REFUSED, command, is_final=True)
        self.note: Callable[[str], None] = _unsaid
        self._server, self._make, self._logins = login.server, make, logins
        self._record, self._stamp = login.record, object()  # no file has that stamp, so the first use reads the record
        self._keeper = make(login.record, grant, self._noted)
        self._loop: AbstractEventLoop | None = None

    async def headers(self, refused: Headers | None = None) -> Headers:
        import asyncio  # by now it is there

        self._loop = asyncio.get_running_loop()
        if self._is_another() or refused is None:
            token = await self._keeper.token()
        else:
            token = await self._keeper.token(Secret(refused[AUTHORIZATION].expose().removeprefix(BEARER)))
        return {AUTHORIZATION: Secret(BEARER + token.expose())}

    async def leave(self) -> None:
        await self._keeper.leave()

    def _is_another(self) -> bool:
        """Take a login into use that was done since, which may have other scopes, or another item of the store."""
        try:
            if (stamp := self._logins.stamp(*_key(self._server))) == self._stamp:
                return False
            record, self._stamp = record_of(self._server, self._logins), stamp
        except StateError:
            return False
        if record is None or (record.item, record.since) == (self._record.item, self._record.since):
            return False
        self._record, self._keeper = record, self._make(record, None, self._noted)
        return True

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
        """Return the tokens of each server; `found` are the outcomes of the look-up."""
        records, made = Logins(self.settings.state), dict[str, ServerTokens]()
        for login in logins:
            make = partial(self._keeper, records, login.server)
            command = self._command(login.server)
            made[login.server.name] = ServerTokens(login, _grant(found[login.item]), make, records, command)
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
