"""
A new profile: its name, its place and its agent, and the files that are written with it.

A profile of a project is on many machines, and the schema has no address on the web. So the profile names a file next
to it, which is not committed: a pointer to the schema in this user's state directory. `--schema` puts the schema itself
there, to be committed. The user's own profiles name the schema in the state directory.
"""

import json
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from acp_launch.console.interop import warn
from acp_launch.descent import remove, remove_directory
from acp_launch.errors import UsageError
from acp_launch.interop.merge import refuse_escaping_link, replace_file
from acp_launch.plan.resolve import split_command
from acp_launch.private import make_private, replace
from acp_launch.problem import likeliest
from acp_launch.profile.agents import AGENTS, KnownAgent
from acp_launch.profile.discover import HOLDER, OVERLAY, SUFFIXES, Found, here, project_of, users
from acp_launch.profile.load import read, shown
from acp_launch.profile.scaffold import NAME, OVERLAYS, SCHEMA, ignoring, own_agent
from acp_launch.settings.model import Settings

BESIDE = f"./{SCHEMA}"
OURS = "acp-launch profile"  # the title of the schema, and of a pointer to it


def location(settings: Settings, name: str, *, is_users: bool) -> Found:
    """Return the location of a profile of this name.

    Raises:
        UsageError: a link leads out of the project.
    """
    project, user = project_of(here()), users(settings)
    file = (user if is_users else project / HOLDER) / f"{name}.yaml"
    if not is_users:
        refuse_escaping_link(file.parent)
    return Found(name, file, project, "user" if is_users else "project", user=user)


def existing_file(found: Found) -> Path | None:
    """Return an existing file of this name with any of the suffixes; None if there is none."""
    files = (found.file.with_name(found.name + suffix) for suffix in SUFFIXES)
    return next(filter(os.path.lexists, files), None)


def name_fault(name: str) -> str:
    """Return the fault of a profile's name; empty if it is valid."""
    if not re.fullmatch(NAME, name):
        return f'"{name[:60]}" is not a valid profile name: use letters, digits, _ . and -'
    if name.endswith(SUFFIXES):
        return f'"{name}" is a file name; the profile name is {Path(name).stem}'
    return (
        f'"{name}" would be an overlay of {name.removesuffix(OVERLAY)}, not a profile' if name.endswith(OVERLAY) else ""
    )


def named_agent(text: str, *, is_users: bool) -> KnownAgent:
    """Return the known agent of this name, or an agent started by this command line.

    A path relative to the current directory becomes relative to the project, or absolute in one of the user's own.

    Raises:
        UsageError: it is a known agent's name, mistyped.
    """
    if text in AGENTS:
        return AGENTS[text]
    program, *args = split_command(text)
    if not args and (near := likeliest(text, AGENTS)) and not shutil.which(text):
        fix = "give the path of a command that is not on PATH"
        raise UsageError(f'"{text}" is neither a known agent nor a command here; did you mean "{near}"?', fix=fix)
    if not (Path(program).name == program or Path(program).is_absolute() or program.startswith(("~", "$"))):
        if is_users:
            program = os.path.normpath(here() / program)
        else:
            program = os.path.relpath(here() / program, project_of(here()))
            program = program if os.sep in program else f".{os.sep}{program}"
    return own_agent((program, *args))


class ProfileFiles:
    """The files in the directory of a new profile. `schema` is the address of the schema as the profile writes it;
    empty if it cannot be written."""

    def __init__(self, directory: Path, state: Path, *, is_shared: bool, copies: bool = False) -> None:
        """`state` is the user's state directory. `is_shared` if the profile's belongs to a repository; `copies` if the
        schema itself is wanted there."""
        from acp_launch.profile.schema import text as schema

        self._directory = directory
        self._is_shared = is_shared
        self._beside = ""  # the text of the file next to the profile
        installed, there = _install_schema(state, schema()), _schema_in(directory / SCHEMA)
        # A copy that is there is kept up to date.
        self._is_copy = copies or (there is not None and there != {} and "$ref" not in there)
        if there is not None and self._is_copy:
            self._beside = schema()
        elif there is not None and is_shared and installed:
            self._beside = json.dumps({"title": OURS, "$ref": installed.as_uri()}) + "\n"
        if is_shared or self._is_copy:
            self.schema = BESIDE if self._beside else ""
        else:
            self.schema = installed.as_uri() if installed else ""

    def write(self, file: Path, text: str) -> None:
        """Write the profile and the files next to it; on failure remove what was written.

        Raises:
            UsageError: a file cannot be written; nothing is left behind.
        """
        is_new = not self._directory.exists()
        made: list[Path] = []
        try:
            for path, content in self._contents(file, text):
                old = _text(path)
                if old is None:
                    made.append(path)
                if old != content:
                    replace_file(path, content, instead_of=old)
        except BaseException:
            for path in made:
                with suppress(OSError):  # it says less than the error that brought us here
                    remove(path)
            if is_new:
                with suppress(OSError):  # another program has put a file there
                    remove_directory(self._directory)
            raise

    def _contents(self, file: Path, text: str) -> list[tuple[Path, str]]:
        """List the files and their contents. The profile comes last, so that it exists only with all the others."""
        found = [(self._directory / SCHEMA, self._beside)] if self._beside else []
        ignore = self._directory / ".gitignore"
        if self._is_shared and not _is_file_or_nothing(ignore):
            warn(f"{shown(ignore)} is not a regular file and stays as it is; add *.local.yaml to it")
        elif self._is_shared:
            is_pointer = bool(found) and not self._is_copy
            found.append((ignore, ignoring(_text(ignore), (*OVERLAYS, SCHEMA) if is_pointer else OVERLAYS)))
        return [*found, (file, text)]


def _install_schema(state: Path, schema: str) -> Path | None:
    """Write the schema into the state directory, if it is not there; None if that is impossible."""
    file = state / SCHEMA
    try:
        make_private(state)
        if not file.is_file() or file.read_text(encoding="utf-8") != schema:
            replace(file, schema.encode())
    except (OSError, ValueError):
        return None
    return file


def _schema_in(file: Path) -> dict[str, Any] | None:
    """Read a schema, or a pointer to one; empty if there is none, None if it is not ours and must stay."""
    if not _is_file_or_nothing(file):
        return None
    if not file.exists():
        return {}
    try:
        found = json.loads(_text(file) or "")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("title") == OURS else None


def _is_file_or_nothing(path: Path) -> bool:
    return not path.is_symlink() and (path.is_file() or not path.exists())


def _text(path: Path) -> str | None:
    if not os.path.exists(path):  # noqa: PTH110 - Path raises for a name too long
        return None
    text, problems = read(path)
    return text if not problems else ""
