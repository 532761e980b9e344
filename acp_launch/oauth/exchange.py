"""
Requests to an authorization server, and their answers: one token request (RFC 6749), one revocation (RFC 7009).

An answer is bounded, a redirect is never followed, and a request goes to an https address or to this machine. Tokens
are registered with the redactor before anything else happens to them. `fetch` makes one such request, for metadata too.
"""

import asyncio
import base64
import re
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from acp_launch.mcp.http.wire import first_scopes, joined, origin, phrase, printable, retry_after, shown_origin
from acp_launch.oauth.grant import MAX_GRANT_BYTES, OAuthClient, Tokens
from acp_launch.profile.values import is_in_the_clear, url_fault
from acp_launch.protocol.jsonrpc import BOM
from acp_launch.regex import regex
from acp_launch.secret.detect import masked
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Secret
from acp_launch.waits import stretch

MAX_ANSWER_BYTES = 64 * 1024
CONNECT_TIMEOUT = stretch(10.0)  # for name, connection and TLS
MAX_LIFE_SECONDS = 365 * 86400.0  # a longer life of a token is not believed
QUOTED_CHARS = 160  # of a server
DEAD = ("invalid_grant", "invalid_client", "unauthorized_client", "bad_refresh_token")  # the last one is GitHub's

_TOKENS = ("access_token", "refresh_token", "id_token", "device_code", "registration_access_token", "client_secret")
_VISIBLE = regex(r"[\x21-\x7e]+")
_FIXES = {
    **dict.fromkeys(
        ("invalid_client", "unauthorized_client"), "check the client id and secret in the profile's `oauth`"
    ),
    **dict.fromkeys(("temporarily_unavailable", "server_error", "slow_down"), "try again later"),
    "invalid_scope": "check oauth.scopes in the profile",
    "access_denied": "log in again, and allow it",
}
_RESOURCE = regex(r"\bresource\b(?! owner)", re.IGNORECASE)
_REDIRECT = regex(r"redirect.?ur[il]", re.IGNORECASE)
NO_RESOURCE = "write oauth.resource: false in the profile"
CALLBACK = "register its redirect address there, or write oauth.callback: localhost in the profile"


class Refused(Exception):  # noqa: N818 - it reads as what it is
    """Raised if there is no login, or a request was refused, got no answer, or got one that cannot be used.

    `how` is a sentence that holds no token, `fix` says what to do, or is empty. `error` is the OAuth code, or empty.
    `is_final`: the server will not take this grant or this client again. `pause`: seconds that the server wants us to
    wait before the next request.
    """

    def __init__(self, how: str, fix: str = "", *, error: str = "", is_final: bool = False, pause: float = 0.0) -> None:
        super().__init__(how)
        self.how, self.fix, self.error, self.is_final, self.pause = how, fix, error, is_final, pause


class ClientSecret(Struct, frozen=True):
    """The secret of a client that the profile names. `issuer` alone may get it, none if that is empty.

    `place` is its place in the profile.
    """

    value: Secret
    issuer: str
    place: str

    def reveal_to(self, client: OAuthClient) -> Secret:
        """Return the secret for a request of this client.

        Raises:
            Refused: its authorization server may not get it.
        """
        if client.method == "none" or client.issuer.rstrip("/") == self.issuer:
            return self.value
        lacks = f"as the profile lacks {issuer_line(client.issuer, self.place)}"
        why = f"which is for {self.issuer}" if self.issuer else lacks
        raise Refused(f"{printable(client.issuer)} may not get the client secret, {why}", is_final=True)


def issuer_line(issuer: str, place: str) -> str:
    """Return what says in a profile that an authorization server may get the client secret, and where."""
    return f"`issuer: {printable(issuer)}` beside client_secret ({place})"


class TokenAnswer(Struct, frozen=True):
    """An answer of an authorization server. `said` is its body if that is a JSON object, else it is empty."""

    status: int
    headers: Mapping[str, str]
    said: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"Answer({self.status})"


async def ask(
    client: OAuthClient,
    secret: Secret | None,
    form: Mapping[str, str | Secret],
    *,
    limit: float,
    clock: Callable[[], float] = time.time,
) -> Tokens:
    """Post a form to the token endpoint, within `limit` seconds. `secret` is the client's, if it has one.

    Raises:
        Refused: there are no tokens.
    """
    where = client.token_endpoint
    answer = await post(where, client, secret, form, limit)
    if answer.status != 200 or "access_token" not in answer.said:
        raise refusal(where, answer, "no access token")
    return _tokens(where, answer.said, clock())


async def revoke(client: OAuthClient, secret: Secret | None, token: Secret, *, hint: str, limit: float) -> bool:
    """Make the server forget a token; one that it does not know counts as forgotten. False: it does not offer that.

    Raises:
        Refused: the token may still be valid.
    """
    if not (where := client.revocation_endpoint):
        return False
    answer = await post(where, client, secret, {"token": token, "token_type_hint": hint}, limit)
    if not 200 <= answer.status < 300:
        raise refusal(where, answer, "nothing")
    return True


async def post(
    url: str, client: OAuthClient, secret: Secret | None, form: Mapping[str, str | Secret], limit: float
) -> TokenAnswer:
    """Post a form as a client that proves who it is.

    Raises:
        Refused: as `fetch`, or the client's secret is not known.
    """
    redactor.register(*(each for each in (*form.values(), secret) if isinstance(each, Secret)))
    fields = {name: value.expose() if isinstance(value, Secret) else value for name, value in form.items()}
    fields["client_id"] = client.client_id  # in the form as well as in a header: the SDK's servers look there for it
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    if client.method != "none":
        if secret is None:
            how = f"the authorization server {shown_origin(url)} wants a client secret, and none is known"
            raise Refused(how, "name it in the profile: oauth.client_secret")
        if client.method == "client_secret_post":
            fields["client_secret"] = secret.expose()
        else:  # RFC 6749, 2.3.1: both parts are form-encoded first, a space so that all servers can decode it
            pair = f"{quote(client.client_id, safe='')}:{quote(secret.expose(), safe='')}"
            basic = Secret(base64.b64encode(pair.encode()).decode())
            redactor.register(basic)
            headers["Authorization"] = f"Basic {basic.expose()}"
    return await fetch("POST", url, limit=limit, headers=headers, content=urlencode(fields).encode())


async def fetch(
    method: str,
    url: str,
    *,
    limit: float,
    headers: Mapping[str, str] | None = None,
    content: bytes = b"",
    server: str = "",
    own: str = "",
    wants_body: bool = True,
) -> TokenAnswer:
    """Make one request, and read its answer as JSON whatever its content type is.

    `server` is how errors call the one that is asked, if it is not the authorization server; `own` is the user's own
    address of it: another one must not lead to this machine. Without `wants_body` only
    the head of the answer is read, as the body of an event stream does not end.

    Raises:
        Refused: there is no answer, or it is longer than `MAX_ANSWER_BYTES`.
    """
    from acp_launch.http import REQUEST_ERRORS, SetUp, requested

    server = server or f"the authorization server {shown_origin(url)}"
    if url_fault(url) or is_in_the_clear(url):
        how = f"the authorization server's address is not an https address ({shown_origin(url)}), so nothing was sent"
        raise Refused(how, "ask the server's operator")
    wanted = {"Accept": "application/json", "Accept-Encoding": "identity", **(headers or {})}
    body = b""
    try:
        is_own = bool(own) and origin(own) == origin(url)
        asking = requested(method, url, headers=wanted, content=content, is_own=is_own, connect=CONNECT_TIMEOUT)
        async with asyncio.timeout(limit), asking as answer:
            while wants_body and len(body) <= MAX_ANSWER_BYTES and (chunk := await answer.content.readany()):
                body += chunk
    except (SetUp, *REQUEST_ERRORS) as error:
        raise _describe_failure(server, url, limit, error) from None
    if len(body) > MAX_ANSWER_BYTES:
        raise Refused(f"{server} sent more than {MAX_ANSWER_BYTES:,} bytes")
    return TokenAnswer(answer.status, joined(answer.headers.items()), _read(body))


def _describe_failure(server: str, url: str, limit: float, error: Exception) -> Refused:
    """Describe a failure below HTTP; the address is not in the profile, so no fix may say to correct it there."""
    from acp_launch.mcp.http.clients import failure

    if type(error) is TimeoutError:  # aiohttp's are kinds of it, and say more
        return Refused(f"{server} did not answer within {limit:g} s", "try again")
    why = failure(error, url, connect=CONNECT_TIMEOUT)
    fix = why.fix.replace("check that it runs, and its `url`", "check the network, and try again")
    return Refused(f"{server} {why.how}", "try again, or ask its operator" if "`" in fix else fix or "try again")


def _read(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body, else an empty one. Register the tokens in it, of an error's answer too."""
    try:
        said = msgspec.json.decode(body.removeprefix(BOM), type=dict[str, Any])
    except (ValueError, RecursionError):  # for instance a page that a site shows for every address
        return {}
    redactor.register(*(Secret(said[name]) for name in _TOKENS if isinstance(said.get(name), str)))
    return said


def _tokens(url: str, said: Mapping[str, Any], now: float) -> Tokens:
    server = f"the authorization server {shown_origin(url)}"
    if (access := _token(said.get("access_token"))) is None:
        raise Refused(f"{server} sent an access token that cannot be sent in a header", "ask its operator")
    if str(said.get("token_type", "Bearer")).lower() != "bearer":
        how = f"{server} sent an access token of a type that acp-launch does not know: it knows Bearer"
        raise Refused(how, "ask its operator")
    life, scope = _seconds(said.get("expires_in")), said.get("scope")
    return Tokens(
        access=access,
        refresh=_token(said.get("refresh_token")),
        issued=now,
        expires=None if life is None else now + life,
        scopes=first_scopes(scope.split()) if isinstance(scope, str) else None,
        account=_account(said.get("id_token")),
    )


def _token(said: object) -> Secret | None:
    is_fit = isinstance(said, str) and len(said) <= MAX_GRANT_BYTES and _VISIBLE.fullmatch(said)
    return Secret(str(said)) if is_fit else None


def _seconds(said: object) -> float | None:
    """Return a life in seconds, also if it is written as text, as Microsoft does; None if it says nothing."""
    if isinstance(said, str) and re.fullmatch(r"[0-9]{1,12}", said):
        said = int(said)
    if isinstance(said, bool) or not isinstance(said, int | float) or not said > 0:
        return None
    return float(min(said, MAX_LIFE_SECONDS))


def _account(id_token: object) -> str:
    """Return how an id token calls the user. It came over TLS from its issuer (OpenID Connect Core, 3.1.3.7)."""
    try:
        part = str(id_token).split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)), type=dict[str, Any])
    except (IndexError, ValueError, RecursionError):
        return ""
    names = [excerpt(claims.get(name)) for name in ("preferred_username", "email", "name")]
    return next(filter(None, names), "")


def refusal(url: str, answer: TokenAnswer, missing: str) -> Refused:
    """Describe an answer without what was asked for; `missing` names that: `no access token`."""
    server, status = f"the authorization server {shown_origin(url)}", answer.status
    pause = retry_after(answer.headers) or 0.0
    code = answer.said.get("error")
    if code and isinstance(code, str):
        why = excerpt(answer.said.get("error_description"))
        how = f"{server} refused: {excerpt(code)}{f' ({why})' if why else ''}"
        is_final = code in DEAD and status < 500
        return Refused(how, advice(code, why), error=code, is_final=is_final, pause=pause)
    if 200 <= status < 300:
        return Refused(f"{server} sent {missing}", "try again, or ask its operator", pause=pause)
    redirect = "; a redirect is not followed, as credentials would go elsewhere" if 300 <= status < 400 else ""
    wait = f", and asks to wait {pause:g} s" if pause else ""
    fix = "try again later" if status in (429, 503) else "try again, or ask its operator"
    return Refused(f"{server} answered {phrase(status)}{redirect}{wait}", fix, pause=pause)


def advice(code: str, why: str) -> str:
    """Return what to do about an error of OAuth, from its code and description."""
    if code == "invalid_target" or (code != "access_denied" and _RESOURCE.search(why)):
        return f"if the server refuses the parameter `resource`, {NO_RESOURCE}; else check the `url` of the MCP server"
    if _REDIRECT.search(f"{code} {why}"):
        return CALLBACK
    return _FIXES.get(code, "log in again")


def excerpt(said: object) -> str:
    """Quote what a server wrote, bounded and harmless; what looks like a credential is hidden. Empty if not a text."""
    return printable(masked(redactor.text(said)))[:QUOTED_CHARS] if isinstance(said, str) else ""
