"""
Requests to an authorization server, and their answers: one token request (RFC 6749), one revocation (RFC 7009).

An answer is bounded, a redirect is never followed, and a request goes to an https address or to this machine. Tokens
are registered with the redactor before anything else happens to them. `fetched` is one such request, for metadata too.
"""

import asyncio
import base64
import binascii
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from acp_launch.mcp.http.clients import Clients, SetUp
from acp_launch.mcp.http.failure import failure
from acp_launch.mcp.http.wire import Failure, phrase, printable, retry_after, shown_origin
from acp_launch.oauth.grant import LONGEST, Client
from acp_launch.profile.values import is_in_the_clear, url_fault
from acp_launch.regex import regex
from acp_launch.secret.detect import masked
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Secret

ANSWER = 64 * 1024  # bytes of an answer
CONNECT = 10.0  # seconds for name, connection and TLS
YEAR = 365 * 86400.0  # seconds; a longer life of a token is not believed
QUOTED = 160  # characters that are quoted of a server
DESCRIPTION = 2000  # characters of a description that are looked at
SCOPES = 4096  # characters of all scopes
DEAD = ("invalid_grant", "invalid_client", "unauthorized_client", "bad_refresh_token")  # the last one is GitHub's

_TOKENS = ("access_token", "refresh_token", "id_token", "device_code", "registration_access_token", "client_secret")
_ACCOUNT = ("preferred_username", "email", "name")
_VISIBLE = regex(r"[\x21-\x7e]+")
_CODE = regex(r"[\x20-\x21\x23-\x5b\x5d-\x7e]{1,60}")  # RFC 6749, 5.2
_SCOPE = regex(r"[\x21\x23-\x5b\x5d-\x7e]+")  # RFC 6749, 3.3


class Tokens(Struct, frozen=True, kw_only=True):
    """What a token endpoint gave. Times are Unix times by this machine's clock; `expires` is None if it is not known.

    `scopes` is None if the server did not say, which means those that were asked for. `account` is how an id token
    calls the user, or empty.
    """

    access: Secret
    refresh: Secret | None = None
    issued: float = 0.0
    expires: float | None = None
    scopes: tuple[str, ...] | None = None
    account: str = ""


class Refused(Exception):  # noqa: N818 - it reads as what it is
    """Raised if a request was refused, got no answer, or got one that cannot be used.

    `how` is a sentence that holds no token, `fix` says what to do, or is empty. `error` is the OAuth code, or empty.
    `is_final`: the server will not take this grant or this client again. `pause`: seconds that the server wants us to
    wait before the next request.
    """

    def __init__(self, how: str, fix: str = "", *, error: str = "", is_final: bool = False, pause: float = 0.0) -> None:
        super().__init__(how)
        self.how, self.fix, self.error, self.is_final, self.pause = how, fix, error, is_final, pause


class Answer(Struct, frozen=True):
    """An answer of an authorization server. `said` is its body if that is a JSON object, else it is empty."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    said: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"Answer({self.status})"


async def ask(
    client: Client,
    secret: Secret | None,
    form: Mapping[str, str | Secret],
    *,
    limit: float,
    clock: Callable[[], float] = time.time,
) -> Tokens:
    """Post a form to the token endpoint, within `limit` seconds. `secret` is that of the client, if it has one.

    Raises:
        Refused: there are no tokens.
    """
    where = client.token_endpoint
    answer = await posted(where, client, secret, form, limit)
    if answer.status != 200 or "access_token" not in answer.said:
        raise refusal(where, answer, "no access token")
    return _tokens(where, answer.said, clock())


async def revoke(
    client: Client,
    secret: Secret | None,
    token: Secret,
    *,
    hint: Literal["access_token", "refresh_token"],
    limit: float,
) -> bool:
    """Make the server forget a token; one that it does not know counts as forgotten. False: it does not offer that.

    Raises:
        Refused: the token may still be valid.
    """
    if not (where := client.revocation_endpoint):
        return False
    answer = await posted(where, client, secret, {"token": token, "token_type_hint": hint}, limit)
    if not 200 <= answer.status < 300:
        raise refusal(where, answer, "nothing")
    return True


async def fetched(
    method: str,
    url: str,
    *,
    limit: float,
    headers: Mapping[str, str] | None = None,
    content: bytes = b"",
    who: str = "",
    wants_body: bool = True,
) -> Answer:
    """Make one request, and read its answer as JSON whatever its content type is.

    `who` is asked, as errors call it, if it is not the authorization server. `wants_body`: or only how the answer
    begins, as that of an event stream does not end.

    Raises:
        Refused: there is no answer, or it is longer than `ANSWER`.
    """
    who = who or f"the authorization server {shown_origin(url)}"
    if url_fault(url) or is_in_the_clear(url):
        how = f"the authorization server's address is not an https address ({shown_origin(url)}), so nothing was sent"
        raise Refused(how, "ask the server's operator")
    loop = asyncio.get_running_loop()
    clients, user = Clients.of(loop), _User()
    clients.join(user.slept)
    try:
        async with asyncio.timeout(limit):
            status, sent, body = await _exchanged(clients, method, url, headers or {}, content, wants_body)
    except TimeoutError:
        raise _failed(who, Failure(f"did not answer within {limit:g} s", "try again", timed_out=True)) from None
    except SetUp as error:
        raise _failed(who, Failure(error.how, error.fix)) from None
    except Exception as error:
        raise _unanswered(url, who, error) from None
    finally:
        await clients.leave(user.slept)
    if len(body) > ANSWER:
        raise Refused(f"{who} sent more than {ANSWER:,} bytes")
    return Answer(status, sent, body, _said(body))


class _User:
    """A user of the HTTP clients; each is another one."""

    def slept(self) -> None:
        """Nothing is left to do after the machine has slept: the request has its limit."""


async def _exchanged(
    clients: Clients, method: str, url: str, headers: Mapping[str, str], content: bytes, wants_body: bool
) -> tuple[int, Mapping[str, str], bytes]:
    with await clients.pool(url) as client:
        wanted = {"Accept": "application/json", "Accept-Encoding": "identity", **headers}
        made = client.build_request(
            method,
            url,
            headers=wanted,
            content=content or None,
            extensions={"timeout": {"connect": CONNECT, "read": None, "write": None, "pool": None}},
        )
        response = await client.send(made, stream=True)
        try:
            body = b""
            if wants_body and "," not in response.headers.get(
                "content-encoding", ""
            ):  # each coding can make it a thousand times as long
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > ANSWER:
                        break
            return response.status_code, response.headers, body
        finally:
            await response.aclose()


async def posted(
    url: str, client: Client, secret: Secret | None, form: Mapping[str, str | Secret], limit: float
) -> Answer:
    """Post a form as a client that proves who it is.

    Raises:
        Refused: there is no answer, or it is longer than `ANSWER`.
    """
    given = [value for value in form.values() if isinstance(value, Secret)]
    redactor.register(*given, *([secret] if secret else []))
    fields = {name: value.expose() if isinstance(value, Secret) else value for name, value in form.items()}
    fields["client_id"] = client.client_id  # beside a header too: the SDK's servers look for the client by it
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    if client.method != "none":
        if secret is None:
            how = f"the authorization server {shown_origin(url)} wants a client secret, and none is known"
            raise Refused(how, "name it in the profile: oauth.client_secret")
        if client.method == "client_secret_post":
            fields["client_secret"] = secret.expose()
        else:
            headers["Authorization"] = _basic(client.client_id, secret)
    return await fetched("POST", url, limit=limit, headers=headers, content=urlencode(fields).encode())


def _basic(client_id: str, secret: Secret) -> str:
    """Return the header of RFC 6749, 2.3.1: both parts are form-encoded first, a space so that all can decode it."""
    pair = f"{quote(client_id, safe='')}:{quote(secret.expose(), safe='')}".encode()
    header = Secret(base64.b64encode(pair).decode())
    redactor.register(header)
    return f"Basic {header.expose()}"


def _said(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body, else an empty one. Register the tokens in it, of an error's answer too."""
    try:
        said = msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    redactor.register(*(Secret(said[name]) for name in _TOKENS if isinstance(said.get(name), str)))
    return said


def _tokens(url: str, said: Mapping[str, Any], now: float) -> Tokens:
    access = _token(said.get("access_token"))
    if access is None:
        raise _unusable(url, "an access token that cannot be sent in a header")
    kind = said.get("token_type", "Bearer")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise _unusable(url, "an access token of a type that acp-launch does not know: it knows Bearer")
    life = _seconds(said.get("expires_in"))
    return Tokens(
        access=access,
        refresh=_token(said.get("refresh_token")),
        issued=now,
        expires=None if life is None else now + life,
        scopes=_scopes(said.get("scope")),
        account=_account(said.get("id_token")),
    )


def _token(said: object) -> Secret | None:
    if not isinstance(said, str) or len(said) > LONGEST or not _VISIBLE.fullmatch(said):
        return None
    return Secret(said)


def _seconds(said: object) -> float | None:
    """Return a life in seconds, also if it is written as text; None if it says nothing."""
    if isinstance(said, str) and re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", said):
        said = float(said)
    if isinstance(said, bool) or not isinstance(said, int | float) or not said > 0:
        return None
    return min(float(min(said, YEAR)), YEAR)


def _scopes(said: object) -> tuple[str, ...] | None:
    if isinstance(said, list):
        said = " ".join(each for each in said if isinstance(each, str))
    if not isinstance(said, str) or len(said) > SCOPES:
        return None
    return tuple(dict.fromkeys(each for each in said.split() if _SCOPE.fullmatch(each)))


def _account(id_token: object) -> str:
    """Return how an id token calls the user. It came over TLS from its issuer (OpenID Connect Core, 3.1.3.7)."""
    if not isinstance(id_token, str) or id_token.count(".") != 2:
        return ""
    part = id_token.split(".")[1]
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error, msgspec.DecodeError, RecursionError):
        return ""
    names = [claims.get(name) for name in _ACCOUNT] if isinstance(claims, dict) else []
    return next((printable(name)[:QUOTED] for name in names if isinstance(name, str) and printable(name)), "")


def refusal(url: str, answer: Answer, missing: str) -> Refused:
    """Describe an answer without what was asked for; `missing` names that: `no access token`."""
    server, status = f"the authorization server {shown_origin(url)}", answer.status
    pause = retry_after(answer.headers) or 0.0
    code = answer.said.get("error")
    if isinstance(code, str) and _CODE.fullmatch(code):
        code = redactor.text(code)
        is_final = code in DEAD and status < 500
        why = _quoted(answer.said.get("error_description"))
        return Refused(f"{server} refused: {code}{why}", _fix(code), error=code, is_final=is_final, pause=pause)
    if status in (429, 503):
        after = f", and wants a pause of {pause:g} s" if pause else ""
        return Refused(f"{server} answered {phrase(status)}{after}", "try again later", pause=pause)
    if 300 <= status < 400:
        how = f"{server} answered {phrase(status)}; a redirect is not followed, as credentials would go elsewhere"
        return Refused(how, "log in again, as its addresses may have changed")
    if 200 <= status < 300:
        what = missing if answer.said else f"{missing}: {_kind(answer)}"
        return Refused(f"{server} sent {what}", "try again, or ask its operator", pause=pause)
    return Refused(f"{server} answered {phrase(status)}", "try again, or ask its operator", pause=pause)


def _kind(answer: Answer) -> str:
    return "an HTML page" if answer.body.lstrip()[:1] == b"<" else "its answer is not a JSON object"


def _fix(code: str) -> str:
    if code in ("invalid_client", "unauthorized_client"):
        return "check the client id and secret in the profile's `oauth`, or log in again"
    if code in ("temporarily_unavailable", "server_error", "slow_down"):
        return "try again later"
    if code == "invalid_scope":
        return "check oauth.scopes in the profile"
    if code == "invalid_target":
        return "the authorization server does not know this MCP server: check its `url`"
    return "log in again"


def _quoted(said: object) -> str:
    """Quote a description, bounded and harmless; what looks like a credential is hidden."""
    if not isinstance(said, str):
        return ""
    text = printable(masked(redactor.text(said[:DESCRIPTION])))[:QUOTED]
    return f" ({text})" if text else ""


def _unusable(url: str, what: str) -> Refused:
    return Refused(f"the authorization server {shown_origin(url)} sent {what}", "ask its operator")


def _unanswered(url: str, who: str, error: Exception) -> Refused:
    import httpx2

    if not isinstance(error, httpx2.HTTPError | httpx2.InvalidURL | OSError):
        raise error
    return _failed(who, failure(error, url, connect=CONNECT))


def _failed(who: str, why: Failure) -> Refused:
    """Describe a failure below HTTP; the address is not in the profile, so no fix may say to correct it there."""
    fix = why.fix.replace("check that it runs, and its `url`", "check the network, and try again")
    fix = "try again, or ask its operator" if "`" in fix else fix or "try again"
    return Refused(f"{who} {why.how}", fix)
