"""The Windows Credential Manager: the library's real WinVaultKeyring, over a credential store in memory."""

import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from acp_launch.secret.backend import WINDOWS
from acp_launch.secret.keyring import open_keyring
from acp_launch.secret.value import MAX_VALUE, Outcome, Secret, Store
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
    import_module("keyring.backends.Windows")  # finds the above; nobody else may
    yield win32cred
    del sys.modules["keyring.backends.Windows"]


@pytest.fixture
def vault(credentials: Credentials) -> Store:
    return open_keyring(KeyringSettings(backend=WINDOWS), {}, interactive=True)


@pytest.mark.parametrize(
    "text",
    ["x" * 1280, "x" * 1281, "🔑" * 640, "🔑" * 641, "żółć\n" * 1000, "\ufefftoken", "x" * MAX_VALUE],
    ids=["1280", "1281", "1280 units", "1282 units", "lines", "byte order mark", "64 KiB"],
)
def test_a_value_of_any_size_comes_back(vault: Store, text: str) -> None:
    vault.write("github", Secret("before"))
    vault.write("other", Secret("beside"))
    vault.write("github", Secret(text))
    assert vault.read(["github", "other", "never"]) == {
        "github": Outcome("found", LABEL, Secret(text)),
        "other": Outcome("found", LABEL, Secret("beside")),
        "never": Outcome("missing", LABEL),
    }


def test_removing_a_long_value_leaves_no_part_of_it(vault: Store, credentials: Credentials) -> None:
    vault.write("other", Secret("beside"))
    before = {name: kept["UserName"] for name, kept in credentials.kept.items()}
    vault.write("github", Secret("x" * 5000))
    assert {kept["UserName"] for kept in credentials.kept.values()} > {"github", "github#a1", "github#a4"}
    assert vault.remove("github") is True
    assert vault.remove("github") is False
    assert {kept["UserName"] for kept in credentials.kept.values()} == set(before.values())


def test_a_damaged_value_is_a_problem_of_its_name_only(vault: Store, credentials: Credentials) -> None:
    vault.write("github", Secret("x" * 5000))
    vault.write("other", Secret("beside"))
    for name, kept in list(credentials.kept.items()):
        if kept["UserName"] == "github#a2":
            del credentials.kept[name]
    assert vault.read(["github", "other"]) == {
        "github": Outcome(
            "unavailable",
            LABEL,
            None,
            "it is kept in several parts, and they do not fit together",
            "acp-launch secret set github",
        ),
        "other": Outcome("found", LABEL, Secret("beside")),
    }
    vault.write("github", Secret("y" * 5000))
    assert vault.read(["github"])["github"].secret == Secret("y" * 5000)
