"""
What was typed in a project, newest last: one JSON text a line, for the user alone (0600).

Ten processes may add to it at once: each line is one append under a lock. It is cut to `MOST` entries when it is read
and has grown well past them. A line that starts with a space is not kept, as in a shell, and no secret is: text passes
the redactor first. History that cannot be kept is no reason to stop; it is said once.
"""

import os
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import msgspec
from prompt_toolkit.history import History

from acp_launch.secret.lock import locked
from acp_launch.secret.private import make_private, replace
from acp_launch.secret.redact import Redactor

MOST = 10_000  # entries
SLACK = 1_000  # entries over that which are not worth writing the file anew
LARGEST = 32 * 1024  # bytes of one entry; a longer one was pasted
HELD = 8 * 1024 * 1024  # bytes of all that are kept
PATIENCE = 1.0  # seconds for the lock; whoever holds it writes a line
decode = msgspec.json.Decoder(str).decode


class Past(History):
    def __init__(self, path: Path, source: Redactor, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._path = path
        self._redactor = source
        self._tell = tell
        self._is_broken = False

    def keep(self, text: str) -> None:
        """Add what was entered, unless it is not to be kept or only repeats the last."""
        strings = self.get_strings()
        redacted = self._redactor.text(text)
        if not text.startswith(" ") and (not strings or strings[-1] != redacted):
            self.append_string(redacted)

    def load_history_strings(self) -> Iterable[str]:
        """Newest first, as prompt_toolkit wants them."""
        try:
            return self._read()
        except (OSError, TimeoutError) as error:
            self._failed(error)
            return []

    def store_string(self, string: str) -> None:
        line = msgspec.json.encode(string) + b"\n"
        if len(line) > LARGEST:
            return
        try:
            make_private(self._path.parent)
            with locked(self._lock, PATIENCE):
                _append(self._path, line)
        except (OSError, TimeoutError) as error:
            self._failed(error)

    @property
    def _lock(self) -> Path:
        return self._path.with_name(f"{self._path.name}.lock")

    def _read(self) -> list[str]:
        if not self._path.exists():
            return []
        with locked(self._lock, PATIENCE):
            lines = self._path.read_bytes().splitlines(keepends=True)
            kept = _newest(lines)
            if len(lines) - len(kept) > SLACK:
                replace(self._path, b"".join(reversed(kept)))
        return [text for line in kept if (text := _decoded(line)) is not None]

    def _failed(self, error: OSError) -> None:
        if not self._is_broken:
            self._is_broken = True
            self._tell(f"note: what you type is not kept: {self._path}: {(error.strerror or str(error)).lower()}")


def _newest(lines: list[bytes]) -> list[bytes]:
    """Newest first, within the bounds."""
    kept, size = [], 0
    for line in islice(reversed(lines), MOST):
        size += len(line)
        if size > HELD:
            break
        kept.append(line)
    return kept


def _decoded(line: bytes) -> str | None:
    """None for what a killed process left half written."""
    try:
        return decode(line)
    except msgspec.DecodeError:
        return None


def _append(path: Path, line: bytes) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        is_whole = size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
        os.write(descriptor, line if is_whole else b"\n" + line)
    finally:
        os.close(descriptor)
