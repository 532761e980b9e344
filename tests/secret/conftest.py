"""A desktop with a real keyring for the tests that ask for one, and the keyring store on it."""

import os
from collections.abc import Iterator
from typing import Literal

import pytest

from acp_launch.secret.keyring import Keyring
from acp_launch.secret.sealed import Kdf
from acp_launch.secret.value import Store
from acp_launch.settings.model import KeyringSettings
from tests.secret.bus import Desktop, session_bus


@pytest.fixture
def cheap_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """New sealed files get a key that costs nothing to derive."""

    def new_kdf(source: Literal["passphrase", "key file"]) -> Kdf:
        return Kdf(source, os.urandom(16), n=2)

    monkeypatch.setattr("acp_launch.secret.sealedfile.new_kdf", new_kdf)


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desktop]:
    """A session without any keyring. The keyring library finds it in this process's environment."""
    with session_bus() as desktop:
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", desktop.environ["DBUS_SESSION_BUS_ADDRESS"])
        yield desktop


@pytest.fixture
def desktop(bus: Desktop) -> Desktop:
    """A session with an unlocked GNOME Keyring."""
    bus.start_keyring()
    return bus


@pytest.fixture
def keyring(desktop: Desktop) -> Store:
    """The store of a user without any setup, who cannot answer a dialog."""
    return Keyring(KeyringSettings(), desktop.environ, interactive=False)
