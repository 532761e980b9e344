"""
The choice of a keyring backend.

The user's own settings come first, then the user's settings for the keyring library, then the platform's default.
Nothing is discovered, and a backend that is merely installed is never used.

A plaintext backend is used only if our own settings name it: the other two places are shared with tools for which that
may be good enough.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from acp_launch.secret.isolate import USE_A_FILE, sentence
from acp_launch.secret.value import StoreFault
from acp_launch.settings.load import grounds, lies_in
from acp_launch.settings.model import KeyringSettings

SECRET_SERVICE = "keyring.backends.SecretService.Keyring"
MACOS = "keyring.backends.macOS.Keyring"
WINDOWS = "keyring.backends.Windows.WinVaultKeyring"
VARIABLE = "PYTHON_KEYRING_BACKEND"
_BY_PLATFORM = {"darwin": MACOS, "win32": WINDOWS}
_TITLES = {SECRET_SERVICE: "Secret Service", MACOS: "macOS Keychain", WINDOWS: "Windows Credential Manager"}
_PLAINTEXT = ("plaintext", "cleartext", "unencrypted", "insecure")
_NO_PLACE = {
    "keyring.backends.null.Keyring": "turns keyrings off",
    "keyring.backends.fail.Keyring": "always fails",
    "keyring.backends.chainer.ChainerBackend": "tries all others in turn, so the place of a secret is unknown",
}


class BackendChoice(Struct, frozen=True):
    name: str  # the full name of a class
    place: str = ""  # where the user chose it; empty if the platform did
    undo: str = ""  # how to undo that choice
    folder: str = ""  # a further directory for Python's import
    ours: bool = False

    @property
    def label(self) -> str:
        return f"keyring ({_TITLES.get(self.name, self.name)})"

    @property
    def other_choice(self) -> str:
        return f"{self.undo}, or name another one there" if self.undo else USE_A_FILE


def choose(settings: KeyringSettings, environ: Mapping[str, str], *, platform: str = sys.platform) -> BackendChoice:
    """Choose the backend.

    Raises:
        StoreFault: the keyring library's configuration cannot be read.
    """
    if settings.backend:
        place = "secrets.keyring.backend in your settings"
        return BackendChoice(settings.backend, place, f"remove {place}", ours=True)
    if name := environ.get(VARIABLE):
        return BackendChoice(name, VARIABLE, f"unset {VARIABLE}")
    root = config_root(environ, platform=platform)
    if root and _is_projects(root):
        root = None  # a project must not choose which code runs
    chosen = _configured(root / "keyringrc.cfg") if root else None
    return chosen or BackendChoice(_BY_PLATFORM.get(platform, SECRET_SERVICE))


def config_root(environ: Mapping[str, str], *, platform: str = sys.platform) -> Path | None:
    """Return the directory of the keyring library's configuration.

    Like keyring.util.platform_.config_root, which costs the import of the whole library. Unlike it, relative paths do
    not count (the XDG rule): a project that contains the current directory must not choose which code runs.
    """
    if platform == "win32":
        data = _absolute(environ.get("LOCALAPPDATA")) or _absolute(environ.get("ProgramData"))
        return data and data / "Python Keyring"
    home = _absolute(environ.get("HOME")) or _absolute(os.path.expanduser("~"))  # noqa: PTH111 - it does not raise
    root = _absolute(environ.get("XDG_CONFIG_HOME")) or (home and home / ".config")
    return root and root / "python_keyring"


def _is_projects(root: Path) -> bool:
    """Whether `root` lies in a project around the current directory."""
    try:
        here = Path.cwd()
    except OSError:  # the current directory was removed
        return False
    return lies_in(root, grounds(here))


def _absolute(written: str | None) -> Path | None:
    return Path(written) if written and Path(written).is_absolute() else None


def _configured(path: Path) -> BackendChoice | None:
    """Return the choice of keyringrc.cfg, or None if there is no such file or it does not name a backend."""
    if not path.is_file():
        return None
    from configparser import Error, RawConfigParser

    config = RawConfigParser()
    try:
        config.read_string(path.read_text(encoding="utf-8"))
        name = config.get("backend", "default-keyring", fallback="").strip()
        folder = config.get("backend", "keyring-path", fallback="").strip()
        folder = folder and str(path.parent / Path(folder).expanduser())
    except (OSError, UnicodeError, Error, RuntimeError) as error:  # RuntimeError: the home of an unknown user
        reason = f"cannot read {path}, the keyring library's configuration ({type(error).__name__})"
        raise StoreFault("unavailable", reason, fix=f"correct {path}, or remove it") from None
    return BackendChoice(name, str(path), f"remove default-keyring from {path}", folder) if name else None


def load(choice: BackendChoice) -> Any:
    """Create the backend. Call this only within `without_prompts`.

    Raises:
        StoreFault: acp-launch refuses the backend, or it does not exist, or it does not work on this machine.
    """
    _refuse(choice, [choice.name])
    backend = _imported(choice)
    # Check the class too: a name can be an alias, and the class a subclass of a refused one.
    _refuse(choice, [_described(base) for base in backend.__mro__])
    _ = backend.priority  # raises, with the reason, if it cannot be used here
    return backend()


def _imported(choice: BackendChoice) -> Any:
    from importlib import import_module

    module, _, name = choice.name.rpartition(".")
    if choice.folder and choice.folder not in sys.path:
        sys.path.insert(0, choice.folder)  # stays, as in the library: a backend may import more when it works
    try:
        found = getattr(import_module(module), name, None)
    except (ImportError, ValueError) as error:  # ValueError: the name has no module
        raise _unusable(choice, f"cannot be imported: {sentence(error)}") from None
    from keyring.backend import KeyringBackend

    if not (isinstance(found, type) and issubclass(found, KeyringBackend)):
        raise _unusable(
            choice, "does not exist: there is no such class" if found is None else "is not a keyring backend"
        )
    return found


def _refuse(choice: BackendChoice, names: Iterable[str]) -> None:
    for name in names:
        if name in _NO_PLACE:
            raise _unusable(choice, _NO_PLACE[name])
        if not choice.ours and any(word in name.lower() for word in _PLAINTEXT):
            allow = f'or allow it in config.yaml: "secrets: {{keyring: {{backend: {choice.name}}}}}"'
            raise _unusable(choice, "stores secrets in plain text", fix=f"{choice.undo}, {allow}")


def _unusable(choice: BackendChoice, why: str, *, fix: str = "") -> StoreFault:
    chosen = f" (chosen by {choice.place})" if choice.place else ""
    return StoreFault("unavailable", f"the keyring backend {choice.name}{chosen} {why}", fix=fix or choice.other_choice)


def _described(base: type) -> str:
    """Return the full name of a class. File backends also have a scheme: "no encryption" or one that encrypts."""
    scheme = str(getattr(base, "scheme", ""))
    return f"{base.__module__}.{base.__qualname__}" + (" plaintext" if scheme.startswith("no enc") else "")
