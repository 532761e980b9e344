"""Every failure of the session store in words: what is wrong with which file, and what to do about it."""

import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acp_launch.errors import SessionError

ELSEWHERE = "set ACP_LAUNCH_STATE_DIR to a directory on a local disk that you can write to"


@contextmanager
def explained(path: Path, *, patience: float) -> Iterator[None]:
    """The one place where a failure of SQLite or of the file system becomes a SessionError."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(path, error, patience) from error
    except OSError as error:
        fix = f"check the owner and mode of {shlex.quote(str(path.parent))}, or {ELSEWHERE}"
        raise SessionError(f"cannot use the session store {path}: {error.strerror or error}", fix=fix) from error
    except UnicodeEncodeError as error:
        raise SessionError(f"the session store cannot hold {error.object!r}: it is not valid Unicode") from error
    except UnicodeDecodeError as error:  # also when SQLite's message quotes a damaged schema
        raise damaged(path, "its text is not UTF-8") from error


def damaged(path: Path, what: str) -> SessionError:
    aside = f"mv {shlex.quote(str(path.parent))} {shlex.quote(f'{path.parent}.damaged')}"
    # SQLite quotes what it found, and that may be anything.
    shown = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in what)
    return SessionError(
        f"the session store {path} is damaged: {shown}; it was left as it is",
        fix=f"{aside}, then start afresh; agents still have their sessions: acp-launch session list PROFILE --agent",
    )


def newer(path: Path, version: int, known: int) -> SessionError:
    return SessionError(
        f"the session store {path} was written by a newer acp-launch (store version {version}, this one knows {known})",
        fix="pip install --upgrade acp-launch, or set ACP_LAUNCH_STATE_DIR to another directory",
    )


def _explain(path: Path, error: sqlite3.Error, patience: float) -> SessionError:
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return SessionError(
                f"the session store {path} has been locked by another process for more than {patience:g} s",
                fix=f"end the process that holds it (fuser {shlex.quote(str(path))} names it) and run again",
            )
        case sqlite3.SQLITE_FULL:
            return SessionError(f"no room to write the session store {path}: {error}", fix="free some disk space")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_AUTH:
            fix = f"make {shlex.quote(str(path.parent))} and what is in it writable for you, or {ELSEWHERE}"
            return SessionError(f"the session store {path} cannot be opened for writing: {error}", fix=fix)
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_PROTOCOL | sqlite3.SQLITE_NOLFS:
            return SessionError(
                f"the session store {path} cannot be read or written: {error}", fix=f"check the disk, or {ELSEWHERE}"
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_ERROR:
            return damaged(path, str(error))
        case _:
            return SessionError(f"the session store {path} failed: {error}", fix="this is a bug, please report it")


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; errors that Python's module raises itself have none."""
    misused = isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError)
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE if misused else sqlite3.SQLITE_ERROR)
    return code & 0xFF
