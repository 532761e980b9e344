"""
The Secret Service of a Linux desktop (GNOME Keyring, KWallet, KeePassXC), over D-Bus.

It does not use the keyring library: one connection and one session serve all secrets of a run, where the library opens
both for each secret. The items are those of the library's own backend, so that `keyring get acp-launch NAME` shows the
same values. Like the library it uses the default collection, and no other.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

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


VARIABLE = "DBUS_SESSION_BUS_ADDRESS"
WELCOME = 5.0  # seconds for the bus to let us in; a busy machine may need more than jeepney's one


class NoBus(Exception):  # noqa: N818 - the name states the fault
    """Raised when the D-Bus of the session cannot be reached; its text says why."""


@contextmanager
def connected(environ: Mapping[str, str]) -> Iterator[Any]:
    """Open a D-Bus connection (jeepney's) of our own for the block.

    Raises:
        NoBus: there is no session, or its bus does not answer.
    """
    from jeepney.io.blocking import open_dbus_connection  # type: ignore[import-untyped]
    from secretstorage.util import add_match_rules

    address = _address(environ)
    try:
        connection = open_dbus_connection(address, auth_timeout=WELCOME)
    except Exception as error:  # also ValueError and RuntimeError, for malformed addresses
        raise NoBus(f"cannot reach the D-Bus session at {address}: {sentence(error)}") from None
    with connection:
        add_match_rules(connection)  # for the signal that a dialog has ended
        yield connection


def _address(environ: Mapping[str, str]) -> str:
    if given := environ.get(VARIABLE):
        return given
    # Where systemd puts it. A login over SSH finds the desktop's session there if the variable was not passed on.
    socket = Path(environ.get("XDG_RUNTIME_DIR") or "/nonexistent") / "bus"
    if not socket.exists():
        raise NoBus(f"there is no D-Bus session, {VARIABLE} is not set")
    from urllib.parse import quote

    return f"unix:path={quote(str(socket), safe='/-_.')}"


def error_name(error: BaseException | None) -> str:
    """Return the D-Bus name of an error, also if secretstorage wrapped it; empty for other errors."""
    from jeepney import DBusErrorResponse  # type: ignore[import-untyped]

    if isinstance(error, DBusErrorResponse):
        return str(error.name)
    return error_name(error.__cause__) if error else ""


def unavailable(error: BaseException, told: str) -> StoreFault:
    """Return the fault for an error that is neither a lock nor a refusal.

    `told` is the part of it that may be shown.
    """
    name = error_name(error)
    is_unknown = name.endswith((".ServiceUnknown", ".NameHasNoOwner"))
    if isinstance(error, NoBus):
        reason = f"cannot reach a desktop keyring: {error}"
    elif is_unknown:
        reason = "no desktop keyring runs in this session: org.freedesktop.secrets is not on D-Bus"
    elif isinstance(error, OSError) or name.endswith((".NoReply", ".Disconnected")):
        reason = f"the desktop keyring ended during the request: {told}"
    else:
        reason = f"the desktop keyring does not work here: {told}"
    return StoreFault("unavailable", reason, fix=USE_A_FILE, is_absent=isinstance(error, NoBus) or is_unknown)


_APPLICATION = "Python keyring library"  # what the library's backend writes; not part of the search
T = TypeVar("T")


class SecretService:
    label = "keyring (Secret Service)"

    def __init__(self, environ: Mapping[str, str], *, interactive: bool) -> None:
        self._environ = environ
        self._interactive = interactive

    def prepare(self, *, writing: bool = False) -> None:
        """Do nothing: if the user must be asked, the desktop does."""

    def read(self, names: Sequence[str]) -> Mapping[str, Outcome]:
        return self._with_connection(lambda connection: self._read(connection, names))

    def write(self, name: str, secret: Secret) -> None:
        value = storable_text(secret).encode()
        self._with_connection(lambda connection: self._write(connection, name, value), type_only)

    def remove(self, name: str) -> bool:
        return self._with_connection(lambda connection: self._remove(connection, name))

    def names(self) -> Mapping[str, float | None]:
        return self._with_connection(_names)

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
            return failed(not_text_fault(name), self.label)
        except StoreFault as fault:  # an item may have its own lock
            return failed(fault, self.label)

    def _secret(self, collection: "Collection", item: "Item") -> bytes:
        from secretstorage import LockedException

        item.session = _session(collection)
        try:
            return item.get_secret()
        except LockedException:  # an item may have its own lock
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
        # Another program may have written it with other attributes. `read` uses the first item.
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
            raise _no_collection("acp-launch cannot ask you to create one")
        try:
            return create_collection(connection, "Default", "default")
        except PromptDismissedException:
            raise self._dismissed(_no_collection("the dialog that creates one needs a display")) from None

    def _unlock(self, thing: "Collection | Item") -> None:
        """Unlock it. The desktop shows its dialog, if a user can answer it."""
        if not thing.is_locked():
            return
        if not self._interactive:
            raise _locked("and acp-launch cannot ask you to unlock it")
        if thing.unlock():
            raise self._dismissed(_locked("and its dialog needs a display"))
        if thing.is_locked():
            raise _locked("and was not unlocked")

    def _dismissed(self, unseen: StoreFault) -> StoreFault:
        """Return the fault for a dialog that ended without an answer.

        The service does not say why. With a display the user cancelled it; without one it was never shown, which is
        `unseen`.
        """
        if not (self._environ.get("DISPLAY") or self._environ.get("WAYLAND_DISPLAY")):
            return unseen
        return StoreFault("denied", "the dialog of the desktop keyring was cancelled", fix="try again, and answer it")

    def _with_connection(self, work: Callable[[Any], T], tell: Callable[[BaseException], str] = sentence) -> T:
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
            return _locked("and was not unlocked")
        if isinstance(error, PromptDismissedException):
            return self._dismissed(_locked("and its dialog needs a display"))
        return unavailable(error, told)


def _default(connection: Any) -> "Collection | None":
    """Return the default collection, or None if the desktop has none. Never creates one."""
    from secretstorage import Collection, ItemNotFoundException

    try:
        return Collection(connection)
    except ItemNotFoundException:
        return None


def _session(collection: "Collection") -> Any:
    """Return the one session of this connection. Agreeing on its key is the slow part."""
    from secretstorage.util import open_session

    if collection.session is None:
        collection.session = open_session(collection.connection)
    return collection.session


def _search(collection: "Collection", name: str) -> Iterator["Item"]:
    return collection.search_items({"service": SERVICE, "username": name})


def _names(connection: Any) -> dict[str, float | None]:
    """Return the names and times, which can be read while everything is locked."""
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
