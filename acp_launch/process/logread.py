"""Read a log while it is written."""

import os
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from acp_launch.process.logname import OLDER

CHUNK = 256 * 1024  # bytes


class Trail:
    """One log from its beginning, over every file it fills."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._older = Path(f"{file}{OLDER}")
        self._sources: list[FileIO] = []  # the last one is the one that grows
        self._open: list[bytes] = []  # pieces of the line that has no end yet

    @property
    def is_within_a_line(self) -> bool:
        return any(self._open)

    def lines(self) -> Iterator[bytes]:
        """The lines that have come to their end since the last time, without it.

        Raises:
            OSError: the log is there and cannot be read.
        """
        for chunk in self._chunks():
            first, *others = chunk.split(b"\n")
            self._open.append(first)
            if others:
                yield b"".join(self._open)
                yield from others[:-1]
                self._open = [others[-1]]

    def rest(self) -> bytes:
        """What there is of a line that has no end; it will not come again."""
        rest, self._open = b"".join(self._open), []
        return rest

    def close(self) -> None:
        while self._sources:
            self._sources.pop().close()

    def _chunks(self) -> Iterator[bytes]:
        self._look()
        while self._sources:
            while chunk := self._sources[0].read(CHUNK):
                yield chunk
            if len(self._sources) == 1:
                return
            self._sources.pop(0).close()

    def _look(self) -> None:
        """Find the files that came since. The one we hold is full once another has its name; its rest is read first."""
        current = self._new(self._file)
        if current or not self._sources:
            older = self._new(self._older, current)
            self._sources += [source for source in (older, current) if source]

    def _new(self, file: Path, *known: FileIO | None) -> FileIO | None:
        """The file, unless it is gone, no file, `known` or one that we hold."""
        try:
            found = FileIO(file, opener=_without_waiting)
        except FileNotFoundError:
            return None
        status = os.fstat(found.fileno())
        held = [source for source in (*self._sources, *known) if source]
        is_held = any(os.path.samestat(status, os.fstat(source.fileno())) for source in held)
        if is_held or not stat.S_ISREG(status.st_mode):
            found.close()
            return None
        return found


def _without_waiting(file: str, flags: int) -> int:
    """For a writer, should it be a pipe."""
    return os.open(file, flags | os.O_NONBLOCK)
