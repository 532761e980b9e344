"""
The `Grant` of a login, which is one item of the user's secret store, and its `Login`, a record without secrets.

A login belongs to a server's address and the client id that the profile configures, if any; several addresses may share
a grant. There is one grant for each issuer, resource and client id. `Logins` are the records, in files.
"""

import hashlib
import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from acp_launch.errors import StateError
from acp_launch.mcp.http.wire import first_scopes
from acp_launch.private import Unfit, locked, make_private, read_bounded
from acp_launch.private import replace as replace_file
from acp_launch.secret.value import LOGINS, Secret
from acp_launch.waits import stretch

NOT_LOGGED_IN = "is not logged in"
MAX_GRANT_BYTES = 16 * 1024  # of a token, and of a stored grant
MAX_RECORD_BYTES = 256 * 1024  # 200 scopes of 256 characters fit
LOCK_TIMEOUT = stretch(5.0)  # then a call fails without a note of why
MAX_RECORDS = 1000
WANTED_SUFFIX = ".wanted"  # ends the name of a file that says that a server has asked for a login

Method = Literal["none", "client_secret_basic", "client_secret_post"]


class OAuthClient(Struct, frozen=True, kw_only=True):
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

    `is_renewed`: the access token came of a refresh, not of a login. `sends_resource`: renewals name the resource.
    `client_secret` and `redirect_uri` are those of a dynamic registration; some servers compare even the port of the
    latter. A secret that the user configured stays in the profile's reference.
    """

    version: Literal[1] = 1  # of its text in the secret store
    client: OAuthClient
    resource: str
    access: Secret
    refresh: Secret | None = None
    client_secret: Secret | None = None
    redirect_uri: str = ""
    issued: float | None = None
    expires: float | None = None
    scopes: tuple[str, ...] = ()
    is_renewed: bool = False
    sends_resource: bool = True

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
    """The facts about a login that need no secret store. `client` is the configured client id, or empty.

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
    origins: tuple[str, ...] = ()  # of endpoints, which the user has confirmed to belong together
    secret_to: str = ""  # the issuer that may get the client secret, as the user has confirmed
    is_over: bool = False  # whether the server has refused to renew it, or a token that cannot be renewed

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

    def demand(self, scopes: Iterable[str]) -> "Login":
        """Return the record after a request that was refused for want of these scopes."""
        demanded = first_scopes((*self.demanded, *scopes))
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


def encode_grant(grant: Grant) -> Secret:
    """Return the text of the grant's item.

    Raises:
        ValueError: it is longer than `MAX_GRANT_BYTES`.
    """
    text = msgspec.json.encode(grant, enc_hook=Secret.expose)
    if len(text) > MAX_GRANT_BYTES:
        raise ValueError(f"the tokens have more than {MAX_GRANT_BYTES:,} bytes")
    return Secret(text.decode())


def decode_grant(item: Secret) -> Grant | None:
    """Return the grant of an item, or None if the item does not hold one."""
    try:
        return msgspec.json.decode(item.expose(), type=Grant, dec_hook=_read_secret)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def _read_secret(kind: type, written: object) -> Secret:
    if not isinstance(written, str):
        raise TypeError("a secret is a text")
    return Secret(written)


class Logins:
    """The records of logins in the state directory: a file for each, found by a server's address and the client id that
    the profile configures. One that cannot be understood counts as absent: a new login replaces it.

    The lock of an item is held by who changes it, in any process. Every method may raise StateError.
    """

    def __init__(self, state: Path) -> None:
        self._directory = state / "logins"

    def find(self, url: str, client: str = "") -> Login | None:
        with self._explain():
            found = _read_record(self._file(url, client))
        return found if found is not None and (found.url, found.client) == (url, client) else None

    def put(self, login: Login) -> None:
        """Add a record, or replace the one of the same address and configured client."""
        with self._explain():
            make_private(self._directory)
            replace_file(self._file(login.url, login.client), msgspec.json.format(msgspec.json.encode(login)) + b"\n")

    def note_demand(self, login: Login, scopes: Iterable[str]) -> Login | None:
        """Note that the server has refused a request for want of scopes, so that the next login asks for them.

        Return the record as it is then; None if it was dropped.

        Raises:
            TimeoutError: another process that changes this login did not end in time.
        """
        before = self.find(login.url, login.client)
        if before is None or before.demand(scopes) == before:
            return before
        with locked(self.lock(before.item), LOCK_TIMEOUT):
            if (before := self.find(login.url, login.client)) is None:
                return None
            self.put(after := before.demand(scopes))
        return after

    def note_wanted(self, url: str, client: str) -> None:
        """Note that a server has asked for a login."""
        with self._explain():
            make_private(self._directory)
            self._file(url, client).with_suffix(WANTED_SUFFIX).touch(0o600)

    def is_wanted(self, url: str, client: str) -> bool:
        """Tell whether the server has asked for a login, as far as it is known."""
        with self._explain():
            return self._file(url, client).with_suffix(WANTED_SUFFIX).exists()

    def forget_wanted(self, url: str, client: str) -> None:
        with self._explain():
            self._file(url, client).with_suffix(WANTED_SUFFIX).unlink(missing_ok=True)

    def rehearse(self) -> None:
        """Write and remove a file, to find out whether a record can be written."""
        with self._explain():
            make_private(self._directory)
            replace_file(trial := self._directory / f"trial-{os.getpid()}", b"{}\n")
            trial.unlink()

    def drop(self, login: Login) -> None:
        with self._explain():
            self._file(login.url, login.client).unlink(missing_ok=True)

    def all(self) -> tuple[Login, ...]:
        """Return every record, in the order of addresses."""
        with self._explain():
            files = sorted(self._directory.glob("*.json"))[:MAX_RECORDS]
            found = [login for login in map(_read_record, files) if login is not None]
        return tuple(sorted(found, key=lambda login: (login.url, login.client)))

    def of(self, item: str) -> tuple[Login, ...]:
        """Return the records whose tokens are in this item of the secret store."""
        return tuple(login for login in self.all() if login.item == item)

    def lock(self, item: str) -> Path:
        """Return the lock file of an item, for `private.locked`; its directory exists from now on."""
        with self._explain():
            make_private(self._directory)
        return self._directory / f"{_digest(item)}.lock"

    def _file(self, url: str, client: str) -> Path:
        digest = _digest(f"{url}\n{client}")
        return self._directory / f"{digest}.json"

    @contextmanager
    def _explain(self) -> Iterator[None]:
        try:
            yield
        except (OSError, UnicodeEncodeError) as error:
            why = error.strerror if isinstance(error, OSError) else None
            reason = (why or str(error)).lower()
            fix = f"check the owner, the mode and the free space of {shlex.quote(str(self._directory))}"
            raise StateError(f"cannot read or write the records of logins: {reason}", fix=fix) from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def _read_record(file: Path) -> Login | None:
    try:
        found = read_bounded(file, MAX_RECORD_BYTES)
        return None if found is None else msgspec.json.decode(found[0], type=Login)
    except (Unfit, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
