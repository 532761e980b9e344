"""
The way from a profile's name, or an agent's command line, to a launch plan.

It shows warnings and raises problems. Nothing of a project runs before the user has trusted the profile:
`require_trust` checks that wherever something is about to start.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from acp_launch.app.spec import at_home, check_session_name, find_profile, load_settings
from acp_launch.console import problems as screen
from acp_launch.engine.prepared import PreparedPlan
from acp_launch.errors import MachineError, NotLoggedIn, ProfileError, UsageError
from acp_launch.plan.model import LaunchPlan, RemotePlan
from acp_launch.plan.resolve import Resolved, adhoc, resolve
from acp_launch.problem import KeyPath, Problem, did_you_mean, ours
from acp_launch.process.guard_client import start_guards
from acp_launch.process.prepare import require_descriptors
from acp_launch.profile.discover import here
from acp_launch.profile.load import Loaded, load
from acp_launch.profile.trust import TrustState, claim_profile, trust_state
from acp_launch.secret.lookup import Waiting
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.app.credentials import MissingLogin, ServerLogin
    from acp_launch.console.trust import ReportRow


def prepare_launch() -> None:
    """Check what this system allows, and fork the guards before more is imported: a guard needs little memory."""
    require_descriptors()
    start_guards()


def agent_plan(name: str, *, cwd: Path | None = None, trust: bool) -> PreparedPlan:
    """Plan a launch of a profile's agent alone; secrets of servers are not looked up.

    Raises:
        LaunchError: as `loaded_profile`, `resolve_trusted` and `ready`.
    """
    settings = load_settings()
    resolved = resolve_trusted(loaded_profile(name, settings), settings, cwd=cwd, trust=trust)
    needs = tuple(need for need in resolved.needs if need.origin.path.startswith("agent."))
    return prepare_plan(replace(resolved, needs=needs), settings, with_logins=False)


def prepare_plan(
    resolved: Resolved,
    settings: Settings,
    *,
    waiting: Waiting | None = None,
    is_alone: bool = False,
    with_logins: bool = True,
    asks_passphrase: bool = True,
) -> PreparedPlan:
    """Return the plan and all secrets it needs; a user at a terminal is asked for those that are not set.

    Look up the logins of servers, too, and run the commands that print headers for some, unless without `with_logins`.
    Nothing asks the user to log in. A server that is not required is left out of the plan if it lacks these, unless
    `is_alone`. `waiting` is called while the store has not answered.

    Raises:
        MachineError: a command, directory, variable or secret is missing on this machine.
        NotLoggedIn: logins or such headers are all that is missing.
    """
    every = _logins(resolved, settings) if with_logins else ()
    logins = [login for login in every if login.is_needed]
    others = [login for login in every if not login.is_needed]  # of servers that may turn out to want one
    if not resolved.needs and not logins:
        plan = _plan(resolved)
        if not others:
            return PreparedPlan(plan)
        from acp_launch.app.supply import Supply

        return PreparedPlan(plan, {}, Supply(settings).later(others, plan.called))
    start_guards()
    from acp_launch.app.supply import supply

    found = supply(resolved, settings, logins, waiting=waiting, asks_passphrase=asks_passphrase)
    plan = _plan(resolved, found.missing, found.lacks, is_alone=is_alone)
    later = found.later(others, plan.called)
    return PreparedPlan(plan, found.secrets, {**found.credentials, **later})


def _logins(resolved: Resolved, settings: Settings) -> "Sequence[ServerLogin]":
    if resolved.plan is None or not any(isinstance(server, RemotePlan) for server in resolved.plan.servers):
        return ()
    from acp_launch.app.credentials import server_logins

    return server_logins(resolved.plan.servers, settings)


def resolve_trusted(
    loaded: Loaded,
    settings: Settings,
    *,
    cwd: Path | None,
    session: str | None = None,
    typed: Path | None = None,
    trust: bool,
    locked: bool = False,
) -> Resolved:
    """Resolve a profile of which something is about to start; `trust` is `--trust`, `locked` is `--locked`.

    A user at a terminal is offered to install programs that are missing.

    Raises:
        NotTrusted: it belongs to a project, and the user does not trust its present content.
        ProfileError: the file is wrong, or differs from the lock file.
    """
    resolve_again = partial(resolved_from, loaded, cwd=cwd, session=session, typed=typed)
    resolved = resolve_again()
    require_trust(loaded, settings, allow_once=trust, found=resolved.found)
    if locked:
        different, resolved = compare_lock(loaded, resolved)
        if different:
            raise ProfileError(different)
    if resolved.plan is not None:
        return resolved
    from acp_launch.app.consent import offer_to_install

    return offer_to_install(resolved, resolve_again)


def compare_lock(loaded: Loaded, resolved: Resolved) -> "tuple[Sequence[Problem], Resolved]":
    """Return how a profile differs from the project's lock file, as far as it can be resolved here, and what starts
    the locked image."""
    from acp_launch.plan.locked import differing, pin_image

    plan = resolved.plan or resolved.draft
    different = differing(loaded, plan) if plan is not None else resolved.problems
    if different or resolved.plan is None:
        return different, resolved
    return (), replace(resolved, plan=pin_image(loaded, resolved.plan))


def loaded_profile(name: str, settings: Settings) -> Loaded:
    """Load and check a profile by its name or path.

    Raises:
        UsageError: there is no such profile.
        ProfileError: the file is wrong.
    """

    return load(find_profile(name, settings), cache=settings.cache)


def resolved_from(
    loaded: Loaded, *, cwd: Path | None = None, session: str | None = None, typed: Path | None = None
) -> Resolved:
    """Resolve a loaded profile on this machine, as if the command were typed in `typed`; by default here."""

    checked = check_session_name(session)
    return resolve(loaded, cwd=typed or here(), environ=os.environ, cwd_override=at_home(cwd), session_override=checked)


def resolved_for_front(loaded: Loaded, cwd: Path | None, session: str | None) -> LaunchPlan | None:
    """Return the plan of a front, without servers: they are the host's. None if the profile cannot run here."""

    without = replace(loaded, profile=replace(loaded.profile, mcp_servers={}))
    return resolved_from(without, cwd=cwd, session=session).plan


def require_plan(resolved: Resolved) -> LaunchPlan:
    """Return the plan; raise MachineError if this machine cannot run it."""
    if resolved.plan is None:
        raise MachineError(resolved.problems)
    return resolved.plan


def adhoc_plan(command_line: str, *, cwd: Path | None, session: str | None, is_confined: bool = False) -> PreparedPlan:
    """Plan a launch of `--agent 'COMMAND ARGS…'`, without a profile, servers and secrets.

    Raises:
        UsageError: the text is not a command line.
        MachineError: this machine cannot run it.
    """

    checked = check_session_name(session)
    resolved = adhoc(
        command_line,
        cwd=here(),
        environ=os.environ,
        cwd_override=at_home(cwd),
        session_override=checked,
        is_confined=is_confined,
    )
    return PreparedPlan(_plan(resolved))


def _plan(
    resolved: Resolved,
    missing: "tuple[Problem, ...]" = (),
    lacks: "Sequence[MissingLogin]" = (),
    *,
    is_alone: bool = False,
) -> LaunchPlan:
    """Return the plan, without the optional servers of `lacks`; raise every problem, or show the warnings."""
    fatal = [lack for lack in lacks if is_alone or lack.server.required]
    logins = [lack.problem(is_fatal=lack in fatal) for lack in lacks]
    problems = sorted((*resolved.problems, *missing, *logins), key=lambda each: (each.file, each.line, each.column))
    if resolved.plan is None or missing:
        raise MachineError(problems)
    if fatal:
        called = resolved.plan.called
        helps = all(lack.fix == ours("mcp", "login", called, lack.server.name) for lack in fatal)
        raise NotLoggedIn(problems, [lack.server.name for lack in fatal] if helps else ())
    if problems:
        screen.show(problems, as_json=False)
    if not lacks:
        return resolved.plan

    without = [lack.server for lack in lacks]
    return replace(resolved.plan, servers=tuple(each for each in resolved.plan.servers if each not in without))


def find_server(name: str | None, profile: str, servers: Collection[str]) -> str:
    """Return the server's name.

    Raises:
        UsageError: the profile has no such server, or no name is given; the message lists the servers.
    """
    if name is not None and name in servers:
        return name
    shown = ours("mcp", "list", profile)
    if name is None and not servers:
        raise UsageError(f"{profile} has no MCP servers", fix="add some under mcp_servers in the profile")
    if name is None:
        raise UsageError(
            f"no MCP server is given: {profile} has {', '.join(servers)}", fix=f"name one; {shown} lists them"
        )
    hint = did_you_mean(name, servers)
    raise UsageError(f'{profile} has no MCP server "{name}"{hint}', fix=shown)


# Trust in a project's profile.


def require_trust(
    loaded: Loaded, settings: Settings, *, allow_once: bool, found: Mapping[KeyPath, Path] | None = None
) -> None:
    """Refuse a project's profile that is not trusted; a user at a terminal may trust it at once.

    `allow_once` is `--trust`, which allows one run; `found` as in `list_rows`.

    Raises:
        NotTrusted: the profile is not trusted; all that it would run has been shown.
    """
    how = trust_state(loaded, settings)
    if not how.is_trusted:
        from acp_launch.app.consent import require_claim

        require_claim(
            claim_profile(loaded), how, partial(list_rows, loaded, how, found), settings, allow_once=allow_once
        )


def list_rows(loaded: Loaded, how: TrustState, found: Mapping[KeyPath, Path] | None = None) -> "Iterable[ReportRow]":
    """List all that a profile would run; `found` are its programs and directories that exist, by default from here."""
    from acp_launch.console.trust import parts

    return parts(loaded.profile, resolved_from(loaded).found if found is None else found, how.now)
