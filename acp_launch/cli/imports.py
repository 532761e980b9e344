"""
The verbs `init` and `import`: a new profile by options or by questions, and servers of other tools in a profile.

They start nothing. The profile is decided before anything is written, so leaving in the middle leaves nothing behind;
what was written is removed if the rest cannot be written. Then servers are imported into it, as into any other profile.
"""

import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Struct

from acp_launch.app.newprofile import ProfileFiles, existing_file, location, name_fault, named_agent
from acp_launch.app.questions import agrees
from acp_launch.app.spec import load_settings
from acp_launch.cli import profiles
from acp_launch.cli.edit import server_entry
from acp_launch.cli.importing import (
    AGENT,
    CredentialStore,
    ImportRequest,
    find_sources,
    import_source,
    list_sources,
    own_profiles,
    read_drafts,
    require_tool,
)
from acp_launch.cli.run import Run
from acp_launch.cli.verb import Argument, Option
from acp_launch.console import interop, problems
from acp_launch.console.interop import note, warn
from acp_launch.console.stderr import YELLOW, can_ask_user, harmless, say, tell
from acp_launch.errors import ProblemsError, ProfileError, StateError, UsageError
from acp_launch.interop.read import Finding, survey
from acp_launch.interop.tools import TOOLS, this_machine
from acp_launch.problem import ours
from acp_launch.profile.agents import AGENTS, PYTHON, KnownAgent
from acp_launch.profile.discover import PARENT, Found, find, here, project_of
from acp_launch.profile.edit import judged
from acp_launch.profile.load import load, shown
from acp_launch.profile.scaffold import NewServer, beginning, called, extending, without_servers
from acp_launch.profile.trust import FOREIGN, accept, trust_state
from acp_launch.settings.load import lies_in
from acp_launch.settings.model import Settings

CANCELLED = 130  # exit code


class ProfileDraft(Struct, frozen=True):
    """A new profile before it is written. It has an agent of its own, or extends another profile, or both."""

    name: str
    is_users: bool
    agent: KnownAgent | None
    extends: str = ""
    sources: tuple[Finding, ...] = ()


def parse_server(written: str) -> "NewServer":
    """Parse a server written as NAME=COMMAND or NAME=URL.

    Raises:
        UsageError: it is written otherwise.
    """
    name, equals, what = written.partition("=")
    if not name or not equals or not what.strip():
        raise UsageError("--server takes NAME=COMMAND or NAME=URL", fix="--server 'files=npx -y PACKAGE DIR'")
    if what.startswith(("https://", "http://")):
        return NewServer(name, server_entry([], what, None, {}, {}))
    try:
        return NewServer(name, server_entry(shlex.split(what), None, None, {}, {}))
    except ValueError:
        raise UsageError(f"--server {name}: a quote is not closed", fix="close it") from None


class Init(NamedTuple):
    """Create a profile. Asks on a terminal, unless --agent or --extends is given."""

    name: Annotated[str | None, Argument("[NAME]", "The profile's name.")] = None
    agent: Annotated[str | None, Option("--agent -a", "A known agent, or the command that starts another.", AGENT)] = (
        None
    )
    extends: Annotated[str | None, Option("--extends", "Extend another profile.", "PROFILE")] = None
    servers: Annotated[
        tuple[Any, ...], Option("--server", "An MCP server; repeatable.", "NAME=COMMAND|URL", parse_server)
    ] = ()
    user: Annotated[bool, Option("--user", "Create it in your own configuration, not in the project.")] = False
    force: Annotated[bool, Option("--force", "Replace an existing profile of that name.")] = False
    schema: Annotated[bool, Option("--schema", "Copy the schema for editors into the project, to be committed.")] = (
        False
    )

    def carry_out(self) -> None:
        create(self)


class Import(ImportRequest):
    """Import MCP servers and agents from other tools. Without SOURCE, list those on this machine; a terminal asks."""

    __slots__ = ()

    def carry_out(self) -> int:
        source, into, origin = self.source, self.into, self.origin
        if source is None:
            if into is not None:
                raise UsageError("no source is given", fix="acp-launch import lists the sources on this machine")
            if self.as_json or not can_ask_user():
                list_sources(as_json=self.as_json)
                return 0

            name = import_by_questions()
            return Run((name,)).carry_out() if name and agrees(f"Run {name} now?") else 0
        tool = require_tool(origin, TOOLS) if origin else None
        if into is None:
            find_sources(source, tool)  # a mistake in the source is reported first, as no profile would mend it
            whose = ("--from", origin) if origin else ()
            fix = ours("import", source, *whose, "--into", "PROFILE")
            raise UsageError("no profile is given to import into", fix=fix)
        import_source(source, into, tool, self)
        return 0


def create(
    request: Init, sources: tuple[Finding, ...] | None = None, credentials: CredentialStore | None = None
) -> str:
    """Make a draft from the options, or by questions; write it, and return its name.

    `sources` are imported from; without them the user is asked. `credentials` is the store for imported credentials if
    the caller has opened it already.

    Raises:
        LaunchError: the profile exists, would be wrong, or cannot be written.
        Exit: the user left without an answer.
    """
    settings = load_settings()
    credentials = credentials or CredentialStore(settings)
    draft = _make_draft(request, settings, sources)
    found = location(settings, draft.name, is_users=draft.is_users)
    there = existing_file(found)
    if there and (not request.force or there.is_symlink() or there != found.file):
        fix = "choose another name" if request.force else "choose another name; --force replaces it"
        raise UsageError(f"{shown(there)} already exists", fix=fix)
    if draft.extends.startswith("."):
        if not (found.file.parent / draft.extends).is_file():
            raise UsageError(f"there is no {draft.extends} in {shown(found.file.parent)}", fix="correct the path")
    elif draft.extends:
        find(draft.extends, start=found.project, settings=settings)
    _write(found, draft, request, settings)
    tell(f"wrote {shown(found.file)}")
    _import_into(str(found.file), draft.sources, credentials)
    _finish(found, draft, settings)
    return draft.name


def import_by_questions() -> str:
    """Ask which sources to import, and into which profile; return its name, or "" if nothing is imported.

    Raises:
        LaunchError: the source, the profile or the store is not usable.
        Exit: the user left without an answer.
    """
    found = [one for one in survey(this_machine(), project_of(here())) if one.servers]
    if not found:
        list_sources(as_json=False)
        return ""
    with _until_ended():
        chosen = _choose_sources(found, otherwise="all")
        if not chosen:
            note("nothing was imported")
            return ""
        # The store is opened before more is asked, so that no answer is given in vain.
        credentials = CredentialStore(load_settings())
        incoming = read_drafts(one.source for one in chosen if one.source)
        credentials.names(incoming, range(len(incoming.tokens)), ())
        goal, there = "", own_profiles()
        if there:
            say(f"Profiles here: {', '.join(there)}")
            goal = interop.name(there[0], lambda name: "" if name in there else name_fault(name))
    if goal not in there:
        return create(Init(goal), chosen, credentials)
    _import_into(goal, chosen, credentials)
    return goal


def _import_into(profile: str, chosen: Sequence[Finding], credentials: CredentialStore) -> None:
    """Import these files; one that the user declines, or that has nothing new, is left out."""
    for one in chosen:
        try:
            import_source(str(one.file), profile, one.tool, ImportRequest(), credentials)
        except UsageError as refused:
            warn(refused.message)


@contextmanager
def _until_ended() -> Iterator[None]:
    """Leave the program if the user ends the input."""
    try:
        yield
    except (interop.InputEnded, KeyboardInterrupt):
        say("\nacp-launch: nothing was written")
        raise SystemExit(CANCELLED) from None


def _make_draft(request: Init, settings: Settings, sources: tuple[Finding, ...] | None) -> ProfileDraft:
    """Make a draft from the options, or ask the user.

    Raises:
        UsageError: the options contradict each other, or there is no terminal to ask on.
        Exit: the user left without an answer.
    """
    if request.name and (wrong := name_fault(request.name)):
        raise UsageError(wrong, fix="acp-launch init NAME")
    if request.agent:
        agent = named_agent(request.agent, is_users=request.user)
        return ProfileDraft(request.name or agent.name, request.user, agent, request.extends or "")
    if request.extends:
        return ProfileDraft(request.name or f"my-{called([request.extends])}", request.user, None, request.extends)
    if not can_ask_user():
        fix = f"name the agent: acp-launch init {request.name or 'NAME'} --agent claude"
        raise UsageError("there is no terminal to ask on", fix=fix)
    with _until_ended():
        return _ask(request, settings, sources)


def _ask(request: Init, settings: Settings, chosen: tuple[Finding, ...] | None) -> ProfileDraft:
    installed = [one.name for one in AGENTS.values() if one.command == PYTHON or shutil.which(one.command)]
    others = [name for name in AGENTS if name not in installed]
    answer = interop.agent([AGENTS[name] for name in (*installed, *others)], installed)
    places = [location(settings, "", is_users=is_users).file.parent for is_users in (False, True)]
    is_users = request.user or interop.place(*places)
    agent = named_agent(answer, is_users=is_users)

    def fault(name: str) -> str:
        if wrong := name_fault(name):
            return wrong
        there = None if request.force else existing_file(location(settings, name, is_users=is_users))
        return f"{shown(there)} already exists" if there else ""

    name = _name(request.name, agent, fault)
    if chosen is None:
        found = [one for one in survey(this_machine(), project_of(here())) if one.servers]
        chosen = _choose_sources(found, otherwise="none") if found else ()
    return ProfileDraft(name, is_users, agent, "", chosen)


def _choose_sources(found: Sequence[Finding], *, otherwise: Literal["all", "none"]) -> tuple[Finding, ...]:
    """Ask which files to import; `otherwise` is the answer of an empty line."""
    return tuple(found[at] for at in interop.servers([(shown(one.file), one.servers) for one in found], otherwise))


def _name(given: str | None, agent: KnownAgent, fault: Callable[[str], str]) -> str:
    if given and not fault(given):
        return given
    wanted = given or agent.name
    free = (name for name in (wanted, *(f"{wanted}-{number}" for number in range(2, 100))) if not fault(name))
    return interop.name(next(free, wanted), fault)


def _write(found: Found, draft: ProfileDraft, request: Init, settings: Settings) -> None:
    """Write the profile and the files next to it, all or none.

    Raises:
        LaunchError: the profile would be wrong, or cannot be written.
    """
    is_shared = not draft.is_users
    files = ProfileFiles(found.file.parent, settings.state, is_shared=is_shared, copies=request.schema)
    if draft.extends:
        text = extending(draft.extends, draft.agent, request.servers, schema=files.schema)
    elif draft.agent and draft.sources and not request.servers:
        text = without_servers(draft.agent, schema=files.schema)
    else:
        assert draft.agent, "a draft that extends nothing has an agent"
        text = beginning(draft.agent, request.servers, schema=files.schema)
    try:
        judged(found, None, text)
    except ProblemsError as error:
        problems.show(error.problems, as_json=False, outcome="nothing was written")
        raise SystemExit(ProfileError.exit_code) from None
    files.write(found.file, text)


def _finish(found: Found, draft: ProfileDraft, settings: Settings) -> None:
    if wrong := profiles.validate((str(found.file),)):
        raise SystemExit(wrong)
    try:
        is_trusted = _accept(found, draft, settings)
    except StateError as error:  # the profile exists all the same; its first run asks for trust
        tell(f"{error.message}", style=YELLOW)
        is_trusted = False
    agent = draft.agent
    is_missing = agent is not None and agent.command != PYTHON and not shutil.which(agent.command)
    needs = f"  # needs Node.js {agent.node}" if agent and agent.node else ""
    install = [f"{agent.install}{needs}"] if agent and agent.install and is_missing else []
    trust = [] if is_trusted else [ours("trust", draft.name)]
    say("next:", style="1")
    use = [ours("doctor", draft.name), ours("run", draft.name)]
    if draft.name.startswith(PARENT):
        trust, use = [], [ours("init", "NAME", "--extends", draft.name)]
    for command in (*install, *trust, *use):
        say(harmless(f"    {command}", keep=""))


def _accept(found: Found, draft: ProfileDraft, settings: Settings) -> bool:
    """Trust the new profile, unless it includes files by others; those must be shown first."""
    loaded = load(found)
    others = [layer.file for layer in loaded.layers if layer.origin in FOREIGN and layer.file != found.file]
    others += [one.file for one in draft.sources if lies_in(one.file, (found.project,))]
    if not others and trust_state(loaded, settings).how in ("new", "changed"):
        accept(loaded, settings)
    return trust_state(loaded, settings).is_trusted
