"""
What a child says on stderr, in a file, made with its first byte.

A file that is full is renamed, `.1` after its name, and a new one begins: a child in a loop fills the disk no further,
and its last words are the ones that are kept. Both files together are what it said, byte for byte.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from acp_launch.process.logdir import forget_the_oldest
from acp_launch.process.logname import OLDER, LogName, this_launch, written

LIMIT = 10 * 1024 * 1024  # bytes of one file


class LogFile:
    """Call it with bytes. OSError when it cannot be written: the caller says so once and goes on.

    The agent's without `server`. `launch` is this process's unless another is given.
    """

    def __init__(self, directory: Path, profile: str, server: str = "", *, launch: str = "") -> None:
        self._launch = launch or this_launch()
        self._file = directory / written(LogName(self._launch, profile, server))
        self._descriptor = -1
        self._size = 0
        self._last = b""  # byte; unknown where a file of ours was left before
        self._is_made = self._is_closed = False

    def __call__(self, data: bytes) -> None:
        if data:
            self._begin()
        while data:
            if length := self._fitting(data):
                self._write(data[:length])
                data = data[length:]
            else:
                self._turn_over()

    def mark(self, text: str) -> None:
        """A line of ours between what the child says. It must hold no secret."""
        self._begin()
        line = f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} {' '.join(text.split())} ---\n"
        self((b"" if self._last == b"\n" else b"\n") + line.encode(errors="replace"))

    def rest(self) -> None:
        """Hold no descriptor until there is something to write again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def close(self) -> None:
        self._is_closed = True
        self.rest()

    def _fitting(self, data: bytes) -> int:
        """How many bytes of `data` this file takes: whole lines, unless one alone fills a file."""
        room = LIMIT - self._size
        if len(data) <= room:
            return len(data)
        lines = data.rfind(b"\n", 0, max(0, room)) + 1
        return lines or (0 if self._size else room)

    def _write(self, piece: bytes) -> None:
        self._last = piece[-1:]
        rest = memoryview(piece)
        while rest:
            count = os.write(self._descriptor, rest)
            self._size += count
            rest = rest[count:]

    def _begin(self) -> None:
        if self._is_closed:
            raise ValueError("the log is closed")
        if self._descriptor >= 0:
            return
        if self._is_made:
            self._open()
            return
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        forget_the_oldest(self._file.parent, self._launch)
        self._open()
        self._last = b"" if self._size else b"\n"
        self._is_made = True

    def _turn_over(self) -> None:
        with suppress(FileNotFoundError):  # this launch is old, and a newer one has removed its files
            self._file.rename(f"{self._file}{OLDER}")
        full = self._descriptor
        self._open()
        os.close(full)

    def _open(self) -> None:
        self._descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._descriptor).st_size
