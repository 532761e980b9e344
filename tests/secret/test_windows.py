"""The Windows Credential Manager: the library's real WinVaultKeyring, over a credential store in memory."""

import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from acp_launch.secret.keyring import WINDOWS, open_keyring
from acp_launch.secret.value import Outcome, Secret, Store, StoreFault
from acp_launch.settings.model import KeyringSettings

LABEL = "keyring (Windows Credential Manager)"
LARGEST = 2560  # bytes: CRED_MAX_CREDENTIAL_BLOB_SIZE


class Win32Error(Exception):
    """pywintypes.error."""

    def __init__(self, winerror: int, funcname: str, strerror: str) -> None:
        super().__init__(winerror, funcname, strerror)
        self.winerror = winerror
        self.funcname = funcname


class Credentials(ModuleType):
    """What win32cred does with its three calls, and nothing else."""

    CRED_TYPE_GENERIC = 1
    CRED_PERSIST_ENTERPRISE = 3

    def __init__(self) -> None:
        super().__init__("win32cred")
        self.kept: dict[str, dict[str, Any]] = {}

    def CredRead(self, *, Type: int, TargetName: str) -> dict[str, Any]:  # noqa: N802, N803 - Windows' names
        if TargetName not in self.kept:
            raise Win32Error(1168, "CredRead", "Element not found.")
        return dict(self.kept[TargetName])

    def CredWrite(self, credential: dict[str, Any], flags: int) -> None:  # noqa: N802
        blob = credential["CredentialBlob"].encode("utf-16-le")
        if len(blob) > LARGEST:
            raise Win32Error(1783, "CredWrite", "The stub received bad data.")
        self.kept[credential["TargetName"]] = credential | {"CredentialBlob": blob}

    def CredDelete(self, *, Type: int, TargetName: str) -> None:  # noqa: N802, N803
        if self.kept.pop(TargetName, None) is None:
            raise Win32Error(1168, "CredDelete", "Element not found.")


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> Iterator[Credentials]:
    win32cred, pywintypes = Credentials(), ModuleType("pywintypes")
    pywintypes.error = Win32Error  # type: ignore[attr-defined]
    package = ModuleType("pywin32")
    package.pywintypes, package.win32cred = pywintypes, win32cred  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "win32ctypes", ModuleType("win32ctypes"))
    monkeypatch.setitem(sys.modules, "win32ctypes.pywin32", package)
    monkeypatch.delitem(sys.modules, "keyring.backends.Windows", raising=False)
    import_module("keyring.backends.Windows")  # finds the above; no other module may
    yield win32cred
    del sys.modules["keyring.backends.Windows"]


@pytest.fixture
def vault(credentials: Credentials) -> Store:
    return open_keyring(KeyringSettings(backend=WINDOWS), {}, interactive=True)


@pytest.mark.parametrize("text", ["", "x" * 1280, "🔑" * 640, "żółć\n" * 256], ids=["empty", "1280", "astral", "lines"])
def test_a_value_that_fits_comes_back(vault: Store, text: str) -> None:
    vault.write("github", Secret("before"))
    vault.write("other", Secret("beside"))
    vault.write("github", Secret(text))
    assert vault.read(["github", "other", "never"]) == {
        "github": Outcome("found", LABEL, Secret(text)),
        "other": Outcome("found", LABEL, Secret("beside")),
        "never": Outcome("missing", LABEL),
    }
    assert vault.remove("github") is True
    assert vault.remove("github") is False


@pytest.mark.parametrize("text", ["x" * 1281, "🔑" * 640 + "x"], ids=["1281", "astral characters count twice"])
def test_a_value_that_is_too_long_is_refused_with_the_limit_and_leaves_the_old_one(vault: Store, text: str) -> None:
    vault.write("github", Secret("before"))
    with pytest.raises(StoreFault) as raised:
        vault.write("github", Secret(text))
    assert (raised.value.state, raised.value.reason, raised.value.fix) == (
        "too large",
        "the value has 1,281 UTF-16 units; the Windows Credential Manager keeps at most 1,280",
        "keep secrets in a sealed file instead: acp-launch config set secrets.store file",
    )
    assert vault.read(["github"])["github"].secret == Secret("before")


@pytest.mark.parametrize("mark", ["\ufeff", "\ufffe"])
def test_a_value_that_would_come_back_changed_is_refused(vault: Store, mark: str) -> None:
    """The library decodes as UTF-16, which drops the first mark and turns everything after the second."""
    with pytest.raises(StoreFault, match="begins with a byte order mark") as raised:
        vault.write("github", Secret(f"{mark}token"))
    assert raised.value.fix.startswith("remove the mark, or keep secrets in a sealed file")
    assert vault.read(["github"])["github"].state == "missing"
