"""
The sealed file as a value: bytes in, names and secrets out. It uses no files and no clock, and never asks the user.

One line of JSON, in the only accepted form (the members in this order, no spaces, a newline at the end):

    format, version   identify the file; a newer acp-launch writes a higher version
    kdf               how a key is derived from a passphrase (scrypt) or from a key file (HKDF-SHA256), with its salt
    check             derived together with the key; distinguishes a wrong passphrase from a damaged file
    nonce             fresh for every write
    crc32             over all the rest; detects accidental damage before anything is computed, so that it is never
                      blamed on the passphrase. It gives no protection; `sealed` does
    sealed            ChaCha20-Poly1305 over the JSON of every name with its value and the time it was set. Everything
                      before it is associated data, so that a change without the key is detected
"""

import os
import zlib
from collections.abc import Mapping
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from acp_launch.private import compare_digest
from acp_launch.secret.value import MAX_VALUE, Secret

FORMAT = "acp-launch sealed secrets"
VERSION = 1
MAX_FILE = 16 * 1024 * 1024  # bytes
MAX_MEMORY = 256 * 1024 * 1024  # bytes scrypt may use for a file from an unknown source; at most 3 s
_OPENING = f'{{"format":"{FORMAT}"'.encode()
_SALT, _KEY, _CHECK, _NONCE, _TAG = 16, 32, 16, 12, 16  # bytes

T = TypeVar("T")
Kind = Literal["foreign", "cut off", "changed", "newer", "wrong key"]


class Broken(Exception):  # noqa: N818 - the name states the fault
    """Raised when a sealed file cannot be opened. Its text never quotes the content."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind)
        self.kind = kind


class Scrypt(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="scrypt"):
    """RFC 7914. By default each guess costs an attacker 32 MiB and about 0.1 s."""

    salt: bytes
    n: int = 2**15
    r: int = 8
    p: int = 1

    def is_sane(self) -> bool:
        """Whether its cost is bounded. The parameters may come from a hostile file."""
        is_power = self.n > 1 and self.n & (self.n - 1) == 0
        small = is_power and self.n <= 2**20 and 1 <= self.r <= 16 and 1 <= self.p <= 4
        return small and 128 * self.n * self.r <= MAX_MEMORY and len(self.salt) == _SALT


class Hkdf(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="hkdf-sha256"):
    """RFC 5869, sufficient for a key that is random already."""

    salt: bytes

    def is_sane(self) -> bool:
        return len(self.salt) == _SALT


Kdf = Scrypt | Hkdf


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    value: Secret
    set: float  # Unix time


class Sealed(Struct, frozen=True, forbid_unknown_fields=True):
    """A file that is complete, of our version, and safe to try a key on."""

    format: str
    version: int
    kdf: Kdf
    check: bytes
    nonce: bytes
    crc32: int
    sealed: bytes


class Key:
    """The key to the files of one salt. Its repr shows nothing."""

    __slots__ = ("_secret", "check", "kdf")

    def __init__(self, kdf: Kdf, derived: bytes) -> None:
        self.kdf = kdf
        self.check = derived[_KEY:]
        self._secret = derived[:_KEY]

    def encrypt(self, nonce: bytes, plain: bytes, associated: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        return ChaCha20Poly1305(self._secret).encrypt(nonce, plain, associated)

    def decrypt(self, nonce: bytes, sealed: bytes, associated: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        try:
            return ChaCha20Poly1305(self._secret).decrypt(nonce, sealed, associated)
        except InvalidTag:
            raise Broken("changed") from None


def fresh_salt() -> bytes:
    return os.urandom(_SALT)


def derive(kdf: Kdf, material: bytes) -> Key:
    """Derive the key for `kdf` from a passphrase or the content of a key file."""
    if isinstance(kdf, Hkdf):
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return Key(kdf, HKDF(SHA256(), _KEY + _CHECK, kdf.salt, FORMAT.encode()).derive(material))
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt as Function

    return Key(kdf, Function(kdf.salt, _KEY + _CHECK, kdf.n, kdf.r, kdf.p).derive(material))


def seal(entries: Mapping[str, Entry], key: Key) -> bytes:
    """Return the whole file."""
    plain = msgspec.json.encode(entries, enc_hook=_exposed)
    nonce = os.urandom(_NONCE)
    head = Sealed(FORMAT, VERSION, key.kdf, key.check, nonce, 0, b"")
    whole = msgspec.structs.replace(head, sealed=key.encrypt(nonce, plain, _head(head)))
    return _encoded(msgspec.structs.replace(whole, crc32=_checksum(whole)))


def parse(data: bytes) -> Sealed:
    """Read what needs no key.

    Raises:
        Broken: foreign, cut off, newer or changed.
    """
    if not data.startswith(_OPENING):
        raise Broken("cut off" if _OPENING.startswith(data) else "foreign")
    if not data.endswith(b"}\n"):
        raise Broken("cut off")
    if _decoded(data, _Version).version > VERSION:
        raise Broken("newer")
    sealed = _decoded(data, Sealed)
    if _encoded(sealed) != data or _checksum(sealed) != sealed.crc32 or not _is_usable(sealed):
        raise Broken("changed")
    return sealed


def opens(key: Key, sealed: Sealed) -> bool:
    """Whether the key matches the file's `check`, which anyone could have changed."""
    return compare_digest(sealed.check, key.check)


def unseal(sealed: Sealed, key: Key) -> dict[str, Entry]:
    """Return every name with its value.

    Raises:
        Broken: the key is wrong, or the file was changed.
    """
    if not opens(key, sealed):
        raise Broken("wrong key")
    plain = key.decrypt(sealed.nonce, sealed.sealed, _head(sealed))
    entries = _decoded(plain, dict[str, Entry])
    if msgspec.json.encode(entries, enc_hook=_exposed) != plain:  # for example a duplicate name
        raise Broken("changed")
    return entries


def _encoded(sealed: Sealed) -> bytes:
    return msgspec.json.encode(sealed) + b"\n"


def _head(sealed: Sealed) -> bytes:
    """Return the file without the sealed part and the checksum, which is computed last."""
    return _encoded(msgspec.structs.replace(sealed, crc32=0, sealed=b""))


def _checksum(sealed: Sealed) -> int:
    return zlib.crc32(_encoded(msgspec.structs.replace(sealed, crc32=0)))


def _is_usable(sealed: Sealed) -> bool:
    lengths = len(sealed.check) == _CHECK and len(sealed.nonce) == _NONCE and len(sealed.sealed) >= _TAG
    return sealed.version == VERSION and lengths and sealed.kdf.is_sane()


class _Version(Struct):
    version: int


def _decoded(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind, dec_hook=_secret)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Broken("changed") from None  # an error's text may quote the content


def _exposed(value: object) -> str:
    """Expose a secret for the file; nothing else exposes one here."""
    if isinstance(value, Secret):
        return value.expose()
    raise TypeError(f"a {type(value).__name__} among the secrets")


def _secret(kind: type, found: object) -> Secret:
    if kind is not Secret or not isinstance(found, str) or len(found.encode()) > MAX_VALUE:
        raise ValueError("not a secret")
    return Secret(found)
