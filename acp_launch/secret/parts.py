"""
Long values in a keyring that takes only short ones: cut into parts, all or nothing.

    NAME         acp-launch:parts:1:a9f3ac01d:3:3000:0f1e2d3c4b5a6978     format, mark, parts, characters, digest
    NAME#a1 …    a9f3ac01d:the first piece

The mark is one of two banks, `a` or `b`, and a number made for this write; every part repeats it. A new set is written
beside the old one, in the other bank, and counts from the moment its header replaces the old. A name holds no `#`, so
no part is ever somebody's secret.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from secrets import token_hex
from typing import Protocol

from msgspec import Struct

from acp_launch.secret.isolate import ItemFault
from acp_launch.secret.value import StoreFault

WINDOWS = 1280  # UTF-16 units: CRED_MAX_CREDENTIAL_BLOB_SIZE is 5 x 512 bytes
_PREFIX = "acp-launch:parts:"
_HEADER = re.compile(_PREFIX + r"1:([ab][0-9a-f]{8}):([0-9]{1,5}):([0-9]{1,6}):([0-9a-f]{16})")
_BYTE_ORDER_MARKS = ("\ufeff", "\ufffe")  # WinVault decodes what it reads as UTF-16: it would eat or obey these
_BANKS = ("a", "b")


class Items(Protocol):
    """A keyring's items of one service. Every method may raise StoreFault; one `set` happens or does not."""

    def get(self, user: str) -> str | None: ...

    def set(self, user: str, text: str) -> None: ...

    def delete(self, user: str) -> bool:
        """False when there was none."""


class Header(Struct, frozen=True):
    mark: str
    parts: int
    characters: int
    digest: str

    def __str__(self) -> str:
        return f"{_PREFIX}1:{self.mark}:{self.parts}:{self.characters}:{self.digest}"


class Split:
    """Items of any length over `items` that hold at most `limit` UTF-16 units each."""

    def __init__(self, items: Items, *, limit: int) -> None:
        self._items = items
        self._limit = limit

    def get(self, user: str) -> str | None:
        """
        Raises:
            ItemFault: the parts do not fit together.
        """
        seen = self._items.get(user)
        while seen is not None and seen.startswith(_PREFIX):
            header = _parse(seen)
            if header and (text := self._joined(user, header)) is not None:
                return text
            before, seen = seen, self._items.get(user)
            if seen == before:  # else it was replaced while we read
                raise ItemFault("unavailable", _DAMAGED, fix=f"acp-launch secret set {user}")
        return seen

    def set(self, user: str, text: str) -> None:
        kept: dict[str, int] = {}  # bank → parts
        if _fits(text, self._limit):
            self._items.set(user, text)
        else:
            kept = self._write(user, text)
        # The value is set. What cannot be swept now waits for the next write or removal; no reader looks at it.
        with suppress(StoreFault):
            for bank in _BANKS:
                self._sweep(user, bank, beyond=kept.get(bank, 0))

    def delete(self, user: str) -> bool:
        """Also sweeps what earlier writes that failed have left."""
        was_there = self._items.delete(user)
        swept = [self._sweep(user, bank) for bank in _BANKS]
        return was_there or any(swept)

    def _write(self, user: str, text: str) -> dict[str, int]:
        bank = "b" if self._bank(user) == "a" else "a"
        mark = bank + token_hex(4)
        pieces = list(_pieces(text, self._limit - len(f"{mark}:")))
        header = str(Header(mark, len(pieces), len(text), _digest(text)))
        try:
            for number, piece in enumerate(pieces, 1):
                self._items.set(_part(user, bank, number), f"{mark}:{piece}")
            self._items.set(user, header)
        except StoreFault:
            self._withdraw(user, bank, header)
            raise
        return {bank: len(pieces)}

    def _withdraw(self, user: str, bank: str, header: str) -> None:
        """Leave no half set behind, unless the header was written after all: then it is a whole one."""
        with suppress(StoreFault):  # as in `set`; the failure that matters is the one on its way up
            if self._items.get(user) != header:
                self._sweep(user, bank)

    def _bank(self, user: str) -> str:
        """The bank in use; empty without one, or when nobody can tell: then no value is lost."""
        try:
            header = _parse(self._items.get(user) or "")
        except ItemFault:
            return ""
        return header.mark[0] if header else ""

    def _joined(self, user: str, header: Header) -> str | None:
        """The value; None when a part is missing, foreign or changed."""
        pieces: list[str] = []
        for number in range(1, header.parts + 1):
            mark, _, piece = (self._items.get(_part(user, header.mark[0], number)) or "").partition(":")
            if mark != header.mark:
                return None
            pieces.append(piece)
        text = "".join(pieces)
        return text if (len(text), _digest(text)) == (header.characters, header.digest) else None

    def _sweep(self, user: str, bank: str, *, beyond: int = 0) -> bool:
        """Delete the parts after number `beyond`, the last one first: whatever stops us, no gap hides the others."""
        last = beyond
        while self._exists(_part(user, bank, last + 1)):
            last += 1
        for number in range(last, beyond, -1):
            self._items.delete(_part(user, bank, number))
        return last > beyond

    def _exists(self, user: str) -> bool:
        try:
            return self._items.get(user) is not None
        except ItemFault:  # unreadable, but there
            return True


_DAMAGED = "it is kept in several parts, and they do not fit together"


def _parse(text: str) -> Header | None:
    found = _HEADER.fullmatch(text)
    return Header(found[1], int(found[2]), int(found[3]), found[4]) if found else None


def _part(user: str, bank: str, number: int) -> str:
    return f"{user}#{bank}{number}"


def _fits(text: str, limit: int) -> bool:
    return _units(text) <= limit and not text.startswith((_PREFIX, *_BYTE_ORDER_MARKS))


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _pieces(text: str, size: int) -> Iterator[str]:
    """Pieces of at most `size` UTF-16 units; both halves of an astral character stay together."""
    units = text.encode("utf-16-le")
    start = 0
    while start < len(units):
        end = min(start + 2 * size, len(units))
        if end < len(units) and 0xD8 <= units[end - 1] <= 0xDB:  # the first half of two
            end -= 2
        yield units[start:end].decode("utf-16-le")
        start = end


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
