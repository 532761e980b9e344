"""The profile that an import goes into: one of the user's own or of the project, never a built-in one."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from acp_launch.document.yaml import parse
from acp_launch.errors import ProfileError, UsageError
from acp_launch.interop.tools import at_home
from acp_launch.private import real
from acp_launch.profile.discover import HOLDER, Found, find, project_of
from acp_launch.profile.load import inspect, read, shown
from acp_launch.settings.model import Settings

_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"


class Target(Struct, frozen=True):
    """`text` is None when the file is not there yet; `root` is what it says, what it extends and overlays included."""

    file: Path
    text: str | None
    root: Mapping[str, Any]


def target(name: str, settings: Settings, *, start: Path) -> Target:
    """
    Raises:
        UsageError: it cannot be written to.
        ProfileError: it is there, and is no profile's text.
    """
    found = _found(name, settings, start)
    if found is None:
        return Target(_new(name, start), None, {})
    if found.origin == "built-in":
        fix = f"make one of your own that extends it: acp-launch init my-{found.name} --extends {found.name}"
        raise UsageError(f'"{name}" comes with acp-launch and cannot be changed', fix=fix)
    refuse_strays(found.file, found.project)
    text, problems = read(found.file)
    if text is None:
        raise ProfileError(problems)
    document, problems = parse(text, shown(found.file))
    if document is None:
        raise ProfileError(problems)
    if "extends" not in document.root:
        return Target(found.file, text, document.root)
    loaded, _ = inspect(found)
    return Target(found.file, text, {**document.root, **(loaded.merged if loaded else {})})


def refuse_strays(file: Path, project: Path) -> None:
    """What lies in a project by its name and elsewhere by its links would let a repository choose what we write to.

    Raises:
        UsageError: it does.
    """
    if file.is_relative_to(project) and not real(file).is_relative_to(real(project)):
        what = f"{shown(file)} is a link that leads out of the project"
        raise UsageError(what, fix="name the file it leads to")


def _found(name: str, settings: Settings, start: Path) -> Found | None:
    """None when there is none of that name, or no file at that path."""
    try:
        found = find(name, start=start, settings=settings)
    except UsageError:
        if not re.fullmatch(_NAME, name):
            raise
        return None
    return found if found.file.exists() or found.file.is_symlink() else None


def _new(name: str, start: Path) -> Path:
    """Where a profile of this name begins: in the project, or where the path says."""
    if re.fullmatch(_NAME, name) and not name.endswith((".yaml", ".yml")):
        return project_of(start) / HOLDER / f"{name}.yaml"
    file = start / at_home(name)
    if file.suffix not in (".yaml", ".yml"):
        raise UsageError(f"{shown(file)} is no profile's file", fix="a profile's file ends in .yaml")
    return file
