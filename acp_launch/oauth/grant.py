"""
What a login gave: the `Grant`, which is one item of the user's secret store, and its `Login`, a record without secrets.

A login belongs to a server's address and the client id that the profile configures, if any; several addresses may share
a grant. There is one grant for each issuer, resource and client id.
"""

import hashlib
from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from acp_launch.mcp.http.challenge import bounded
from acp_launch.secret.value import LOGINS, Secret

NOT_LOGGED_IN = "is not logged in"
LONGEST = 16 * 1024  # bytes of a token, and of a stored grant

Method = Literal["none", "client_secret_basic", "client_secret_post"]


class Client(Struct, frozen=True, kw_only=True):
    """A client at the token endpoint of an authorization server."""

    issuer: str
    token_endpoint: str
    client_id: str
    method: Method = "none"
    revocation_endpoint: str = ""


class Tokens(Struct, frozen=True, kw_only=True):
    """The answer of a token endpoint. Times are Unix times by this machine's clock; `expires` is None if not known.

    `scopes` is None if the server did not say, which means those that were asked for. `account` is how an id token
    calls the user, or empty.
    """

    access: Secret
    refresh: Secret | None = None
    issued: float = 0.0
    expires: float | None = None
    scopes: tuple[str, ...] | None = None
    account: str = ""


class Grant(Struct, frozen=True, kw_only=True):
    """The tokens for a resource (RFC 8707). Times are Unix times by this machine's clock; None: not known.

    `is_renewed`: the access token came of a refresh, not of a login.
    `client_secret` and `redirect_uri` are those of a dynamic registration; some servers compare even the port of the
    latter. A secret that the user configured stays in the profile's reference.
    """

    client: Client
    resource: str
    access: Secret
    refresh: Secret | None = None
    client_secret: Secret | None = None
    redirect_uri: str = ""
    issued: float | None = None
    expires: float | None = None
    scopes: tuple[str, ...] = ()
    is_renewed: bool = False

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Return what the redactor must know."""
        return tuple(each for each in (self.access, self.refresh, self.client_secret) if each is not None)

    @property
    def name(self) -> str:
        """The name of its item in the secret store."""
        return item_name(self.client.issuer, self.resource, self.client.client_id)

    def after(self, tokens: Tokens) -> "Grant":
        """Return the grant with the tokens that its server has given now."""
        return replace(
            self,
            access=tokens.access,
            refresh=tokens.refresh or self.refresh,
            issued=tokens.issued,
            expires=tokens.expires,
            scopes=self.scopes if tokens.scopes is None else tokens.scopes,
        )


STEP_UPS = 3  # logins in a row for scopes that the server demands, before we stop to ask for these


class Login(Struct, frozen=True, kw_only=True):
    """What is known of a login without opening the secret store. `client` is the configured client id, or empty.

    `demanded` are scopes for want of which the server has refused requests. `is_lacking`: it has done so since this
    login, the last of `step_ups` logins in a row that asked for them all.
    """

    url: str
    client: str
    issuer: str
    resource: str
    client_id: str
    item: str
    scopes: tuple[str, ...] = ()
    account: str = ""  # whom the server knows the user as, if it said so
    since: float = 0.0
    expires: float | None = None  # of the access token, as of the last time it was stored
    is_renewed: bool = False  # whether there is a refresh token
    demanded: tuple[str, ...] = ()
    is_lacking: bool = False
    step_ups: int = 0

    @classmethod
    def of(cls, grant: Grant, *, url: str, client: str, account: str) -> "Login":
        """Return the record of a grant that a login has just given."""
        return cls(
            url=url,
            client=client,
            issuer=grant.client.issuer,
            resource=grant.resource,
            client_id=grant.client.client_id,
            item=grant.name,
            scopes=grant.scopes,
            account=account,
            since=grant.issued or 0.0,
            expires=grant.expires,
            is_renewed=grant.refresh is not None,
        )

    @property
    def is_hopeless(self) -> bool:
        """Whether further logins would not bring the scopes that the server demands."""
        return self.is_lacking and self.step_ups >= STEP_UPS

    def lacking(self, scopes: Iterable[str]) -> "Login":
        """Return the record after a request that was refused for want of these scopes."""
        demanded = bounded((*self.demanded, *scopes))
        step_ups = self.step_ups if demanded == self.demanded else 0
        return replace(self, demanded=demanded, is_lacking=True, step_ups=step_ups)

    def after(self, before: "Login | None") -> "Login":
        """Return the record of a login that follows another one."""
        if before is None:
            return self
        step_ups = min(before.step_ups + 1, STEP_UPS) if before.is_lacking else 0
        return replace(self, demanded=before.demanded, step_ups=step_ups)


def item_name(issuer: str, resource: str, client_id: str) -> str:
    """Return the name of the grant's item: `oauth/mcp.example.com/3f9a…`, a name that a profile may not use."""
    digest = hashlib.sha256("\n".join((issuer, resource, client_id)).encode()).hexdigest()
    return f"{item_prefix(resource)}{digest[:16]}"


def item_prefix(resource: str) -> str:
    """Return what the names of all items of a resource's host begin with."""
    host = resource.partition("://")[2].partition("/")[0]
    return f"{LOGINS}{host}/"


class _Stored(Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    version: Literal[1]
    client: Client
    resource: str
    access: str
    refresh: str | None = None
    client_secret: str | None = None
    redirect_uri: str = ""
    issued: float | None = None
    expires: float | None = None
    scopes: tuple[str, ...] = ()
    is_renewed: bool = False


def encoded(grant: Grant) -> Secret:
    """Return the text of the grant's item.

    Raises:
        ValueError: it is longer than `LONGEST`.
    """
    stored = _Stored(
        version=1,
        client=grant.client,
        resource=grant.resource,
        access=grant.access.expose(),
        refresh=_text(grant.refresh),
        client_secret=_text(grant.client_secret),
        redirect_uri=grant.redirect_uri,
        issued=grant.issued,
        expires=grant.expires,
        scopes=grant.scopes,
        is_renewed=grant.is_renewed,
    )
    text = msgspec.json.encode(stored)
    if len(text) > LONGEST:
        raise ValueError(f"the tokens have more than {LONGEST:,} bytes")
    return Secret(text.decode())


def decoded(item: Secret) -> Grant | None:
    """Return the grant of an item, or None if the item does not hold one."""
    try:
        stored = msgspec.json.decode(item.expose(), type=_Stored)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return Grant(
        client=stored.client,
        resource=stored.resource,
        access=Secret(stored.access),
        refresh=_secret(stored.refresh),
        client_secret=_secret(stored.client_secret),
        redirect_uri=stored.redirect_uri,
        issued=stored.issued,
        expires=stored.expires,
        scopes=stored.scopes,
        is_renewed=stored.is_renewed,
    )


def _text(secret: Secret | None) -> str | None:
    return None if secret is None else secret.expose()


def _secret(text: str | None) -> Secret | None:
    return None if text is None else Secret(text)
