"""
stdout as bytes, without blocking the event loop on a full pipe.

A blocked write would delay Ctrl-C and deadlines, and making stdout non-blocking would change it for every process that
shares it. So we ask the kernel first, and write no more than it can take at once (PIPE_BUF).
"""

import asyncio
import os
import select
import stat
from collections.abc import Iterator

from msgspec import Struct

from acp_launch.errors import LaunchError

SIGPIPE = 13
JOINED = 1 << 20  # bytes
PART = 1 << 16  # characters of a long text that are handled at once


class OutputClosed(LaunchError):  # noqa: N818 - not our failure
    """Raised when the reader of our stdout is gone; the exit code is the one that a shell shows for SIGPIPE."""

    exit_code = 128 + SIGPIPE


class Halves:
    """Joins the halves of a surrogate pair from two chunks, and replaces a half that stays alone."""

    def __init__(self) -> None:
        self._half = ""

    def whole(self, piece: str) -> str:
        """Return the whole characters of `piece`, after a half from the piece before."""
        if piece.isascii() and not self._half:
            return piece
        text, self._half = self._half + piece, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class JoinedText:
    """Text that comes in chunks. Short ones are joined, since 100,000 objects take more memory than their text; a long
    one stays as it is."""

    def __init__(self) -> None:
        self.parts: list[bytearray | str] = []
        self._open: bytearray | None = None  # the latest part, while short text follows in it

    def add(self, text: str) -> None:
        if len(text) > JOINED and text.isascii():  # other text takes up to four bytes a character
            self.parts.append(text)
            self._open = None
            return
        if self._open is None or len(self._open) > PART:
            self.parts.append(opened := bytearray())
            self._open = opened
        self._open += text.encode("utf-8", "surrogatepass")

    def taken(self) -> Iterator[str]:
        """Take the text out piece by piece, in whole characters, so that it is not held twice."""
        halves, parts, self.parts = Halves(), self.parts[::-1], []
        while parts:
            part = parts.pop()
            text = part if isinstance(part, str) else part.decode("utf-8", "surrogatepass")
            for at in range(0, len(text), PART):
                yield halves.whole(text[at : at + PART])


class _Later(Struct, frozen=True):
    """Pieces of a long text, each of which is made when it is written."""

    pieces: Iterator[bytes | memoryview]

    def __len__(self) -> int:
        return JOINED + 1


class Outlet:
    """A descriptor, by default stdout. `write` collects pieces, `drain` writes them."""

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self.is_terminal = os.isatty(descriptor)
        self._pending: list[bytes | memoryview | _Later] = []
        self._one_at_a_time = asyncio.Lock()
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._piece = 1 << 20 if regular else select.PIPE_BUF
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def write(self, *pieces: bytes | memoryview) -> None:
        """Collect pieces that belong together; the next `drain` writes them."""
        self._pending += pieces

    def write_text(self, text: str) -> None:
        """Collect text; a long one is encoded piece by piece as it is written, so that it is not held twice."""
        if len(text) <= JOINED:
            self._pending.append(text.encode())
        else:
            self.write_later(text[at : at + PART].encode() for at in range(0, len(text), PART))

    def write_later(self, pieces: Iterator[bytes | memoryview]) -> None:
        """Collect a text of which each piece is made when it is written."""
        self._pending.append(_Later(pieces))

    async def drain(self) -> None:
        """Write everything that was collected, at the speed of the reader.

        Raises:
            OutputClosed: the reader has closed stdout.
            LaunchError: the disk is full, or another failure of the file behind stdout.
        """
        async with self._one_at_a_time:  # the pump and the end of a turn both drain: lines must not mix
            if sum(map(len, self._pending)) <= JOINED:  # copying large pieces would not pay; none of these is a _Later
                self._pending = [b"".join(self._pending)]  # type: ignore[arg-type]
            while self._pending:
                await self._send(self._next())

    def flush(self) -> None:
        """Write at once what the reader takes without waiting; a failure is for the next `drain` to tell."""
        while self._pending and not self._one_at_a_time.locked() and self._poll.poll(0):
            data = self._next()
            try:
                rest = data[self._put(data[: self._piece]) :]
            except LaunchError:
                self._pending.insert(0, data)
                return
            if rest:
                self._pending.insert(0, rest)

    def _next(self) -> memoryview:
        first = self._pending.pop(0)
        if not isinstance(first, _Later):
            return memoryview(first)
        piece = next(first.pieces, None)
        if piece is not None:
            self._pending.insert(0, first)
        return memoryview(piece or b"")

    async def _send(self, data: memoryview) -> None:
        try:
            while data:
                if not self._poll.poll(0):
                    loop = asyncio.get_running_loop()
                    ready = asyncio.Event()
                    loop.add_writer(self._descriptor, ready.set)
                    try:
                        await ready.wait()
                    finally:
                        loop.remove_writer(self._descriptor)
                data = data[self._put(data[: self._piece]) :]
        except asyncio.CancelledError:
            self._pending.insert(0, data)  # a part of a line may be written already, so its rest must come first
            raise

    def _put(self, piece: memoryview) -> int:
        try:
            return os.write(self._descriptor, piece)
        except BlockingIOError:  # another process made it non-blocking
            return 0
        except BrokenPipeError:
            raise OutputClosed("stdout was closed") from None
        except OSError as error:
            raise LaunchError(f"cannot write to stdout: {error.strerror}") from None
