"""
The merge of drafts into a profile: which drafts are taken, how they differ from present entries, and the new text.

`target` finds the profile that an import writes to, `replace_file` replaces a user's file.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from acp_launch import private
from acp_launch.descent import LinkError, pin
from acp_launch.document.nodes import section
from acp_launch.document.yaml import parse
from acp_launch.errors import ProfileError, UsageError
from acp_launch.interop.drafts import Difference, Draft, difference, fill, holes
from acp_launch.interop.tools import at_home
from acp_launch.problem import errors
from acp_launch.profile.check import check
from acp_launch.profile.discover import HOLDER, Found, find, origin_of, project_of
from acp_launch.profile.edit import CannotEdit, put, remove
from acp_launch.profile.load import inspect, read, shown
from acp_launch.secret.detect import masked
from acp_launch.settings.model import Settings

EMPTY = "version: 1\n"
_BARE = "version: 1\nagent:\n  command: x\n"


class Step(Struct, frozen=True):
    """A draft that is imported; `entry` is the profile's new content under `name`."""

    draft: Draft
    name: str
    entry: dict[str, Any]
    difference: Difference

    @property
    def path(self) -> tuple[str, ...]:
        return ("agent",) if self.draft.kind == "agent" else ("mcp_servers", self.name)

    @property
    def comments(self) -> tuple[str, ...]:
        return tuple(f"not imported: {key}: {why}" for key, why in self.draft.left)


def choose_drafts(drafts: Sequence[Draft], only: Sequence[str], *, wants_agent: bool) -> tuple[Draft, ...]:
    """Choose drafts: those in `only`, by their original or their new names.

    Without `only`, these are all enabled servers, and the agent if one is wanted and there is exactly one.

    Raises:
        UsageError: a name is unknown, or several agents were named.
    """
    if not only:
        agents = [one for one in drafts if one.kind == "agent" and not one.unfit]
        taken = agents if wants_agent and len(agents) == 1 else []
        return (*taken, *(one for one in drafts if one.kind == "server" and not one.disabled))
    for name in only:
        if not any(name in (one.original, one.name) for one in drafts):
            there = ", ".join(one.original for one in drafts) or "nothing"
            raise UsageError(f'there is no entry "{masked(name)}"', fix=f"--only takes one of these: {there}")
    found = tuple(one for one in drafts if one.original in only or one.name in only)
    if sum(one.kind == "agent" for one in found) > 1:
        raise UsageError("a profile has one agent", fix="name one of them with --only")
    return found


def mark_unfit(drafts: Iterable[Draft]) -> tuple[Draft, ...]:
    """Mark drafts that a profile would refuse, for instance for a wrong variable name or url."""
    return tuple(one if one.unfit else replace(one, unfit=_fault(one)) for one in drafts)


def steps(root: Mapping[str, Any], drafts: Iterable[Draft], names: Sequence[str], called: str = "") -> tuple[Step, ...]:
    """Build the step of each draft. `called` is a new name for the server, if there is only one."""
    found = []
    for one in drafts:
        name = called if called and one.kind == "server" else one.name
        found.append(Step(one, name, fill(one.shape, names), difference(root, one, names, name)))
    return tuple(found)


def without(root: Mapping[str, Any], drafts: Iterable[Draft], called: str = "") -> dict[str, Any]:
    """Return the profile's content without the entries that these drafts would replace."""
    names = {called or one.name for one in drafts if one.kind == "server"}
    others = {key: value for key, value in section(root, "mcp_servers").items() if key not in names}
    return {**root, "mcp_servers": others}


def apply_steps(text: str, wanted: Iterable[Step]) -> str:
    """Apply each step to the profile's text; present entries are replaced.

    Raises:
        UsageError: other text would have to change too.
    """
    for step in wanted:
        try:
            text = _apply(text, step)
        except CannotEdit as cannot:
            what = f"{step.draft.original} cannot be added to this file: {cannot.message}"
            raise UsageError(what, fix=cannot.fix or "edit the file by hand") from None
    return text


def _apply(text: str, step: Step) -> str:
    if step.difference == "new":
        return put(text, step.path, step.entry, comments=step.comments)
    if step.draft.kind == "server":
        return put(text, step.path, step.entry)
    document, _ = parse(text, "")
    agent = document.root.get("agent") if document else None
    for key in ("args", "env"):  # of the former agent
        if isinstance(agent, dict) and key in agent and key not in step.entry:
            text = remove(text, ("agent", key))
    for key, value in step.entry.items():
        text = put(text, ("agent", key), value)
    return text


def _fault(one: Draft) -> str:
    entry = fill(one.shape, dict.fromkeys(holes(one.shape), "x"))
    text = "version: 1\n" if one.kind == "agent" else _BARE
    path = ("agent",) if one.kind == "agent" else ("mcp_servers", one.name)
    try:
        document, problems = parse(put(text, path, entry), "")
    except CannotEdit as cannot:
        return masked(cannot.message)
    found = errors((*problems, *(check(document)[1] if document else ())))
    return masked(f"{found[0].path}: {found[0].message}") if found else ""


_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"


class Target(Struct, frozen=True):
    """The profile that an import writes to.

    `text` is None for a new file, which begins with `start`; `root` is its content with all layers.
    """

    file: Path
    text: str | None
    root: Mapping[str, Any]
    start: str = EMPTY


def target(name: str, settings: Settings, *, start: Path) -> Target:
    """
    Find the profile to write to: the user's own or the project's.

    Raises:
        UsageError: it cannot be written, for instance because it is built in.
        ProfileError: the file exists and is not a profile.
    """
    found = _find(name, settings, start)
    if found is None:
        return Target(_new(name, start), None, {})
    require_changeable(found)
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


def require_changeable(found: Found) -> None:
    """Check that a profile's file may be changed.

    Raises:
        UsageError: it is built in, or a link out of its project.
    """
    if origin_of(found.file, found.origin, user=found.user) == "built-in":
        fix = f"create a profile that extends it: acp-launch init my-{found.name} --extends {found.name}"
        raise UsageError(f'"{found.name}" is built into acp-launch and cannot be changed', fix=fix)
    refuse_escaping_link(found.file)


def refuse_escaping_link(file: Path) -> None:
    """Refuse a file of a project that is a link to a place outside: the repository would choose which file is written.

    Raises:
        UsageError: the file is such a link.
    """
    try:
        pin(file, follow=True)
    except LinkError:
        what = f"{shown(file)} is a link that leads out of the project"
        raise UsageError(what, fix="name the file it leads to") from None


def _find(name: str, settings: Settings, start: Path) -> Found | None:
    """Find the profile; None if there is no profile of that name, or no file at that path."""
    try:
        found = find(name, start=start, settings=settings)
    except UsageError:
        if not re.fullmatch(_NAME, name):
            raise
        return None
    return found if found.file.exists() or found.file.is_symlink() else None


def _new(name: str, start: Path) -> Path:
    """Return the file of a new profile: in the project, or at the given path. A link out of the project is refused."""
    if re.fullmatch(_NAME, name) and not name.endswith((".yaml", ".yml")):
        file = project_of(start) / HOLDER / f"{name}.yaml"
        refuse_escaping_link(file)
        return file
    file = start / at_home(name)
    if file.suffix not in (".yaml", ".yml"):
        raise UsageError(f"{shown(file)} is not a profile's file", fix="a profile's file ends in .yaml")
    return file


def replace_file(file: Path, text: str, *, instead_of: str | None) -> None:
    """Write a file, with the same mode; the target of a link within the project is replaced. `instead_of` is its
    expected content, None if there was no file.

    Raises:
        UsageError: it cannot be written, or its content has changed.
    """
    old = None if instead_of is None else instead_of.encode()
    try:
        if (file.read_bytes() if file.exists() else None) != old:
            raise UsageError(f"{shown(file)} has changed meanwhile; it was not overwritten", fix="try again")
        if old is None:  # fails if another process creates it at this moment
            private.create(file, text.encode(), is_shared=True)
        else:
            private.replace(file, text.encode(), mode=file.stat().st_mode & 0o7777)
    except OSError as fault:
        why = (fault.strerror or str(fault)).lower()
        raise UsageError(f"cannot write {shown(file)}: {why}; it was not changed", fix="check its directory") from None
