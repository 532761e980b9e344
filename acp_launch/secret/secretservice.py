"""
The Secret Service of a Linux desktop (GNOME Keyring, KWallet, KeePassXC), without the keyring library in between: one
connection and one session for all secrets of a run, where the library opens both for each.

The items are those of the library's own backend, so that `keyring get acp-launch NAME` and we see the same. Like it we
use the default collection, and no other.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from acp_launch.secret.isolate import SERVICE, USE_A_FILE, attempt, failed, found, kind, not_text, sentence, storable
from acp_launch.secret.value import Outcome, Secret, StoreFault

if TYPE_CHECKING:
    from secretstorage import Collection, Item

# The way to the desktop's Secret Service over D-Bus, and what to say when it leads nowhere.


VARIABLE = "DBUS_SESSION_BUS_ADDRESS"


class NoBus(Exception):  # noqa: N818 - it reads as what it is
    """Raised when a session's bus cannot be reached; says why."""


@contextmanager
def connected(environ: Mapping[str, str]) -> Iterator[Any]:
    """A connection (jeepney's) of our own, closed at the end whatever happens.

    Raises:
        NoBus: there is no session, or its bus does not answer.
    """
    from jeepney.io.blocking import open_dbus_connection  # type: ignore[import-untyped]
    from secretstorage.util import add_match_rules

    address = _address(environ)
    try:
        connection = open_dbus_connection(address)
    except Exception as error:  # also ValueError and RuntimeError, for addresses it does not understand
        raise NoBus(f"the D-Bus session at {address} cannot be reached: {sentence(error)}") from None
    with connection:
        add_match_rules(connection)  # to hear of the end of a dialog
        yield connection


def _address(environ: Mapping[str, str]) -> str:
    if given := environ.get(VARIABLE):
        return given
    # Where systemd puts it; a login over SSH finds the desktop's session there when the variable was not passed on.
    socket = Path(environ.get("XDG_RUNTIME_DIR") or "/nonexistent") / "bus"
    if not socket.exists():
        raise NoBus(f"there is no D-Bus session, {VARIABLE} is not set")
    from urllib.parse import quote

    return f"unix:path={quote(str(socket), safe='/-_.')}"


def error_name(error: BaseException | None) -> str:
    """The D-Bus name of an error, also one that secretstorage made another exception of; empty for others."""
    from jeepney import DBusErrorResponse  # type: ignore[import-untyped]

    if isinstance(error, DBusErrorResponse):
        return str(error.name)
    return error_name(error.__cause__) if error else ""


def unavailable(error: BaseException, told: str) -> StoreFault:
    """What to say of anything that is no lock and no refusal; `told` is what may be shown of the error."""
    name = error_name(error)
    if isinstance(error, NoBus):
        reason = f"no desktop keyring can be reached: {error}"
    elif name.endswith((".ServiceUnknown", ".NameHasNoOwner")):
        reason = "no desktop keyring runs in this session: nobody offers org.freedesktop.secrets on D-Bus"
    elif isinstance(error, OSError) or name.endswith((".NoReply", ".Disconnected")):
        reason = f"the desktop keyring went away while we talked to it: {told}"
    else:
        reason = f"the desktop keyring does not work here: {told}"
    return StoreFault("unavailable", reason, fix=USE_A_FILE)


_APPLICATION = "Python keyring library"  # what the library's backend writes; not searched for
T = TypeVar("T")


class SecretService:
    label = "keyring (Secret Service)"

    def __init__(self, environ: Mapping[str, str], *, interactive: bool) -> None:
        self._environ = environ
        self._interactive = interactive

    def prepare(self, *, writing: bool = False) -> None:
        """Nothing to prepare: if somebody must be asked, the desktop does."""

    def read(self, names: Sequence[str]) -> Mapping[str, Outcome]:
        return self._visit(lambda connection: self._read(connection, names))

    def write(self, name: str, secret: Secret) -> None:
        value = storable(secret).encode()
        self._visit(lambda connection: self._write(connection, name, value), kind)

    def remove(self, name: str) -> bool:
        return self._visit(lambda connection: self._remove(connection, name))

    def names(self) -> Mapping[str, float | None]:
        return self._visit(_names)

    def _read(self, connection: Any, names: Sequence[str]) -> dict[str, Outcome]:
        collection = _default(connection)
        if collection is None:
            return {name: Outcome("missing", self.label) for name in names}
        self._unlock(collection)
        return {name: self._look(collection, name) for name in names}

    def _look(self, collection: "Collection", name: str) -> Outcome:
        item = next(_search(collection, name), None)
        if item is None:
            return Outcome("missing", self.label)
        try:
            return found(self._secret(collection, item).decode(), self.label)
        except UnicodeDecodeError:
            return failed(not_text(name), self.label)
        except StoreFault as fault:  # the lock of this item
            return failed(fault, self.label)

    def _secret(self, collection: "Collection", item: "Item") -> bytes:
        from secretstorage import LockedException

        item.session = _session(collection)
        try:
            return item.get_secret()
        except LockedException:  # items can have locks of their own
            self._unlock(item)
            return item.get_secret()

    def _write(self, connection: Any, name: str, value: bytes) -> None:
        collection = _default(connection) or self._created(connection)
        self._unlock(collection)
        items = list(_search(collection, name))
        if not items:
            attributes = {"service": SERVICE, "username": name, "application": _APPLICATION}
            collection.create_item(f"{SERVICE}: {name}", attributes, value, replace=True)
            return
        # Whoever wrote it, with whatever other attributes: the first is the one that is read.
        self._unlock(items[0])
        items[0].set_secret(value)
        for other in items[1:]:
            other.delete()

    def _remove(self, connection: Any, name: str) -> bool:
        collection = _default(connection)
        if collection is None:
            return False
        self._unlock(collection)
        items = list(_search(collection, name))
        for item in items:
            self._unlock(item)
            item.delete()
        return bool(items)

    def _created(self, connection: Any) -> "Collection":
        from secretstorage import PromptDismissedException, create_collection

        if not self._interactive:
            raise _no_collection("nobody is there to make one")
        try:
            return create_collection(connection, "Default", "default")
        except PromptDismissedException:
            raise self._dismissed(_no_collection("there is no screen for the dialog that makes one")) from None

    def _unlock(self, thing: "Collection | Item") -> None:
        """The desktop shows its dialog, if there is somebody to answer it."""
        if not thing.is_locked():
            return
        if not self._interactive:
            raise _locked("and nobody is there to unlock it")
        if thing.unlock():
            raise self._dismissed(_locked("and there is no screen for its dialog"))
        if thing.is_locked():
            raise _locked("and stayed so")

    def _dismissed(self, unseen: StoreFault) -> StoreFault:
        """
        The service only says that a dialog is gone. With a screen somebody cancelled it; without one it never showed,
        which is `unseen`.
        """
        if not (self._environ.get("DISPLAY") or self._environ.get("WAYLAND_DISPLAY")):
            return unseen
        return StoreFault("denied", "the dialog of the desktop keyring was cancelled", fix="try again, and answer it")

    def _visit(self, work: Callable[[Any], T], tell: Callable[[BaseException], str] = sentence) -> T:
        def there() -> T:
            with connected(self._environ) as connection:
                return work(connection)

        return attempt(there, lambda error: self._fault(error, tell(error)))

    def _fault(self, error: BaseException, told: str) -> StoreFault:
        if isinstance(error, ImportError):
            reason = f"the Secret Service needs a Python package: {told}"
            return StoreFault("unavailable", reason, fix=USE_A_FILE)
        from secretstorage import LockedException, PromptDismissedException

        if isinstance(error, LockedException) or error_name(error).endswith(".Error.IsLocked"):
            return _locked("and did not open")
        if isinstance(error, PromptDismissedException):
            return self._dismissed(_locked("and there is no screen for its dialog"))
        return unavailable(error, told)


def _default(connection: Any) -> "Collection | None":
    """The default collection; None when the desktop has none. Never makes one."""
    from secretstorage import Collection, ItemNotFoundException

    try:
        return Collection(connection)
    except ItemNotFoundException:
        return None


def _session(collection: "Collection") -> Any:
    """The one session of this connection; agreeing on its key is what costs."""
    from secretstorage.util import open_session

    if collection.session is None:
        collection.session = open_session(collection.connection)
    return collection.session


def _search(collection: "Collection", name: str) -> Iterator["Item"]:
    return collection.search_items({"service": SERVICE, "username": name})


def _names(connection: Any) -> dict[str, float | None]:
    """Attributes and times can be read while everything is locked."""
    collection = _default(connection)
    items = collection.search_items({"service": SERVICE}) if collection else ()
    known = ((item.get_attributes().get("username"), float(item.get_modified())) for item in items)
    return {name: when for name, when in known if name}


def _no_collection(why: str) -> StoreFault:
    reason = f"the desktop keyring is not set up: it has no default collection, and {why}"
    return StoreFault("unavailable", reason, fix=USE_A_FILE)


def _locked(why: str) -> StoreFault:
    return StoreFault(
        "locked", f"the desktop keyring is locked, {why}", fix=f"unlock it on the desktop, or {USE_A_FILE}"
    )
