"""What opens a sealed file: a passphrase somebody knows, or a key file only they can read. One of them, never both."""

import os
import sys
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import Protocol

from acp_launch import private
from acp_launch.secret.environment import PASSPHRASE
from acp_launch.secret.faults import explained
from acp_launch.secret.outcome import StoreFault
from acp_launch.secret.sealed import Hkdf, Kdf, Key, Scrypt, Sealed, derive, fresh_salt, opens

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
