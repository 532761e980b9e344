"""
The draft of a new profile, and the files that `init` writes for it.

`make_draft` makes the draft (agent, name, location, servers) from options, or by asking the user. It writes nothing, so
leaving in the middle leaves nothing behind. `ProfileFiles` then writes the profile, the schema for editors and
`.gitignore`, all of them or none.
"""

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import typer
from msgspec import Struct

from acp_launch.cli.credentials import CredentialStore
from acp_launch.cli.edit import server
from acp_launch.cli.import_servers import ImportedServers, import_servers
from acp_launch.cli.importing import machine
from acp_launch.cli.planning import here
from acp_launch.console import init
from acp_launch.console.ask.terminal import possible
from acp_launch.console.interop import warn
from acp_launch.console.stderr import say
from acp_launch.errors import UsageError
from acp_launch.interop import files
from acp_launch.interop.merge import refuse_escaping_link
from acp_launch.interop.read import Finding, survey
from acp_launch.plan.adhoc import words
from acp_launch.profile.agents import AGENTS, PYTHON, KnownAgent
from acp_launch.profile.discover import HOLDER, OVERLAY, SUFFIXES, Found, project_of, users
from acp_launch.profile.load import read, shown
from acp_launch.profile.scaffold import NAME, SCHEMA, NewServer, called, ignoring, own_agent
from acp_launch.settings.model import Settings

CANCELLED = 130  # exit code


class Options(Struct, frozen=True):
    """The options of `init`. Without an agent and a profile to extend, the user is asked."""

    name: str
    agent: str
    extends: str
    servers: tuple[NewServer, ...]
    is_users: bool
    force: bool


class Draft(Struct, frozen=True):
    """A new profile before it is written. Without an agent it extends another profile.

    `imported` are servers imported from the files in `found`.
    """

    name: str
    is_users: bool
    agent: KnownAgent | None = None
    extends: str = ""
    servers: tuple[NewServer, ...] = ()
    found: tuple[Finding, ...] = ()
    imported: ImportedServers = ImportedServers(())


def make_draft(options: Options, settings: Settings, credentials: CredentialStore) -> Draft:
    """Make a draft from the options, or ask the user.

    Raises:
        UsageError: the options contradict each other, or there is no terminal to ask on.
        Exit: the user left without an answer.
    """
    if options.agent and options.extends:
        raise UsageError("--agent and --extends cannot be combined", fix="give only one of them")
    if options.name and (wrong := name_fault(options.name)):
        raise UsageError(wrong, fix="acp-launch init NAME")
    if options.agent or options.extends:
        return _given(options)
    if not possible():
        fix = f"name the agent: acp-launch init {options.name or 'NAME'} --agent claude"
        raise UsageError("there is no terminal to ask on", fix=fix)
    try:
        return _asked(options, settings, credentials)
    except (init.InputEnded, KeyboardInterrupt):
        say("\nacp-launch: nothing was written")
        raise typer.Exit(CANCELLED) from None


def location(settings: Settings, name: str, *, is_users: bool) -> Found:
    """Return the location of a profile of this name.

    Raises:
        UsageError: a link leads out of the project.
    """
    project, user = project_of(here()), users(settings)
    file = (user if is_users else project / HOLDER) / f"{name}.yaml"
    if not is_users:
        refuse_escaping_link(file.parent, project)
    return Found(name, file, project, "user" if is_users else "project", user=user)


def existing_file(found: Found) -> Path | None:
    """Return an existing file of this name with any of the suffixes; None if there is none."""
    files = (found.file.with_name(found.name + suffix) for suffix in SUFFIXES)
    return next(filter(os.path.lexists, files), None)


def name_fault(name: str) -> str:
    """Say what is wrong with a profile's name; empty if it is valid."""
    if not re.fullmatch(NAME, name):
        return f'"{name[:60]}" is not a valid profile name: use letters, digits, _ . and -'
    if name.endswith(SUFFIXES):
        return f'"{name}" is a file name; the profile name is {Path(name).stem}'
    return (
        f'"{name}" would be an overlay of {name.removesuffix(OVERLAY)}, not a profile' if name.endswith(OVERLAY) else ""
    )


def servers(written: Sequence[str]) -> tuple[NewServer, ...]:
    """Parse servers written as NAME=COMMAND or NAME=URL.

    Raises:
        UsageError: one is written otherwise.
    """
    return tuple(map(_server, written))


def _server(written: str) -> NewServer:
    name, equals, what = written.partition("=")
    if not name or not equals or not what.strip():
        raise UsageError("--server takes NAME=COMMAND or NAME=URL", fix="--server 'files=npx -y PACKAGE DIR'")
    if what.startswith(("https://", "http://")):
        return NewServer(name, server([], what, None, {}, {}))
    try:
        return NewServer(name, server(shlex.split(what), None, None, {}, {}))
    except ValueError:
        raise UsageError(f"--server {name}: a quote is not closed", fix="close it") from None


def _given(options: Options) -> Draft:
    agent = _agent(options.agent, is_users=options.is_users) if options.agent else None
    name = options.name or (agent.name if agent else f"my-{called([options.extends])}")
    return Draft(name, options.is_users, agent, options.extends, options.servers)


def _asked(options: Options, settings: Settings, credentials: CredentialStore) -> Draft:
    known, installed = _known()
    answer = init.agent(known, installed)
    places = [location(settings, "", is_users=is_users).file.parent for is_users in (False, True)]
    is_users = options.is_users or init.place(*places)
    agent = _agent(answer, is_users=is_users)
    name = _name(options, agent, lambda name: _fault(settings, options, name, is_users=is_users))
    project = project_of(here())
    found = [one for one in survey(machine(), project) if one.servers]
    wanted = init.servers([(shown(one.file), one.servers) for one in found]) if found else []
    chosen = tuple(found[index] for index in wanted)
    adoption = import_servers(chosen, project, credentials) if chosen else ImportedServers(())
    return Draft(name, is_users, agent, "", options.servers, chosen, adoption)


def _name(options: Options, agent: KnownAgent, fault: Callable[[str], str]) -> str:
    if options.name and not fault(options.name):
        return options.name
    wanted = options.name or agent.name
    free = (name for name in (wanted, *(f"{wanted}-{number}" for number in range(2, 100))) if not fault(name))
    return init.name(next(free, wanted), fault)


def _fault(settings: Settings, options: Options, name: str, *, is_users: bool) -> str:
    if wrong := name_fault(name):
        return wrong
    there = None if options.force else existing_file(location(settings, name, is_users=is_users))
    return f"{shown(there)} already exists" if there else ""


def _known() -> tuple[list[KnownAgent], list[str]]:
    """Return all known agents, the installed ones first, and the names of the installed ones."""
    installed = [one.name for one in AGENTS.values() if one.command == PYTHON or shutil.which(one.command)]
    others = [name for name in AGENTS if name not in installed]
    return [AGENTS[name] for name in (*installed, *others)], installed


def _agent(text: str, *, is_users: bool) -> KnownAgent:
    """Return the known agent of this name, or an agent started by this command line."""
    if text in AGENTS:
        return AGENTS[text]
    program, *args = words(text)
    return own_agent((_program(program, is_users=is_users), *args))


def _program(program: str, *, is_users: bool) -> str:
    """Rewrite a path relative to the current directory for a profile: relative to the project, or absolute."""
    if Path(program).name == program or Path(program).is_absolute() or program.startswith(("~", "$")):
        return program
    if is_users:
        return os.path.normpath(here() / program)
    relative = os.path.relpath(here() / program, project_of(here()))
    return relative if os.sep in relative else f".{os.sep}{relative}"


# Writing a new profile, with the schema for editors and the .gitignore beside it.

OURS = "acp-launch profile"  # the title of the schema


class ProfileFiles:
    """The files in the directory of a new profile. `is_shared` if the directory belongs to a repository."""

    def __init__(self, directory: Path, *, is_shared: bool) -> None:
        self._directory = directory
        self._is_shared = is_shared
        self._schema = directory / SCHEMA

    @property
    def schema(self) -> str:
        """The schema's path as the profile writes it; empty if the schema cannot be written."""
        if not self._is_ours():
            return ""
        return f"{self._directory.name}/{SCHEMA}" if self._is_shared else str(self._schema)

    def write(self, file: Path, text: str) -> None:
        """Write the profile and the files beside it; on failure remove what was written.

        Raises:
            UsageError: a file cannot be written; nothing is left behind.
        """
        is_new = not self._directory.exists()
        made: list[Path] = []
        try:
            for path, content in self._everything(file, text):
                old = _text(path)
                if old is None:
                    made.append(path)
                if old != content:
                    files.put(path, content, instead_of=old)
        except BaseException:
            self._take_back(made, is_new=is_new)
            raise

    def _everything(self, file: Path, text: str) -> list[tuple[Path, str]]:
        """List the files and their contents. The profile comes last, so that it exists only with all the others."""
        from acp_launch.profile.schema import text as schema

        found = [(self._schema, schema())] if self.schema else []
        ignore = self._directory / ".gitignore"
        if self._is_shared and not _is_file_or_nothing(ignore):
            warn(f"{shown(ignore)} is not a regular file and stays as it is; add *.local.yaml to it")
        elif self._is_shared:
            found.append((ignore, ignoring(_text(ignore))))
        return [*found, (file, text)]

    def _is_ours(self) -> bool:
        """Tell whether the schema may be written: it does not exist, or is an older one of ours."""
        if not _is_file_or_nothing(self._schema):
            return False
        text = _text(self._schema)
        try:
            return text is None or json.loads(text).get("title") == OURS
        except (ValueError, AttributeError, RecursionError):
            return False

    def _take_back(self, made: list[Path], *, is_new: bool) -> None:
        for path in made:
            path.unlink(missing_ok=True)
        if is_new:
            with suppress(OSError):  # another program has put a file there meanwhile
                self._directory.rmdir()


def _is_file_or_nothing(path: Path) -> bool:
    return not path.is_symlink() and (path.is_file() or not path.exists())


def _text(path: Path) -> str | None:
    if not path.exists():
        return None
    text, problems = read(path)
    return text if not problems else ""
