"""
The way from a profile's name, or an agent's command line, to a launch plan.

It shows warnings and raises problems. Nothing of a project runs before the user has trusted the profile: `require`
checks that wherever something is about to start.
"""

import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from acp_launch.app.lookup import at_home, check_session_name, find_profile, load_settings
from acp_launch.console.stderr import harmless, say, tell
from acp_launch.errors import MachineError, NotLoggedIn, NotTrusted, ProfileError, Stopped, UsageError
from acp_launch.plan.environment import inherited
from acp_launch.plan.model import LaunchPlan, Need, RemotePlan, unfit, unmet
from acp_launch.plan.resolve import Resolved, adhoc, resolve
from acp_launch.problem import Problem, about, did_you_mean, dotted, errors, ours
from acp_launch.process.guard import start_guards
from acp_launch.process.prepare import require_descriptors
from acp_launch.process.spawn import require_platform
from acp_launch.profile.discover import here
from acp_launch.profile.load import Loaded, load
from acp_launch.secret.isolate import bounded
from acp_launch.secret.lookup import Waiting, secrets
from acp_launch.secret.value import Outcome, Secret, Store
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.app.credentials import Lack, ServerLogin
    from acp_launch.console.trust import ReportRow
    from acp_launch.mcp.http.wire import Credentials
    from acp_launch.problem import KeyPath
    from acp_launch.process.program import LocalProgram
    from acp_launch.process.tree import Exit
    from acp_launch.profile.trust import Claim, TrustState

NOTHING: Mapping[str, Any] = {}


def prepare_launch() -> None:
    """Check what this system allows, and fork the guards before more is imported: a guard needs little memory."""
    require_platform()
    require_descriptors()
    start_guards()


class Ready(NamedTuple):
    """A plan with its secrets, and with the credentials of remote servers that change meanwhile, by their names."""

    plan: LaunchPlan
    secrets: Mapping[str, Secret] = NOTHING
    credentials: "Mapping[str, Credentials]" = NOTHING


def agent_plan(name: str, *, cwd: Path | None = None, trust: bool) -> Ready:
    """Plan a launch of a profile's agent alone; secrets of servers are not looked up.

    Raises:
        LaunchError: as `loaded_profile`, `resolve_trusted` and `ready`.
    """
    require_platform()
    settings = load_settings()
    resolved = resolve_trusted(loaded_profile(name, settings), settings, cwd=cwd, trust=trust)
    needs = tuple(need for need in resolved.needs if need.origin.path.startswith("agent."))
    return ready(replace(resolved, needs=needs), settings, with_logins=False)


def ready(
    resolved: Resolved,
    settings: Settings,
    *,
    waiting: Waiting | None = None,
    is_alone: bool = False,
    with_logins: bool = True,
    asks_passphrase: bool = True,
) -> Ready:
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
        return Ready(plan, {}, _later(others, plan, settings, {}))
    from acp_launch.app.stores import offer_sealed_file, open_store, outcomes

    start_guards()
    opening = cache(partial(open_store, settings, asks=asks_passphrase))  # once: so its question comes once
    names = [need.name for need in resolved.needs]
    wanted = [*names, *dict.fromkeys(login.item for login in logins if login.item)]
    found = outcomes(wanted, settings, waiting, opening)
    unset = [found[name].is_absent for name in names if found[name].state != "found"]
    if resolved.plan is not None and unset and all(unset) and (changed := offer_sealed_file(settings)) is not None:
        settings, opening = changed, cache(partial(open_store, changed, asks=asks_passphrase))
        found = outcomes(wanted, settings, waiting, opening)
    answers = {name: found[name] for name in names}
    if resolved.plan is not None:
        answers = _ask_for_secrets(resolved.needs, answers, settings, opening)
    values = secrets(answers)
    missing = (*unmet(resolved.needs, answers, has_terminal=not unset or has_terminal()), *unfit(resolved.plan, values))
    if resolved.plan is None or not logins:
        plan = _plan(resolved, missing)
        return Ready(plan, values, _later(others, plan, settings, values))
    from acp_launch.app.credentials import Wallet, list_lacking, print_headers

    wallet = Wallet(settings=settings, opening=opening, secrets=values, called=resolved.plan.called)
    credentials = wallet.credentials(logins, found)
    lacks = [*list_lacking(logins, found, resolved.plan.called), *print_headers(logins, credentials, settings)]
    plan = _plan(resolved, missing, lacks, is_alone=is_alone)
    return Ready(plan, values, {**credentials, **_later(others, plan, settings, values, opening)})


def _logins(resolved: Resolved, settings: Settings) -> "Sequence[ServerLogin]":
    if resolved.plan is None or not any(isinstance(server, RemotePlan) for server in resolved.plan.servers):
        return ()
    from acp_launch.app.credentials import server_logins

    return server_logins(resolved.plan.servers, settings)


def _later(
    others: "Sequence[ServerLogin]",
    plan: LaunchPlan,
    settings: Settings,
    secrets: Mapping[str, Secret],
    opening: Callable[[], Store] | None = None,
) -> "Mapping[str, Credentials]":
    """Return the credentials of servers that the user may log in to once they have turned out to want it.

    `opening` opens the store, if it was opened before.
    """
    if not others:
        return {}
    from acp_launch.app.credentials import Wallet
    from acp_launch.app.stores import open_unasked, protect_secrets

    protect_secrets()
    opening = opening or cache(partial(open_unasked, settings))
    return Wallet(settings=settings, opening=opening, secrets=secrets, called=plan.called).credentials(others, {})


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
    require(loaded, settings, is_waved=trust, found=resolved.found)
    if locked and (different := lock_differences(loaded, resolved)):
        raise ProfileError(different)
    if resolved.plan is not None:
        return resolved
    return _offer_to_install(resolved, resolve_again)


def lock_differences(loaded: Loaded, resolved: Resolved) -> "Sequence[Problem]":
    """Return how a profile differs from the project's lock file, as far as it can be resolved here."""
    from acp_launch.plan.locked import differing

    plan = resolved.plan or resolved.draft
    return differing(loaded, plan) if plan is not None else resolved.problems


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


def require_plan(resolved: Resolved) -> LaunchPlan:
    """Return the plan; raise MachineError if this machine cannot run it."""
    if resolved.plan is None:
        raise MachineError(resolved.problems)
    return resolved.plan


def adhoc_plan(command_line: str, *, cwd: Path | None, session: str | None, is_confined: bool = False) -> Ready:
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
    return Ready(_plan(resolved))


def _plan(
    resolved: Resolved,
    missing: "tuple[Problem, ...]" = (),
    lacks: "Sequence[Lack]" = (),
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
        from acp_launch.console import problems as screen

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


def require(
    loaded: Loaded, settings: Settings, *, is_waved: bool, found: "Mapping[KeyPath, Path] | None" = None
) -> None:
    """Refuse a project's profile that is not trusted; a user at a terminal may trust it at once.

    `is_waved` is `--trust`, which allows one run; `found` as in `list_rows`.

    Raises:
        NotTrusted: the profile is not trusted; all that it would run has been shown.
    """
    from acp_launch.profile.trust import claim_profile, trust_state

    how = trust_state(loaded, settings)
    if not how.is_trusted:
        require_claim(claim_profile(loaded), how, partial(list_rows, loaded, how, found), settings, is_waved=is_waved)


def require_claim(
    claim: "Claim", how: "TrustState", rows: "Callable[[], Iterable[ReportRow]]", settings: Settings, *, is_waved: bool
) -> None:
    """Refuse a profile or a batch that is not trusted, as `require`; `rows` say what it would run.

    Raises:
        NotTrusted: it is not trusted.
    """
    from acp_launch.profile.trust import keep

    if how.is_trusted or (is_waved and how.how != "doubtful"):
        return
    show_claim(claim, how, rows())
    if agrees(f"Trust this {claim.noun} and continue?"):
        keep(claim, settings)
        return
    changed, new = f"this {claim.noun} has changed since you trusted it", f"this {claim.noun} is not trusted yet"
    new = new.replace("this profile", "this project's profile")
    accept = f"to trust it: {ours('trust', claim.called)}; to run it once: --trust"
    fix = accept if claim.called else "to run it: --trust"
    raise NotTrusted(f"{changed if how.how == 'changed' else new}: {claim.label}", fix=fix)


def list_rows(
    loaded: Loaded, how: "TrustState", found: "Mapping[KeyPath, Path] | None" = None
) -> "Iterable[ReportRow]":
    """List all that a profile would run; `found` are its programs and directories that exist, by default from here."""
    from acp_launch.console.trust import parts

    return parts(loaded.profile, resolved_from(loaded).found if found is None else found, how.now)


def show_claim(claim: "Claim", how: "TrustState", rows: "Iterable[ReportRow]") -> None:
    """Show all that would run.

    Raises:
        NotTrusted: it cannot be trusted.
    """
    from acp_launch.console.trust import heading, report

    say(heading(how))
    for line in report(rows, how):  # here, and not as details of the error: a diff has its colours
        say(line)
    if how.how == "doubtful":
        fix = "make it a file in the project that only you can write"
        raise NotTrusted(f"this {claim.noun} cannot be trusted: {claim.label}", fix=fix)


def agrees(question: str) -> bool:
    """Ask a yes-or-no question; without a terminal the answer is no."""
    if not has_terminal():
        return False
    from acp_launch.console.ask.terminal import ask_yes_or_no

    return ask_yes_or_no(question) is True


def require_agreement(question: str, undone: str, fix: str) -> None:
    """Ask a yes-or-no question; refuse anything but a yes, as well as to go on without a terminal.

    Raises:
        UsageError: `undone` says what was not done; `fix` agrees without a terminal.
    """
    if not has_terminal():
        raise UsageError(f"there is no terminal to ask on; {undone}", fix=fix)
    if not agrees(question):
        raise UsageError(undone)


def has_terminal() -> bool:
    """Tell whether a user can be asked."""
    from acp_launch.console.ask.terminal import possible  # with asyncio, which a start does without until later

    return possible()


# What a run lacks on this machine and the user at the terminal can supply at once: secrets, and programs. Nothing is
# asked without a terminal, or if the run could not start anyway. The caller has required trust before.

SIGINT = 2
INTERRUPTED = 128 + SIGINT  # the exit status of programs that handle Ctrl-C themselves, as npm does


def _ask_for_secrets(
    needs: Sequence[Need], answers: dict[str, Outcome], settings: Settings, opening: Callable[[], Store]
) -> dict[str, Outcome]:
    """Ask for each secret that is not set, and store it; return the outcomes with the new ones.

    Nothing is asked if another secret has another fault, or if the store only reads.
    """
    unset = [name for name, outcome in answers.items() if outcome.state != "found"]
    if not unset or settings.secrets.store == "command" or any(answers[name].state != "missing" for name in unset):
        return answers
    if not has_terminal():
        return answers
    from acp_launch.app.secretvalue import ask_value, check_name, put
    from acp_launch.app.stores import Vault

    try:
        names = [check_name(name) for name in unset]
    except UsageError:  # the profile names what `secret set` would refuse
        return answers
    count = "a secret is" if len(names) == 1 else f"{len(names)} secrets are"
    vault, found = Vault(settings, opening), dict(answers)
    tell(f"{count} not set; what you type is hidden, and stored in the {vault.store.label}")
    for name in names:
        used = "; ".join(f"{need.origin}: {need.origin.path}" for need in needs if need.name == name)
        say(harmless(f"    {used}", keep=""))
        secret = put(vault, name, lambda name=name: ask_value(name, needs))  # type: ignore[misc]
        if secret is None:
            break
        found[name] = Outcome("found", vault.store.label, secret)
    return found


def _offer_to_install(resolved: Resolved, again: Callable[[], Resolved]) -> Resolved:
    """Offer to install each program that a profile without a plan lacks; if all were installed, resolve it `again`.

    Nothing is offered if one of them has no known installer, or something else is wrong.
    """
    if resolved.draft is None or not has_terminal():
        return resolved
    wanted = _installers(resolved)
    if not wanted:
        return resolved
    from acp_launch.process.foreground import available

    if not available():
        return resolved
    for command, argv in wanted.items():
        argv, folder = _fit_npm(argv) if argv[0] == "npm" else (argv, None)
        tell(f"{command} is not installed; to install it:")
        say(f"    {shlex.join(argv)}")
        if not agrees("Run this now?"):
            return resolved
        _install(argv)
        if folder and str(folder) not in os.environ.get("PATH", "").split(os.pathsep):
            tell(f'{folder} is not on your PATH; for later runs: export PATH="$PATH:{folder}"')
            os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{folder}"
    return again()


def _fit_npm(argv: Sequence[str]) -> tuple[Sequence[str], Path | None]:
    """Return the command line of `npm install -g` for this user, and where its programs are if npm would install them
    where the user may not write.

    Raises:
        MachineError: the package wants another Node.js; npm would install an old version of it, or one that dies.
    """
    from acp_launch.app.stores import say_waiting
    from acp_launch.checks import node

    def ask() -> tuple[node.NodeMismatch | None, Path | None]:
        return node.find_mismatch(argv[-1]), node.own_prefix()

    limit = 4 * node.MAX_WAIT
    misfit, own = bounded(ask, limit=limit, waiting=lambda waited: say_waiting("answer of npm", waited, limit))
    if misfit:
        what = f"{argv[-1]} needs Node.js {misfit.engines}, and node here is {misfit.version}"
        raise MachineError([about("node", what, node.NEWER)])
    return ((*argv[:-1], "--prefix", str(own), argv[-1]), own / "bin") if own else (argv, None)


def _installers(resolved: Resolved) -> Mapping[str, Sequence[str]]:
    """Map each missing command to the command line that installs it; empty if one cannot be installed."""
    from shutil import which  # takes 2 ms

    from acp_launch.profile.agents import installer

    wrong = {problem.path for problem in errors(resolved.problems)}
    absent = [reason.absent for path, reason in resolved.missing.items() if dotted(path) in wrong]
    found = {command: installer(command) for command in absent}
    return found if all(argv and which(argv[0]) for argv in found.values()) else {}


def _install(argv: Sequence[str]) -> None:
    """Run an installer on the terminal, in the home directory: the project must not replace its settings."""
    from shutil import which

    from acp_launch.plan.written import keep_path
    from acp_launch.process.program import LocalProgram

    env = keep_path(inherited(os.environ, "all"))
    program = LocalProgram(argv[0], (which(argv[0], path=env["PATH"]) or argv[0], *argv[1:]), env, Path.home())
    ended = _run_in_front(program)
    if ended.status != 0:
        what = f"{shlex.join(argv)} {ended}"
        raise MachineError([Problem("", 0, 0, "", what, "run it yourself and correct what it reports, then try again")])


def log_in_now(servers: Sequence[str], called: str, *, trust: bool) -> bool:
    """Offer to log in to MCP servers, and do it; return whether the user now is. `trust` is `--trust`."""
    from acp_launch.process.foreground import available

    are = "is" if len(servers) == 1 else "are"
    if not servers or not available() or not agrees(f"{', '.join(servers)} {are} not logged in. Log in now?"):
        return False
    return all(_run_in_front(login_program(called, server, trust=trust)).status == 0 for server in servers)


def login_program(called: str, server: str, *, trust: bool) -> "LocalProgram":
    """Return `mcp login` as a program for the terminal."""
    from acp_launch.process.program import LocalProgram

    words = ("mcp", "login", called, server, *(("--trust",) if trust else ()))
    argv = (sys.executable, "-P", "-m", "acp_launch", *words)  # -P: nothing in this directory replaces a module
    return LocalProgram("login", argv, dict(os.environ), here())


def _run_in_front(program: "LocalProgram") -> "Exit":
    """Run a program on the terminal.

    Raises:
        Stopped: the user interrupted it.
    """
    import asyncio

    from acp_launch.launch.loop import hear_guards
    from acp_launch.process.foreground import foreground

    guards = start_guards()

    async def run() -> "Exit":
        with hear_guards(guards):
            return await foreground(program)

    ended = asyncio.run(run())
    if ended.signal == SIGINT or ended.status == INTERRUPTED:
        raise Stopped(f"{program.name} was interrupted; nothing was started", signal_number=SIGINT)
    return ended
