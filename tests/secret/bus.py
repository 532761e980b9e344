"""A D-Bus session of its own, with a real Secret Service (GNOME Keyring): the user's own keyring is not touched."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.patience import PATIENCE

PASSWORD = b"\n"  # gnome-keyring-daemon makes no keyring when it is given nothing at all
REQUIRED = os.environ.get("ACP_LAUNCH_TEST_KEYRING") == "required"  # read now: tests run without ACP_* variables

# No folders with services: nothing is started that we did not start.
_CONFIGURATION = """\
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>
  </policy>
</busconfig>
"""


class Desktop:
    """A running bus in a directory of its own; a keyring joins with `start_keyring`."""

    def __init__(self, directory: Path, running: ExitStack) -> None:
        self._directory = directory
        self._running = running
        self.socket = directory / "bus"
        self.environ = {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={self.socket}"}
        configuration = directory / "session.conf"
        configuration.write_text(_CONFIGURATION.format(socket=self.socket))
        command = ["dbus-daemon", f"--config-file={configuration}", "--nofork", "--nopidfile", "--print-address=1"]
        self.bus = self._start(command, stdout=subprocess.PIPE)
        assert self.bus.stdout is not None
        assert self.bus.stdout.readline(), (directory / "stderr").read_text()  # it prints when it listens

    def start_keyring(self, *, unlocked: bool = True) -> subprocess.Popen[bytes]:
        """GNOME Keyring; `unlocked` with a default collection, else without any."""
        for name in ("home", "runtime"):
            (self._directory / name).mkdir(mode=0o700, exist_ok=True)
        command = ["gnome-keyring-daemon", "--foreground", "--components=secrets", *(["--unlock"] if unlocked else [])]
        with self._arrival("org.freedesktop.secrets"):
            keyring = self._start(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            assert keyring.stdin is not None
            keyring.stdin.write(PASSWORD)
            keyring.stdin.close()
        return keyring

    def connection(self) -> Any:
        """jeepney's; close it."""
        from jeepney.io.blocking import open_dbus_connection  # type: ignore[import-untyped]

        return open_dbus_connection(self.environ["DBUS_SESSION_BUS_ADDRESS"])

    @contextmanager
    def _arrival(self, name: str) -> Iterator[None]:
        """At the end `name` has an owner on the bus."""
        from jeepney import MatchRule, message_bus  # type: ignore[import-untyped]
        from jeepney.io.blocking import Proxy

        rule = MatchRule(type="signal", interface="org.freedesktop.DBus", member="NameOwnerChanged")
        rule.add_arg_condition(0, name)
        with closing(self.connection()) as connection, connection.filter(rule) as arrivals:
            Proxy(message_bus, connection, timeout=PATIENCE).AddMatch(rule)
            yield
            connection.recv_until_filtered(arrivals, timeout=PATIENCE)

    def _start(self, command: list[str], **streams: int) -> subprocess.Popen[bytes]:
        home, runtime = str(self._directory / "home"), str(self._directory / "runtime")
        environ = {"PATH": os.environ["PATH"], "HOME": home, "XDG_RUNTIME_DIR": runtime, "XDG_DATA_HOME": home}
        with (self._directory / "stderr").open("ab") as stderr:
            process = subprocess.Popen(command, env=environ | self.environ, stderr=stderr, **streams)  # type: ignore[call-overload]
        self._running.callback(end, process)
        return process  # type: ignore[no-any-return]


def end(process: subprocess.Popen[bytes]) -> None:
    """By its id, and waited for; twice does no harm."""
    process.kill()
    process.wait(PATIENCE)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def missing_programs() -> list[str]:
    return [name for name in ("dbus-daemon", "gnome-keyring-daemon") if shutil.which(name) is None]


@contextmanager
def session_bus() -> Iterator[Desktop]:
    """A bus; skips the test where there are no programs to make one, unless ACP_LAUNCH_TEST_KEYRING is `required`."""
    missing = missing_programs()
    if missing and not REQUIRED:
        pytest.skip(f"{' and '.join(missing)} not installed")
    assert not missing, f"ACP_LAUNCH_TEST_KEYRING=required, and {' and '.join(missing)} not installed"
    # A short path: the address of a unix socket has room for 107 bytes.
    with TemporaryDirectory(prefix="bus-") as directory, ExitStack() as running:
        yield Desktop(Path(directory), running)
