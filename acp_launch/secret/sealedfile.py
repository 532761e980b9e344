"""
The sealed file as a store, for machines without a keyring.

Readers need no lock: a file is replaced whole. Writers hold one from reading to replacing, so that ten at once lose
nothing. Whoever cannot open what is there cannot write either: nothing is ever replaced that was not understood.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shlex import quote

from acp_launch import private
from acp_launch.secret import sealed
from acp_launch.secret.boundary import storable
from acp_launch.secret.faults import explained
from acp_launch.secret.lock import locked
from acp_launch.secret.outcome import Outcome, StoreFault
from acp_launch.secret.sealed import MAX_FILE, Broken, Entry, Sealed
from acp_launch.secret.unlock import KeyFile, Opener, Passphrase
from acp_launch.secret.value import Secret
from acp_launch.settings.model import FileSettings

NAME = "secrets.sealed"
Entries = dict[str, Entry]


def open_file(
    settings: FileSettings, config: Path, environ: Mapping[str, str], ask: Callable[[str], str | None]
) -> "SealedFile":
    """The store the settings describe; relative paths begin at `config`. `ask` gives None when there is nobody to ask.

    Raises:
        StoreFault: the settings contradict themselves.
    """
    path = _place(config, settings.path or NAME)
    if settings.key_file is None:
        return SealedFile(path, Passphrase(path, environ, ask))
    key_file = _place(config, settings.key_file)
    if key_file == path:
        reason = f"{path} is named as the sealed file and as its key file"
        raise StoreFault("unavailable", reason, fix="name another secrets.file.key_file in config.yaml")
    return SealedFile(path, KeyFile(path, key_file))


def _place(config: Path, written: str) -> Path:
    try:
        return config / Path(written).expanduser()
    except RuntimeError:
        reason = f'nobody knows what "~" is in {written}'
        raise StoreFault("unavailable", reason, fix="write the whole path in config.yaml") from None


class SealedFile:
    """A Store. Holds the key it derived, and nothing of the file."""

    def __init__(self, path: Path, opener: Opener) -> None:
        self._path = path
        self._opener = opener

    @property
    def label(self) -> str:
        return f"sealed file ({self._path})"

    def prepare(self, *, writing: bool = False) -> None:
        """Get the passphrase. A new one is asked for only when `writing`: there is nothing to read without a file."""
        if self._opener.is_at_hand:
            return
        there = self._sealed()
        if there is not None or writing:
            self._opener.prepare(there)

    def read(self, names: Sequence[str]) -> dict[str, Outcome]:
        entries = self._entries(self._sealed())
        return {name: self._outcome(entries.get(name)) for name in names}

    def write(self, name: str, secret: Secret) -> None:
        storable(secret)
        with self._alone():
            there = self._sealed()
            self._replace(there, self._entries(there) | {name: Entry(secret, time.time())})

    def remove(self, name: str) -> bool:
        if self._sealed() is None:
            return False
        with self._alone():
            there = self._sealed()
            entries = self._entries(there)
            if entries.pop(name, None) is None:
                return False
            self._replace(there, entries)
        return True

    def names(self) -> dict[str, float | None] | None:
        there = self._sealed()
        if there is not None and not self._opener.is_at_hand:
            return None
        return {name: entry.set for name, entry in self._entries(there).items()}

    def _outcome(self, entry: Entry | None) -> Outcome:
        return Outcome("found", self.label, entry.value) if entry else Outcome("missing", self.label)

    def _sealed(self) -> Sealed | None:
        with explained(self._path, "read"):
            found = private.read_bounded(self._path, MAX_FILE)
        with self._understood():
            return sealed.parse(found[0]) if found else None

    def _entries(self, there: Sealed | None) -> Entries:
        if there is None:
            return {}
        key = self._opener.key(there)
        with self._understood():
            return sealed.unseal(there, key)

    def _replace(self, there: Sealed | None, entries: Entries) -> None:
        content = sealed.seal(entries, self._opener.key(there) if there else self._opener.first_key())
        if len(content) > MAX_FILE:
            reason = f"{self._path} would be larger than {MAX_FILE // 1024**2} MiB"
            raise StoreFault("too large", reason, fix="remove what is not needed any more: acp-launch secret rm NAME")
        with explained(self._path, "written"):
            private.replace(self._path, content)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the file that links lead to."""
        target = private.real(self._path)
        lock = target.with_name(f"{target.name}.lock")
        with ExitStack() as held:
            with explained(lock, "locked"):
                private.make_private(target.parent)
                held.enter_context(locked(lock))
            yield

    @contextmanager
    def _understood(self) -> Iterator[None]:
        try:
            yield
        except Broken as broken:
            what, fix = _SAID[broken.kind]
            raise StoreFault("unavailable", f"{self._path} {what}", fix=fix.format(quote(str(self._path)))) from None


_ANEW = "put a copy of it back, or begin anew: mv {0} {0}.damaged"
_SAID: dict[sealed.Kind, tuple[str, str]] = {
    "foreign": ("is not a sealed file", "name another secrets.file.path in config.yaml, or move it away"),
    "cut off": ("is cut off: its end is missing", _ANEW),
    "changed": ("is not what was written: it was changed or damaged", _ANEW),
    "newer": ("was written by a newer acp-launch", "upgrade acp-launch"),
    "wrong key": ("is sealed with another key", _ANEW),
}
