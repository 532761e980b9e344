"""
One keyring backend, chosen on purpose: by the user's own settings, else by the user's settings for the keyring library,
else by the platform. Nothing is discovered, and what is merely installed is never used.

A plaintext backend is used only when our own settings name it: the other two places are shared with tools for which
that may be good enough.
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
    "keyring.backends.fail.Keyring": "only ever fails",
    "keyring.backends.chainer.ChainerBackend": "tries all others in turn, and nobody can tell where a secret ends up",
}


class Choice(Struct, frozen=True):
    name: str  # of a class, in full
    place: str = ""  # where a person chose it; empty when the platform did
    undo: str = ""  # how to choose nothing there
    folder: str = ""  # where Python shall look for it, too
    ours: bool = False

    @property
    def label(self) -> str:
        return f"keyring ({_TITLES.get(self.name, self.name)})"

    @property
    def way_out(self) -> str:
        return f"{self.undo}, or name another one there" if self.undo else USE_A_FILE


def choose(settings: KeyringSettings, environ: Mapping[str, str], *, platform: str = sys.platform) -> Choice:
    """
    Raises:
        StoreFault: the keyring library's configuration cannot be read.
    """
    if settings.backend:
        place = "secrets.keyring.backend in your settings"
        return Choice(settings.backend, place, f"remove {place}", ours=True)
    if name := environ.get(VARIABLE):
        return Choice(name, VARIABLE, f"unset {VARIABLE}")
    root = config_root(environ, platform=platform)
    if root and _is_projects(root):
        root = None  # a variable that leads into the project, which shall not say which code is run
    chosen = _configured(root / "keyringrc.cfg") if root else None
    return chosen or Choice(_BY_PLATFORM.get(platform, SECRET_SERVICE))


def config_root(environ: Mapping[str, str], *, platform: str = sys.platform) -> Path | None:
    """
    As keyring.util.platform_.config_root, which costs the import of the whole library. But what is not absolute does
    not count (the XDG rule): a project that we happen to be in shall not say which code is run.
    """
    if platform == "win32":
        data = _absolute(environ.get("LOCALAPPDATA")) or _absolute(environ.get("ProgramData"))
        return data and data / "Python Keyring"
    home = _absolute(environ.get("HOME")) or _absolute(os.path.expanduser("~"))  # noqa: PTH111 - which gives up quietly
    root = _absolute(environ.get("XDG_CONFIG_HOME")) or (home and home / ".config")
    return root and root / "python_keyring"


def _is_projects(root: Path) -> bool:
    """Whether it lies in a project around the directory we are in."""
    try:
        here = Path.cwd()
    except OSError:  # it is gone
        return False
    return lies_in(root, grounds(here))


def _absolute(written: str | None) -> Path | None:
    return Path(written) if written and Path(written).is_absolute() else None


def _configured(path: Path) -> Choice | None:
    """What keyringrc.cfg says; None when there is none, or when it names no backend."""
    if not path.is_file():
        return None
    from configparser import Error, RawConfigParser

    config = RawConfigParser()
    try:
        config.read_string(path.read_text(encoding="utf-8"))
        name = config.get("backend", "default-keyring", fallback="").strip()
        folder = config.get("backend", "keyring-path", fallback="").strip()
        folder = folder and str(path.parent / Path(folder).expanduser())
    except (OSError, UnicodeError, Error, RuntimeError) as error:  # RuntimeError: the home of nobody
        reason = f"{path}, the keyring library's configuration, cannot be read ({type(error).__name__})"
        raise StoreFault("unavailable", reason, fix=f"correct {path}, or remove it") from None
    return Choice(name, str(path), f"remove default-keyring from {path}", folder) if name else None


def load(choice: Choice) -> Any:
    """The one backend, made. To be called where nobody can be asked (`quiet`).

    Raises:
        StoreFault: it is one we refuse, or there is no such backend, or not on this machine.
    """
    _refuse(choice, [choice.name])
    backend = _imported(choice)
    # Also by what it really is: a name can be an alias, and its class a child of one that is refused.
    _refuse(choice, [_described(base) for base in backend.__mro__])
    _ = backend.priority  # raises, with the reason, what is not usable here
    return backend()


def _imported(choice: Choice) -> Any:
    from importlib import import_module

    module, _, name = choice.name.rpartition(".")
    if choice.folder and choice.folder not in sys.path:
        sys.path.insert(0, choice.folder)  # for good, as the library does: a backend may import more when it works
    try:
        found = getattr(import_module(module), name, None)
    except (ImportError, ValueError) as error:  # ValueError: no module in the name at all
        raise _unusable(choice, f"cannot be imported: {sentence(error)}") from None
    from keyring.backend import KeyringBackend

    if not (isinstance(found, type) and issubclass(found, KeyringBackend)):
        raise _unusable(choice, "does not exist: there is no such class" if found is None else "is no keyring backend")
    return found


def _refuse(choice: Choice, names: Iterable[str]) -> None:
    for name in names:
        if name in _NO_PLACE:
            raise _unusable(choice, _NO_PLACE[name])
        if not choice.ours and any(word in name.lower() for word in _PLAINTEXT):
            allow = f'or allow it in config.yaml: "secrets: {{keyring: {{backend: {choice.name}}}}}"'
            raise _unusable(choice, "would keep secrets in plain text", fix=f"{choice.undo}, {allow}")


def _unusable(choice: Choice, why: str, *, fix: str = "") -> StoreFault:
    chosen = f" (chosen by {choice.place})" if choice.place else ""
    return StoreFault("unavailable", f"the keyring backend {choice.name}{chosen} {why}", fix=fix or choice.way_out)


def _described(base: type) -> str:
    """Its full name; file backends also have a scheme, "no encryption" or one that encrypts."""
    scheme = str(getattr(base, "scheme", ""))
    return f"{base.__module__}.{base.__qualname__}" + (" plaintext" if scheme.startswith("no enc") else "")
