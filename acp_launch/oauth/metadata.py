"""
What servers say about logins: the metadata of a protected resource and of its authorization server.

Where to look for it, what of it we need, and which of it we refuse (MCP "Authorization" in its versions, RFC 6750,
8414, 8707, 9207, 9728). Pure: `flow` makes the requests.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import Struct, field

from acp_launch.mcp.http.wire import Challenge, first_scopes, origin, printable, shown_origin
from acp_launch.oauth.grant import Method
from acp_launch.profile.values import is_local
from acp_launch.regex import regex

MAX_URL_CHARS = 2048
EXCERPT_CHARS = 200  # of what a server says
RESOURCE = "/.well-known/oauth-protected-resource"
SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
BY_SECRET: tuple[Method, ...] = ("client_secret_basic", "client_secret_post")
OFFLINE = "offline_access"  # the scope that asks for a refresh token

_BAD = regex(r"[\s\x00-\x20\x7f\\]")
T = TypeVar("T", bound=Struct)


class Unusable(Exception):  # noqa: N818 - reads as what it is about
    """Raised for metadata that must not be used; `how` completes "the server …", `fix` says what to do."""

    def __init__(self, how: str, fix: str = "do not log in until its operator has corrected the metadata") -> None:
        super().__init__(how)
        self.how, self.fix = how, fix


class Resource(Struct, frozen=True, kw_only=True):
    """A protected resource: the name that its tokens are made for, and who issues these."""

    resource: str = ""
    authorization_servers: tuple[str, ...] | None = None
    scopes: tuple[str, ...] | None = field(default=None, name="scopes_supported")


class AuthorizationServer(Struct, frozen=True, kw_only=True):
    """An authorization server. `methods` are how clients prove themselves at its token endpoint; None: it does not say.

    `sends_issuer`: with each answer of its authorization endpoint (RFC 9207). `takes_documents`: as client ids, the
    addresses of client id metadata documents.
    """

    authorization_endpoint: str
    token_endpoint: str
    issuer: str = ""
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    device_authorization_endpoint: str | None = None
    challenges: tuple[str, ...] | None = field(default=None, name="code_challenge_methods_supported")
    methods: tuple[str, ...] | None = field(default=None, name="token_endpoint_auth_methods_supported")
    scopes: tuple[str, ...] | None = field(default=None, name="scopes_supported")
    grants: tuple[str, ...] | None = field(default=None, name="grant_types_supported")
    sends_issuer: bool | None = field(default=None, name="authorization_response_iss_parameter_supported")
    takes_documents: bool | None = field(default=None, name="client_id_metadata_document_supported")


ENDPOINTS = tuple(name for name in AuthorizationServer.__struct_fields__ if name.endswith("_endpoint"))


def canonical(url: str) -> str:
    """Return the address of a server as the name of a resource (RFC 8707, MCP "canonical server URI")."""
    parts = urlsplit(url)
    return shown_origin(url) + ("" if parts.path == "/" else parts.path)


def resource_addresses(url: str, challenge: Challenge) -> list[str]:
    """Return where the metadata of the resource at `url` may be, best place first.

    Raises:
        Unusable: the place that the server names must not be asked.
    """
    places = [_at(url, RESOURCE + urlsplit(url).path.rstrip("/")), _at(url, RESOURCE)]
    if named := challenge.resource_metadata:
        places.insert(0, check_address(named, "names, as the place of its metadata,", near=is_local(url)))
    return list(dict.fromkeys(places))


def server_addresses(issuer: str) -> list[str]:
    """Return where the metadata of an authorization server may be, in the order of the specification."""
    path = urlsplit(issuer).path.rstrip("/")
    return list(dict.fromkeys(_at(issuer, place) for place in (SERVER + path, OPENID + path, path + OPENID)))


def read_resource(said: Mapping[str, Any], url: str, issuer: str = "") -> Resource | None:
    """Read the metadata of the resource at `url`; None if it says nothing.

    Of its authorization servers it has one: `issuer`, if that is among them, else the first.

    Raises:
        Unusable: it is of another resource, or names no authorization server that may be asked.
    """
    read = _convert(said, Resource, "protected-resource metadata")
    if read is None:
        return None
    if not covers(read.resource, url):
        found = f"{_excerpt(read.resource) or 'none'} instead of {_excerpt(canonical(url))}"
        raise Unusable(f"has metadata of another resource: {found}", "check its `url`, or ask its operator")
    if not read.authorization_servers:
        raise Unusable("has protected-resource metadata that names no authorization server")
    named = read.authorization_servers
    used = next((each for each in named if each.rstrip("/") == issuer), named[0])
    check_address(used, "names, as its authorization server,", near=is_local(url))
    return msgspec.structs.replace(read, authorization_servers=(used,))


def covers(resource: str, url: str) -> bool:
    """Whether the server at `url` belongs to a resource: the same origin, and a path below the resource's."""
    if len(resource) > MAX_URL_CHARS or _BAD.search(resource) or "#" in resource or "@" in resource:
        return False
    if shown_origin(resource) != shown_origin(url):
        return False
    ours, theirs = urlsplit(url), urlsplit(resource)
    is_below = (ours.path.rstrip("/") + "/").startswith(theirs.path.rstrip("/") + "/")
    return is_below and theirs.query in ("", ours.query)


def read_server(said: Mapping[str, Any], asked: str, *, near: bool, is_old: bool = False) -> AuthorizationServer | None:
    """Read the metadata of the authorization server `asked`; None if it says nothing.

    `is_old`: the MCP server has no metadata of its own, as before 2025-06-18, and `asked` is its origin. `near`: the
    MCP server is on this machine.

    Raises:
        Unusable: it is of another issuer, does not protect codes (PKCE), or lacks what a login needs.
    """
    read = _convert(said, AuthorizationServer, "authorization server metadata")
    if read is None:
        return None
    is_root = urlsplit(asked).path in ("", "/") and read.issuer.rstrip("/") == asked.rstrip("/")
    is_older = is_old and (not read.issuer or shown_origin(read.issuer) == shown_origin(asked))
    if not (read.issuer == asked or is_root or is_older):  # RFC 8414, section 3.3
        found = f"its issuer is {_excerpt(read.issuer) or 'missing'} instead of {_excerpt(asked)}"
        raise Unusable(f"has an authorization server whose metadata is of another one: {found}")
    if "S256" not in (read.challenges or ()) and not (is_old and read.challenges is None):
        lacks = "`code_challenge_methods_supported` lacks S256"
        raise Unusable(f"has an authorization server that does not protect the login with PKCE: {lacks}")
    for name in ENDPOINTS:
        if (address := getattr(read, name)) is not None:
            check_address(address, f"has an authorization server with the `{name}`", near=near)
    if read.issuer:
        check_address(read.issuer, "has an authorization server with the issuer", near=near)
    return read if read.issuer else msgspec.structs.replace(read, issuer=asked)


def list_origins(server: AuthorizationServer, page: str = "") -> list[str]:
    """Return the origins of its endpoints, the login page's first."""
    named = (page or server.authorization_endpoint, *(getattr(server, name) or "" for name in ENDPOINTS))
    return list(dict.fromkeys(shown_origin(each) for each in named if each))


def secret_method(server: AuthorizationServer) -> Method:
    """Return how a client with a secret proves who it is: the first way of the server's that we know.

    Raises:
        Unusable: there is none.
    """
    offered = BY_SECRET if server.methods is None else server.methods
    for method in (method for name in offered for method in BY_SECRET if name == method):
        return method
    fix = "check `oauth.client_secret`, or ask its operator"
    raise Unusable(f"takes no client secret; it takes: {_excerpt(', '.join(offered))}", fix)


def wanted_scopes(
    configured: Iterable[str], challenge: Challenge, resource: Resource | None, server: AuthorizationServer
) -> tuple[str, ...]:
    """Return the scopes to ask for: the profile's, else the challenge's, else all of the resource, else none.

    A refresh token is asked for where the server knows the scope for it, but never alone: that would replace the
    scopes that it gives to a request without any.
    """
    found = first_scopes(tuple(configured) or challenge.scopes or (resource.scopes if resource else ()))
    can_refresh = OFFLINE in (server.scopes or ()) and (server.grants is None or "refresh_token" in server.grants)
    return first_scopes((*found, OFFLINE)) if found and can_refresh else found


def check_address(address: str, what: str, *, near: bool) -> str:
    """Return the address if secrets may go there. `what` begins the sentence that says otherwise.

    Raises:
        Unusable: it is not https, or it is on this machine though the MCP server is not (`near`).
    """
    try:
        parts, scheme = urlsplit(address), origin(address)[0]
        is_fit = len(address) <= MAX_URL_CHARS and address.isascii()  # letters of others could imitate a host
        is_fit = is_fit and not (_BAD.search(address) or "@" in parts.netloc or parts.fragment)
    except ValueError:
        is_fit = False
    if is_fit and (near if is_local(address) else scheme == "https"):
        return address
    fault = "is on this machine, though the server is not" if is_fit and is_local(address) else "is not https"
    raise Unusable(f"{what} {_excerpt(address)}, which {fault if is_fit else 'cannot be used'}")


def _convert(said: Mapping[str, Any], shape: type[T], what: str) -> T | None:
    try:
        return msgspec.convert(said, shape) if said else None
    except msgspec.ValidationError as error:
        raise Unusable(f"has {what} that cannot be used: {_excerpt(str(error))}") from None


def _at(url: str, path: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _excerpt(text: str) -> str:
    """Return the beginning of what a server wrote, made harmless."""
    return printable(text[: 2 * EXCERPT_CHARS])[:EXCERPT_CHARS]
