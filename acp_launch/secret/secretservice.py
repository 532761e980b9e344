"""
The Secret Service of a Linux desktop, as a backend for the keyring store.

The items are those of the keyring library: `keyring get acp-launch NAME` finds them. The library itself is not used,
because it connects and agrees on a key for each item anew, and its import takes longer than reading ten items.
"""

import os
from collections.abc import Iterable, Sequence

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from jeepney import DBusErrorResponse  # type: ignore[import-untyped]
from jeepney.io.blocking import DBusConnection  # type: ignore[import-untyped]
from secretstorage import Collection, Item, check_service_availability, dbus_init, get_default_collection
from secretstorage.collection import COLLECTION_IFACE, DEFAULT_COLLECTION, SERVICE_IFACE
from secretstorage.defines import SS_PATH
from secretstorage.exceptions import ItemNotFoundException, PromptDismissedException
from secretstorage.util import DBusAddressWrapper, open_session, unlock_objects

from acp_launch.secret.isolate import USE_A_FILE, ItemFault
from acp_launch.secret.value import StoreFault

# The library's own settings, and the attributes of an item in each of its schemes.
_COLLECTION, _SCHEME = "KEYRING_PROPERTY_PREFERRED_COLLECTION", "KEYRING_PROPERTY_SCHEME"
_SCHEMES = {"default": ("service", "username"), "KeePassXC": ("Title", "UserName")}
_APPLICATION = {"application": "Python keyring library"}


def connect() -> DBusConnection:
    """Connect to the bus of the session. Close the connection."""
    connection = dbus_init()
    if not check_service_availability(connection):
        connection.close()
        raise RuntimeError("The Secret Service daemon is neither running nor activatable through D-Bus")
    return connection


class SecretService:
    """The user's collection, unlocked, and one session with it. It has the methods of the library's backends."""

    def __init__(self, connection: DBusConnection, *, may_ask: bool) -> None:
        """`may_ask`: the desktop may show a dialog.

        Raises:
            StoreFault: the collection is locked, or was never created.
        """
        self._connection, self._may_ask = connection, may_ask
        self._scheme = _SCHEMES[os.environ.get(_SCHEME, "default")]
        self._collection = self._open(os.environ.get(_COLLECTION, DEFAULT_COLLECTION))
        self._session = self._collection.session = open_session(connection)
        self._fetched: dict[str, bytes] = {}  # by the username

    def _open(self, path: str) -> Collection:
        may_create = self._may_ask and path == DEFAULT_COLLECTION
        try:
            collection = get_default_collection(self._connection) if may_create else Collection(self._connection, path)
        except PromptDismissedException:
            raise
        except ItemNotFoundException:
            reason = "the desktop keyring has no default collection, and acp-launch cannot ask you to create one"
            raise StoreFault("unavailable", reason, fix=USE_A_FILE) from None
        self._unlock([path])
        _require_unlocked(collection)
        return collection

    def fetch(self, service: str, usernames: Iterable[str]) -> None:
        """Read all values with one message, after one dialog if some are locked; `get_password` returns them.

        Some services leave out what is locked, others refuse all because of one: `get_password` asks for these alone.
        """
        first = {username: path for username in usernames for path in self._paths(service, username)[:1]}
        values = self._values([*first.values()]) if first else {}
        if rest := [path for path in first.values() if path not in values]:
            self._unlock(rest)
            values |= self._values(rest)
        self._fetched = {username: values[path] for username, path in first.items() if path in values}

    def get_password(self, service: str, username: str) -> str | None:
        if username in self._fetched:
            return self._fetched[username].decode()
        items = self._items(service, username)
        return items[0].get_secret().decode() if items else None

    def set_password(self, service: str, username: str, password: str) -> None:
        """Set every item of the name: another program may have created one with more attributes, or fewer."""
        items = self._items(service, username)
        for item in items:
            item.set_secret(password.encode())
        if not items:
            label, attributes = f"Password for '{username}' on '{service}'", self._query(service, username)
            self._collection.create_item(label, attributes | _APPLICATION, password.encode())

    def delete_password(self, service: str, username: str) -> None:
        items = self._items(service, username)
        for item in items:
            item.delete()
        if not items:
            raise LookupError(username)

    def _query(self, service: str, username: str) -> dict[str, str]:
        return dict(zip(self._scheme, (service, username), strict=True))

    def _paths(self, service: str, username: str) -> list[str]:
        """Return the paths of the items of the name; of several, all programs take the first."""
        collection = DBusAddressWrapper(self._collection.collection_path, COLLECTION_IFACE, self._connection)
        (paths,) = collection.call("SearchItems", "a{ss}", self._query(service, username))
        return [*paths]

    def _items(self, service: str, username: str) -> list[Item]:
        paths = self._paths(service, username)
        self._unlock(paths)
        items = [Item(self._connection, path, self._session) for path in paths]
        for item in items:
            _require_unlocked(item)
        return items

    def _unlock(self, paths: Sequence[str]) -> None:
        if self._may_ask and paths and unlock_objects(self._connection, [*paths]):
            reason = "the desktop keyring is locked, and its dialog was dismissed"
            raise StoreFault("locked", reason, fix="unlock it, and try again")

    def _values(self, paths: Sequence[str]) -> dict[str, bytes]:
        service = DBusAddressWrapper(SS_PATH, SERVICE_IFACE, self._connection)
        try:
            (secrets,) = service.call("GetSecrets", "aoo", paths, self._session.object_path)
        except (DBusErrorResponse, ItemNotFoundException):
            return {}
        return {path: self._decrypt(parameters, value) for path, (_, parameters, value, _) in secrets.items()}

    def _decrypt(self, parameters: bytes, value: bytes) -> bytes:
        if self._session.aes_key is None:
            return value
        decryptor = Cipher(algorithms.AES(self._session.aes_key), modes.CBC(parameters)).decryptor()
        padded = decryptor.update(value) + decryptor.finalize()
        return padded[: -padded[-1]]


def _require_unlocked(thing: Collection | Item) -> None:
    if thing.is_locked():
        reason = "the desktop keyring is locked, and acp-launch cannot ask you to unlock it"
        raise ItemFault("locked", reason, fix=f"unlock it on the desktop, or {USE_A_FILE}")
