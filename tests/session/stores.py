"""Looking at a session store from outside."""

import sqlite3
from contextlib import closing
from pathlib import Path

from acp_launch.session.store import Record

FIX = Record("/p", "work", "fix-42", "abc", "demo", "1.0", "demo --acp", "/p/src", "Fix the bug", 100.0, 200.0)


def store_file(state: Path) -> Path:
    return state / "sessions" / "sessions.db"


def raw(state: Path) -> "closing[sqlite3.Connection]":
    return closing(sqlite3.connect(store_file(state), isolation_level=None))


def is_whole(state: Path) -> bool:
    with raw(state) as connection:
        return bool(connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)])
