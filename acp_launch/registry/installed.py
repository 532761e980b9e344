"""
Agents of the registry that are installed on this machine: a directory for each version, below the state directory.

A version counts as installed once its manifest is in place, which is written last and removed first. So nothing else
is ever seen half: a directory without one is what an interrupted installation left, and the next one removes it.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from acp_launch.private import Unfit, read_bounded
from acp_launch.profile.values import AGENT_ID, AGENT_VERSION
from acp_launch.regex import regex

MANIFEST = "install.json"
MAX_MANIFEST_BYTES = 256 * 1024
_REFERENCE = regex(rf"(?P<id>{AGENT_ID})(?:@(?P<version>{AGENT_VERSION}))?")


class Reference(Struct, frozen=True):
    """An agent of the registry as a profile names it; any version if `version` is empty."""

    id: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.id}@{self.version}" if self.version else self.id


def reference(text: str) -> Reference | None:
    """Read `ID` or `ID@VERSION`; None if it is neither."""
    found = _REFERENCE.fullmatch(text)
    return Reference(found["id"], found["version"] or "") if found else None


class Manifest(Struct, frozen=True, kw_only=True):
    """
    What was installed. `package` is the address of its archive; `command` is the program, as a path in the directory.
    `integrity` is the hash that was checked, as `sha256:…`; empty if none was. `registry` is the address of the index,
    `since` Unix seconds.
    """

    id: str
    version: str
    name: str
    kind: Literal["binary"] = "binary"
    package: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    integrity: str = ""
    registry: str = ""
    since: float = 0.0


class Installation(Struct, frozen=True):
    """A version of an agent in its directory."""

    directory: Path
    manifest: Manifest

    @property
    def program(self) -> Path:
        return self.directory / self.manifest.command

    @property
    def reference(self) -> Reference:
        return Reference(self.manifest.id, self.manifest.version)


def home(state: Path) -> Path:
    """Return the directory of all installations."""
    return state / "agents"


def installations(state: Path, agent: str | None = None) -> list[Installation]:
    """List installed agents, or all versions of one: by id, the newest version first."""
    agents = [home(state) / agent] if agent else _list(home(state))
    found = (read(path) for directory in agents for path in _list(directory))
    known = [each for each in found if each is not None]
    known.sort(key=lambda each: precedence(each.manifest.version), reverse=True)
    known.sort(key=lambda each: each.manifest.id)
    return known


def read(directory: Path) -> Installation | None:
    """Read one installation; None if it is not complete. A damaged one is installed again, as if there were none."""
    try:
        found = read_bounded(directory / MANIFEST, MAX_MANIFEST_BYTES)
        made = msgspec.json.decode(found[0], type=Manifest) if found else None
    except (OSError, Unfit, msgspec.MsgspecError):
        return None
    if made is None or (made.id, made.version) != (directory.parent.name, directory.name):
        return None
    return Installation(directory, made)


def of_program(program: Path) -> Installation | None:
    return next(filter(None, map(read, program.parents)), None)


def precedence(version: str) -> tuple[object, ...]:
    """Return the key by which versions are ordered as Semantic Versioning does; other texts come first."""
    padded = re.sub(r"\d+", lambda number: number[0].zfill(20), version)
    core, _, before = padded.partition("+")[0].partition("-")
    return core[:1].isdigit(), core, not before, before


def _list(directory: Path) -> Sequence[Path]:
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return ()
