"""
The place of a host: one for each project and profile, where a front finds it.

It is a file in the state directory that its host locks; the kernel releases the lock when the host dies, so a note in
an unlocked file is of a host that is gone. Opening it takes no longer without a host: then there is no directory.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from acp_launch import __version__
from acp_launch.errors import StateError
from acp_launch.private import make_digest, make_private, replace, take_lock

if TYPE_CHECKING:
    from acp_launch.profile.load import Loaded

FOLDER = "hosts"  # in the state directory
MAX_NOTE_BYTES = 4 * 1024 * 1024  # it holds the content of a profile


class FrontPlan(Struct, frozen=True, kw_only=True):
    """The plan of a host as its fronts need it, if it is the same for all of them.

    `files` are the digests of the files of the profile, by their paths; one at `absent_paths` would be one too.
    `names_cwd` is whether the profile says in which directory its sessions work. `agent` is a command line with
    credentials masked. `origins` say where mode and options are written: path, file, line, column. `there` are host and
    directory of an agent on another machine.
    """

    file: str
    files: Mapping[str, str]
    absent_paths: tuple[str, ...]
    names_cwd: bool
    additional_directories: tuple[str, ...]
    agent: tuple[str, ...]
    is_built_in: bool
    timeouts: Mapping[str, float]
    session: str | None
    mode: str | None
    config: Mapping[str, str | bool]
    origins: tuple[tuple[tuple[str, ...], str, int, int], ...]
    there: tuple[str, str] | None = None


class HostNote(Struct, frozen=True, kw_only=True):
    """What a host writes of itself. `since` is in Unix seconds.

    `called` is the profile's name in commands. `digest` covers the content that it runs, `others` all of it but the
    servers; `lines` show what has changed, with credentials masked (as `profile.trust`). `socket` is empty until fronts
    may attach. `plan` is None if each front has to make its own.
    """

    pid: int
    since: float
    version: str  # of acp-launch
    project: str
    profile: str
    called: str
    cwd: str  # of its sessions
    here: str  # where `up` was typed
    digest: str
    others: str = ""
    lines: tuple[str, ...] = ()
    socket: str = ""
    plan: FrontPlan | None = None


def digest(text: str) -> str:
    """Return a digest by which a changed file is known."""
    return make_digest(text)


class Content(NamedTuple):
    """What a profile says, for the comparison with what a host runs. `others` is the digest of all but its servers."""

    digest: str
    others: str
    raw: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """Its lines, with credentials masked."""
        from acp_launch.profile.trust import shown

        return tuple(str(shown(line)) for line in self.raw)


def content_of(loaded: "Loaded") -> Content:
    from acp_launch.profile.trust import content, digest

    lines, project = content(loaded.merged), str(loaded.found.project)
    others = content({key: value for key, value in loaded.merged.items() if key != "mcp_servers"})
    return Content(digest(project, lines), digest(project, others), lines)


@contextmanager
def hold_place(state: Path, project: str, profile: str) -> Iterator[Callable[[HostNote], None] | None]:
    """Hold the place while the block runs; None if another host holds it. Gives what replaces its note: a reader sees
    the old or the new one.

    Raises:
        StateError: the place cannot be made.
    """
    path = _path(state, project, profile)
    try:
        make_private(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        is_ours = take_lock(descriptor)
    except OSError as error:
        fix = "set ACP_LAUNCH_STATE_DIR to a directory that you may write to"
        raise StateError(f"there is no place for a host: {path}: {error.strerror}", fix=fix) from None
    if not is_ours:
        os.close(descriptor)
        yield None
        return
    written = path.with_suffix(".json")
    try:
        yield lambda note: replace(written, _as_json(note))
    finally:
        written.unlink(missing_ok=True)
        os.close(descriptor)


def _as_json(note: HostNote) -> bytes:
    try:
        return msgspec.json.encode(note)
    except UnicodeEncodeError as error:
        what = f"there is no place for a host: {error.object!r} is not valid Unicode"
        raise StateError(what, fix="rename the directory") from None


def any_host(state: Path) -> bool:
    """Return whether there may be a host at all; costs one look at a directory."""
    try:
        return any(name.endswith(".json") for name in os.listdir(state / FOLDER))  # noqa: PTH208
    except OSError:
        return False


def find(state: Path, project: str, profile: str) -> HostNote | None:
    """Return the note of the living host of a project and profile."""
    return _note(_path(state, project, profile))


def hosts(state: Path) -> list[HostNote]:
    """Return the notes of all living hosts, the oldest first."""
    found = (_note(path) for path in sorted((state / FOLDER).glob("*.host")))
    return sorted((note for note in found if note is not None), key=lambda note: note.since)


def server_host_state(state: Path) -> Path:
    """Return where the place of the server host is, as `state` of the other functions; it is in no list of hosts."""
    return state / "shared"


def find_server_host(state: Path) -> HostNote | None:
    """Return the note of the user's server host of this version, if it lives."""
    return find(server_host_state(state), "", __version__)


def _note(path: Path) -> HostNote | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if take_lock(descriptor):  # its host is gone
            return None
        with path.with_suffix(".json").open("rb") as file:
            return msgspec.json.decode(file.read(MAX_NOTE_BYTES), type=HostNote)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):  # it has not written one yet, or has just gone
        return None
    finally:
        os.close(descriptor)


def _path(state: Path, project: str, profile: str) -> Path:
    readable = "".join(mark if mark.isascii() and (mark.isalnum() or mark in "-_.") else "_" for mark in profile[:40])
    return state / FOLDER / f"{readable}-{make_digest(project, profile)}.host"
