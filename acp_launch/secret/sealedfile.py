"""
The sealed file as a store, for machines without a keyring.

Readers need no lock: a file is replaced whole. Writers hold one from reading to replacing, so that ten at once lose
nothing. Whoever cannot open what is there cannot write either: nothing is ever replaced that was not understood.
"""

import os
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shlex import quote
from typing import Protocol

from acp_launch import private
from acp_launch.private import Unfit, locked
from acp_launch.secret import sealed
from acp_launch.secret.isolate import storable
from acp_launch.secret.sealed import MAX_FILE, Broken, Entry, Hkdf, Kdf, Key, Scrypt, Sealed, derive, fresh_salt, opens
from acp_launch.secret.value import PASSPHRASE, Outcome, Secret, StoreFault
from acp_launch.settings.model import FileSettings

# What can go wrong with a file of secrets, in the words of a store.


@contextmanager
def explained(path: Path, doing: str) -> Iterator[None]:
    """What the system or `Unfit` says as a StoreFault; `doing` is what could not be done to `path`: `read`."""
    try:
        yield
    except Unfit as unfit:
        raise StoreFault("unavailable", f"{path} {unfit}", fix="name another file in config.yaml") from None
    except OSError as error:
        reason = f"{path} could not be {doing}: {(error.strerror or str(error)).lower()}"
        fix = f"check the owner, the mode and the free space of {path.parent}"
        raise StoreFault("unavailable", reason, fix=fix) from error


# What opens a sealed file: a passphrase somebody knows, or a key file only they can read. One of them, never both.


LEAST = 8  # characters of a new passphrase (NIST SP 800-63-3B, 5.1.1.2): scrypt slows guessing down, no more than that
TRIES = 3  # at the prompt, as with ssh and sudo
LEAST_KEY, MOST_KEY = 32, 64 * 1024  # bytes of a key file; 32 is what its key has


class Opener(Protocol):
    @property
    def is_at_hand(self) -> bool:
        """Whether nobody needs to be asked."""

    def prepare(self, sealed: Sealed | None) -> None:
        """Ask, if need be; for a new passphrase when there is no file yet."""

    def key(self, sealed: Sealed) -> Key:
        """The key that opens `sealed`; derived once for each salt. Never asks."""

    def first_key(self) -> Key:
        """A key for a new file. Never asks."""


class _Keys:
    """Deriving is slow on purpose, so each is derived once."""

    def __init__(self) -> None:
        self._derived: dict[tuple[Kdf, bytes], Key] = {}

    def derive(self, kdf: Kdf, material: bytes) -> Key:
        if (kdf, material) not in self._derived:
            self._derived[kdf, material] = derive(kdf, material)
        return self._derived[kdf, material]


class _Refused(Exception):  # noqa: N818 - it reads as what happened
    """Raised when an answer will not do: `said` to whoever may try again, `fault` is the end of it."""

    def __init__(self, said: str, fault: StoreFault) -> None:
        super().__init__(said)
        self.said = said
        self.fault = fault


class Passphrase:
    """From the environment, else from a person."""

    def __init__(self, path: Path, environ: Mapping[str, str], ask: Callable[[str], str | None]) -> None:
        """`path` is the sealed file, for the messages. An empty variable counts as none."""
        self._path = path
        self._ask = ask
        self._name = PASSPHRASE
        self._material = _bytes(environ.get(PASSPHRASE, ""))
        self._keys = _Keys()

    @property
    def is_at_hand(self) -> bool:
        return bool(self._material)

    def prepare(self, sealed: Sealed | None) -> None:
        if self.is_at_hand:
            return
        self._name = "the passphrase"
        self._material = self._chosen() if sealed is None else self._recalled(sealed)

    def key(self, sealed: Sealed) -> Key:
        key = self._keys.derive(self._kdf(sealed), self._at_hand())
        if not opens(key, sealed):
            raise self._wrong()
        return key

    def first_key(self) -> Key:
        return self._keys.derive(Scrypt(fresh_salt()), self._long_enough(self._at_hand()))

    def _kdf(self, sealed: Sealed) -> Scrypt:
        if isinstance(sealed.kdf, Scrypt):
            return sealed.kdf
        fix = "name it in config.yaml: secrets.file.key_file"
        raise StoreFault("locked", f"{self._path} is opened by a key file, and none is named", fix=fix)

    def _long_enough(self, material: bytes) -> bytes:
        if _is_short(material):
            raise self._too_short()
        return material

    def _at_hand(self) -> bytes:
        if not self._material:
            raise self._locked()
        return self._material

    def _recalled(self, sealed: Sealed) -> bytes:
        kdf = self._kdf(sealed)

        def ask(said: str) -> bytes:
            answer = self._answer(f"{said}Passphrase of {self._path}: ")
            if not opens(self._keys.derive(kdf, answer), sealed):
                raise _Refused("Wrong passphrase.", self._wrong())
            return answer

        return _patiently(ask)

    def _chosen(self) -> bytes:
        def ask(said: str) -> bytes:
            chosen = self._answer(f"{said}New passphrase for {self._path} ({LEAST} characters or more): ")
            if _is_short(chosen):
                raise _Refused("That was too short.", self._too_short())
            if chosen != self._entered("The same again: "):
                fault = StoreFault("denied", "the two passphrases are not the same", fix="try again")
                raise _Refused("The two were not the same.", fault)
            return chosen

        return _patiently(ask)

    def _answer(self, prompt: str) -> bytes:
        if not (answer := self._entered(prompt)):
            fault = StoreFault("locked", "no passphrase was entered", fix="try again")
            raise _Refused("Nothing was entered.", fault)
        return answer

    def _entered(self, prompt: str) -> bytes:
        answer = self._ask(prompt)
        if answer is None:
            raise self._locked()
        return _bytes(answer)

    def _too_short(self) -> StoreFault:
        reason = f"{self._name} is shorter than {LEAST} characters, too short for a new sealed file"
        return StoreFault("denied", reason, fix="choose a longer one; several words are easy to keep in mind")

    def _locked(self) -> StoreFault:
        fix = f"export {PASSPHRASE}=..., or run this in a terminal"
        return StoreFault("locked", f"the sealed file {self._path} needs its passphrase", fix=fix)

    def _wrong(self) -> StoreFault:
        fix = f"export {PASSPHRASE}=... with the right one" if self._name == PASSPHRASE else "try again"
        return StoreFault("denied", f"{self._name} does not open {self._path}", fix=fix)


class KeyFile:
    """Its content is the key. A line end at its end does not count: `echo` and editors put one there."""

    def __init__(self, path: Path, key_file: Path) -> None:
        self._path = path
        self._key_file = key_file
        self._keys = _Keys()

    is_at_hand = True

    def prepare(self, sealed: Sealed | None) -> None:
        """There is nobody to ask."""

    def key(self, sealed: Sealed) -> Key:
        if not isinstance(sealed.kdf, Hkdf):
            fix = "remove secrets.file.key_file from config.yaml"
            raise StoreFault("locked", f"{self._path} is opened by a passphrase, not by a key file", fix=fix)
        content = self._content()
        if content is None:
            reason = f"the key file {self._key_file} does not exist, and only it opens {self._path}"
            raise StoreFault("unavailable", reason, fix="put it back, or correct secrets.file.key_file in config.yaml")
        key = self._keys.derive(sealed.kdf, content)
        if not opens(key, sealed):
            fix = "name the right one in config.yaml: secrets.file.key_file"
            raise StoreFault("denied", f"the key file {self._key_file} does not open {self._path}", fix=fix)
        return key

    def first_key(self) -> Key:
        content = self._content()
        if content is None:
            content = os.urandom(LEAST_KEY).hex().encode()
            with explained(self._key_file, "made"):
                private.make_private(self._key_file.parent)
                private.create(self._key_file, content + b"\n")
        return self._keys.derive(Hkdf(fresh_salt()), content)

    def _content(self) -> bytes | None:
        with explained(self._key_file, "read"):
            found = private.read_bounded(self._key_file, MOST_KEY)
        if found is None:
            return None
        content, mode = found[0].rstrip(b"\r\n"), found[1]
        if mode & 0o077 and sys.platform != "win32":
            reason = f"others on this machine can read or change the key file {self._key_file}"
            raise StoreFault("unavailable", reason, fix=f"chmod 600 {quote(str(self._key_file))}")
        if len(content) < LEAST_KEY:
            reason = f"the key file {self._key_file} holds {len(content)} bytes, and a key needs {LEAST_KEY}"
            raise StoreFault("unavailable", reason, fix="put the right content back; for a new one, remove it")
        return content


def _patiently(ask: Callable[[str], bytes]) -> bytes:
    """What `ask` gives in the end; it is told what was wrong before, as a line that comes before its prompt."""
    said = ""
    for _ in range(TRIES - 1):
        try:
            return ask(said)
        except _Refused as refused:
            said = f"{refused.said}\n"
    try:
        return ask(said)
    except _Refused as refused:
        raise refused.fault from None


def _is_short(material: bytes) -> bool:
    return len(material.decode(errors="replace")) < LEAST


def _bytes(passphrase: str) -> bytes:
    """The same bytes for the same characters, from whichever keyboard (NFC, as RFC 8265 has it)."""
    return unicodedata.normalize("NFC", passphrase).encode(errors="surrogateescape")


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
