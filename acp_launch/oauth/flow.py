"""
Logging in to a remote MCP server (MCP "Authorization"): from its refusal to tokens, with the user in between.

`log_in` tells the story on one page. `metadata` judges what servers say, and a `Door` leads to the user's browser and
back. Every request and the wait for the user have a limit.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit

import msgspec
from msgspec import Raw, Struct

from acp_launch.mcp.http.challenge import NONE, Challenge, challenged
from acp_launch.mcp.http.clients import Clients
from acp_launch.mcp.http.wire import origin, phrase, printable, shown_origin
from acp_launch.mcp.message import CLIENT_INFO, VERSIONS
from acp_launch.oauth import metadata
from acp_launch.oauth.exchange import Answer, Refused, Tokens, ask, fetched, posted, refusal
from acp_launch.oauth.grant import Client, Grant, Login, Method
from acp_launch.oauth.metadata import OFFLINE, AuthorizationServer, Resource, Unusable
from acp_launch.profile.values import is_in_the_clear
from acp_launch.protocol import jsonrpc
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Secret
from acp_launch.waits import awaited, seconds

LIMIT = 15.0  # seconds for one request
PARTING = 2.0  # seconds for the end of a session that we opened only to see whether the token is good
PATIENCE = 300.0  # seconds for the user
LOGINS = 3  # that the user is asked for, one after the other, by a server that always wants more scopes
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
LEAST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds between two requests for the tokens of a device
SLOWER = 5.0  # seconds that the pause grows by when the server asks for that
LONGEST_CODE = 64  # characters that the user has to type
REDIRECTS = 3  # that are followed, within the origin
LONGEST = 16 * 1024  # characters of the address that the browser comes back to
AGAIN = "log in again, and finish in the browser page that this opens"
ASK = "do not log in again before the server's operator has explained that"

NO_HEADERS: Mapping[str, str] = {}

ShowDevice = Callable[[str, str], None]  # the page, and the code to type there
Waiting = Callable[[str, float, float], None]  # what is waited for, for how many seconds, until when
T = TypeVar("T")


class Wanted(Struct, frozen=True, kw_only=True):
    """A server to log in to, and what the profile says of it. `headers` are for requests to its origin only."""

    name: str
    url: str
    type: Literal["http", "sse"] = "http"
    scopes: tuple[str, ...] = ()
    client_id: str = ""
    client_secret: Secret | None = None
    client_metadata_url: str = ""
    headers: Mapping[str, Secret] = msgspec.field(default_factory=dict)


class Door(Protocol):
    """The way to the user and back."""

    @property
    def redirect_uri(self) -> str:
        """Return the address that the browser comes back to: `http://127.0.0.1:PORT/callback`."""

    async def answer(self, address: str, state: str) -> str:
        """Show or open an address; return the one that the browser came back to. `state` is what it must hold."""


class LoginFailed(Exception):  # noqa: N818 - it reads as what it is
    """Raised if there is no login; `how` is a sentence that holds no secret, `fix` says what to do."""

    def __init__(self, how: str, fix: str) -> None:
        super().__init__(how)
        self.how, self.fix = how, fix


async def log_in(
    wanted: Wanted,
    door: Door,
    *,
    challenge: Challenge | None = None,
    held: tuple[str, ...] = (),
    registered: Grant | None = None,
    device: ShowDevice | None = None,
    waiting: Waiting = lambda what, word, limit: None,
    note: Callable[[str], None] = lambda text: None,
    patience: float = PATIENCE,
    now: Callable[[], float] = time.time,
) -> tuple[Grant, Login]:
    """Log in. `challenge` is what the server said when it refused a request, if that is known.

    `held` are the scopes of the present login, for a challenge that wants more. `registered` is an earlier grant of
    the server: its registration is used again if the issuer and the redirect address are still the same.
    `device` shows a page and the code to type there; if it is given and the authorization server offers that, the
    browser may be on any machine and does not come back to the door (RFC 8628). `note` tells the user which of several
    authorization servers was passed over.

    Raises:
        LoginFailed: there is no login; nothing is left to undo.
    """
    flow = _Flow(wanted, door, device, waiting, note, patience)
    async with flow.connected():
        first = challenge
        if challenge is None or not challenge.resource_metadata:
            first = await flow.challenge() or challenge
        resource, server = await flow.servers(first)
        scopes = metadata.wanted_scopes(wanted.scopes, first or NONE, resource, server)
        if challenge is not None and challenge.wants_more:
            scopes = metadata.with_more((*held, *wanted.scopes, *scopes), challenge)
        name = resource.resource if resource else metadata.canonical(wanted.url)
        client = await flow.client(server, scopes, registered)
        for _ in range(LOGINS):
            grant, account = await flow.granted(server, client, name, scopes)
            if (refused := await flow.refused(grant)) is None:
                return grant, _login(wanted, grant, account, now())
            before, scopes = scopes, metadata.with_more(scopes, refused)
            if before == scopes:
                break
    said = _shown(", ".join(before)) or "none"
    how = f"{flow.server} still wants another scope after a login; the scopes of the login: {said}"
    raise LoginFailed(how, "ask its operator which scopes your account may have")


class _Ours(Struct, frozen=True):
    """A client of ours at an authorization server. `is_registered`: by us, and not by the user."""

    client: Client
    secret: Secret | None = None
    is_registered: bool = False


class _Flow:
    """The steps of one login."""

    def __init__(
        self,
        wanted: Wanted,
        door: Door,
        device: ShowDevice | None,
        waiting: Waiting,
        note: Callable[[str], None],
        patience: float,
    ) -> None:
        self._wanted, self._door, self._device = wanted, door, device
        self._waiting, self._note, self._patience = waiting, note, patience
        self._is_near = metadata.is_near(wanted.url)
        self.server = f'the MCP server "{wanted.name}"'

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Share connections among the requests; raise what goes wrong as `LoginFailed`."""
        if is_in_the_clear(self._wanted.url):
            how = f"{self.server} is not reached by https, so that tokens could be read on the way"
            raise LoginFailed(how, "write https:// in its `url`")
        clients = Clients.of(asyncio.get_running_loop())
        clients.join(self._slept)
        try:
            yield
        except Unusable as error:
            raise LoginFailed(f"{self.server} {error.how}", error.fix) from None
        except Refused as error:
            raise LoginFailed(error.how, error.fix or "ask the operator of the server") from None
        finally:
            await clients.leave(self._slept)

    def _slept(self) -> None:
        """Nothing is left to do after the machine has slept: each request has its limit."""

    async def challenge(self) -> Challenge | None:
        """Return what the server says to a request without a token; None if it takes that."""
        answer = await self._first_request()
        return _challenge_in(answer) if answer.status == 401 else None

    async def refused(self, grant: Grant) -> Challenge | None:
        """Try the token; return the challenge if it lacks a scope, and None if it is good.

        Raises:
            LoginFailed: the server refuses it.
        """
        bearer = {"Authorization": f"Bearer {grant.access.expose()}"}
        try:
            answer = await self._first_request(bearer)
            if session := answer.headers.get("mcp-session-id"):
                await self._end(session, bearer)
        except Refused:
            return None  # the login is good; that the server is away is told by what uses it
        challenge = _challenge_in(answer)
        if answer.status == 403 and challenge.wants_more:
            return challenge
        if answer.status == 401:
            how = f"{self.server} refuses the token that was just made for it ({phrase(answer.status)})"
            raise LoginFailed(how, "log in again; if that fails too, its operator has to look at the authorization")
        return None

    async def servers(self, challenge: Challenge | None) -> tuple[Resource | None, AuthorizationServer]:
        """Find the metadata of the server and of its authorization server."""
        url = self._wanted.url
        failed: Answer | None = None
        for place in metadata.resource_addresses(url, challenge or NONE):
            answer = await self._document(place, self.server, self._own(place))
            if answer.status == 200 and (resource := metadata.read_resource(answer.body, url)) is not None:
                return resource, await self._first_server(resource.issuers)
            failed = _failed(answer) or failed
        if failed is not None:  # this says nothing about whether there is metadata
            raise LoginFailed(f"{self.server} answered {phrase(failed.status)} for its metadata", "try again later")
        return None, await self._authorization_server(shown_origin(url), is_old=True, is_refused=challenge is not None)

    async def _first_server(self, issuers: tuple[str, ...]) -> AuthorizationServer:
        """Return the first authorization server that answers; one whose metadata is wrong is not passed over."""
        *others, last = issuers
        for issuer in others:
            try:
                return await self._authorization_server(issuer)
            except Refused as error:
                failed = error.how
            except LoginFailed as error:
                failed = error.how
            self._note(f"{failed}; {self.server} names another one")
        return await self._authorization_server(last)

    async def _authorization_server(
        self, issuer: str, *, is_old: bool = False, is_refused: bool = True
    ) -> AuthorizationServer:
        who = self.server if is_old else f"the authorization server {shown_origin(issuer)}"
        failed: Answer | None = None
        for place in metadata.server_addresses(issuer):
            answer = await self._document(place, who)
            if answer.status == 200:
                read = metadata.read_server(answer.body, issuer, near=self._is_near, is_old=is_old)
                if read is not None:
                    return read
            failed = _failed(answer) or failed
        if failed is not None:
            raise LoginFailed(f"{who} answered {phrase(failed.status)} for its metadata", "try again later")
        if not is_old:
            raise LoginFailed(f"{who} has no metadata", "ask the operator of the MCP server")
        if not is_refused:
            raise LoginFailed(f"{self.server} does not ask for a login", "remove `oauth` from its entry in the profile")
        return metadata.without_metadata(self._wanted.url)

    async def client(self, server: AuthorizationServer, scopes: tuple[str, ...], registered: Grant | None) -> _Ours:
        """Return who we are at this authorization server: configured, by document, or registered now or before."""
        wanted = self._wanted
        if wanted.client_id:
            method = metadata.method_of(server, has_secret=wanted.client_secret is not None)
            return _Ours(_client(server, wanted.client_id, method), wanted.client_secret)
        if wanted.client_metadata_url and server.takes_documents:
            return _Ours(_client(server, wanted.client_metadata_url, "none"))
        if registered is not None and self._may_use(registered, server):
            old = registered.client
            return _Ours(_client(server, old.client_id, old.method), registered.client_secret, is_registered=True)
        if server.registration_endpoint:
            return await self._register(server, scopes)
        raise LoginFailed(
            f"the authorization server {shown_origin(server.issuer)} takes registered clients only",
            f"register acp-launch there as a native client, and set mcp_servers.{wanted.name}.oauth.client_id",
        )

    def _may_use(self, registered: Grant, server: AuthorizationServer) -> bool:
        return registered.client.issuer == server.issuer and registered.redirect_uri == self._door.redirect_uri

    async def _register(self, server: AuthorizationServer, scopes: tuple[str, ...]) -> _Ours:
        """Register us (RFC 7591)."""
        where, method = server.registration_endpoint, metadata.registrable_method(server)
        about: dict[str, Any] = {
            "client_name": "acp-launch",
            "application_type": "native",
            "redirect_uris": [self._door.redirect_uri],
            "grant_types": ["authorization_code", "refresh_token", *([DEVICE] if self._uses_device(server) else [])],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
        }
        if scopes:
            about["scope"] = " ".join(scopes)
        work = fetched(
            "POST", where, limit=LIMIT, headers={"Content-Type": "application/json"}, content=msgspec.json.encode(about)
        )
        answer = await self._waited(work, f"registration at {shown_origin(where)}")
        fix = f"register acp-launch there as a native client, and set mcp_servers.{self._wanted.name}.oauth.client_id"
        said = _Registration.read(answer)
        if said is None:
            raise LoginFailed(refusal(where, answer, "no client id").how, fix)
        taken = said.method or method
        if taken == "none":
            return _Ours(_client(server, said.client_id, "none"), is_registered=True)
        if (known := metadata.BY_SECRET.get(taken)) is None or not said.client_secret:
            shown = printable(taken[: metadata.EXCERPT])
            raise LoginFailed(f"{shown_origin(where)} registered us for `{shown}`, which we cannot use", fix)
        return _Ours(_client(server, said.client_id, known), Secret(said.client_secret), is_registered=True)

    async def granted(
        self, server: AuthorizationServer, who: _Ours, resource: str, scopes: tuple[str, ...]
    ) -> tuple[Grant, str]:
        """Let the user log in. Returns the grant, and what the server calls the user."""
        if self._uses_device(server):
            tokens = await self._by_device(server, who, resource, scopes)
        else:
            tokens = await self._by_code(server, who, resource, scopes)
        grant = Grant(
            client=who.client,
            resource=resource,
            access=tokens.access,
            refresh=tokens.refresh,
            client_secret=who.secret if who.is_registered else None,
            redirect_uri=self._door.redirect_uri if who.is_registered else "",
            issued=tokens.issued,
            expires=tokens.expires,
            scopes=scopes if tokens.scopes is None else tokens.scopes,
        )
        return grant, tokens.account

    async def _by_code(self, server: AuthorizationServer, who: _Ours, resource: str, scopes: tuple[str, ...]) -> Tokens:
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)
        redirect = self._door.redirect_uri
        address = _address(server, who.client, redirect, state, verifier, resource, scopes)
        try:
            async with asyncio.timeout(self._patience):
                came_back = await self._door.answer(address, state)
        except TimeoutError:
            how = f"no login in the browser within {seconds(self._patience)}"
            raise LoginFailed(how, "log in again") from None
        form: dict[str, str | Secret] = {
            "grant_type": "authorization_code",
            "code": Secret(code_in(came_back, redirect, state, server)),
            "redirect_uri": redirect,
            "code_verifier": Secret(verifier),
            "resource": resource,
        }
        work = ask(who.client, who.secret, form, limit=LIMIT)
        return await self._waited(work, f"token from {shown_origin(who.client.token_endpoint)}")

    def _uses_device(self, server: AuthorizationServer) -> bool:
        offers = bool(server.device_authorization_endpoint) and (server.grants is None or DEVICE in server.grants)
        return self._device is not None and offers

    async def _by_device(
        self, server: AuthorizationServer, who: _Ours, resource: str, scopes: tuple[str, ...]
    ) -> Tokens:
        """Let the user type a code on another machine, and ask for the tokens until that is done (RFC 8628)."""
        where = server.device_authorization_endpoint
        form: dict[str, str | Secret] = {"resource": resource, **({"scope": " ".join(scopes)} if scopes else {})}
        work = posted(where, who.client, who.secret, form, LIMIT)
        answer = await self._waited(work, f"code from {shown_origin(where)}")
        page = _Page.read(answer)
        if page is None:
            raise refusal(where, answer, "no code for the user")
        address = page.verification_uri_complete or page.verification_uri
        metadata.check_address(address, "has an authorization server with the login page", near=self._is_near)
        assert self._device is not None
        self._device(address, page.user_code)
        limit = min(self._patience, page.expires_in)
        try:
            async with asyncio.timeout(limit):
                return await self._polled(who, page, resource)
        except TimeoutError:
            raise LoginFailed(f"no login with the code within {seconds(limit)}", "log in again") from None

    async def _polled(self, who: _Ours, page: "_Page", resource: str) -> Tokens:
        form: dict[str, str | Secret] = {"grant_type": DEVICE, "device_code": page.secret, "resource": resource}
        pause = page.pause
        while True:
            try:
                return await ask(who.client, who.secret, form, limit=LIMIT)
            except Refused as refused:
                if refused.error not in ("authorization_pending", "slow_down", ""):
                    raise
                if refused.error != "authorization_pending":  # too often, or the connection is bad (section 3.5)
                    pause += SLOWER
            await asyncio.sleep(pause)

    async def _first_request(self, headers: Mapping[str, str] | None = None) -> Answer:
        """Make the request that every session begins with; only the head of the answer is read."""
        given = {**self._own(self._wanted.url), **(headers or {})}
        if self._wanted.type == "sse":
            return await self._asked("GET", self._wanted.url, self.server, {"Accept": "text/event-stream", **given})
        params = {"protocolVersion": VERSIONS[0], "capabilities": {}, "clientInfo": CLIENT_INFO}
        given = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **given}
        body = jsonrpc.request(Raw(b"1"), "initialize", params)
        return await self._asked("POST", self._wanted.url, self.server, given, body)

    async def _end(self, session: str, bearer: Mapping[str, str]) -> None:
        """End the session that the first request has opened; a server that does not answer keeps it."""
        headers = {**self._own(self._wanted.url), "Mcp-Session-Id": session, **bearer}
        await fetched("DELETE", self._wanted.url, limit=PARTING, headers=headers, who=self.server, wants_body=False)

    def _own(self, url: str) -> dict[str, str]:
        """Return the headers of the profile for a request to the server itself: a gateway may want them."""
        if origin(url) != origin(self._wanted.url):
            return {}
        return {name: value.expose() for name, value in self._wanted.headers.items()}

    async def _document(self, place: str, who: str, headers: Mapping[str, str] = NO_HEADERS) -> Answer:
        given = {**headers, "MCP-Protocol-Version": VERSIONS[0]}
        return await self._asked("GET", place, who, given, wants_body=True)

    async def _asked(
        self,
        method: str,
        url: str,
        who: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        wants_body: bool = False,
    ) -> Answer:
        """Make a request; follow redirects within its origin, and none that would turn a POST into something else."""
        first = origin(url)
        for _ in range(REDIRECTS):
            work = fetched(method, url, limit=LIMIT, headers=headers, content=content, who=who, wants_body=wants_body)
            answer = await self._waited(work, f"answer of {shown_origin(url)}")
            if answer.status not in ((301, 302, 303, 307, 308) if method == "GET" else (307, 308)):
                break
            try:
                url = urljoin(url, answer.headers.get("location", ""))
                if origin(url) != first:
                    break
            except ValueError:
                break
        return answer

    async def _waited(self, work: Coroutine[Any, Any, T], what: str) -> T:
        """Do work that has its own limit, and tell the user if it takes long."""
        task = asyncio.create_task(work)
        try:
            return await awaited(task, what=what, limit=2 * LIMIT, waiting=self._waiting)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})


def code_in(address: str, redirect_uri: str, state: str, server: AuthorizationServer) -> str:
    """Return the code in the address that the browser came back to.

    Raises:
        LoginFailed: it is not the answer to our request, not of this server, or a refusal.
    """
    said = _parameters(address, redirect_uri)
    if not hmac.compare_digest(said.get("state", "").encode(errors="replace"), state.encode()):
        raise LoginFailed("the browser came back with the answer to another login: `state` differs", AGAIN)
    where, issuer = shown_origin(server.issuer), said.get("iss")
    if issuer is None and server.sends_issuer:
        raise LoginFailed(f"the answer does not say that it is of {where}: `iss` is missing", ASK)
    if issuer is not None and issuer != server.issuer:  # compared as text (RFC 9207, section 2.4)
        how = f"the answer is of another authorization server: `iss` is {_shown(issuer)} instead of {server.issuer}"
        raise LoginFailed(how, ASK)
    if "error" in said:
        why = f" ({_shown(said['error_description'])})" if said.get("error_description") else ""
        fix = "log in again, and allow it" if said["error"] == "access_denied" else "log in again"
        raise LoginFailed(f"the authorization server {where} refused the login: {_shown(said['error'])}{why}", fix)
    if not said.get("code"):
        raise LoginFailed("the browser came back without a code", AGAIN)
    return said["code"]


def _parameters(address: str, redirect_uri: str) -> Mapping[str, str]:
    """Return the parameters of the address that the browser came back to, if that is ours."""
    try:
        came, ours = urlsplit(address.strip()), urlsplit(redirect_uri)
        given = parse_qsl(came.query, keep_blank_values=True, max_num_fields=50)
    except ValueError:
        raise LoginFailed("the browser came back to an address that cannot be read", AGAIN) from None
    if len(address) > LONGEST or (came.scheme, came.netloc, came.path) != (ours.scheme, ours.netloc, ours.path):
        raise LoginFailed(f"the browser came back to another address than {redirect_uri}", AGAIN)
    said = dict(given)
    if len(said) != len(given):
        raise LoginFailed("the browser came back with a parameter that is given twice", AGAIN)
    return said


def _address(
    server: AuthorizationServer,
    client: Client,
    redirect_uri: str,
    state: str,
    verifier: str,
    resource: str,
    scopes: tuple[str, ...],
) -> str:
    """Return the address at which the user logs in (OAuth 2.1, section 4.1.1; PKCE; RFC 8707)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    wanted = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
        "code_challenge_method": "S256",
        "resource": resource,
    }
    if scopes:
        wanted["scope"] = " ".join(scopes)
    if OFFLINE in scopes:
        wanted["prompt"] = "consent"  # without it the scope is ignored (OpenID Connect Core, section 11)
    endpoint = server.authorization_endpoint
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(wanted, quote_via=quote)}"


class _Page(Struct):
    """Where the user types which code."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str = ""
    expires_in: float = PATIENCE
    interval: float = 5.0

    @property
    def secret(self) -> Secret:
        return Secret(self.device_code)

    @property
    def pause(self) -> float:
        """The seconds between two requests for the tokens."""
        return min(max(LEAST_PAUSE, self.interval), LONGEST_PAUSE)

    @classmethod
    def read(cls, answer: Answer) -> "_Page | None":
        if answer.status != 200:
            return None
        try:
            read = msgspec.convert(answer.said, cls)
        except msgspec.ValidationError:
            return None
        code = read.user_code
        return read if read.device_code and code.isprintable() and 0 < len(code) <= LONGEST_CODE else None


class _Registration(Struct):
    client_id: str
    client_secret: str | None = None
    method: str | None = msgspec.field(default=None, name="token_endpoint_auth_method")

    @classmethod
    def read(cls, answer: Answer) -> "_Registration | None":
        if answer.status not in (200, 201):
            return None
        try:
            read = msgspec.convert(answer.said, cls)
        except msgspec.ValidationError:
            return None
        return read if read.client_id and len(read.client_id) <= metadata.LONGEST_ADDRESS else None


def _client(server: AuthorizationServer, client_id: str, method: Method) -> Client:
    return Client(
        issuer=server.issuer,
        token_endpoint=server.token_endpoint,
        client_id=client_id,
        method=method,
        revocation_endpoint=server.revocation_endpoint,
    )


def _login(wanted: Wanted, grant: Grant, account: str, now: float) -> Login:
    return Login(
        url=wanted.url,
        client=wanted.client_id,
        issuer=grant.client.issuer,
        resource=grant.resource,
        client_id=grant.client.client_id,
        item=grant.name,
        scopes=grant.scopes,
        account=account,
        since=now,
        expires=grant.expires,
        is_renewed=grant.refresh is not None,
    )


def _challenge_in(answer: Answer) -> Challenge:
    return challenged([answer.headers.get("www-authenticate", "")])


def _failed(answer: Answer) -> Answer | None:
    return answer if answer.status >= 500 or answer.status == 429 else None


def _shown(text: str) -> str:
    """Return what a server wrote, made harmless."""
    return printable(redactor.text(text[:LONGEST]))[: metadata.EXCERPT]
