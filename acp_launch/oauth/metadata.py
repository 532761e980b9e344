"""
What servers say about logins: the metadata of a protected resource and of its authorization server.

Where to look for it, what of it we need, and which of it we refuse (MCP "Authorization" in its versions, RFC 6750,
8414, 8707, 9207, 9728). Pure: `flow` makes the requests.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from acp_launch.mcp.http.challenge import Challenge, bounded
from acp_launch.mcp.http.wire import origin, printable, shown_origin
from acp_launch.oauth.grant import Method
from acp_launch.profile.values import is_local
from acp_launch.protocol.jsonrpc import BOM
from acp_launch.regex import regex

LONGEST = 64 * 1024  # bytes of a document
ISSUERS = 4  # authorization servers of a resource that are asked, one after the other
LONGEST_ADDRESS = 2048  # characters
EXCERPT = 200  # characters of what a server says
RESOURCE = "/.well-known/oauth-protected-resource"
SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
BY_SECRET: Mapping[str, Method] = {
    "client_secret_basic": "client_secret_basic",
    "client_secret_post": "client_secret_post",
}
OFFLINE = "offline_access"  # the scope that asks for a refresh token

_BAD = regex(r"[\s\x00-\x20\x7f\\]")
T = TypeVar("T", bound=Struct)


class Unusable(Exception):  # noqa: N818 - reads as what it is about
    """Raised for metadata that must not be used; `how` completes "the server …", `fix` says what to do."""

    def __init__(self, how: str, fix: str = "its operator has to correct the metadata") -> None:
        super().__init__(how)
        self.how, self.fix = how, fix


class Resource(Struct, frozen=True, kw_only=True):
    """A protected resource: the name that its tokens are made for, and the issuers of these."""

    resource: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] = ()


class AuthorizationServer(Struct, frozen=True, kw_only=True):
    """An authorization server. `methods` are those of clients at its token endpoint; None: it does not say."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    device_authorization_endpoint: str = ""
    methods: tuple[str, ...] | None = None
    scopes: tuple[str, ...] = ()
    grants: tuple[str, ...] | None = None
    sends_issuer: bool = False  # with each answer of its authorization endpoint (RFC 9207)
    takes_documents: bool = False  # as client ids: the addresses of client id metadata documents


def canonical(url: str) -> str:
    """Return the address of a server as the name of a resource (RFC 8707, MCP "canonical server URI")."""
    parts = urlsplit(url)
    return shown_origin(url) + ("" if parts.path == "/" else parts.path)


def resource_addresses(url: str, challenge: Challenge) -> list[str]:
    """Return where the metadata of the resource at `url` may be, best place first.

    Raises:
        Unusable: the place that the server names must not be asked.
    """
    named = []
    if challenge.resource_metadata:
        named = [check_address(challenge.resource_metadata, "names, as the place of its metadata,", near=is_near(url))]
    path = urlsplit(url).path.rstrip("/")
    places = [*named, *([_at(url, RESOURCE + path)] if path else []), _at(url, RESOURCE)]
    return list(dict.fromkeys(places))


def server_addresses(issuer: str) -> list[str]:
    """Return where the metadata of an authorization server may be, in the order of the specification."""
    if path := urlsplit(issuer).path.rstrip("/"):
        return [_at(issuer, SERVER + path), _at(issuer, OPENID + path), _at(issuer, path + OPENID)]
    return [_at(issuer, SERVER), _at(issuer, OPENID)]


class _Resource(Struct):
    resource: str | None = None
    authorization_servers: list[str] | None = None
    scopes_supported: list[str] | None = None


def read_resource(body: bytes, url: str) -> Resource | None:
    """Read the metadata of the resource at `url`; None if the document is not a JSON object.

    Raises:
        Unusable: it is of another resource, or names no authorization server.
    """
    read = _read(body, _Resource, "protected-resource metadata")
    if read is None:
        return None
    if not read.resource:
        raise Unusable("has protected-resource metadata without `resource`")
    if not covers(read.resource, url):
        raise Unusable(
            f"has metadata of another resource: {_shown(read.resource)} instead of {_shown(canonical(url))}",
            "check its `url`; its operator may have to correct the metadata",
        )
    if not read.authorization_servers:
        raise Unusable("has protected-resource metadata that names no authorization server")
    return Resource(
        resource=read.resource, issuers=_issuers(read.authorization_servers, url), scopes=bounded(read.scopes_supported)
    )


def _issuers(named: Sequence[str], url: str) -> tuple[str, ...]:
    """Return the first authorization server that is named, and of some others those that may be asked, too."""
    what, near = "names, as its authorization server,", is_near(url)
    found = [check_address(named[0], what, near=near)]
    for each in named[1:ISSUERS]:
        with suppress(Unusable):
            found.append(check_address(each, what, near=near))
    return tuple(dict.fromkeys(found))


def covers(resource: str, url: str) -> bool:
    """Whether the server at `url` belongs to a resource: the same origin, and a path below the resource's."""
    if len(resource) > LONGEST_ADDRESS or _BAD.search(resource) or "#" in resource or "@" in resource:
        return False
    try:
        is_same = origin(resource) == origin(url)
    except ValueError:
        return False
    ours, theirs = urlsplit(url), urlsplit(resource)
    below = (ours.path.rstrip("/") + "/").startswith(theirs.path.rstrip("/") + "/")
    return is_same and below and theirs.query in ("", ours.query)


class _Server(Struct):
    issuer: str | None = None
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    device_authorization_endpoint: str | None = None
    response_types_supported: list[str] | None = None
    grant_types_supported: list[str] | None = None
    scopes_supported: list[str] | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    authorization_response_iss_parameter_supported: bool | None = None
    client_id_metadata_document_supported: bool | None = None


def read_server(body: bytes, asked: str, *, near: bool, is_old: bool = False) -> AuthorizationServer | None:
    """Read the metadata of the authorization server `asked`; None if the document is not a JSON object.

    `is_old`: the MCP server has no metadata of its own, as before 2025-06-18, and `asked` is its origin. `near`: the
    MCP server is on this machine.

    Raises:
        Unusable: it is of another issuer, does not protect codes (PKCE), or lacks what a login needs.
    """
    read = _read(body, _Server, "authorization server metadata")
    if read is None:
        return None
    _check_issuer(read.issuer or "", asked, is_old=is_old)
    _check_login(read, is_old=is_old)
    said = {name: _endpoint(read, name, near) for name in ENDPOINTS}
    methods = read.token_endpoint_auth_methods_supported
    return AuthorizationServer(
        issuer=read.issuer or asked,
        **said,
        methods=None if methods is None else tuple(methods),
        scopes=tuple(read.scopes_supported or ()),
        grants=None if read.grant_types_supported is None else tuple(read.grant_types_supported),
        sends_issuer=bool(read.authorization_response_iss_parameter_supported),
        takes_documents=bool(read.client_id_metadata_document_supported),
    )


REQUIRED = ("authorization_endpoint", "token_endpoint")
ENDPOINTS = (*REQUIRED, "registration_endpoint", "revocation_endpoint", "device_authorization_endpoint")


def without_metadata(url: str) -> AuthorizationServer:
    """Return the authorization server that a server of MCP 2025-03-26 without any metadata is for itself."""
    base = shown_origin(url)
    return AuthorizationServer(
        issuer=base,
        authorization_endpoint=f"{base}/authorize",
        token_endpoint=f"{base}/token",
        registration_endpoint=f"{base}/register",
        methods=("none", "client_secret_post", "client_secret_basic"),
    )


def method_of(server: AuthorizationServer, *, has_secret: bool) -> Method:
    """Return how a client of ours proves at the token endpoint who it is: the first way of the server's that we know.

    Raises:
        Unusable: there is none.
    """
    if not has_secret:
        return "none"
    for name in ("client_secret_basic",) if server.methods is None else server.methods:
        if (method := BY_SECRET.get(name)) is not None:
            return method
    said = _shown(", ".join(server.methods or ()))
    raise Unusable(f"takes no client secret; it takes: {said}", "remove `oauth.client_secret`")


def registrable_method(server: AuthorizationServer) -> Method:
    """Return the method to register a client of ours with: none where that is allowed, as it keeps no secret.

    Raises:
        Unusable: the server takes no way that we know.
    """
    if server.methods is None or "none" in server.methods:
        return "none"
    if not BY_SECRET.keys() & set(server.methods):
        said = _shown(", ".join(server.methods))
        raise Unusable(f"takes no way to prove who the client is that acp-launch knows; it takes: {said}")
    return method_of(server, has_secret=True)


def wanted_scopes(
    configured: Iterable[str], challenge: Challenge, resource: Resource | None, server: AuthorizationServer
) -> tuple[str, ...]:
    """Return the scopes to ask for: the profile's, else those of the challenge, else all of the resource, else none.

    A refresh token is asked for where the server knows the scope for it, but never alone: that would replace the
    scopes that it gives to a request without any.
    """
    found = tuple(configured) or challenge.scopes or (resource.scopes if resource else ())
    can_refresh = server.grants is None or "refresh_token" in server.grants
    if found and can_refresh and OFFLINE in server.scopes:
        found = (*found, OFFLINE)
    return bounded(found)


def with_more(held: Iterable[str], challenge: Challenge) -> tuple[str, ...]:
    """Return the scopes of a login with those that a challenge wants besides."""
    return bounded((*held, *challenge.scopes))


def check_address(address: str, what: str, *, near: bool) -> str:
    """Return the address if secrets may go there. `what` begins the sentence that says otherwise.

    Raises:
        Unusable: it is not https, or it is on this machine though the MCP server is not (`near`).
    """
    fault = ""
    try:
        parts = urlsplit(address)
        scheme = origin(address)[0]
        if len(address) > LONGEST_ADDRESS or _BAD.search(address) or "@" in parts.netloc or parts.fragment:
            fault = "which cannot be used"
        elif is_local(address) and not near:
            fault = "which is on this machine, though the server is not"
        elif scheme != "https" and not is_local(address):
            fault = "which is not https"
    except ValueError:
        fault = "which cannot be used"
    if fault:
        raise Unusable(f"{what} {_shown(address)}, {fault}")
    return address


def is_near(url: str) -> bool:
    """Whether the address is on this machine: only then its metadata may name others there."""
    try:
        return is_local(url)
    except ValueError:
        return False


def _check_issuer(issuer: str, asked: str, *, is_old: bool) -> None:
    """Refuse metadata that says it is of another server (RFC 8414, section 3.3)."""
    if not issuer and is_old:
        return
    if issuer == asked or (_is_root(asked) and issuer.rstrip("/") == asked.rstrip("/")):
        return
    try:
        if is_old and origin(issuer) == origin(asked):
            return
    except ValueError:
        pass  # said below
    raise Unusable(
        f"has an authorization server whose metadata is of another one: its issuer is {_shown(issuer) or 'missing'} "
        f"instead of {_shown(asked)}",
        "its operator has to correct the metadata; do not log in before",
    )


def _check_login(read: _Server, *, is_old: bool) -> None:
    pkce = read.code_challenge_methods_supported
    if "S256" not in (pkce or ()) and not (is_old and pkce is None):
        raise Unusable(
            "has an authorization server that does not protect the login with PKCE: "
            "`code_challenge_methods_supported` lacks S256",
            "its operator has to add it; MCP forbids a login without",
        )
    if read.response_types_supported is not None and "code" not in read.response_types_supported:
        raise Unusable("has an authorization server without logins by code: `response_types_supported` lacks `code`")


def _endpoint(read: _Server, name: str, near: bool) -> str:
    address: str | None = getattr(read, name)
    if address:
        return check_address(address, f"has an authorization server with the `{name}`", near=near)
    if name in REQUIRED:
        raise Unusable(f"has an authorization server whose metadata lacks `{name}`")
    return ""


def _read(body: bytes, shape: type[T], what: str) -> T | None:
    try:
        if not isinstance(msgspec.json.decode(body := body.removeprefix(BOM)), Mapping):
            return None
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as error:
        raise Unusable(f"has {what} that cannot be used: {_shown(str(error))}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # a page that a site shows for every address, for instance


def _at(url: str, path: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _is_root(url: str) -> bool:
    return urlsplit(url).path in ("", "/")


def _shown(text: str) -> str:
    """Return what a server wrote, made harmless."""
    line = printable(text[: 2 * EXCERPT])
    return line if len(line) <= EXCERPT else line[:EXCERPT] + "…"
