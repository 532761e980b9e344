"""
Logging in to a remote MCP server (MCP "Authorization"): from its refusal to tokens, with the user in between.

`LoginFlow` tells the story. `metadata` judges what servers say, and a `BrowserLogin` leads to the user's browser and
back. Every request and the wait for the user have a limit.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from acp_launch.mcp.http.wire import NONE, Challenge, first_scopes, origin, phrase, read_challenges, shown_origin
from acp_launch.mcp.message import HELLO, LEGACY_VERSIONS
from acp_launch.oauth import metadata
from acp_launch.oauth.exchange import (
    CALLBACK,
    Refused,
    TokenAnswer,
    advice,
    ask,
    excerpt,
    fetch,
    issuer_line,
    post,
    refusal,
)
from acp_launch.oauth.grant import Grant, Login, Method, OAuthClient, Tokens
from acp_launch.oauth.metadata import OFFLINE, AuthorizationServer, Resource, Unusable
from acp_launch.profile.values import is_in_the_clear, is_local
from acp_launch.protocol import jsonrpc
from acp_launch.secret.value import Secret
from acp_launch.waits import awaited, seconds, stretch

REQUEST_TIMEOUT = stretch(15.0)
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
MIN_PAUSE = 1.0  # seconds between two requests for the tokens of a device
SLOWER = 5.0  # seconds that the pause grows by when the server asks for that
MAX_CODE_CHARS = 64  # that the user has to type
ASK = "do not log in again before the server's operator has explained that"

ShowDevice = Callable[[str, str], None]  # the page, and the code to type there
Confirm = Callable[[str, str], Awaitable[bool]]  # what to tell the user, and the question that yes or no answers
Waiting = Callable[[str, float, float], None]  # the name of a wait, for how many seconds, until when
T = TypeVar("T")


class Wanted(Struct, frozen=True, kw_only=True):
    """A server to log in to, and what the profile says of it. `headers` are for requests to its origin only.

    `issuer` is the only authorization server to log in at. If it is empty, the user confirms the one that may get
    `client_secret`, which is at `place` in the profile. `before` is the record of the login before. Without
    `sends_resource` the authorization server is not told which MCP server the tokens are for.
    """

    name: str
    url: str
    type: Literal["http", "sse"] = "http"
    scopes: tuple[str, ...] = ()
    client_id: str = ""
    client_secret: Secret | None = None
    place: str = ""
    issuer: str = ""
    before: Login | None = None
    client_metadata_url: str = ""
    sends_resource: bool = True
    headers: Mapping[str, Secret] = msgspec.field(default_factory=dict)


class BrowserLogin(Protocol):
    """The way to the user and back. `redirect_uri` is where the browser comes back to."""

    @property
    def redirect_uri(self) -> str: ...

    async def answer(self, address: str, state: str) -> Mapping[str, str]:
        """Show an address; return the parameters with which the browser comes back within a limit of its own."""


class _Ours(Struct, frozen=True):
    """Our client at an authorization server. `is_registered`: by us, and not by the user."""

    client: OAuthClient
    secret: Secret | None = None
    is_registered: bool = False


class LoginFlow(Struct):
    """The steps of one login.

    `device` shows a page and the code to type there; if it is given and the authorization server offers that, the
    browser may be on any machine, does not come back (RFC 8628), and has `patience` seconds. `confirm` asks the user;
    None if there is no user to ask.
    """

    wanted: Wanted
    browser: BrowserLogin
    device: ShowDevice | None = None
    confirm: Confirm | None = None
    waiting: Waiting = lambda what, word, limit: None
    patience: float = 300.0
    origins: tuple[str, ...] = ()  # that the user has confirmed to belong together
    secret_to: str = ""  # the issuer that may get the client secret, as the user has confirmed

    async def log_in(
        self, challenge: Challenge | None = None, *, more: tuple[str, ...] = (), registered: Grant | None = None
    ) -> tuple[Grant, Login]:
        """Log in. `challenge` is what the server said when it refused a request, if that is known.

        `more` are scopes to ask for besides those of the profile and of the server. `registered` is an earlier grant of
        the server: its registration is used again if the issuer and the redirect address are still the same.

        Raises:
            Refused: there is no login; nothing is left to undo.
        """
        if is_in_the_clear(self.wanted.url):
            how = f"{self._server} is not reached by https, so that tokens could be read on the way"
            raise Refused(how, "write https:// in its `url`")
        try:
            return await self._log_in(challenge or await self.challenge(), more, registered)
        except Unusable as error:
            raise Refused(f"{self._server} {error.how}", error.fix) from None

    async def _log_in(
        self, challenge: Challenge | None, more: tuple[str, ...], registered: Grant | None
    ) -> tuple[Grant, Login]:
        wanted = self.wanted
        resource, server = await self.servers(challenge)
        await self.confirm_origins(server)
        scopes = first_scopes((*more, *metadata.wanted_scopes(wanted.scopes, challenge or NONE, resource, server)))
        name = resource.resource if resource else metadata.canonical(wanted.url)
        ours = await self.client(server, scopes, registered)
        named = {"resource": name} if wanted.sends_resource else {}
        tokens = await self.tokens(server, ours, named, scopes)
        redirect_uri, secret = (self.browser.redirect_uri, ours.secret) if ours.is_registered else ("", None)
        blank = Grant(client=ours.client, resource=name, access=tokens.access, scopes=scopes)
        known = {"client_secret": secret, "redirect_uri": redirect_uri, "sends_resource": wanted.sends_resource}
        grant = replace(blank, **known).after(tokens)
        login = Login.of(grant, url=wanted.url, client=wanted.client_id, account=tokens.account)
        return grant, replace(login, origins=self.origins, secret_to=self.secret_to)

    @property
    def _server(self) -> str:
        return f'the MCP server "{self.wanted.name}"'

    async def challenge(self) -> Challenge | None:
        """Return what the server says to the first request of a session without a token; None if it takes that."""
        url, method, body = self.wanted.url, "GET", b""
        headers = {"Accept": "text/event-stream", **self._own_headers(url)}
        if self.wanted.type == "http":
            method, body = "POST", jsonrpc.request(1, "initialize", HELLO)
            headers |= {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        work = fetch(
            method,
            url,
            limit=REQUEST_TIMEOUT,
            headers=headers,
            content=body,
            server=self._server,
            own=url,
            wants_body=False,
        )
        answer = await self._wait(work, f"answer of {shown_origin(url)}")
        return read_challenges(answer.headers.get("www-authenticate", "")) if answer.status == 401 else None

    async def servers(self, challenge: Challenge | None) -> tuple[Resource | None, AuthorizationServer]:
        """Find the metadata of the server and of its authorization server."""
        url, ours = self.wanted.url, self.wanted.issuer
        places = metadata.resource_addresses(url, challenge or NONE)
        resource = await self._find(places, self._server, partial(metadata.read_resource, url=url, issuer=ours))
        named = resource.authorization_servers if resource else None
        issuer = named[0] if named else shown_origin(url)  # the latter in MCP 2025-03-26
        asked = f"the authorization server {shown_origin(issuer)}" if named else self._server
        read = partial(metadata.read_server, asked=issuer, near=is_local(url), is_old=not named)
        if found := await self._find(metadata.server_addresses(issuer), asked, read):
            if ours and found.issuer.rstrip("/") != ours:
                how = f"{self._server} names {found.issuer} as its authorization server, and the profile {ours}"
                raise Refused(how, f"{ASK}, or correct mcp_servers.{self.wanted.name}.oauth.issuer")
            return resource, found
        if not named and challenge is None:
            raise Refused(
                f"{asked} does not ask for a login", "it needs none; remove `oauth` from its entry, if it is there"
            )
        raise Refused(f"{asked} has no metadata for a login", "ask the operator of the MCP server")

    async def _find(self, places: list[str], server: str, read: Callable[[Mapping[str, Any]], T | None]) -> T | None:
        """Return the first document of these places that can be read."""
        failed = 0
        for place in places:
            headers = {**self._own_headers(place), "MCP-Protocol-Version": LEGACY_VERSIONS[0]}
            work = fetch("GET", place, limit=REQUEST_TIMEOUT, headers=headers, server=server, own=self.wanted.url)
            answer = await self._wait(work, f"answer of {shown_origin(place)}")
            if answer.status == 200 and (found := read(answer.said)) is not None:
                return found
            if answer.status >= 500 or answer.status == 429:
                failed = answer.status
        if failed:  # this says nothing about whether there is a document
            raise Refused(f"{server} answered {phrase(failed)} for its metadata", "try again later")
        return None

    async def confirm_origins(self, server: AuthorizationServer, page: str = "") -> None:
        """Let the user confirm that the page where they log in belongs to what gets the login.

        Else an MCP server could name the page of another party, and get what that gives at an endpoint of its own.
        """
        at, *others = metadata.list_origins(server, page)
        if not others:
            return
        if not {at, *others} <= {*self.origins, *(self.wanted.before.origins if self.wanted.before else ())}:
            how = f"{self._server} sends you to {at} to log in, and {' and '.join(others)} would get that login"
            fix = "run this on a terminal, and confirm that these belong together"
            await self._confirm(how, "Do these belong together?", fix)
        self.origins = tuple(dict.fromkeys((*self.origins, at, *others)))

    async def _confirm_secret(self, server: AuthorizationServer) -> None:
        """Let the user confirm who gets the client secret, if the profile does not say it."""
        wanted, issuer = self.wanted, server.issuer.rstrip("/")
        if wanted.issuer:
            return
        if wanted.before is None or wanted.before.secret_to != issuer:
            where = shown_origin(server.token_endpoint)
            at = "" if where == shown_origin(issuer) else f" at {where}"
            how = f"{self._server} names {issuer} as its authorization server, which would get the client secret{at}"
            fix = f"if it may, write {issuer_line(issuer, wanted.place)}, or run this on a terminal"
            await self._confirm(how, "May it?", fix)
        self.secret_to = issuer

    async def _confirm(self, how: str, question: str, fix: str) -> None:
        if self.confirm is None:
            raise Refused(how, fix)
        try:
            async with asyncio.timeout(self.patience):
                is_confirmed = await self.confirm(how, question)
        except TimeoutError:
            raise Refused(f"no answer to a question within {seconds(self.patience)}", "log in again") from None
        if not is_confirmed:
            raise Refused(f"{how}, and you said no", ASK)

    async def client(self, server: AuthorizationServer, scopes: tuple[str, ...], registered: Grant | None) -> _Ours:
        """Return our client at this authorization server: configured, by document, or registered now or before."""
        wanted = self.wanted
        if wanted.client_id:
            method = metadata.secret_method(server) if wanted.client_secret else "none"
            if wanted.client_secret:
                await self._confirm_secret(server)
            return _Ours(_client(server, wanted.client_id, method), wanted.client_secret)
        if wanted.client_metadata_url and server.takes_documents:
            return _Ours(_client(server, wanted.client_metadata_url, "none"))
        known = (server.issuer, self.browser.redirect_uri)
        if registered is not None and (registered.client.issuer, registered.redirect_uri) == known:
            client = _client(server, registered.client.client_id, registered.client.method)
            return _Ours(client, registered.client_secret, is_registered=True)
        fix = f"register acp-launch there as a native client, and set mcp_servers.{wanted.name}.oauth.client_id"
        if where := server.registration_endpoint:
            return await self._register(server, where, scopes, fix)
        raise Refused(f"the authorization server {shown_origin(server.issuer)} accepts only registered clients", fix)

    async def _register(self, server: AuthorizationServer, where: str, scopes: tuple[str, ...], fix: str) -> _Ours:
        """Register us (RFC 7591), without a secret where that is allowed, as we are a public client."""
        is_public = server.methods is None or "none" in server.methods
        about: dict[str, Any] = {
            "client_name": "acp-launch",
            "application_type": "native",
            "redirect_uris": [self.browser.redirect_uri],
            "grant_types": ["authorization_code", "refresh_token", *([DEVICE] if self._has_device(server) else [])],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none" if is_public else metadata.secret_method(server),
            **({"scope": " ".join(scopes)} if scopes else {}),
        }
        body = msgspec.json.encode(about)
        work = fetch("POST", where, limit=REQUEST_TIMEOUT, headers={"Content-Type": "application/json"}, content=body)
        answer = await self._wait(work, f"registration at {shown_origin(where)}")
        said = _convert(answer, _Registration)
        if said is None or not 0 < len(said.client_id) <= metadata.MAX_URL_CHARS:
            refused = refusal(where, answer, "no client id")
            raise Refused(refused.how, CALLBACK if refused.fix == CALLBACK else fix)
        taken: Any = said.method or about["token_endpoint_auth_method"]
        if taken != "none" and not (taken in metadata.BY_SECRET and said.client_secret):
            raise Refused(f"{shown_origin(where)} registered us for `{excerpt(taken)}`, which we cannot use", fix)
        secret = Secret(said.client_secret) if said.client_secret and taken != "none" else None
        return _Ours(_client(server, said.client_id, taken), secret, is_registered=True)

    async def tokens(
        self, server: AuthorizationServer, ours: _Ours, named: Mapping[str, str], scopes: tuple[str, ...]
    ) -> Tokens:
        """Let the user log in: in the browser that comes back to us, or with a code on any machine. `named` tells the
        authorization server which MCP server the tokens are for."""
        if self._has_device(server):
            return await self._by_device(server, ours, named, scopes)
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
        redirect, endpoint = self.browser.redirect_uri, server.authorization_endpoint
        wanted = {  # OAuth 2.1, section 4.1.1; PKCE; RFC 8707
            "response_type": "code",
            "client_id": ours.client.client_id,
            "redirect_uri": redirect,
            "state": state,
            "code_challenge": digest.decode().rstrip("="),
            "code_challenge_method": "S256",
            **named,
            **({"scope": " ".join(scopes)} if scopes else {}),
            **({"prompt": "consent"} if OFFLINE in scopes else {}),  # else that one is ignored (OpenID Core, 11)
        }
        address = f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(wanted, quote_via=quote)}"
        said = await self.browser.answer(address, state)
        form: dict[str, str | Secret] = {
            "grant_type": "authorization_code",
            "code": Secret(code_in(said, state, server)),
            "redirect_uri": redirect,
            "code_verifier": Secret(verifier),
            **named,
        }
        work = ask(ours.client, ours.secret, form, limit=REQUEST_TIMEOUT)
        return await self._wait(work, f"token from {shown_origin(ours.client.token_endpoint)}")

    def _has_device(self, server: AuthorizationServer) -> bool:
        offers = server.device_authorization_endpoint and (server.grants is None or DEVICE in server.grants)
        return self.device is not None and bool(offers)

    async def _by_device(
        self, server: AuthorizationServer, ours: _Ours, named: Mapping[str, str], scopes: tuple[str, ...]
    ) -> Tokens:
        """Let the user type a code on another machine, and ask for the tokens until that is done (RFC 8628)."""
        where = server.device_authorization_endpoint or ""
        form: dict[str, str | Secret] = {**named, **({"scope": " ".join(scopes)} if scopes else {})}
        work = post(where, ours.client, ours.secret, form, REQUEST_TIMEOUT)
        answer = await self._wait(work, f"code from {shown_origin(where)}")
        page = _convert(answer, _Page)
        if page is None or not (page.user_code.isprintable() and 0 < len(page.user_code) <= MAX_CODE_CHARS):
            raise refusal(where, answer, "no code for the user")
        address = page.verification_uri_complete or page.verification_uri
        metadata.check_address(
            address, "has an authorization server with the login page", near=is_local(self.wanted.url)
        )
        await self.confirm_origins(server, address)
        assert self.device is not None
        self.device(address, page.user_code)
        limit = min(self.patience, page.expires_in)
        form = {"grant_type": DEVICE, "device_code": Secret(page.device_code), **named}
        pause = max(MIN_PAUSE, page.interval)
        try:
            async with asyncio.timeout(limit):
                while True:
                    try:
                        return await ask(ours.client, ours.secret, form, limit=REQUEST_TIMEOUT)
                    except Refused as refused:
                        if refused.error in ("slow_down", ""):  # too often, or the connection is bad (section 3.5)
                            pause += SLOWER
                        elif refused.error != "authorization_pending":
                            raise
                    await asyncio.sleep(pause)
        except TimeoutError:
            raise Refused(f"no login with the code within {seconds(limit)}", "log in again") from None

    def _own_headers(self, url: str) -> dict[str, str]:
        """Return the headers of the profile for a request to the server itself: a gateway may want them."""
        if origin(url) != origin(self.wanted.url):
            return {}
        return {name: value.expose() for name, value in self.wanted.headers.items()}

    async def _wait(self, work: Coroutine[Any, Any, T], what: str) -> T:
        """Do work that has its own limit, and tell the user if it takes long."""
        task = asyncio.create_task(work)
        try:
            return await awaited(task, what=what, limit=2 * REQUEST_TIMEOUT, waiting=self.waiting)
        finally:
            task.cancel()
            await asyncio.wait({task})


def code_in(said: Mapping[str, str], state: str, server: AuthorizationServer) -> str:
    """Return the code among the parameters that the browser came back with.

    Raises:
        Refused: it is not the answer to our request, not of this server, or a refusal.
    """
    if not hmac.compare_digest(said.get("state", "").encode(errors="replace"), state.encode()):
        raise Refused("the browser came back with the answer to another login: `state` differs", "log in again")
    where, issuer = shown_origin(server.issuer), said.get("iss")
    if issuer is None and server.sends_issuer:
        raise Refused(f"the answer does not say that it comes from {where}: `iss` is missing", ASK)
    if issuer is not None and issuer != server.issuer:  # compared as text (RFC 9207, section 2.4)
        how = (
            f"the answer comes from another authorization server: `iss` is {excerpt(issuer)} instead of {server.issuer}"
        )
        raise Refused(how, ASK)
    if "error" in said:
        why = excerpt(said.get("error_description"))
        how = f"the authorization server {where} refused the login: {excerpt(said['error'])}"
        raise Refused(f"{how} ({why})" if why else how, advice(said["error"], why))
    if not said.get("code"):
        raise Refused("the browser came back without a code", "log in again")
    return said["code"]


class _Page(Struct):
    """The page where the user types a code."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str = ""
    expires_in: float = 300.0
    interval: float = 5.0


class _Registration(Struct):
    client_id: str
    client_secret: str | None = None
    method: str | None = msgspec.field(default=None, name="token_endpoint_auth_method")


def _convert(answer: TokenAnswer, shape: type[T]) -> T | None:
    try:
        return msgspec.convert(answer.said, shape) if answer.status in (200, 201) else None
    except msgspec.ValidationError:
        return None


def _client(server: AuthorizationServer, client_id: str, method: Method) -> OAuthClient:
    return OAuthClient(
        issuer=server.issuer,
        token_endpoint=server.token_endpoint,
        client_id=client_id,
        method=method,
        revocation_endpoint=server.revocation_endpoint or "",
    )
