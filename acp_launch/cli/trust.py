"""The verb `trust`: trusts a project's profile, lists the trusted ones, revokes trust."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from acp_launch.errors import NotTrusted, UsageError

if TYPE_CHECKING:
    from acp_launch.profile.trust import Acceptance
    from acp_launch.settings.model import Settings


def trust(
    profile: Annotated[str | None, typer.Argument(metavar="[PROFILE]", help="The profile to trust.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the trusted profiles.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Stop trusting it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """Trust a project's profile until it changes."""
    from acp_launch.settings.load import load

    settings = load()
    if list_ and (profile or revoke or yes):
        raise UsageError("--list takes no other arguments", fix="acp-launch trust --list")
    if revoke and yes:
        raise UsageError("--yes cannot be combined with --revoke, which does not ask", fix="leave --yes out")
    if list_:
        _list(settings, as_json=as_json)
    elif as_json:
        raise UsageError("--json goes with --list", fix="acp-launch trust --list --json")
    elif profile is None:
        raise UsageError("no profile is given", fix="acp-launch trust PROFILE; --list shows the trusted ones")
    elif revoke:
        _revoke(profile, settings)
    else:
        _accept(profile, settings, is_sure=yes)


def _list(settings: "Settings", *, as_json: bool) -> None:
    from acp_launch.console import stdout
    from acp_launch.console.stderr import say
    from acp_launch.console.trust import table, table_json
    from acp_launch.profile.trust import accepted

    found = accepted(settings)
    if as_json:
        stdout.put_json(table_json(found))
    elif found:
        stdout.line(table(found))
    else:
        say("no profile of a project is trusted yet")


def _accept(profile: str, settings: "Settings", *, is_sure: bool) -> None:
    from acp_launch.cli.planning import agrees, loaded_profile, resolved_from
    from acp_launch.console.stderr import harmless, say
    from acp_launch.console.trust import heading, report
    from acp_launch.profile.trust import accept, trust_state

    loaded = loaded_profile(profile, settings)
    found = trust_state(loaded, settings)
    if found.is_trusted:
        why = "it is your own, or built in" if found.how == "own" else "it has not changed since you trusted it"
        say(harmless(f"acp-launch: {profile} is trusted already: {why}", keep=""))
        return
    there = resolved_from(loaded, cwd=None).found
    say(heading(found))
    for line in report(loaded.profile, there, found):
        say(line)
    if found.how == "doubtful":
        fix = "make it a file in the project that only you can write"
        raise NotTrusted("this profile cannot be trusted", fix=fix)
    if not is_sure and not agrees("Trust this profile?"):
        raise NotTrusted("the profile was not trusted", fix="run it on a terminal to be asked, or give --yes")
    accept(loaded, settings)
    say(harmless(f"acp-launch: trusted; you will be asked again if it changes: {loaded.label}", keep=""))


def _revoke(profile: str, settings: "Settings") -> None:
    from acp_launch.cli.planning import here as working_directory
    from acp_launch.console.stderr import harmless, say
    from acp_launch.profile.trust import accepted, revoke

    path = Path(os.path.normpath(working_directory() / profile))
    file = str(Path(os.path.realpath(path.parent)) / path.name)
    found = [each for each in accepted(settings) if each.profile == profile or each.file == file]
    here = [each for each in found if each.file == file or _is_here(each)]
    if (len(found) > 1 and len(here) != 1) or (found and not here):
        files = ", ".join(each.file for each in here or found)
        where = "here" if here else "in another project"
        raise UsageError(f'"{profile}" is trusted {where}: {files}', fix="give the file's path")
    if not here:
        raise UsageError(f'"{profile}" is not trusted', fix="acp-launch trust --list shows what is")
    revoke(here[0], settings)
    say(harmless(f"acp-launch: no longer trusted: {here[0].file}", keep=""))


def _is_here(acceptance: "Acceptance") -> bool:
    from acp_launch.cli.planning import here
    from acp_launch.profile.discover import project_of

    return acceptance.project == str(project_of(here()))
