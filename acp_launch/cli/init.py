"""
The verb `init`: creates a profile, with a pointer to the schema for editors and a .gitignore for personal overlays.

It asks on a terminal; without one it takes the options. It decides everything before it writes anything, and removes
what it wrote if the rest cannot be written.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from acp_launch.errors import ProblemsError, ProfileError, StateError, UsageError
from acp_launch.problem import ours

if TYPE_CHECKING:
    from acp_launch.cli.drafting import CredentialStore, Draft, Options
    from acp_launch.profile.discover import Found
    from acp_launch.settings.model import Settings

Agent = Annotated[
    str | None,
    typer.Option("--agent", "-a", metavar="NAME|COMMAND", help="A known agent, or the command that starts another."),
]
Extends = Annotated[str | None, typer.Option("--extends", metavar="PROFILE", help="Extend another profile instead.")]
Servers = Annotated[
    list[str] | None, typer.Option("--server", metavar="NAME=COMMAND|URL", help="An MCP server; repeatable.")
]


def init(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The profile's name.")] = None,
    agent: Agent = None,
    extends: Extends = None,
    server: Servers = None,
    user: Annotated[
        bool, typer.Option("--user", help="Create it in your own configuration, not in the project.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing profile of that name.")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Copy the schema for editors into the project, to be committed.")
    ] = False,
) -> None:
    """Create a profile. Asks on a terminal, unless --agent or --extends is given."""
    from acp_launch.cli.drafting import Options, servers

    create(Options(name or "", agent or "", extends or "", servers(server or ()), user, force, copies_schema=schema))


def create(options: "Options", credentials: "CredentialStore | None" = None) -> str:
    """Make a draft from the options, or by questions; write it, and return its name.

    `credentials` is the store for imported credentials if the caller has opened it already.

    Raises:
        LaunchError: the profile exists, would be wrong, or cannot be written.
        Exit: the user left without an answer.
    """
    from acp_launch.cli.drafting import CredentialStore, location, make_draft
    from acp_launch.settings.load import load

    settings = load()
    credentials = credentials or CredentialStore(settings)
    draft = make_draft(options, settings, credentials)
    found = location(settings, draft.name, is_users=draft.is_users)
    _require(found, draft, settings, force=options.force)
    _write(found, draft, credentials, settings, copies=options.copies_schema)
    _finish(found, draft, settings)
    return draft.name


def _require(found: "Found", draft: "Draft", settings: "Settings", *, force: bool) -> None:
    """Check that the profile can be created.

    Raises:
        UsageError: a file of this name exists, or the profile to extend does not.
    """
    from acp_launch.cli.drafting import existing_file
    from acp_launch.profile.discover import find
    from acp_launch.profile.load import shown

    there = existing_file(found)
    if there and (not force or there.is_symlink() or there != found.file):
        fix = "choose another name" if force else "choose another name; --force replaces it"
        raise UsageError(f"{shown(there)} already exists", fix=fix)
    if draft.extends.startswith("."):
        if not (found.file.parent / draft.extends).is_file():
            raise UsageError(f"there is no {draft.extends} in {shown(found.file.parent)}", fix="correct the path")
    elif draft.extends:
        find(draft.extends, start=found.project, settings=settings)


def _write(
    found: "Found", draft: "Draft", credentials: "CredentialStore", settings: "Settings", *, copies: bool
) -> None:
    """Write the profile and the files beside it, all or none.

    Raises:
        LaunchError: the profile would be wrong, or cannot be written.
    """
    from acp_launch.cli.drafting import ProfileFiles, installed_schema, store_credentials
    from acp_launch.console import problems
    from acp_launch.profile.edit import judged
    from acp_launch.profile.scaffold import beginning, extending

    new_files = ProfileFiles(
        found.file.parent, installed_schema(settings.state), is_shared=not draft.is_users, copies=copies
    )
    servers = (*draft.servers, *draft.imported.servers)
    if draft.agent:
        text = beginning(draft.agent, servers, schema=new_files.schema)
    else:
        text = extending(draft.extends, servers, schema=new_files.schema)
    try:
        judged(found, None, text)
    except ProblemsError as error:
        problems.show(error.problems, as_json=False, outcome="nothing was written")
        raise typer.Exit(ProfileError.exit_code) from None
    store_credentials(draft.imported, draft.found, credentials)
    new_files.write(found.file, text)


def _finish(found: "Found", draft: "Draft", settings: "Settings") -> None:
    from acp_launch.cli import profiles
    from acp_launch.console.stderr import YELLOW, harmless, say
    from acp_launch.profile.load import shown

    say(harmless(f"acp-launch: wrote {shown(found.file)}", keep=""))
    if wrong := profiles.Validate((str(found.file),)).carry_out():
        raise typer.Exit(wrong)
    try:
        is_trusted = _accept(found, draft, settings)
    except StateError as error:  # the profile exists all the same; its first run asks for trust
        say(harmless(f"acp-launch: {error.message}", keep=""), style=YELLOW)
        is_trusted = False
    say("next:", style="1")
    for command in _next(draft, is_trusted=is_trusted):
        say(harmless(f"    {command}", keep=""))


def _accept(found: "Found", draft: "Draft", settings: "Settings") -> bool:
    """Trust the new profile, unless it includes files by others; those must be shown first."""
    from acp_launch.profile.load import load
    from acp_launch.profile.trust import FOREIGN, accept, trust_state
    from acp_launch.settings.load import lies_in

    loaded = load(found)
    others = [layer.file for layer in loaded.layers if layer.origin in FOREIGN and layer.file != found.file]
    others += [one.file for one in draft.found if lies_in(one.file, (found.project,))]
    if not others and trust_state(loaded, settings).how in ("new", "changed"):
        accept(loaded, settings)
    return trust_state(loaded, settings).is_trusted


def _next(draft: "Draft", *, is_trusted: bool) -> list[str]:
    import shutil

    from acp_launch.profile.agents import PYTHON

    agent = draft.agent
    is_missing = agent is not None and agent.command != PYTHON and not shutil.which(agent.command)
    install = [agent.install] if agent and agent.install and is_missing else []
    trusting = [] if is_trusted else [ours("trust", draft.name)]
    return [*install, *trusting, ours("doctor", draft.name), ours("run", draft.name)]
