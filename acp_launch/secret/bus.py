"""The way to the desktop's Secret Service over D-Bus, and what to say when it leads nowhere."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acp_launch.secret.boundary import USE_A_FILE, sentence
from acp_launch.secret.outcome import StoreFault

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
