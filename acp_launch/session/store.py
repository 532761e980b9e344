"""
Named sessions on disk: which ACP session a (project, profile, name) stands for.

An answer is the truth or a SessionError. Each row carries a checksum over its fields, because SQLite detects a damaged
tree but not a damaged text. "Not found" is reported only after the whole store was checked, because the caller then
starts a new session where the user meant to continue one. A call that returned survives `kill -9` at any instant.

`Registry` is the store, `continued` chooses the session of a run, `SessionKeeper` writes a run's session into it.
"""

import os
import shlex
import sqlite3
import stat
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import astuple, replace

from acp_launch.errors import SessionError
from acp_launch.private import make_private, sqlite_uri
from acp_launch.problem import ours
from acp_launch.protocol.acp import Negotiated
from acp_launch.secret.redact import redactor
from acp_launch.session.history import History, SessionTurn
from acp_launch.waits import stretch

if TYPE_CHECKING:  # the agent is started before these are imported
    from acp_launch.plan.model import LaunchPlan
    from acp_launch.session.events import Said, SessionEvent, TurnEnd

# Every failure of the session store in words: the file, the fault, and the fix.


ELSEWHERE = "set ACP_LAUNCH_STATE_DIR to a directory on a local disk that you can write to"


@contextmanager
def explain_faults(path: Path) -> Iterator[None]:
    """Turn every failure of SQLite or of the file system into a SessionError."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(path, error) from error
    except OSError as error:
        fix = f"check the owner and mode of {shlex.quote(str(path.parent))}, or {ELSEWHERE}"
        raise SessionError(f"cannot use the session store {path}: {error.strerror or error}", fix=fix) from error
    except UnicodeEncodeError as error:
        raise SessionError(f"the session store cannot hold {error.object!r}: it is not valid Unicode") from error
    except UnicodeDecodeError as error:  # also when SQLite's message quotes a damaged schema
        raise damage_error(path, "its text is not UTF-8") from error


def damage_error(path: Path, what: str) -> SessionError:
    aside = f"mv {shlex.quote(str(path.parent))} {shlex.quote(f'{path.parent}.damaged')}"
    # SQLite quotes what it found, which may be anything.
    shown = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in what)
    return SessionError(
        f"the session store {path} is damaged: {shown}; it was not changed",
        fix=f"{aside}, then start again; agents still have their sessions: acp-launch session list PROFILE --agent",
    )


def _explain(path: Path, error: sqlite3.Error) -> SessionError:
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return SessionError(
                f"the session store {path} has been locked by another process for more than {LOCK_TIMEOUT:g} s",
                fix=f"end the process that holds it (fuser {shlex.quote(str(path))} names it) and run again",
            )
        case sqlite3.SQLITE_FULL:
            return SessionError(f"no room to write the session store {path}: {error}", fix="free some disk space")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_AUTH:
            fix = f"make {shlex.quote(str(path.parent))} and its files writable for you, or {ELSEWHERE}"
            return SessionError(f"cannot open the session store {path} for writing: {error}", fix=fix)
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_PROTOCOL | sqlite3.SQLITE_NOLFS:
            return SessionError(
                f"cannot read or write the session store {path}: {error}", fix=f"check the disk, or {ELSEWHERE}"
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_ERROR:
            return damage_error(path, str(error))
        case _:
            return SessionError(f"the session store {path} failed: {error}", fix="this is a bug, please report it")


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; errors that Python's module raises itself have none."""
    misused = isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError)
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE if misused else sqlite3.SQLITE_ERROR)
    return code & 0xFF


# The file of the session store: created whole or not at all, opened without harm.
#
# - A new store is built under a private name and linked into place when complete, so that no process sees half of one:
#   ten processes may be the first at once, and each may die at any instant. An empty file is therefore damage.
# - SQLite keeps its write-ahead log next to the file. All of it lives in its own directory, so that putting a
#   damaged store aside is one `mv` and no log of an old store is ever applied to a new one.
# - WAL if the file system supports it (it needs shared memory, which most network file systems lack), else a rollback
#   journal; decided once, when the store is created, and recorded by SQLite in the file.
# - A store that is damaged, foreign or newer is refused and left unchanged.


# A store of an earlier version gets the columns it lacks when it is opened, all in one transaction. Versions that do
# not know a column name their own when they read and write, so they go on using the store, and the column's default
# stands. A change that they would not survive needs a higher `VERSION`: they refuse the store, and leave it as it is.


VERSION = 1  # of the tables below; stored in SQLite's user_version
APPLICATION_ID = 0x4143504C  # "ACPL", identifies our files
ADDED = {"turns": "INTEGER NOT NULL DEFAULT 0"}  # columns that the first stores lack; no seal covers them
BESIDE = ("-wal", "-shm", "-journal")  # the files that SQLite keeps next to a store
HEADER = 100  # bytes that every SQLite file begins with
TABLES = f"""
CREATE TABLE session (
    project TEXT NOT NULL, profile TEXT NOT NULL, name TEXT NOT NULL,
    session_id TEXT NOT NULL,
    agent_name TEXT NOT NULL, agent_version TEXT NOT NULL, agent_command TEXT NOT NULL,
    cwd TEXT NOT NULL, title TEXT NOT NULL,
    created REAL NOT NULL, last_used REAL NOT NULL,
    seal INTEGER NOT NULL,
    {", ".join(f"{name} {type}" for name, type in ADDED.items())},
    PRIMARY KEY (project, profile, name)
) WITHOUT ROWID
"""


def connect(path: Path) -> sqlite3.Connection:
    """Open the store at `path`, creating it if needed.

    Raises:
        SessionError: it cannot be created or opened, or is not ours to use; nothing was changed.
    """
    with explain_faults(path):
        if not path.exists():
            _make(path)
        _look(path)
        # rw, not rwc: a store that vanished this instant must not come back empty.
        connection = sqlite3.connect(
            f"{sqlite_uri(path)}?mode=rw", uri=True, timeout=LOCK_TIMEOUT, isolation_level=None
        )
        try:
            _check(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block as one transaction, with no other writer: what it reads is still true when it writes."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite rolls back by itself on a full disk
            connection.execute("ROLLBACK")
        raise


def verify(connection: sqlite3.Connection, path: Path) -> None:
    """Read every page, and raise SessionError unless they fit together."""
    (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        raise damage_error(path, " ".join(str(verdict).split()))


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
    """Refuse to create a store next to a log: the store alone was moved, and the log may hold sessions."""
    log = path.with_name(path.name + "-wal")
    # In this order: another process would have created the store before its log.
    if log.exists() and not path.exists():
        raise damage_error(path, f"its log {log.name} exists, but the store does not")


def _build(draft: Path) -> None:
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        draft.chmod(0o600)  # whatever the umask is; SQLite gives its log and index the mode of the store
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
        # Opens the log, which fails on some file systems.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.execute("PRAGMA journal_mode = DELETE")  # any other fault fails again here


def _look(path: Path) -> None:
    """Refuse what SQLite would take for an empty store, wait for, or drop the log of."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise damage_error(path, "it is not a file")
    if status.st_size < HEADER:
        raise damage_error(path, "it is cut short" if status.st_size else "it is empty")


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (identity,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if identity != APPLICATION_ID or version < 1:
        raise damage_error(path, "it is not a session store of acp-launch")
    if version > VERSION:
        what = f"written by a newer acp-launch (store version {version}, this one knows {VERSION})"
        raise SessionError(
            f"the session store {path} was {what}",
            fix="upgrade acp-launch, or set ACP_LAUNCH_STATE_DIR to another directory",
        )
    (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    if journal == "wal":  # NORMAL cannot damage a WAL store, only lose the last commits at a power cut
        connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cell_size_check = ON")
    if _missing_columns(connection):
        with transaction(connection):
            for column in _missing_columns(connection):  # anew: another process may have been faster
                connection.execute(f"ALTER TABLE session ADD COLUMN {column} {ADDED[column]}")


def _missing_columns(connection: sqlite3.Connection) -> list[str]:
    """Return the added columns that this store does not have yet."""
    there = {name for (name,) in connection.execute("SELECT name FROM pragma_table_info('session')")}
    return [name for name in ADDED if name not in there]


LOCK_TIMEOUT = stretch(5.0)  # ten writers at once need less than 0.1 s
Key = tuple[str, str, str]


Seconds = Annotated[float, Meta(ge=0, lt=1 << 36)]  # of Unix, up to a year that a date can have


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
    created: Seconds
    last_used: Seconds
    turns: Annotated[int, Meta(ge=0, lt=1 << 31)] = 0  # those that were counted: earlier versions of acp-launch did not

    @property
    def key(self) -> Key:
        return self.project, self.profile, self.name

    @property
    def host(self) -> str:
        """The other machine where it works, as `LaunchPlan.location` has it; empty for this one."""
        host, is_named, _ = self.cwd.partition(":/")
        return host if is_named and "/" not in host else ""

    @property
    def directory(self) -> Path | None:
        """Where it works, on this machine."""
        return None if self.host else Path(self.cwd)


class ExportedSession(Struct, frozen=True):
    """A session on its way to another machine: `cwd` of its record is relative to the project, which is empty."""

    acp_launch_session: Literal[1]
    record: Record
    turns: tuple[dict[str, Any], ...] = ()  # each a `SessionTurn`


# The seal does not cover the turns: versions that do not know them read and write the same store.
COLUMNS = [*Record.__struct_fields__[:-1], "seal", "turns"]
SELECT = f"SELECT {', '.join(COLUMNS)} FROM session"
INSERT = f"INSERT OR REPLACE INTO session ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
BY_KEY = "project = ? AND profile = ? AND name = ?"
NEWEST_FIRST = "ORDER BY last_used DESC, project, profile, name"


def store_file(state_dir: Path) -> Path:
    return state_dir / "sessions" / "sessions.db"


def open_registry(state_dir: Path) -> "Registry":
    """Open the user's own store."""
    return Registry(store_file(state_dir))


class Registry:
    """An open store. Every method may raise SessionError, and has then changed nothing."""

    def __init__(self, path: Path) -> None:
        """Open or create the store at `path`, alone in its directory."""
        self._path = path
        self._connection = connect(path)
        self.history = History(path.parents[1])  # what was said in its sessions

    def __enter__(self) -> "Registry":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.history.close()
        with self._explained():
            self._connection.close()

    def _explained(self) -> AbstractContextManager[None]:
        return explain_faults(self._path)

    def find(self, project: str, profile: str, name: str) -> Record | None:
        return self._first(f"WHERE {BY_KEY}", (project, profile, name))

    def latest(self, project: str, profile: str, root: str = "") -> Record | None:
        """Return the session used last, for `--continue`, of those whose directory begins with `root`."""
        where = f"WHERE project = ? AND profile = ? AND substr(cwd, 1, length(?)) = ? {NEWEST_FIRST} LIMIT 1"
        return self._first(where, (project, profile, root, root))

    def list(
        self, project: str | None = None, profile: str | None = None, *, limit: int | None = None
    ) -> tuple[Record, ...]:
        """Return the sessions of one project or profile, or all, newest first; at most `limit` of them."""
        where, values = _condition(project, profile)
        most = "" if limit is None else f" LIMIT {limit}"
        with self._explained():
            verify(self._connection, self._path)
            return self._read(f"{where}{NEWEST_FIRST}{most}", values)

    def count(self, project: str | None = None, profile: str | None = None) -> int:
        """Return how many there are."""
        where, values = _condition(project, profile)
        with self._explained():
            return int(self._connection.execute(f"SELECT count(*) FROM session {where}", values).fetchone()[0])

    def save(self, record: Record) -> None:
        """Insert `record`, or replace the one with its key."""
        with self._explained():
            self._write(record)

    def touch(self, key: Key, last_used: float, title: str | None = None) -> Record:
        """Note that a session had a turn, and its title if there is a new one. Returns the new record."""
        with self._explained(), transaction(self._connection):
            old = self._find(key)
            new = old.title if title is None else title
            record = replace(old, last_used=last_used, title=new, turns=old.turns + 1)
            self._write(record)
        return record

    def rename(self, key: Key, new: str) -> Record:
        """Rename a session; refuses a name that is taken."""
        with self._explained(), transaction(self._connection):
            record = replace(self._find(key), name=new)
            if self._read(f"WHERE {BY_KEY}", record.key):
                raise SessionError(
                    f'there is already a session "{new}" of profile "{record.profile}"', fix="choose another name"
                )
            self._delete(key)
            self._write(record)
        self.history.move(key, record.key)
        return record

    def move(self, project: str, new: str) -> Sequence[Record]:
        """Take the sessions of a project along to its new directory, and return them as they are then.

        Raises:
            SessionError: one of the same profile and name is there.
        """
        with self._explained(), transaction(self._connection):
            old = self._read("WHERE project = ?", (project,))
            moved = [replace(each, project=new, cwd=_below(each.cwd, project, new)) for each in old]
            for before, record in zip(old, moved, strict=True):
                if self._read(f"WHERE {BY_KEY}", record.key):
                    what = f'there is already a session "{record.name}" of profile "{record.profile}" in {new}'
                    raise SessionError(what, fix=f"rename it: acp-launch session rename {record.name} NEW")
                self._delete(before.key)
                self._write(record)
        for before, record in zip(old, moved, strict=True):
            self.history.move(before.key, record.key)
        return moved

    def remove(self, key: Key) -> bool:
        """Forget a session. Returns False if it did not exist."""
        self.history.remove(key)
        with self._explained():
            return self._delete(key) > 0

    def _first(self, clause: str, values: Sequence[str]) -> Record | None:
        with self._explained():
            if found := self._read(clause, values):
                return found[0]
            verify(self._connection, self._path)
            return None

    def _find(self, key: Key) -> Record:
        if found := self._read(f"WHERE {BY_KEY}", key):
            return found[0]
        raise SessionError(f'there is no session "{key[2]}" of profile "{key[1]}"', fix="see acp-launch session list")

    def _read(self, clause: str, values: Sequence[str]) -> tuple[Record, ...]:
        rows = self._connection.execute(f"{SELECT} {clause}", values).fetchall()
        return tuple(self._unseal(row) for row in rows)

    def _unseal(self, row: tuple[Any, ...]) -> Record:
        *values, seal, turns = row
        if seal != _seal(values):
            raise damage_error(self._path, f"the entry of session {values[2]!r} does not match its checksum")
        return replace(Record(*values), turns=turns if isinstance(turns, int) else 0)

    def _write(self, record: Record) -> None:
        # The title comes from the agent and may be anything. The other texts are ours and are refused if invalid.
        title = record.title.encode(errors="replace").decode()
        *values, turns = astuple(
            replace(record, title=title, created=float(record.created), last_used=float(record.last_used))
        )
        self._connection.execute(INSERT, (*values, _seal(values), turns))

    def _delete(self, key: Key) -> int:
        return self._connection.execute(f"DELETE FROM session WHERE {BY_KEY}", key).rowcount


def _below(path: str, old: str, new: str) -> str:
    return new + path.removeprefix(old) if path == old or path.startswith(f"{old}/") else path


def _condition(project: str | None, profile: str | None) -> tuple[str, Sequence[str]]:
    """Return the condition for one project or profile, or for all, and its values."""
    chosen = {"project": project, "profile": profile}
    values = {column: value for column, value in chosen.items() if value is not None}
    return (f"WHERE {' AND '.join(f'{column} = ?' for column in values)} " if values else ""), [*values.values()]


def _seal(values: Sequence[object]) -> int:
    return zlib.crc32("\0".join(map(str, values)).encode(errors="surrogatepass"))


# The session that a run opens: the named one, the latest, or a new one under its own name (docs/session.md).


def latest_name(registry: Registry, plan: "LaunchPlan") -> str:
    """Return the name of the session of this project and profile that was used last.

    Raises:
        SessionError: there is none.
    """
    root = plan.location.removesuffix(str(plan.directory)) + "/"  # of the machine
    record = registry.latest(str(plan.project), plan.profile, root)
    if record is None and (other := registry.latest(str(plan.project), plan.profile)):
        known = f'"{other.name}" works in {other.cwd}'
        what = f'no session of profile "{plan.profile}" works {plan.machine or "here"}; {known}'
        raise SessionError(what, fix=f"{_way_back(other, plan)}, or no --continue to start afresh")
    if record is None:
        usual = "run it once without --continue; acp-launch session list --all shows every session"
        raise SessionError(
            f'there is no session of profile "{plan.profile}" in {plan.project} to continue',
            fix=hint_at_move(registry, str(plan.project)) or usual,
        )
    return record.name


def hint_at_move(registry: Registry, project: str) -> str:
    """Say that sessions are of a project that is gone, and may be this one, which has none; empty if there are none."""
    if registry.count(project):
        return ""
    gone = dict.fromkeys(each.project for each in registry.list() if not os.path.lexists(each.project))
    old = next((each for each in gone if Path(each).name == Path(project).name), next(iter(gone), ""))
    move = f"if it is this project, {ours('session', 'move', old)}"
    return f"no sessions here; {old}, which is gone, has some: {move}" if old else ""


def continued(registry: Registry, plan: "LaunchPlan", name: str, *, latest: bool) -> Record | None:
    """Return the session of that name, or None if it does not exist yet. Call this while holding it.

    `latest` is whether `--continue` chose it, which excludes `--new`.

    Raises:
        SessionError: it belongs to another directory; ACP wants the same cwd every time a session is loaded.
    """
    record = registry.find(str(plan.project), plan.profile, name)
    if record is not None:
        require_place(record, plan, f"{'no --continue' if latest else '--new'} to start afresh here")
    return record


def require_place(record: Record, plan: "LaunchPlan", otherwise: str) -> None:
    """Raise SessionError if a session works elsewhere than the plan; `otherwise` is another way out."""
    if record.cwd != plan.location:
        what = f'the session "{record.name}" works in {record.cwd}, this run in {plan.location}'
        raise SessionError(what, fix=f"{_way_back(record, plan)}, or {otherwise}")


def _way_back(record: Record, plan: "LaunchPlan") -> str:
    """Say how to work where a session does."""
    if host := record.host:
        return f"write runtime: {{ssh: {{host: {host}, directory: {record.cwd.removeprefix(f'{host}:')}}}}}"
    return "remove runtime.ssh" if plan.machine else f"--cwd {shlex.quote(record.cwd)}"


# What a run stores: written when its session is open, so that `kill -9` loses no session.
#
# Names and titles are for users, so text from agents and prompts in them is redacted. The session's id is not: it must
# be the agent's own, and an agent that puts a secret into it stores that secret itself.


TITLE = 80  # characters of the first prompt that stand in for a title


class SessionKeeper:
    """Keeps one session of `plan` in the store, from `opened` on."""

    def __init__(self, registry: Registry, plan: "LaunchPlan", record: Record | None, prompt: str = "") -> None:
        """Keep a session. `record` is the session that is continued; `prompt` names a new one until the agent does."""
        self._registry = registry
        self._plan = plan
        self._record = record
        self._prompt = prompt
        self._has_title = bool(prompt or (record and record.title))
        self._key: Key | None = None

    @property
    def is_kept(self) -> bool:
        return self._key is not None

    def opened(self, ready: "SessionEvent", agent: Negotiated) -> None:
        now = time.time()
        if self._key is not None:  # by an agent that was started again: with its title and turns so far
            self._record = self._registry.find(*self._key)
        record = self._record or self._fresh(ready, now)
        if self._record is None:
            self._registry.history.remove(record.key)  # of a session that had the name
        record = replace(
            record,
            agent_name=redactor.text(agent.name),
            agent_version=redactor.text(agent.agent_version),
            last_used=now,
            session_id=ready.session_id,
        )
        self._key = record.key
        self._registry.save(record)

    def store_turn(self, prompt: str, end: "TurnEnd", first: str = "") -> None:
        """Store the end of a turn, and its words. A session without a title is named by `first`, or by the prompt."""
        if self._key is not None:
            name = redactor.text(end.title) or ("" if self._has_title else _as_title(first or prompt))
            self._has_title = self._has_title or bool(name)
            self._registry.touch(self._key, time.time(), name or None)
            self._add(self._key, prompt, end.said, end.stop_reason)

    def store_broken_turn(self, prompt: str, said: "Said") -> None:
        """Store the words of a turn that has no end: its agent refused, died, or was ended."""
        if self._key is not None:
            self._add(self._key, prompt, said, "error")

    def _add(self, key: Key, prompt: str, said: "Said", stop_reason: str) -> None:
        answer, tools = redactor.text(said.answer), tuple(map(redactor.text, said.tools))
        words = redactor.text(prompt)
        turn = SessionTurn(time=time.time(), prompt=words, answer=answer, tools=tools, stop_reason=stop_reason)
        self._registry.history.add(key, turn)

    def _fresh(self, ready: "SessionEvent", now: float) -> Record:
        return Record(
            project=str(self._plan.project),
            profile=self._plan.profile,
            name=ready.name,
            session_id=ready.session_id,
            agent_name="",
            agent_version="",
            agent_command=str(self._plan.agent.command),
            cwd=self._plan.location,
            title=_as_title(self._prompt),
            created=now,
            last_used=now,
        )


def _as_title(prompt: str) -> str:
    return " ".join(redactor.text(prompt).split())[:TITLE]


def drift(record: Record, agent: Negotiated) -> str:
    """Describe how the agent has changed since the session was last used; empty if it has not."""
    if agent.name and record.agent_name and agent.name != record.agent_name:
        return f'the session "{record.name}" was created with {record.agent_name}, and this is {agent.name}'
    if agent.agent_version != record.agent_version:
        now, before = agent.agent_version or "unknown", record.agent_version or "unknown"
        return f"{agent.name or 'the agent'} is now version {now}, it was {before}"
    return ""
