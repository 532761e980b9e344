"""
The Secret Service of a Linux desktop (GNOME Keyring, KWallet, KeePassXC), by the `secretstorage` library.

One connection, one session and one unlocking serve all secrets of a run, where the backend of the keyring library has
them for each secret and costs three times the import. Collection and items are those of that backend, so that `keyring
get acp-launch NAME` shows the same values.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from acp_launch.secret.isolate import (
    SERVICE,
    USE_A_FILE,
    attempt,
    failed,
    found,
    not_text_fault,
    sentence,
    storable_text,
    type_only,
)
from acp_launch.secret.value import Outcome, Secret, StoreFault

if TYPE_CHECKING:
    from secretstorage import Collection, Item

BUS, PREFERRED = "DBUS_SESSION_BUS_ADDRESS", "KEYRING_PROPERTY_PREFERRED_COLLECTION"
WELCOME = 5.0  # seconds for the bus to let us in; a busy machine may need more than jeepney's one
T = TypeVar("T")


class SecretService:
    label = "keyring (Secret Service)"

    def __init__(self, environ: Mapping[str, str], *, interactive: bool) -> None:
        self._environ = environ
        self._interactive = interactive

    def prepare(self, *, writing: bool = False) -> None:
        """Do nothing: if the user must be asked, the desktop does."""

    def read(self, names: Sequence[str]) -> Mapping[str, Outcome]:
        def work(connection: Any) -> dict[str, Outcome]:
            from secretstorage.util import open_session

            collection = self._open_collection(connection)
            items = {name: next(iter(_search(collection, name)), None) for name in names}
            session = open_session(connection) if any(items.values()) else None  # the slow part
            return {name: self._look(name, item, session) for name, item in items.items()}

        return self._attempt(work)

    def write(self, name: str, secret: Secret) -> None:
        value = storable_text(secret).encode()

        def work(connection: Any) -> None:
            collection = self._open_collection(connection) or self._create(connection)
            items = _search(collection, name)
            if not items:
                attributes = {"service": SERVICE, "username": name, "application": "Python keyring library"}
                collection.create_item(f"{SERVICE}: {name}", attributes, value, replace=True)
                return
            # Another program may have written it with other attributes. `read` uses the first item.
            self._unlock(items[0])
            items[0].set_secret(value)
            for other in items[1:]:
                other.delete()

        self._attempt(work, type_only)

    def remove(self, name: str) -> bool:
        def work(connection: Any) -> bool:
            items = _search(self._open_collection(connection), name)
            for item in items:
                self._unlock(item)
                item.delete()
            return bool(items)

        return self._attempt(work)

    def names(self) -> Mapping[str, float | None]:
        """Return the names and times, which can be read while everything is locked."""

        def work(connection: Any) -> dict[str, float | None]:
            items = _search(self._collection(connection))
            known = ((item.get_attributes().get("username"), float(item.get_modified())) for item in items)
            return {name: when for name, when in known if name}

        return self._attempt(work)

    def _look(self, name: str, item: "Item | None", session: Any) -> Outcome:
        if item is None:
            return Outcome("missing", self.label)
        from secretstorage import LockedException

        item.session = session
        try:
            try:
                value = item.get_secret()
            except LockedException:  # an item may have its own lock
                self._unlock(item)
                value = item.get_secret()
            return found(value.decode(), self.label)
        except UnicodeDecodeError:
            return failed(not_text_fault(name), self.label)
        except StoreFault as fault:
            return failed(fault, self.label)

    def _collection(self, connection: Any) -> "Collection | None":
        """Return the collection that the library's backend would use; None if the desktop has no default one."""
        from secretstorage import Collection, ItemNotFoundException

        if preferred := self._environ.get(PREFERRED):
            return Collection(connection, preferred)
        try:
            return Collection(connection)
        except ItemNotFoundException:
            return None

    def _open_collection(self, connection: Any) -> "Collection | None":
        if collection := self._collection(connection):
            self._unlock(collection)
        return collection

    def _create(self, connection: Any) -> "Collection":
        from secretstorage import create_collection

        if self._interactive:
            return create_collection(connection, "Default", "default")
        reason = "the desktop keyring has no default collection, and acp-launch cannot ask you to create one"
        raise StoreFault("unavailable", reason, fix=USE_A_FILE)

    def _unlock(self, thing: "Collection | Item") -> None:
        """Unlock it. The desktop shows its dialog, if a user can answer it."""
        from secretstorage import LockedException, PromptDismissedException

        if not thing.is_locked():
            return
        if not self._interactive:
            raise _locked("and acp-launch cannot ask you to unlock it")
        if thing.unlock():
            raise self._fault(PromptDismissedException(), "")
        if thing.is_locked():
            raise self._fault(LockedException(), "")

    def _attempt(self, work: Callable[[Any], T], tell: Callable[[BaseException], str] = sentence) -> T:
        def connected() -> T:
            from jeepney.io.blocking import open_dbus_connection  # type: ignore[import-untyped]
            from secretstorage.util import add_match_rules

            address = self._address()
            try:
                connection = open_dbus_connection(address, auth_timeout=WELCOME)
            except Exception as error:  # also ValueError and RuntimeError, for malformed addresses
                raise _no_bus(f"cannot reach the D-Bus session at {address}: {sentence(error)}") from None
            with connection:
                add_match_rules(connection)  # for the signal that a dialog has ended
                return work(connection)

        return attempt(connected, lambda error: self._fault(error, tell(error)))

    def _address(self) -> str:
        if given := self._environ.get(BUS):
            return given
        # Where systemd puts it. A login over SSH finds the desktop's session there if the variable was not passed on.
        socket = Path(self._environ.get("XDG_RUNTIME_DIR") or "/nonexistent") / "bus"
        if not socket.exists():
            raise _no_bus(f"there is no D-Bus session, {BUS} is not set")
        return f"unix:path={quote(str(socket), safe='/-_.')}"

    def _fault(self, error: BaseException, told: str) -> StoreFault:
        """`told` is the part of the error that may be shown."""
        if isinstance(error, ImportError):
            return StoreFault("unavailable", f"the Secret Service needs a Python package: {told}", fix=USE_A_FILE)
        from secretstorage import LockedException, PromptDismissedException, SecretServiceNotAvailableException

        if isinstance(error, PromptDismissedException):  # the service does not say whether it was ever shown
            if self._environ.get("DISPLAY") or self._environ.get("WAYLAND_DISPLAY"):
                return StoreFault(
                    "denied", "the dialog of the desktop keyring was cancelled", fix="try again, and answer it"
                )
            return _locked("and its dialog needs a display")
        if isinstance(error, LockedException) or str(getattr(error, "name", "")).endswith(".Error.IsLocked"):
            return _locked("and was not unlocked")
        if isinstance(error, SecretServiceNotAvailableException):
            reason = "no desktop keyring runs in this session: org.freedesktop.secrets is not on D-Bus"
            return StoreFault("unavailable", reason, fix=USE_A_FILE, is_absent=True)
        return StoreFault("unavailable", f"the desktop keyring does not work here: {told}", fix=USE_A_FILE)


def _search(collection: "Collection | None", name: str = "") -> list["Item"]:
    """Return our items, those of `name` or all."""
    if collection is None:
        return []
    return list(collection.search_items({"service": SERVICE, **({"username": name} if name else {})}))


def _no_bus(why: str) -> StoreFault:
    return StoreFault("unavailable", f"cannot reach a desktop keyring: {why}", fix=USE_A_FILE, is_absent=True)


def _locked(why: str) -> StoreFault:
    fix = f"unlock it on the desktop, or {USE_A_FILE}"
    return StoreFault("locked", f"the desktop keyring is locked, {why}", fix=fix)
