"""
The lock file of a project, `.acp-launch/lock.yaml`: the packages of its profiles with their hashes.

`acp-launch lock` writes it, `--locked` compares, and what it says of a profile is trusted together with the profile.
Its text is a comment and JSON, which is YAML too, so that reading it costs next to nothing.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from acp_launch.document.nodes import Plain
from acp_launch.private import Unfit, read_bounded, replace
from acp_launch.problem import Problem, about
from acp_launch.profile.discover import HOLDER, LOCK, Found, shown

VERSION = 1
MAX_LOCKFILE_BYTES = 4 * 1024 * 1024
_HEAD = "# Written by acp-launch lock PROFILE; commit it. With --locked, what differs from it is refused.\n"


class Locked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A package, as `npm:NAME@VERSION`, and its hashes: any of them is right."""

    package: str
    integrity: tuple[str, ...] = ()


Lock = Mapping[str, Locked]  # by `agent` and `mcp_servers.NAME`


class _File(Struct, forbid_unknown_fields=True):
    version: int
    profiles: dict[str, dict[str, Locked]]


def place(project: Path) -> Path:
    return project / HOLDER / LOCK


def read(found: Found) -> tuple[Lock | None, tuple[Problem, ...]]:
    """Read what the lock file of a profile's project says of the profile: None if it says nothing.

    A profile of the user's own, or a built-in one, has no lock file: a project cannot speak for it.
    """
    if found.origin not in ("path", "project"):
        return None, ()
    file = place(found.project)
    try:
        content = _read(file)
    except (OSError, Unfit, ValueError, msgspec.MsgspecError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return None, (about(shown(file), f"the lock file cannot be read: {why}", "restore or remove it"),)
    return (content.profiles.get(found.name) if content else None), ()


def write(found: Found, lock: Lock) -> Path:
    """Replace what the lock file says of a profile; return its path.

    Raises:
        OSError: it cannot be written.
        ValueError: the file is not a lock file.
    """
    file = place(found.project)
    try:
        content = _read(file) or _File(VERSION, {})
    except (Unfit, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from None
    profiles = {name: each for name, each in content.profiles.items() if name != found.name}
    if lock:
        profiles[found.name] = dict(lock)

    ordered = {name: dict(sorted(profiles[name].items())) for name in sorted(profiles)}
    said = msgspec.to_builtins(_File(VERSION, ordered))
    replace(file, (_HEAD + json.dumps(said, indent=2) + "\n").encode(), mode=0o644)
    return file


def _read(file: Path) -> _File | None:
    found = read_bounded(file, MAX_LOCKFILE_BYTES)
    if found is None:
        return None
    lines = found[0].splitlines(keepends=True)
    text = b"".join(line for line in lines if not line.startswith(b"#"))
    content = msgspec.json.decode(text, type=_File)
    if content.version != VERSION:
        raise ValueError(f"it is of version {content.version}, which this acp-launch does not know")
    return content


def trusted(lock: Lock | None) -> Mapping[str, Plain]:
    """Return the part of the trusted content that the lock is; empty without one."""
    said: Plain = msgspec.to_builtins(dict(lock)) if lock else None
    return {"lock": said} if said else {}
