"""
What was typed in a project, newest last: one JSON text a line, for the user alone (0600).

Ten processes may add to it at once: each line is one append under a lock. It is cut to `MOST` entries when it is read
and has grown well past them. A line that starts with a space is not kept, as in a shell, and no secret is: text passes
the redactor first. History that cannot be kept is no reason to stop; it is said once. What is no regular file of the
user's, a link or a pipe for instance, is neither read nor written.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from itertools import islice
from pathlib import Path

import msgspec
from prompt_toolkit.history import History

from acp_launch.private import locked, make_private, replace
from acp_launch.secret.redact import Redactor

MOST = 10_000  # entries
SLACK = 1_000  # entries over that which are not worth writing the file anew
LARGEST = 32 * 1024  # bytes of one entry; a longer one was pasted
HELD = 1024 * 1024  # bytes of all that are read, and kept when it is cut
PATIENCE = 1.0  # seconds for the lock; whoever holds it writes a line
# A link is not followed, and a pipe hangs nobody.
_CAREFUL = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
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
        if not os.path.lexists(self._path):
            return []
        with locked(self._lock, PATIENCE):
            lines, size = _tail(self._path)
            kept = _newest(lines)
            if len(lines) - len(kept) > SLACK or size > 2 * HELD:
                replace(self._path, b"".join(reversed(kept)))
        return [text for line in kept if (text := _decoded(line)) is not None]

    def _failed(self, error: OSError) -> None:
        if not self._is_broken:
            self._is_broken = True
            self._tell(f"note: what you type is not kept: {self._path}: {(error.strerror or str(error)).lower()}")


def _tail(path: Path) -> tuple[list[bytes], int]:
    """The last lines, oldest first, and the size of the file."""
    with _opened(path, os.O_RDONLY) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - HELD))
        lines = file.read(HELD).splitlines(keepends=True)
    return lines[1:] if size > HELD else lines, size  # the first of a part is half a line


def _newest(lines: list[bytes]) -> list[bytes]:
    """Newest first, within the bounds."""
    return list(islice(reversed(lines), MOST))


def _decoded(line: bytes) -> str | None:
    """None for what a killed process left half written."""
    try:
        return decode(line)
    except msgspec.DecodeError:
        return None


def _append(path: Path, line: bytes) -> None:
    with _opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
        size = file.seek(0, os.SEEK_END)
        is_whole = size == 0 or os.pread(file.fileno(), 1, size - 1) == b"\n"
        os.write(file.fileno(), line if is_whole else b"\n" + line)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[FileIO]:
    """
    Raises:
        OSError: it is no regular file of the user's, or cannot be opened.
    """
    if path.is_symlink():  # the system's own word for it is "too many levels"
        raise OSError(errno.ELOOP, "it is a link")
    with FileIO(os.open(path, flags | _CAREFUL, 0o600), "r+" if flags & os.O_RDWR else "r") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if hasattr(os, "geteuid") and about.st_uid != os.geteuid():
            raise OSError(errno.EPERM, "it belongs to somebody else")
        yield file
