"""
The sealed file as a value: bytes in, names and secrets out. It uses no files, and never asks the user.

One line of JSON, in the only accepted form (the members in this order, no spaces, a newline at the end):

    format, version   identify the file; a newer acp-launch writes a higher version
    kdf               what scrypt makes the key from, a passphrase or a key file, with its salt and its cost
    crc32             over all the rest, so that damage is not blamed on the passphrase; it protects nothing
    token             Fernet of `cryptography` over the JSON of every name with its value and the time it was set
"""

import os
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from acp_launch.secret.value import MAX_VALUE, Secret

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

FORMAT = "acp-launch sealed secrets"
VERSION = 1
MAX_FILE = 16 * 1024 * 1024  # bytes
MAX_MEMORY = 256 * 1024 * 1024  # bytes scrypt may use for a file from an unknown source; at most 3 s
_OPENING = f'{{"format":"{FORMAT}"'.encode()
_SALT_BYTES, _KEY_BYTES = 16, 32

T = TypeVar("T")
Kind = Literal["foreign", "cut off", "changed", "newer"]


class Broken(Exception):  # noqa: N818 - the name states the fault
    """Raised when a sealed file cannot be opened. Its text never quotes the content."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind)
        self.kind = kind


class Kdf(Struct, frozen=True, forbid_unknown_fields=True):
    """Scrypt (RFC 7914). By default each guess of a passphrase costs an attacker 32 MiB and about 0.1 s."""

    source: Literal["passphrase", "key file"]
    salt: bytes
    n: int = 2**15
    r: int = 8
    p: int = 1

    def is_sane(self) -> bool:
        """Whether its cost is bounded. The parameters may come from a hostile file."""
        is_power = self.n > 1 and self.n & (self.n - 1) == 0
        small = is_power and self.n <= 2**20 and 1 <= self.r <= 16 and 1 <= self.p <= 4
        return small and 128 * self.n * self.r <= MAX_MEMORY and len(self.salt) == _SALT_BYTES


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    value: Secret
    set: float  # Unix time


class Sealed(Struct, frozen=True, forbid_unknown_fields=True):
    """A file that is complete, of our version, and safe to try a key on."""

    format: str
    version: int
    kdf: Kdf
    crc32: int
    token: str


class Key(NamedTuple):
    """The key to the files of one salt."""

    kdf: Kdf
    fernet: "Fernet"  # whose repr shows nothing


def new_kdf(source: Literal["passphrase", "key file"]) -> Kdf:
    """Return the parameters for a new file. A key file is random already, so that guesses need not be slow."""
    salt = os.urandom(_SALT_BYTES)
    return Kdf(source, salt) if source == "passphrase" else Kdf(source, salt, n=2)


def derive(kdf: Kdf, material: bytes) -> Key:
    """Derive the key for `kdf` from a passphrase or the content of a key file."""
    from cryptography.fernet import Fernet
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    key = Scrypt(kdf.salt, _KEY_BYTES, kdf.n, kdf.r, kdf.p).derive(material)
    return Key(kdf, Fernet(urlsafe_b64encode(key)))


def seal(entries: Mapping[str, Entry], key: Key) -> bytes:
    """Return the whole file."""
    token = key.fernet.encrypt(msgspec.json.encode(entries, enc_hook=_exposed)).decode()
    sealed = Sealed(FORMAT, VERSION, key.kdf, 0, token)
    return _encoded(msgspec.structs.replace(sealed, crc32=_checksum(sealed)))


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
    is_whole = _encoded(sealed) == data and _checksum(sealed) == sealed.crc32
    if not is_whole or sealed.version != VERSION or not sealed.kdf.is_sane():
        raise Broken("changed")
    return sealed


def opens(key: Key, sealed: Sealed) -> bool:
    """Whether the key is the one that the file was sealed with; as `parse` found no damage, else it is a wrong one."""
    return _decrypted(sealed, key) is not None


def unseal(sealed: Sealed, key: Key) -> dict[str, Entry]:
    """Return every name with its value.

    Raises:
        Broken: the key does not open the file, or the file holds something else.
    """
    if (plain := _decrypted(sealed, key)) is None:
        raise Broken("changed")
    return _decoded(plain, dict[str, Entry])


def _decrypted(sealed: Sealed, key: Key) -> bytes | None:
    from cryptography.fernet import InvalidToken

    try:
        return key.fernet.decrypt(sealed.token)
    except (InvalidToken, ValueError):  # ValueError: the token is not ASCII
        return None


def _encoded(sealed: Sealed) -> bytes:
    return msgspec.json.encode(sealed) + b"\n"


def _checksum(sealed: Sealed) -> int:
    return zlib.crc32(_encoded(msgspec.structs.replace(sealed, crc32=0)))


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
