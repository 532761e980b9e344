"""
What a user at the terminal is asked before anything starts: trust, secrets that are not set, programs to install,
logins.

Nothing is asked without a terminal, or if the run could not start anyway.
"""

import asyncio
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from shutil import which

from acp_launch.app.questions import agrees
from acp_launch.app.secretvalue import ask_value, check_name, put
from acp_launch.app.start import login_program
from acp_launch.app.stores import Vault, say_waiting
from acp_launch.checks import node
from acp_launch.console.stderr import can_ask_user, harmless, say, tell
from acp_launch.console.trust import ReportRow, heading, report
from acp_launch.engine.loop import hear_guards
from acp_launch.errors import MachineError, NotTrusted, Stopped, UsageError
from acp_launch.plan.model import Need
from acp_launch.plan.resolve import Resolved
from acp_launch.plan.written import make_safe_environment
from acp_launch.problem import Problem, about, dotted, errors, ours
from acp_launch.process.foreground import available, foreground
from acp_launch.process.guard_client import start_guards
from acp_launch.process.program import LocalProgram
from acp_launch.process.tree import Exit
from acp_launch.profile.agents import installer
from acp_launch.profile.trust import Claim, TrustState, keep
from acp_launch.secret.isolate import bounded
from acp_launch.secret.stores import chosen_kind
from acp_launch.secret.value import Outcome, Store
from acp_launch.settings.model import Settings


def require_claim(
    claim: Claim,
    how: TrustState,
    rows: Callable[[], Iterable[ReportRow]],
    settings: Settings,
    *,
    allow_once: bool,
) -> None:
    """Refuse a profile or a batch that is not trusted, as `require_trust`; `rows` say what it would run.

    Raises:
        NotTrusted: it is not trusted.
    """
    if how.is_trusted or (allow_once and how.how != "doubtful"):
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


def show_claim(claim: Claim, how: TrustState, rows: Iterable[ReportRow]) -> None:
    """Show all that would run.

    Raises:
        NotTrusted: it cannot be trusted.
    """
    say(heading(how))
    for line in report(rows, how):  # here, and not as details of the error: a diff has its colours
        say(line)
    if how.how == "doubtful":
        fix = "make it a file in the project that only you can write"
        raise NotTrusted(f"this {claim.noun} cannot be trusted: {claim.label}", fix=fix)


SIGINT = 2


INTERRUPTED = 128 + SIGINT  # the exit status of programs that handle Ctrl-C themselves, as npm does


def ask_for_secrets(
    needs: Sequence[Need], answers: dict[str, Outcome], settings: Settings, opening: Callable[[], Store]
) -> dict[str, Outcome]:
    """Ask for each secret that is not set, and store it; return the outcomes with the new ones.

    Nothing is asked if another secret has another fault, or if the store only reads.
    """
    unset = [name for name, outcome in answers.items() if outcome.state != "found"]
    is_read_only = chosen_kind(settings.secrets).is_read_only
    if not unset or is_read_only or any(answers[name].state != "missing" for name in unset):
        return answers
    if not can_ask_user():
        return answers

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


def offer_to_install(resolved: Resolved, again: Callable[[], Resolved]) -> Resolved:
    """Offer to install each program that a profile without a plan lacks; if all were installed, resolve it `again`.

    Nothing is offered if one of them has no known installer, or something else is wrong.
    """
    if resolved.draft is None or not can_ask_user():
        return resolved
    wanted = _installers(resolved)
    if not wanted:
        return resolved

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
    wrong = {problem.path for problem in errors(resolved.problems)}
    absent = [reason.absent for path, reason in resolved.missing.items() if dotted(path) in wrong]
    found = {command: installer(command) for command in absent}
    return found if all(argv and which(argv[0]) for argv in found.values()) else {}


def _install(argv: Sequence[str]) -> None:
    """Run an installer on the terminal, in the home directory: the project must not replace its settings."""
    env = make_safe_environment()
    program = LocalProgram(argv[0], (which(argv[0], path=env["PATH"]) or argv[0], *argv[1:]), env, Path.home())
    ended = _run_in_front(program)
    if ended.status != 0:
        what = f"{shlex.join(argv)} {ended}"
        raise MachineError([Problem("", 0, 0, "", what, "run it yourself and correct what it reports, then try again")])


def log_in_now(servers: Sequence[str], called: str, *, trust: bool) -> bool:
    """Offer to log in to MCP servers, and do it; return whether the user now is. `trust` is `--trust`."""
    are = "is" if len(servers) == 1 else "are"
    if not servers or not available() or not agrees(f"{', '.join(servers)} {are} not logged in. Log in now?"):
        return False
    return all(_run_in_front(login_program(called, server, trust=trust)).status == 0 for server in servers)


def _run_in_front(program: "LocalProgram") -> Exit:
    """Run a program on the terminal.

    Raises:
        Stopped: the user interrupted it.
    """
    guards = start_guards()

    async def run() -> Exit:
        with hear_guards(guards):
            return await foreground(program)

    ended = asyncio.run(run())
    if ended.signal == SIGINT or ended.status == INTERRUPTED:
        raise Stopped(f"{program.name} was interrupted; nothing was started", signal_number=SIGINT)
    return ended
