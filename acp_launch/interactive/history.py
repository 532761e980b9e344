"""
The prompts typed in a project, newest last: one JSON string per line, readable by the user alone (0600).

Processes may append at the same time: each line is one append under a lock. The file is cut to `MAX_ENTRIES` when it is
read and has grown well beyond. A line that begins with a space is not saved, as in a shell, and text passes the
redactor first. A failure to save is reported once, and the session continues. A link, a pipe or anything else that is
not a regular file of the user is neither read nor written.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

import msgspec
from prompt_toolkit.history import History

from acp_launch.private import locked, make_private, replace
from acp_launch.secret.redact import Redactor
from acp_launch.waits import stretch

MAX_ENTRIES = 10_000
SPARE_ENTRIES = 1_000  # beyond that before the file is rewritten
MAX_ENTRY_BYTES = 32 * 1024  # a longer one is a paste
MAX_READ_BYTES = 1024 * 1024  # what remains after a cut, too
LOCK_TIMEOUT = stretch(1.0)  # its holder writes one line
# Do not follow a link, and do not block on a pipe.
_CAREFUL = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
decode = msgspec.json.Decoder(str).decode


class PromptHistory(History):
    """The history for prompt_toolkit."""

    def __init__(self, path: Path, source: Redactor, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._path = path
        self._redactor = source
        self._tell = tell
        self._is_broken = False

    def keep(self, text: str) -> None:
        """Add a prompt, unless it begins with a space or repeats the last one."""
        strings = self.get_strings()
        redacted = self._redactor.text(text)
        if not text.startswith(" ") and (not strings or strings[-1] != redacted):
            self.append_string(redacted)

    def load_history_strings(self) -> Iterable[str]:
        """Return the newest first, as prompt_toolkit needs."""
        try:
            return self._read()
        except (OSError, TimeoutError) as error:
            self._report_failure(error)
            return []

    def store_string(self, string: str) -> None:
        line = msgspec.json.encode(string) + b"\n"
        if len(line) > MAX_ENTRY_BYTES:
            return
        try:
            make_private(self._path.parent)
            with (
                locked(self._lock, LOCK_TIMEOUT),
                _open_history(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as file,
            ):
                size = file.seek(0, os.SEEK_END)
                is_whole = size == 0 or os.pread(file.fileno(), 1, size - 1) == b"\n"
                os.write(file.fileno(), line if is_whole else b"\n" + line)
        except (OSError, TimeoutError) as error:
            self._report_failure(error)

    @property
    def _lock(self) -> Path:
        return self._path.with_name(f"{self._path.name}.lock")

    def _read(self) -> list[str]:
        if not os.path.lexists(self._path):
            return []
        with locked(self._lock, LOCK_TIMEOUT):
            lines, size = _tail(self._path)
            if len(lines) > MAX_ENTRIES + SPARE_ENTRIES or size > 2 * MAX_READ_BYTES:
                replace(self._path, b"".join(lines[-MAX_ENTRIES:]))
        return [text for line in reversed(lines[-MAX_ENTRIES:]) if (text := _decode_line(line)) is not None]

    def _report_failure(self, error: OSError) -> None:
        if not self._is_broken:
            self._is_broken = True
            self._tell(f"note: the prompt history is not saved: {self._path}: {(error.strerror or str(error)).lower()}")


def _tail(path: Path) -> tuple[list[bytes], int]:
    """Return the last lines, oldest first, and the size of the file."""
    with _open_history(path, os.O_RDONLY) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - MAX_READ_BYTES))
        lines = file.read(MAX_READ_BYTES).splitlines(keepends=True)
    return lines[1:] if size > MAX_READ_BYTES else lines, size  # the first may be the rest of a line


def _decode_line(line: bytes) -> str | None:
    """Return the text; None for a line that a killed process left incomplete."""
    try:
        return decode(line)
    except msgspec.DecodeError:
        return None


@contextmanager
def _open_history(path: Path, flags: int) -> Iterator[FileIO]:
    """
    Open the history file.

    Raises:
        OSError: it is not a regular file of the user, or cannot be opened.
    """
    if path.is_symlink():  # the system's message would be "too many levels"
        raise OSError(errno.ELOOP, "it is a link")
    with FileIO(os.open(path, flags | _CAREFUL, 0o600), "r+" if flags & os.O_RDWR else "r") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if about.st_uid != os.geteuid():
            raise OSError(errno.EPERM, "it belongs to another user")
        yield file
