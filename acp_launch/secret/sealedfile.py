"""
The `file` store, for machines without a keyring: a sealed file, with its passphrase or its key file.

`open_file` creates the `SealedFile` that the settings describe. Its key comes from a `KeySource`: a `Passphrase` or a
`KeyFile`, never both. Readers need no lock, because a file is replaced whole. Writers hold a lock from reading to
replacing, so that ten at once lose nothing. A file that cannot be opened is never replaced.
"""

import os
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Protocol

from acp_launch import private
from acp_launch.private import Unfit, locked
from acp_launch.secret import sealed
from acp_launch.secret.isolate import storable_text
from acp_launch.secret.sealed import MAX_FILE, Broken, Entry, Kdf, Key, Sealed, derive, new_kdf, opens
from acp_launch.secret.value import PASSPHRASE, Outcome, Secret, StoreFault
from acp_launch.settings.model import FileSettings


@contextmanager
def explained(path: Path, doing: str) -> Iterator[None]:
    """Turn an OSError or `Unfit` into a StoreFault; `doing` is the verb that failed for `path`: `read`."""
    try:
        yield
    except Unfit as unfit:
        raise StoreFault("unavailable", f"{path} {unfit}", fix="name another file in config.yaml") from None
    except OSError as error:
        reason = f"cannot {doing} {path}: {(error.strerror or str(error)).lower()}"
        fix = f"check the owner, the mode and the free space of {path.parent}"
        raise StoreFault("unavailable", reason, fix=fix) from error


MAX_TRIES = 3  # passphrases that are asked for, as sudo asks
MIN_PASSPHRASE_CHARS = 8  # NIST SP 800-63-3B, 5.1.1.2; scrypt only slows guessing down
LEAST_KEY, MOST_KEY = 32, 64 * 1024  # bytes of a key file; 32 is the length of the key


class KeySource(Protocol):
    @property
    def is_at_hand(self) -> bool:
        """Whether the key is available without asking the user."""

    def prepare(self, sealed: Sealed | None) -> None:
        """Ask the user, if needed; for a new passphrase if there is no file yet."""

    def key(self, sealed: Sealed) -> Key:
        """Return the key that opens `sealed`, derived once for each salt. Never asks."""

    def first_key(self) -> Key:
        """Return a key for a new file. Never asks."""


class Passphrase:
    """A passphrase from the environment, or else from the user."""

    def __init__(self, path: Path, environ: Mapping[str, str], ask: Callable[[str], str | None]) -> None:
        """Read the environment; an empty variable counts as unset. `path` is the sealed file, for the messages."""
        self._path = path
        self._ask = ask
        self._name = PASSPHRASE
        self._material = _bytes(environ.get(PASSPHRASE, ""))
        self._empty = f"; {PASSPHRASE} is set, but empty" if environ.get(PASSPHRASE) == "" else ""
        self._derive = cache(derive)  # which is slow on purpose

    @property
    def is_at_hand(self) -> bool:
        return bool(self._material)

    def prepare(self, sealed: Sealed | None) -> None:
        if self.is_at_hand:
            return
        self._name, said = "the passphrase", ""
        for tries in range(1, MAX_TRIES + 1):
            try:
                self._material = self._chosen(said) if sealed is None else self._unlock_known(sealed, said)
                return
            except StoreFault as fault:
                if fault.state != "denied" or tries == MAX_TRIES:
                    raise
                said = f"{fault.reason}\n"

    def key(self, sealed: Sealed) -> Key:
        key = self._derive(self._kdf(sealed), self._at_hand())
        if not opens(key, sealed):
            raise self._wrong()
        return key

    def first_key(self) -> Key:
        return self._derive(new_kdf("passphrase"), self._long_enough(self._at_hand()))

    def _kdf(self, sealed: Sealed) -> Kdf:
        if sealed.kdf.source == "passphrase":
            return sealed.kdf
        fix = "name it in config.yaml: secrets.file.key_file"
        raise StoreFault("locked", f"{self._path} needs a key file, and the settings name none", fix=fix)

    def _long_enough(self, material: bytes) -> bytes:
        if len(material.decode(errors="replace")) >= MIN_PASSPHRASE_CHARS:
            return material
        reason = f"{self._name} is too short: a new sealed file needs {MIN_PASSPHRASE_CHARS} characters or more"
        raise StoreFault("denied", reason, fix="choose a longer one; several words are easy to remember")

    def _at_hand(self) -> bytes:
        if not self._material:
            raise self._locked()
        return self._material

    def _unlock_known(self, sealed: Sealed, said: str) -> bytes:
        kdf = self._kdf(sealed)
        answer = self._answer(f"{said}Passphrase of {self._path}: ")
        if not opens(self._derive(kdf, answer), sealed):
            raise self._wrong()
        return answer

    def _chosen(self, said: str) -> bytes:
        said = said or f"{PASSPHRASE} or a key file (secrets.file.key_file) replaces this question.\n"
        prompt = f"{said}New passphrase for {self._path} ({MIN_PASSPHRASE_CHARS} characters or more): "
        chosen = self._long_enough(self._answer(prompt))
        if chosen != self._entered("Repeat it: "):
            raise StoreFault("denied", "the two passphrases differ", fix="try again")
        return chosen

    def _answer(self, prompt: str) -> bytes:
        if answer := self._entered(prompt):
            return answer
        raise StoreFault("locked", "no passphrase was entered", fix="try again")

    def _entered(self, prompt: str) -> bytes:
        answer = self._ask(prompt)
        if answer is None:
            raise self._locked()
        return _bytes(answer)

    def _locked(self) -> StoreFault:
        fix = f"export {PASSPHRASE}=..., or run this in a terminal"
        return StoreFault("locked", f"the sealed file {self._path} needs its passphrase{self._empty}", fix=fix)

    def _wrong(self) -> StoreFault:
        fix = f"export {PASSPHRASE}=... with the right one" if self._name == PASSPHRASE else "try again"
        return StoreFault("denied", f"{self._name} does not open {self._path}", fix=fix)


class KeyFile:
    """A file whose content is the key. Its last line end does not count: `echo` and editors add one."""

    def __init__(self, path: Path, key_file: Path) -> None:
        self._path = path
        self._key_file = key_file
        self._derive = cache(derive)

    is_at_hand = True

    def prepare(self, sealed: Sealed | None) -> None:
        """Do nothing: a key file needs no question."""

    def key(self, sealed: Sealed) -> Key:
        if sealed.kdf.source != "key file":
            fix = "remove secrets.file.key_file from config.yaml"
            raise StoreFault("locked", f"{self._path} needs a passphrase, not a key file", fix=fix)
        content = self._content()
        if content is None:
            reason = f"the key file {self._key_file} does not exist, and only it opens {self._path}"
            raise StoreFault("unavailable", reason, fix="restore it, or correct secrets.file.key_file in config.yaml")
        key = self._derive(sealed.kdf, content)
        if not opens(key, sealed):
            fix = "name the right one in config.yaml: secrets.file.key_file"
            raise StoreFault("denied", f"the key file {self._key_file} does not open {self._path}", fix=fix)
        return key

    def first_key(self) -> Key:
        content = self._content()
        if content is None:
            content = os.urandom(LEAST_KEY).hex().encode()
            with explained(self._key_file, "create"):
                private.make_private(self._key_file.parent)
                private.create(self._key_file, content + b"\n")
        return self._derive(new_kdf("key file"), content)

    def _content(self) -> bytes | None:
        with explained(self._key_file, "read"):
            found = private.read_bounded(self._key_file, MOST_KEY)
        if found is None:
            return None
        content, mode = found[0].rstrip(b"\r\n"), found[1]
        if mode & 0o077:
            reason = f"others on this machine can read or change the key file {self._key_file}"
            raise StoreFault("unavailable", reason, fix=f"chmod 600 {quote(str(self._key_file))}")
        if len(content) < LEAST_KEY:
            reason = f"the key file {self._key_file} holds {len(content)} bytes, and a key needs {LEAST_KEY}"
            raise StoreFault("unavailable", reason, fix="restore its content; to create a new key file, remove it")
        return content


def _bytes(passphrase: str) -> bytes:
    """Encode a passphrase to the same bytes from every keyboard (NFC, as in RFC 8265)."""
    return unicodedata.normalize("NFC", passphrase).encode(errors="surrogateescape")


NAME = "secrets.sealed"
Entries = dict[str, Entry]


def open_file(
    settings: FileSettings, config: Path, environ: Mapping[str, str], ask: Callable[[str], str | None]
) -> "SealedFile":
    """Return the store that the settings describe. Relative paths begin at `config`.

    `ask` returns None if the user cannot be asked.

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
        reason = f'cannot expand "~" in {written}'
        raise StoreFault("unavailable", reason, fix="write the whole path in config.yaml") from None


class SealedFile:
    """A Store. It keeps the derived key, and nothing of the file's content."""

    def __init__(self, path: Path, source: KeySource) -> None:
        self._path = path
        self._source = source

    @property
    def label(self) -> str:
        return f"sealed file ({self._path})"

    def prepare(self, *, writing: bool = False) -> None:
        """Get the passphrase. A new one is asked for only if `writing`: without a file there is nothing to read."""
        if self._source.is_at_hand:
            return
        there = self._sealed()
        if there is not None or writing:
            self._source.prepare(there)

    def read(self, names: Sequence[str]) -> dict[str, Outcome]:
        entries, missing = self._entries(self._sealed()), Outcome("missing", self.label)
        return {
            name: Outcome("found", self.label, entries[name].value) if name in entries else missing for name in names
        }

    def write(self, name: str, secret: Secret) -> None:
        storable_text(secret)
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
        if there is not None and not self._source.is_at_hand:
            return None
        return {name: entry.set for name, entry in self._entries(there).items()}

    def _sealed(self) -> Sealed | None:
        with explained(self._path, "read"):
            found = private.read_bounded(self._path, MAX_FILE)
        with self._understood():
            return sealed.parse(found[0]) if found else None

    def _entries(self, there: Sealed | None) -> Entries:
        if there is None:
            return {}
        key = self._source.key(there)
        with self._understood():
            return sealed.unseal(there, key)

    def _replace(self, there: Sealed | None, entries: Entries) -> None:
        content = sealed.seal(entries, self._source.key(there) if there else self._source.first_key())
        if len(content) > MAX_FILE:
            reason = f"{self._path} would be larger than {MAX_FILE // 1024**2} MiB"
            raise StoreFault("too large", reason, fix="remove secrets you do not need: acp-launch secret rm NAME")
        with explained(self._path, "write"):
            private.replace(self._path, content)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the file that the path leads to through links."""
        target = private.real(self._path)
        lock = target.with_name(f"{target.name}.lock")
        with ExitStack() as held:
            with explained(lock, "lock"):
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


_ANEW = "restore a backup, or start over: mv {0} {0}.damaged"
_SAID: dict[sealed.Kind, tuple[str, str]] = {
    "foreign": ("is not a sealed file", "name another secrets.file.path in config.yaml, or move it away"),
    "cut off": ("is cut off: its end is missing", _ANEW),
    "changed": ("was changed or damaged", _ANEW),
    "newer": ("was written by a newer acp-launch", "upgrade acp-launch"),
}
