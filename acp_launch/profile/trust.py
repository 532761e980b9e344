"""
Which profiles of projects this user has accepted, by content (DESIGN §4, §7: a repository cannot run things on you).

A profile of the user's own directory, or a built-in one, is trusted. Any other, and any that a file of a project is
part of, is inert until somebody accepts it: bound to all it says when merged, and to the project's path. What is
judged is the text that was read, the very one that runs; there is nothing to change in between.

Whatever the project may have a hand in cannot vouch for it: a directory of ours that an environment variable put into
the project counts as the project's.
"""

import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from zlib import crc32

import msgspec
from msgspec import Struct

from acp_launch.document.nodes import Plain
from acp_launch.errors import StateError
from acp_launch.private import Unfit, make_private, read_bounded, replace
from acp_launch.profile.discover import HOLDER, boundary
from acp_launch.profile.layers import Layer
from acp_launch.profile.load import Loaded
from acp_launch.settings.load import grounds, lies_in
from acp_launch.settings.model import Settings

# What somebody accepts when they trust a profile: all it says, merged, one line a value. Pure.
#
# The lines are sorted by their paths, so the order of keys, comments and how a value is written make no difference, and
# nothing else is left out. Two different profiles never give the same lines: keys and texts are JSON, and what is empty
# says so.


PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def content(merged: Mapping[str, Plain]) -> tuple[str, ...]:
    """Every value of the merged profile, references unresolved."""
    return tuple(_lines("", dict(merged)))


def digest(project: str, lines: Sequence[str]) -> str:
    """Of these lines in this project: SHA-256 in hex."""
    from hashlib import sha256  # loads OpenSSL

    return sha256("\0".join([project, *lines]).encode(errors="surrogatepass")).hexdigest()


def changes(before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """The lines that are gone with `- ` before them and the new ones with `+ `, in their order."""
    from difflib import SequenceMatcher

    for kind, first, last, start, stop in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if kind != "equal":
            yield from (f"- {line}" for line in before[first:last])
            yield from (f"+ {line}" for line in now[start:stop])


def _lines(path: str, value: Plain) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key in sorted(value):
            name = key if PLAIN.fullmatch(key) else json.dumps(key)
            yield from _lines(f"{path}.{name}" if path else name, value[key])
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _lines(f"{path}[{index}]", item)
    else:
        yield f"{path}: {json.dumps(value)}"


VERSION = 1
LARGEST = 8 * 1024 * 1024  # bytes of one acceptance; a profile's files hold less
FOREIGN = ("path", "project")  # origins of files that somebody else may have written


class Acceptance(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of the store. `lines` are for showing what has changed since, less credentials; `digest` is of all."""

    version: int
    project: str
    profile: str
    file: str
    digest: str
    lines: tuple[str, ...]
    since: float  # Unix seconds


class Standing(Struct, frozen=True, kw_only=True):
    """
    How a profile stands. `label` is its file as messages name it, `now` all that it says, `before` what was accepted
    last, `doubts` why it cannot be.
    """

    label: str
    how: Literal["own", "accepted", "new", "changed", "doubtful"]
    now: tuple[str, ...] = ()
    before: Acceptance | None = None
    doubts: tuple[str, ...] = ()

    @property
    def is_trusted(self) -> bool:
        return self.how in ("own", "accepted")


def standing(loaded: Loaded, settings: Settings) -> Standing:
    """How the profile stands with this user.

    Raises:
        StateError: the store cannot be read.
    """
    label, project = loaded.label, _real(loaded.found.project)
    is_ours = not _is_projects(settings.config, project)
    foreign = [layer for layer in loaded.layers if _is_foreign(layer, is_ours=is_ours)]
    if not foreign:
        return Standing(label=label, how="own")
    lines = content(loaded.merged)
    if doubts := tuple(_doubts(foreign, _real(boundary(loaded.found.file)))):
        return Standing(label=label, how="doubtful", now=lines, doubts=doubts)
    before = None if _is_projects(settings.state, project) else _accepted(loaded, settings, project)
    if before is None:
        return Standing(label=label, how="new", now=lines)
    is_same = before.digest == digest(str(project), lines)
    return Standing(label=label, how="accepted" if is_same else "changed", now=lines, before=before)


def accept(loaded: Loaded, settings: Settings) -> None:
    """From now on it may run, as long as it says what it says now.

    Raises:
        StateError: that cannot be kept.
    """
    project = _real(loaded.found.project)
    if _is_projects(settings.state, project):
        raise StateError(
            f"the state directory {settings.state} lies in the project, so nothing that is kept there is believed",
            fix="unset ACP_LAUNCH_STATE_DIR, or name a directory outside of the project",
        )
    lines = content(loaded.merged)
    from acp_launch.profile.display import shown

    acceptance = Acceptance(
        version=VERSION,
        project=str(project),
        profile=loaded.found.name,
        file=str(_named(loaded)),
        digest=digest(str(project), lines),
        lines=tuple(str(shown(line)) for line in lines),
        since=time.time(),
    )
    path = _place(settings, project, _named(loaded))
    with _explained(path, "kept in"):
        make_private(path.parent)
        replace(path, msgspec.json.encode(acceptance))


def accepted(settings: Settings) -> list[Acceptance]:
    """Every acceptance there is, by project and name. One that cannot be read is left out: it counts as none."""
    found = (_read_if_possible(path) for path in sorted((settings.state / "trust").glob("*.json")))
    return sorted((each for each in found if each is not None), key=lambda each: (each.project, each.profile))


def revoke(acceptance: Acceptance, settings: Settings) -> None:
    """It is inert again.

    Raises:
        StateError: it cannot be removed.
    """
    path = _place(settings, Path(acceptance.project), Path(acceptance.file))
    with _explained(path, "removed from"):
        path.unlink(missing_ok=True)


def _is_foreign(layer: Layer, *, is_ours: bool) -> bool:
    """Whether somebody else may have written it. A file among the user's own can be linked there from a project."""
    if layer.origin == "user":
        return not is_ours or _real(layer.file).parent.name == HOLDER
    return layer.origin in FOREIGN


def _is_projects(directory: Path, project: Path) -> bool:
    """Whether a directory of ours lies where the project's people may write."""
    return lies_in(directory, (project, *grounds(project)))


def _accepted(loaded: Loaded, settings: Settings, project: Path) -> Acceptance | None:
    """What was kept for this very file."""
    found = _read(_place(settings, project, _named(loaded)))
    return found if found and (found.project, found.file) == (str(project), str(_named(loaded))) else None


def _named(loaded: Loaded) -> Path:
    """The profile's file, by whatever way it was named; but not where it leads to itself, if it is a link."""
    return _real(loaded.found.file.parent) / loaded.found.file.name


def _doubts(layers: Iterable[Layer], project: Path) -> Iterator[str]:
    for layer in layers:
        yield from (f"{layer.label} {doubt}" for doubt in _doubts_about(layer.file, project))


def _doubts_about(file: Path, project: Path) -> Iterator[str]:
    real = _real(file)
    if not real.is_relative_to(project):
        yield f"is a link that leads out of the project, to {real}"
        return
    for path in (real, real.parent):
        try:
            status = path.stat()
        except OSError as error:
            yield f"cannot be looked at: {error.strerror}"
            return
        what = "" if path == real else f"lies in {path.name or path}, which "
        if _is_anothers(status):
            yield f"{what}belongs to another user (uid {status.st_uid})"
        elif _can_be_written_by_all(status.st_mode):
            yield f"{what}can be written by everybody"


def _is_anothers(status: os.stat_result) -> bool:
    return hasattr(os, "getuid") and status.st_uid not in (0, os.getuid())


def _can_be_written_by_all(mode: int) -> bool:
    """In a directory with the sticky bit (/tmp) nobody replaces what is another's; of a file it says nothing."""
    return bool(mode & stat.S_IWOTH) and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX)


def _place(settings: Settings, project: Path, file: Path) -> Path:
    """A name people can read, made unique by a checksum of where it is; the file itself says which it is."""
    key = f"{project}\0{file}".encode(errors="surrogatepass")
    readable = "".join(mark if (mark.isalnum() and mark.isascii()) or mark in "-_" else "_" for mark in file.stem[:40])
    return settings.state / "trust" / f"{readable}-{crc32(key):08x}-{len(key)}.json"


def _read(path: Path) -> Acceptance | None:
    """None for what is not there, or that others wrote or could have: then it is asked for again."""
    try:
        with _explained(path, "read from"):
            try:
                found = read_bounded(path, LARGEST)
            except NotADirectoryError:  # whoever keeps something in the state directory says so
                return None
            is_ours = found is not None and not (_is_anothers(path.stat()) or found[1] & stat.S_IWOTH)
        return None if found is None or not is_ours else msgspec.json.decode(found[0], type=Acceptance)
    except msgspec.MsgspecError:
        return None


def _read_if_possible(path: Path) -> Acceptance | None:
    try:
        return _read(path)
    except StateError:
        return None


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


@contextmanager
def _explained(path: Path, doing: str) -> Iterator[None]:
    try:
        yield
    except Unfit as unfit:
        raise StateError(f"{path} {unfit}", fix="remove it, and trust the profile again") from None
    except OSError as error:
        fix = f"check the owner, the mode and the free space of {path.parent}"
        raise StateError(f"what you trust cannot be {doing} {path}: {error.strerror or error}", fix=fix) from error
