"""
The draft of a new profile, and the files that `init` writes for it.

`make_draft` makes the draft (agent, name, location, servers) from options, or by asking the user; `import_servers`
takes servers from other tools. Nothing is written, so leaving in the middle leaves nothing behind. `ProfileFiles` then
writes the profile, a pointer to the schema for editors and `.gitignore`, all of them or none.
"""

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import typer
from msgspec import Struct

from acp_launch.cli.edit import server
from acp_launch.cli.planning import here
from acp_launch.cli.stores import Vault
from acp_launch.cli.supply import sealed_file
from acp_launch.console import init, interop
from acp_launch.console.ask.terminal import possible
from acp_launch.console.interop import warn
from acp_launch.console.stderr import say
from acp_launch.errors import SecretError, UsageError
from acp_launch.interop import merge
from acp_launch.interop.drafts import DraftSet, Token, collect_drafts, holes
from acp_launch.interop.merge import refuse_escaping_link, replace_file
from acp_launch.interop.read import Finding, survey
from acp_launch.interop.tools import this_machine
from acp_launch.plan.resolve import split_command
from acp_launch.private import make_private, replace
from acp_launch.profile.agents import AGENTS, PYTHON, KnownAgent
from acp_launch.profile.discover import HOLDER, OVERLAY, SUFFIXES, Found, project_of, users
from acp_launch.profile.load import read, shown
from acp_launch.profile.scaffold import NAME, OVERLAYS, SCHEMA, NewServer, called, ignoring, own_agent
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Outcome, Secret
from acp_launch.settings.model import Settings

CANCELLED = 130  # exit code
MOST = 50  # attempts to find free names


# Servers of other tools, and their credentials, which go into the secret store.


class CredentialStore:
    """The store for imported credentials. It is opened at first use, and not by an import without credentials."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._opened: Vault | None = None
        self._states: dict[str, Outcome] = {}

    @property
    def label(self) -> str:
        return self._vault.store.label

    def require(self, incoming: DraftSet) -> None:
        """Check that the store can be read, if there are credentials to store.

        Raises:
            SecretError: it cannot be read.
        """
        self.names(incoming, range(len(incoming.tokens)), ())

    def names(self, incoming: DraftSet, needed: Iterable[int], taken: Iterable[str]) -> list[str]:
        """Choose a name for each token; the names of `needed` tokens do not hold another value in the store.

        Raises:
            SecretError: the store cannot be read.
        """
        used = set(taken)
        valued = [index for index in needed if incoming.tokens[index].secret is not None]
        for _ in range(MOST):
            names = incoming.names(used)
            self._look(names[index] for index in valued)
            occupied = {
                names[index] for index in valued if self._is_another(names[index], incoming.tokens[index].secret)
            }
            if not occupied:
                return names
            used |= occupied
        raise SecretError("all names for the secret are taken", fix="acp-launch secret list")

    def store(self, secrets: Sequence[tuple[str, Secret]]) -> None:
        """Store the secrets.

        Raises:
            SecretError: a secret cannot be stored.
        """
        for name, secret in secrets:
            if self._states[name].state == "found":  # the same value
                continue
            failed = f'cannot store secret "{name}"'
            self._vault.do(failed, partial(self._vault.store.write, name, secret), writing=name)
            self._vault.index.put(name)

    def _look(self, names: Iterable[str]) -> None:
        if unknown := [name for name in names if name not in self._states]:
            self._states |= self._vault.states(*unknown)

    def _is_another(self, name: str, secret: Secret | None) -> bool:
        outcome = self._states[name]
        return outcome.state != "missing" and outcome.secret != secret

    @property
    def _vault(self) -> Vault:
        if self._opened is None:
            self._opened = Vault(self._settings, instead=sealed_file)
        return self._opened


class ImportedServers(Struct, frozen=True):
    """The imported servers. `to_store` are the secrets to store, by name; `missing` those the store will lack."""

    servers: tuple[NewServer, ...]
    to_store: tuple[tuple[str, Secret], ...] = ()
    missing: tuple[tuple[str, Token], ...] = ()


def import_servers(found: Sequence[Finding], project: Path, credentials: CredentialStore) -> ImportedServers:
    """Read the servers in these files, with a secret's name in place of each credential.

    Shows the servers, and asks whether to import them and whether to store the credentials.

    Raises:
        LaunchError: the store cannot be read.
        InputEnded: the user left without an answer.
    """
    incoming = collect_drafts([(one.tool, one.source.root) for one in found if one.source], str(project))
    redactor.register(*(token.secret for token in incoming.tokens if token.secret is not None))
    servers = [one for one in merge.choose_drafts(incoming.drafts, (), wants_agent=False) if one.kind == "server"]
    drafts = merge.mark_unfit(servers)
    needed = dict.fromkeys(index for one in drafts if not one.unfit for index in holes(one.shape))
    names = credentials.names(incoming, needed, ())
    steps = merge.steps({}, [one for one in drafts if not one.unfit], names)
    interop.tell_of_drafts(drafts, steps, forced=False)
    interop.tell_of_servers(steps)
    if steps and not init.agreed("Import them?"):
        return ImportedServers(())
    tokens = [(names[index], incoming.tokens[index]) for index in needed]
    entries = tuple(NewServer(step.name, step.entry, step.comments) for step in steps)
    valued = [(name, token) for name, token in tokens if token.secret is not None]
    if not valued or not _are_kept(valued, credentials):
        return ImportedServers(entries, (), tuple(tokens))
    missing = tuple((name, token) for name, token in tokens if token.secret is None)
    return ImportedServers(
        entries, tuple((name, token.secret) for name, token in valued if token.secret is not None), missing
    )


def store_credentials(servers: ImportedServers, found: Sequence[Finding], credentials: CredentialStore) -> None:
    """Store the credentials of the imported servers.

    Raises:
        SecretError: a secret cannot be stored.
    """
    if servers.to_store:
        credentials.store(servers.to_store)
        interop.tell_of_kept([name for name, _ in servers.to_store], credentials.label, [one.file for one in found])
    interop.tell_of_missing(servers.missing)


def _are_kept(tokens: Sequence[tuple[str, Token]], credentials: CredentialStore) -> bool:
    interop.tell_of_tokens(tokens)
    return init.agreed(f"Store them in the {credentials.label}?")


# The draft.


class Options(Struct, frozen=True):
    """The options of `init`. Without an agent and a profile to extend, the user is asked."""

    name: str
    agent: str
    extends: str
    servers: tuple[NewServer, ...]
    is_users: bool
    force: bool
    sources: tuple[Finding, ...] | None = None  # to import from; None to ask
    copies_schema: bool = False


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
    agent = named_agent(options.agent, is_users=options.is_users) if options.agent else None
    name = options.name or (agent.name if agent else f"my-{called([options.extends])}")
    return Draft(name, options.is_users, agent, options.extends, options.servers)


def _asked(options: Options, settings: Settings, credentials: CredentialStore) -> Draft:
    known, installed = _known()
    answer = init.agent(known, installed)
    places = [location(settings, "", is_users=is_users).file.parent for is_users in (False, True)]
    is_users = options.is_users or init.place(*places)
    agent = named_agent(answer, is_users=is_users)
    name = _name(options, agent, lambda name: _fault(settings, options, name, is_users=is_users))
    project = project_of(here())
    chosen = options.sources
    if chosen is None:
        found = [one for one in survey(this_machine(), project) if one.servers]
        chosen = chosen_sources(found, otherwise="none") if found else ()
    adoption = import_servers(chosen, project, credentials) if chosen else ImportedServers(())
    return Draft(name, is_users, agent, "", options.servers, chosen, adoption)


def chosen_sources(found: Sequence[Finding], *, otherwise: Literal["all", "none"]) -> tuple[Finding, ...]:
    """Ask which files to import; `otherwise` is the answer of an empty line."""
    wanted = init.servers([(shown(one.file), one.servers) for one in found], otherwise)
    return tuple(found[index] for index in wanted)


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


def named_agent(text: str, *, is_users: bool) -> KnownAgent:
    """Return the known agent of this name, or an agent started by this command line."""
    if text in AGENTS:
        return AGENTS[text]
    program, *args = split_command(text)
    return own_agent((_program(program, is_users=is_users), *args))


def _program(program: str, *, is_users: bool) -> str:
    """Rewrite a path relative to the current directory for a profile: relative to the project, or absolute."""
    if Path(program).name == program or Path(program).is_absolute() or program.startswith(("~", "$")):
        return program
    if is_users:
        return os.path.normpath(here() / program)
    relative = os.path.relpath(here() / program, project_of(here()))
    return relative if os.sep in relative else f".{os.sep}{relative}"


# Writing a new profile, with what editors need, and the .gitignore beside it.
#
# A profile of a project is on many machines, and the schema has no address on the web. So the profile names a file
# beside it, which is not committed: a pointer to the schema in this user's state directory. `--schema` puts the schema
# itself there, to be committed. The user's own profiles name the schema in the state directory.

BESIDE = f"./{SCHEMA}"
OURS = "acp-launch profile"  # the title of the schema, and of a pointer to it


class ProfileFiles:
    """The files in the directory of a new profile. `is_shared` if the directory belongs to a repository; `copies` if
    the schema itself is wanted there."""

    def __init__(self, directory: Path, installed: Path | None, *, is_shared: bool, copies: bool) -> None:
        """`installed` is the schema in the user's state directory; None if it could not be written."""
        self._directory = directory
        self._is_shared = is_shared
        self._schema = directory / SCHEMA
        self._installed = installed
        self._copies = copies or _is_whole(self._schema)  # a copy that is there is kept up to date

    @property
    def schema(self) -> str:
        """The address of the schema as the profile writes it; empty if it cannot be written."""
        if not (self._is_shared or self._copies):
            return self._installed.as_uri() if self._installed else ""
        return BESIDE if self._beside() else ""

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
                    replace_file(path, content, instead_of=old)
        except BaseException:
            self._take_back(made, is_new=is_new)
            raise

    def _everything(self, file: Path, text: str) -> list[tuple[Path, str]]:
        """List the files and their contents. The profile comes last, so that it exists only with all the others."""
        found = [(self._schema, beside)] if self.schema == BESIDE and (beside := self._beside()) else []
        ignore = self._directory / ".gitignore"
        if self._is_shared and not _is_file_or_nothing(ignore):
            warn(f"{shown(ignore)} is not a regular file and stays as it is; add *.local.yaml to it")
        elif self._is_shared:
            is_pointer = bool(found) and not self._copies
            found.append((ignore, ignoring(_text(ignore), (*OVERLAYS, SCHEMA) if is_pointer else OVERLAYS)))
        return [*found, (file, text)]

    def _beside(self) -> str:
        """Return the text of the file beside the profile; empty if it cannot be written."""
        from acp_launch.profile.schema import text as schema

        if not self._is_ours():
            return ""
        return schema() if self._copies else _pointer(self._installed) if self._installed else ""

    def _is_ours(self) -> bool:
        """Tell whether the schema may be written: it does not exist, or is an older one of ours, or a pointer."""
        return _is_file_or_nothing(self._schema) and (not self._schema.exists() or _read(self._schema) is not None)

    def _take_back(self, made: list[Path], *, is_new: bool) -> None:
        for path in made:
            path.unlink(missing_ok=True)
        if is_new:
            with suppress(OSError):  # another program has put a file there meanwhile
                self._directory.rmdir()


def installed_schema(state: Path) -> Path | None:
    """Write the schema into the state directory, if it is not there; None if that is impossible."""
    from acp_launch.profile.schema import text as schema

    file = state / SCHEMA
    try:
        make_private(state)
        if not file.is_file() or file.read_text(encoding="utf-8") != schema():
            replace(file, schema().encode())
    except (OSError, ValueError):
        return None
    return file


def _is_whole(schema: Path) -> bool:
    """Whether this is a schema of ours, and not a pointer to one."""
    found = _read(schema) if _is_file_or_nothing(schema) else None
    return found is not None and "$ref" not in found


def _read(schema: Path) -> dict[str, Any] | None:
    """Read a schema, or a pointer to one; None if it is not ours."""
    try:
        found = json.loads(_text(schema) or "")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("title") == OURS else None


def _pointer(schema: Path) -> str:
    return json.dumps({"title": OURS, "$ref": schema.as_uri()}) + "\n"


def _is_file_or_nothing(path: Path) -> bool:
    return not path.is_symlink() and (path.is_file() or not path.exists())


def _text(path: Path) -> str | None:
    if not path.exists():
        return None
    text, problems = read(path)
    return text if not problems else ""
