"""
Named sessions on disk: which ACP session a (project, profile, name) stands for.

An answer is the truth or a SessionError. Each row carries a seal over its fields, because SQLite notices a damaged
tree but not a damaged text; and "there is none" is believed only after the whole store was checked, since it makes the
caller start afresh where somebody meant to go on. A call that returned survives `kill -9` of anybody at any instant.
"""

import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from acp_launch.errors import SessionError
from acp_launch.session.store import database as store
from acp_launch.session.store.fault import damaged, explained

PATIENCE = 5.0  # seconds for the writes of others; ten at once need less than 0.1
Key = tuple[str, str, str]


class Record(Struct, frozen=True):
    """A named session. Paths are text as the operating system gave them; times are Unix seconds."""

    project: str
    profile: str
    name: str
    session_id: str  # the agent's
    agent_name: str
    agent_version: str
    agent_command: str
    cwd: str
    title: str
    created: float
    last_used: float

    @property
    def key(self) -> Key:
        return self.project, self.profile, self.name


COLUMNS = ", ".join([*Record.__struct_fields__, "seal"])
SELECT = f"SELECT {COLUMNS} FROM session"
INSERT = f"INSERT OR REPLACE INTO session ({COLUMNS}) VALUES ({', '.join('?' * (len(Record.__struct_fields__) + 1))})"
BY_KEY = "project = ? AND profile = ? AND name = ?"
NEWEST_FIRST = "ORDER BY last_used DESC, project, profile, name"


def open_registry(state_dir: Path) -> "Registry":
    """The user's own store."""
    return Registry(state_dir / "sessions" / "sessions.db")


class Registry:
    """An open store. Every method may raise SessionError, and has then changed nothing."""

    def __init__(self, path: Path, *, patience: float = PATIENCE) -> None:
        """`path` is made if need be, alone in its directory; `patience` bounds each wait for a lock, in seconds."""
        self._path = path
        self._patience = patience
        self._connection = store.connect(path, patience=patience)

    def __enter__(self) -> "Registry":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with explained(self._path, patience=self._patience):
            self._connection.close()

    def find(self, project: str, profile: str, name: str) -> Record | None:
        return self._first(f"WHERE {BY_KEY}", (project, profile, name))

    def latest(self, project: str, profile: str) -> Record | None:
        """The one used last, for `--continue`."""
        return self._first(f"WHERE project = ? AND profile = ? {NEWEST_FIRST} LIMIT 1", (project, profile))

    def list(
        self, project: str | None = None, profile: str | None = None, *, limit: int | None = None
    ) -> tuple[Record, ...]:
        """Newest first; of one project or profile, or of all. At most `limit` of them."""
        where, values = _chosen(project, profile)
        most = "" if limit is None else f" LIMIT {limit}"
        with explained(self._path, patience=self._patience):
            store.verify(self._connection, self._path)
            return self._read(f"{where}{NEWEST_FIRST}{most}", values)

    def count(self, project: str | None = None, profile: str | None = None) -> int:
        """How many there are."""
        where, values = _chosen(project, profile)
        with explained(self._path, patience=self._patience):
            return int(self._connection.execute(f"SELECT count(*) FROM session {where}", values).fetchone()[0])

    def save(self, record: Record) -> None:
        """Insert `record`, or put it in the place of the one with its key."""
        with explained(self._path, patience=self._patience):
            self._write(record)

    def touch(self, key: Key, last_used: float, title: str | None = None) -> Record:
        """Note that a session was used, and its title if there is a new one; gives the record as it is now."""
        with explained(self._path, patience=self._patience), store.transaction(self._connection):
            old = self._existing(key)
            record = replace(old, last_used=last_used, title=old.title if title is None else title)
            self._write(record)
        return record

    def rename(self, key: Key, new: str) -> Record:
        """Give a session another name; refuses one that is taken."""
        with explained(self._path, patience=self._patience), store.transaction(self._connection):
            record = replace(self._existing(key), name=new)
            if self._read(f"WHERE {BY_KEY}", record.key):
                raise SessionError(
                    f'there is already a session "{new}" of profile "{record.profile}"', fix="choose another name"
                )
            self._delete(key)
            self._write(record)
        return record

    def remove(self, key: Key) -> bool:
        """Forget a session; False when there was none."""
        with explained(self._path, patience=self._patience):
            return self._delete(key) > 0

    def _first(self, clause: str, values: Sequence[str]) -> Record | None:
        with explained(self._path, patience=self._patience):
            if found := self._read(clause, values):
                return found[0]
            store.verify(self._connection, self._path)
            return None

    def _existing(self, key: Key) -> Record:
        if found := self._read(f"WHERE {BY_KEY}", key):
            return found[0]
        raise SessionError(f'there is no session "{key[2]}" of profile "{key[1]}"', fix="see acp-launch session list")

    def _read(self, clause: str, values: Sequence[str]) -> tuple[Record, ...]:
        rows = self._connection.execute(f"{SELECT} {clause}", values).fetchall()
        return tuple(self._unsealed(row) for row in rows)

    def _unsealed(self, row: tuple[Any, ...]) -> Record:
        *values, seal = row
        if seal != _seal(values):
            raise damaged(self._path, f"the entry of session {values[2]!r} is not what was written")
        return Record(*values)

    def _write(self, record: Record) -> None:
        # The title comes from the agent and may be anything; the other texts are ours and are refused as they are.
        title = record.title.encode(errors="replace").decode()
        values = astuple(replace(record, title=title, created=float(record.created), last_used=float(record.last_used)))
        self._connection.execute(INSERT, (*values, _seal(values)))

    def _delete(self, key: Key) -> int:
        return self._connection.execute(f"DELETE FROM session WHERE {BY_KEY}", key).rowcount


def _chosen(project: str | None, profile: str | None) -> tuple[str, Sequence[str]]:
    """The condition for those of one project or profile, or of all, and its values."""
    chosen = {"project": project, "profile": profile}
    values = {column: value for column, value in chosen.items() if value is not None}
    return (f"WHERE {' AND '.join(f'{column} = ?' for column in values)} " if values else ""), [*values.values()]


def _seal(values: Sequence[object]) -> int:
    return zlib.crc32("\0".join(map(str, values)).encode(errors="surrogatepass"))
