"""Lines of a file, and not more than wanted: however large it is, what is held in memory is bounded."""

from typing import BinaryIO

CHUNK = 64 * 1024  # bytes
FAR = 64  # times as much as may be given is passed over in search of a line; a sparse file has no end otherwise


class TooMuch(Exception):  # noqa: N818 - it reads as what happened
    """Raised when the lines do not fit; its text is the end of a sentence about the file."""


def lines(file: BinaryIO, first: int, count: int | None, most: int) -> bytes:
    """`count` lines from line `first` on, or all of them, with their ends: at most `most` bytes.

    A line ends with a line feed, as everywhere but in old Macs. Beyond the last line there is nothing.
    """
    if not _pass_over(file, first - 1, most * FAR):
        return b""
    found = file.read(most + 1) if count is None else _next(file, count, most)
    if len(found) > most:
        raise TooMuch(f"more than {size(most)} of it were asked for; ask for fewer lines")
    return found


def size(amount: int) -> str:
    """`1 byte`, `512 bytes`, `9.5 MiB`."""
    if amount < 1024:
        return f"{amount} byte{'s' if amount != 1 else ''}"
    units = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = min((amount.bit_length() - 1) // 10, len(units))
    return f"{round(amount / 1024**power, 1):g} {units[power - 1]}"


def _pass_over(file: BinaryIO, count: int, most: int) -> bool:
    """Whether there were so many lines."""
    passed = 0
    while count:
        piece = file.readline(CHUNK)
        if not piece:
            return False
        count -= piece.endswith(b"\n")
        passed += len(piece)
        if passed > most:
            raise TooMuch(f"the line that was asked for is beyond its first {size(most)}")
    return True


def _next(file: BinaryIO, count: int, most: int) -> bytes:
    """One byte more than `most` at the most."""
    found = bytearray()
    while count and len(found) <= most:
        piece = file.readline(min(CHUNK, most + 1 - len(found)))
        if not piece:
            break
        count -= piece.endswith(b"\n")
        found += piece
    return bytes(found)
