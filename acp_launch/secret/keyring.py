"""
The `keyring` store: the desktop's own keyring, service `acp-launch`, one item for each secret.

The user's own settings choose it, then the user's settings for the keyring library, then the platform. Nothing is
discovered, and a backend that is merely installed is never used. A plaintext backend is used only if our own settings
name it: the other two places are shared with tools for which that may be good enough.

A store is a backend of the keyring library, which takes one call for each secret and cannot list its items; or our own
one for the Secret Service. Importing this module imports neither, and creating a store reads nothing.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from configparser import Error, RawConfigParser
from contextlib import closing, contextmanager
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

from acp_launch.regex import regex
from acp_launch.secret.isolate import (
    SERVICE,
    USE_A_FILE,
    ItemFault,
    attempt,
    error_text,
    found,
    sentence,
    storable_text,
    type_only,
    without_prompts,
)
from acp_launch.secret.value import Outcome, Secret, StoreFault
from acp_launch.settings.load import grounds, lies_in
from acp_launch.settings.model import KeyringSettings

SECRET_SERVICE = "keyring.backends.SecretService.Keyring"
MACOS = "keyring.backends.macOS.Keyring"
VARIABLE = "PYTHON_KEYRING_BACKEND"
_BY_PLATFORM = {"darwin": MACOS}
_TITLES = {SECRET_SERVICE: "Secret Service", MACOS: "macOS Keychain"}
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
    root = config_root(environ)
    if root and _is_projects(root):
        root = None  # a project must not choose which code runs
    chosen = _configured(root / "keyringrc.cfg") if root else None
    return chosen or BackendChoice(_BY_PLATFORM.get(platform, SECRET_SERVICE))


def config_root(environ: Mapping[str, str]) -> Path | None:
    """Return the directory of the keyring library's configuration.

    Like keyring.util.platform_.config_root, which costs the import of the whole library. Unlike it, relative paths do
    not count (the XDG rule): a project that contains the current directory must not choose which code runs.
    """
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


# What the library's exceptions hold in their text: the status of macOS's Security framework, or a sentence.
_LOCKED = regex(r"-25308|interaction (is )?not allowed", re.I)  # without a user at the screen, as over SSH
_DENIED = regex(r"(?<!\d)-128(?!\d)|cancell?ed|denied|dismissed", re.I)  # the user pressed "Deny"

Tell = Callable[[BaseException], str]  # returns the part of an exception that may be shown


class Keyring:
    """The chosen backend, each call with its exceptions translated.

    It is chosen at the first call, because the choice may have to read a file.
    """

    def __init__(self, settings: KeyringSettings, environ: Mapping[str, str], *, interactive: bool) -> None:
        """`interactive`: a user can answer a dialog of the Secret Service. Other keyrings cannot be told."""
        self._settings, self._environ = settings, environ
        self._may_ask = interactive and bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))

    @cached_property
    def _choice(self) -> BackendChoice:
        return choose(self._settings, self._environ)

    @property
    def label(self) -> str:
        try:
            return self._choice.label
        except StoreFault:  # the next read or write reports it
            return "keyring"

    def prepare(self, *, writing: bool = False) -> None:
        """Do nothing: if the user must be asked, the desktop does."""

    def read(self, names: Sequence[str]) -> Mapping[str, Outcome]:
        with self._backend() as backend:
            if self._choice.name == SECRET_SERVICE:
                attempt(lambda: backend.fetch(SERVICE, names), self._fault)
            return {name: self._look(backend, name) for name in names}

    def write(self, name: str, secret: Secret) -> None:
        text = storable_text(secret)
        with self._backend() as backend:
            attempt(lambda: backend.set_password(SERVICE, name, text), lambda error: self._fault(error, type_only))

    def remove(self, name: str) -> bool:
        from keyring.errors import PasswordDeleteError

        def work() -> bool:
            try:
                backend.delete_password(SERVICE, name)
            except (PasswordDeleteError, LookupError):  # "no such password" is one reason
                if backend.get_password(SERVICE, name) is None:
                    return False
                raise
            return True

        with self._backend() as backend:
            return attempt(work, self._fault)

    def names(self) -> Mapping[str, float | None] | None:
        """Fail if the backend cannot be used. Returns None, because the library has no call that lists."""
        with self._backend():
            return None

    def _look(self, backend: Any, name: str) -> Outcome:
        not_text = ItemFault("unavailable", "the stored value is not UTF-8 text", fix=f"acp-launch secret set {name}")
        try:
            text = attempt(
                lambda: backend.get_password(SERVICE, name),
                lambda error: not_text if isinstance(error, UnicodeError) else self._fault(error),
            )
        except ItemFault as fault:
            return Outcome(fault.state, self.label, None, fault.reason, fault.fix)
        if text is None:
            return Outcome("missing", self.label)
        if not isinstance(text, str):
            reason = f"the {self.label} gave {type(text).__name__} instead of text"
            return Outcome("unavailable", self.label, None, reason)
        return found(text, self.label)

    @contextmanager
    def _backend(self) -> Iterator[Any]:
        with without_prompts():
            if self._choice.name != SECRET_SERVICE:
                yield attempt(lambda: load(self._choice), self._fault)
                return
            absent = partial(self._fault, is_absent=True)
            desktop = attempt(_secretservice, absent)
            with closing(attempt(desktop.connect, absent)) as connection:
                yield attempt(lambda: desktop.SecretService(connection, may_ask=self._may_ask), self._fault)

    def _fault(self, error: BaseException, tell: Tell = sentence, *, is_absent: bool = False) -> StoreFault:
        from keyring.errors import KeyringError, KeyringLocked, PasswordDeleteError, PasswordSetError

        label, other_choice, told = self.label, self._choice.other_choice, tell(error)
        is_ours = isinstance(error, KeyringError) or type(error).__module__ == "secretstorage.exceptions"
        if isinstance(error, EOFError):
            reason = f"the {label} wants to ask for a password in the terminal, which acp-launch does not allow"
            return StoreFault("unavailable", reason, fix=other_choice)
        if is_ours and _DENIED.search(error_text(error)) and not _LOCKED.search(error_text(error)):
            return ItemFault("denied", f"the {label} denied access: {told}", fix="try again, and allow it when asked")
        if isinstance(error, KeyringLocked) or (is_ours and _LOCKED.search(error_text(error))):
            return StoreFault("locked", f"the {label} is locked: {told}", fix="unlock it, and try again")
        if isinstance(error, PasswordSetError | PasswordDeleteError):
            return StoreFault("denied", f"the {label} refused the change: {told}", fix=other_choice)
        reason = f"the {label} does not work here: {told}"
        return StoreFault("unavailable", reason, fix=other_choice, is_absent=is_absent)


def _secretservice() -> ModuleType:
    from acp_launch.secret import secretservice

    return secretservice
