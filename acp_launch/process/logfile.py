"""What a child says on stderr, in a file: one a launch, made with its first byte, the oldest removed."""

import os
import time
from pathlib import Path

KEPT = 50  # files; an agent writes some 10 lines a session
LIMIT = 10 * 1024 * 1024  # bytes of one file; a child in a loop must not fill the disk


class LogFile:
    """Call it with bytes. OSError when it cannot be written: the caller says so once and goes on."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = "".join(mark if mark.isalnum() or mark in "-_" else "_" for mark in name)[:60]
        self._descriptor = -1
        self._room = LIMIT

    def __call__(self, data: bytes) -> None:
        if self._descriptor < 0:
            self._descriptor = self._open()
        piece = data[: self._room]
        self._room -= len(piece)
        if piece:
            os.write(self._descriptor, piece)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> int:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._forget_the_oldest()
        stamp = time.strftime("%Y%m%d-%H%M%S")
        file = self._directory / f"{stamp}-{self._name}-{os.getpid()}.log"
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _forget_the_oldest(self) -> None:
        files = sorted(self._directory.glob("*.log"))  # names begin with the time
        for file in files[: max(0, len(files) - KEPT + 1)]:
            file.unlink(missing_ok=True)  # another launch may be tidying up too
