"""
Completion candidates for a word of a command line, each with a description.

`candidates` takes a kind: `profile`, `logged` (a profile with logs), `session`, `server`, `log`, `secret`, `needed` (a
secret that is stored or that a profile needs) or `topic`.

It only reads files: it writes nothing, asks no keyring and starts no program. A profile's YAML is parsed only for the
names of its servers; its description and its secrets are searched for in the text, which is faster. Names that could
drive a terminal or pass for an option are left out.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from acp_launch.profile.discover import Found, discover, find, project_of
from acp_launch.regex import regex
from acp_launch.settings.load import directory
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.profile.layers import Layer, ParsedLayer

Candidates = Iterable[tuple[str, str]]
MOST = 500  # candidates of one kind
LONGEST = 200  # characters of a name
DESCRIBED = 8 * 1024  # bytes of a profile that are searched for its description
_DESCRIPTION = regex(r"""^(["']?)description\1[ \t]*:[ \t]*(?:[|>][-+0-9]*[ \t]*\n\s*)?(?P<text>.*)$""", re.MULTILINE)
_IN_JSON = regex(r'"description"\s{0,99}:\s{0,99}("(?:[^"\\]|\\.)*")')
_QUOTED = regex(r"""(["'])(.*?)\1\s*(?:#.*)?$""")
_COMMENT = regex(r"(?:^|\s)#.*$")
_REMARK = regex(r"^[ \t]*#.*$", re.MULTILINE)
_SECRET = regex(r"\$\{secret:([A-Za-z0-9_./-]{1,200})\}")
LATEST = "SELECT name, profile, title FROM session WHERE project = ? ORDER BY last_used DESC"


class Line(Protocol):
    """The part of the command line before the word that is completed."""

    verb: str
    arguments: list[tuple[str, str]]  # kind and value

    def first(self, kind: str) -> str:
        """Return the first value of this kind; empty if there is none."""


def candidates(kind: str, line: Line) -> Candidates:
    """Return the candidates and their descriptions in display order, each once.

    Raises:
        LaunchError, OSError, ValueError: they cannot be read.
    """
    found: dict[str, str] = {}
    for name, description in SOURCES[kind](line, _directories()):
        if _is_harmless(name):
            found.setdefault(name, description)
        if len(found) == MOST:
            break
    return found.items()


def _profiles(line: Line, settings: Settings) -> Candidates:
    named = {value for kind, value in line.arguments if kind == "profile"}
    for found in _discovered(settings):
        if found.name not in named:
            text = _head(found.file, trusted=found.origin in ("user", "built-in"))
            yield found.name, description(text) or found.origin


def _sessions(line: Line, settings: Settings) -> Candidates:
    """List the sessions of the profile on the line; without one, of every profile in this project."""
    profile, project = line.first("profile"), str(project_of(Path.cwd()))
    if profile and line.verb == "run":
        found = find(profile, start=Path.cwd(), settings=settings)
        profile, project = found.name, str(found.project)
    for name, of, title in _stored(settings.state / "sessions" / "sessions.db", project):
        if not profile:
            yield name, f"{of}: {title}" if title else of
        elif of == profile:
            yield name, title


def _stored(file: Path, project: str) -> list[tuple[str, str, str]]:
    """Read the session registry without writing a file: by default SQLite creates its log and index to read."""
    import sqlite3
    from contextlib import closing

    from acp_launch.private import sqlite_uri

    log = file.with_name(f"{file.name}-wal")
    how = "readonly_shm=1" if log.exists() else "immutable=1"
    try:
        with closing(sqlite3.connect(f"{sqlite_uri(file)}?mode=ro&{how}", uri=True, timeout=0)) as store:
            return store.execute(f"{LATEST} LIMIT {MOST}", (project,)).fetchall()
    except sqlite3.Error as fault:  # the store is missing, damaged, or being recreated
        raise ValueError(str(fault)) from None


def _servers(line: Line, settings: Settings) -> Candidates:
    """List the servers of the profile on the line and of all it extends, those of its parents first."""
    from acp_launch.profile.gather import gather

    profile = find(line.first("profile"), start=Path.cwd(), settings=settings)
    servers: dict[str, object] = {}
    for part in gather(profile, _understood).parts:
        said = part.document.root.get("mcp_servers") if part.document else None
        servers |= said if isinstance(said, dict) else {}
    return [(name, profile.name) for name, server in servers.items() if server is not None]


def _understood(layer: "Layer") -> "ParsedLayer":
    """Parse only what the names of servers need; mistakes elsewhere in the text are not looked for."""
    from acp_launch.document.yaml import parse
    from acp_launch.profile.layers import KEY, Extends, ParsedLayer, entries

    document, _ = parse(layer.text, layer.label)
    written = document.root.get(KEY) if document else None
    return ParsedLayer(layer, tuple(Extends(entry, 0, 0, KEY) for _, entry in entries(written)), document)


def _logs(line: Line, settings: Settings) -> Candidates:
    """List the logs of the profile's launches; `agent` is always among them."""
    from acp_launch.process.logs import logs

    profile = line.first("logged")
    yield "agent", "the agent's own"
    for name in logs(settings.state / "log").values():
        if name.profile == profile and name.server:
            yield name.server.partition("#")[0], "MCP server"


def _logged(line: Line, settings: Settings) -> Candidates:
    """List the profiles, and deleted profiles that still have logs."""
    from acp_launch.process.logs import logs

    yield from _profiles(line, settings)
    for name in reversed(logs(settings.state / "log").values()):
        yield name.profile, "has logs"


def _secrets(line: Line, settings: Settings) -> Candidates:
    """List the names in the index of secrets, of every store."""
    named = {value for kind, value in line.arguments if kind == "secret"}
    return [(name, store) for name, store in stored_secrets(settings) if name not in named]


def stored_secrets(settings: Settings) -> list[tuple[str, str]]:
    """Return the names of secrets in the index, and the store of each; no store is asked.

    Raises:
        ValueError: the index cannot be read.
    """
    import json

    from acp_launch.private import Unfit, read_bounded
    from acp_launch.secret.lookup import LARGEST

    try:
        found = read_bounded(settings.state / "secrets.json", LARGEST)
        stores = json.loads(found[0])["stores"] if found else {}
        return [(name, store) for store, names in stores.items() for name in names]
    except (Unfit, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise ValueError(str(fault)) from None


def _needed(line: Line, settings: Settings) -> Candidates:
    """List the secrets that profiles need before the stored ones, because setting a needed one is the usual case."""
    from acp_launch.document.nodes import MAX_SIZE

    for found in _discovered(settings):
        text = _head(found.file, trusted=found.origin in ("user", "built-in"), most=MAX_SIZE)
        yield from ((name, f"needed by {found.name}") for name in sorted(secrets(text)))
    yield from _secrets(line, settings)


def _topics(line: Line, settings: Settings) -> Candidates:
    """List the pages of the documentation, for the first word only."""
    from acp_launch.cli.manual import about, topics

    return () if line.arguments else ((topic, about(topic)) for topic in topics())


SOURCES: dict[str, Callable[[Line, Settings], Candidates]] = {
    "profile": _profiles,
    "logged": _logged,
    "session": _sessions,
    "server": _servers,
    "log": _logs,
    "secret": _secrets,
    "needed": _needed,
    "topic": _topics,
}


def description(text: str) -> str:
    """Find the first line of a profile's description in its text; empty if there is none."""
    text = text.removeprefix("\ufeff")
    if text.lstrip().startswith("{"):
        return _in_json(text)
    found = _DESCRIPTION.search(text)
    line = found["text"].strip() if found else ""
    quoted = _QUOTED.match(line)
    return quoted[2] if quoted else _COMMENT.sub("", line).strip()


def _in_json(text: str) -> str:
    import json

    found = _IN_JSON.search(text)
    try:
        return str(json.loads(found[1], strict=False)) if found else ""
    except ValueError:
        return ""


def secrets(text: str) -> set[str]:
    """Find the names of the secrets that a profile's text refers to."""
    return set(_SECRET.findall(_REMARK.sub("", text)))


def _discovered(settings: Settings) -> Iterator[Found]:
    return (found for found in discover(start=Path.cwd(), settings=settings)[:MOST] if not found.shadowed_by)


def _head(file: Path, *, trusted: bool, most: int = DESCRIBED) -> str:
    """Read the beginning of a file; empty if it cannot be read.

    Links are followed only in the user's own directories. A repository's link could lead anywhere, also to a file
    where opening it has an effect.
    """
    own = 0 if trusted else getattr(os, "O_NOFOLLOW", 0)
    try:
        with open(os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | own), "rb") as stream:  # noqa: PTH123
            return (stream.read(most) or b"").decode(errors="replace")  # a pipe has nothing
    except OSError:
        return ""


def _directories() -> Settings:
    """Return the settings of directories only, because reading the others may import pydantic."""
    return Settings(config=directory("CONFIG"), state=directory("STATE"), cache=directory("CACHE"))


def _is_harmless(name: str) -> bool:
    return name.isprintable() and name.strip() == name and 0 < len(name) <= LONGEST and not name.startswith("-")
