"""
The file under the session store: made whole or not at all, opened without harm.

- A new store is built under a private name and linked into place when complete, so nobody ever sees half of one:
  ten processes may be the first at once, and each may die at any instant. An empty file is therefore damage.
- SQLite keeps its write-ahead log beside the file. All of it lives in a directory of its own, so that putting a damaged
  store aside is one `mv` and no log of an old store is ever applied to a new one.
- WAL where the file system can (it needs shared memory, which most network file systems lack), else a rollback
  journal; decided once, when the store is made, and recorded by SQLite in the file.
- A store that is damaged, foreign or newer is refused and left where it is.
"""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from acp_launch.private import make_private
from acp_launch.session.store.fault import damaged, explained, newer

VERSION = 1  # of the tables below; kept in SQLite's user_version
APPLICATION_ID = 0x4143504C  # "ACPL", says whose file it is
BESIDE = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a store
HEADER = 100  # bytes every SQLite file begins with
TABLES = """
CREATE TABLE session (
    project TEXT NOT NULL, profile TEXT NOT NULL, name TEXT NOT NULL,
    session_id TEXT NOT NULL,
    agent_name TEXT NOT NULL, agent_version TEXT NOT NULL, agent_command TEXT NOT NULL,
    cwd TEXT NOT NULL, title TEXT NOT NULL,
    created REAL NOT NULL, last_used REAL NOT NULL,
    seal INTEGER NOT NULL,
    PRIMARY KEY (project, profile, name)
) WITHOUT ROWID
"""


def connect(path: Path, *, patience: float) -> sqlite3.Connection:
    """Open the store at `path`, made first if need be. Locks of others are waited for up to `patience` seconds.

    Raises:
        SessionError: it cannot be made or opened, or is not one of ours to use; nothing was changed.
    """
    with explained(path, patience=patience):
        if not path.exists():
            _make(path)
        _look(path)
        # rw, not rwc: a store that vanished this instant must not come back empty.
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=patience, isolation_level=None
        )
        try:
            _check(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing, alone among the writers: what was read inside is still true when it is written."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite rolls back by itself on a full disk
            connection.execute("ROLLBACK")
        raise


def verify(connection: sqlite3.Connection, path: Path) -> None:
    """Read every page and raise SessionError unless they fit together."""
    (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        raise damaged(path, " ".join(str(verdict).split()))


def _make(path: Path) -> None:
    """Build a store and put it at `path`, unless another process does so first."""
    make_private(path.parent)
    _refuse_orphan(path)
    draft = path.with_name(f".new-{os.getpid()}-{os.urandom(6).hex()}")
    try:
        _build(draft)
        os.link(draft, path)
    except FileExistsError:
        return  # the other's is as good as ours
    finally:
        for ending in ("", *BESIDE):
            draft.with_name(draft.name + ending).unlink(missing_ok=True)


def _refuse_orphan(path: Path) -> None:
    """A log outlives its store only when somebody moved the store alone: keep it, it may hold sessions."""
    log = path.with_name(path.name + "-wal")
    # In this order: whoever made a store in the meantime made it before its log.
    if log.exists() and not path.exists():
        raise damaged(path, f"its log {log.name} is there and the store itself is not")


def _build(draft: Path) -> None:
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        draft.chmod(0o600)  # past any umask; SQLite gives its log and index the mode of the store
    finally:
        os.close(descriptor)
    with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        _choose_journal(connection)
        with transaction(connection):
            connection.execute(TABLES)
            connection.execute(f"PRAGMA user_version = {VERSION}")


def _choose_journal(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # Opens the log, which is what some file systems cannot do.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.execute("PRAGMA journal_mode = DELETE")  # whatever else is wrong fails again here


def _look(path: Path) -> None:
    """What SQLite would take for an empty store, wait for, or throw the log away for."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise damaged(path, "it is not a file")
    if status.st_size < HEADER:
        raise damaged(path, "it is cut short" if status.st_size else "it is empty")


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (identity,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if identity != APPLICATION_ID or version < 1:
        raise damaged(path, "it is not a session store of acp-launch")
    if version > VERSION:
        raise newer(path, version, VERSION)
    (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    if journal == "wal":  # NORMAL cannot damage a WAL store, only lose the last commits at a power cut
        connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cell_size_check = ON")
