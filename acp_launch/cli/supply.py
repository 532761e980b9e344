"""
What a run lacks on this machine and the user at the terminal can supply at once: secrets, and programs.

Nothing is asked without a terminal, or if the run could not start anyway. The caller has required trust before.
"""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from acp_launch.errors import MachineError, Stopped, UsageError
from acp_launch.problem import Problem, dotted, errors

if TYPE_CHECKING:
    from acp_launch.plan.model import Need
    from acp_launch.plan.resolve import Resolved
    from acp_launch.process.tree import Exit
    from acp_launch.secret.value import Outcome, Store
    from acp_launch.settings.model import Settings

SIGINT = 2
STORE = "secrets.store"  # the setting
NO_KEYRING = "No desktop keyring here. Keep secrets in a sealed file with a passphrase?"
INTERRUPTED = 128 + SIGINT  # the exit status of programs that handle Ctrl-C themselves, as npm does


def supplied(
    needs: "Sequence[Need]", answers: "dict[str, Outcome]", settings: "Settings", opening: "Callable[[], Store]"
) -> "dict[str, Outcome]":
    """Ask for each secret that is not set, and store it; return the outcomes with the new ones.

    Nothing is asked if another secret has another fault, or if the store only reads.

    Raises:
        SecretError: a secret cannot be stored.
        UsageError: what was typed cannot be a secret.
    """
    unset = [name for name, outcome in answers.items() if outcome.state != "found"]
    if not unset or settings.secrets.store == "command" or any(answers[name].state != "missing" for name in unset):
        return answers
    from acp_launch.console.ask.terminal import possible

    if not possible():
        return answers
    from acp_launch.cli.secretvalue import ask_value, check_name, put
    from acp_launch.cli.stores import Vault
    from acp_launch.console.stderr import harmless, say
    from acp_launch.secret.value import Outcome

    try:
        names = [check_name(name) for name in unset]
    except UsageError:  # the profile names what `secret set` would refuse
        return answers
    vault, found = Vault(settings, opening), dict(answers)
    say(f"acp-launch: {_counted(names)} not set; what you type is hidden, and stored in the {vault.store.label}")
    for name in names:
        used = "; ".join(f"{need.origin}: {need.origin.path}" for need in needs if need.name == name)
        say(harmless(f"    {used}", keep=""))
        secret = put(vault, name, lambda name=name: ask_value(name, needs))  # type: ignore[misc]
        if secret is None:
            break
        found[name] = Outcome("found", vault.store.label, secret)
    return found


def lacks_store(answers: "Mapping[str, Outcome]") -> bool:
    """Return whether secrets are not set, and only because there is no such store on this machine."""
    unset = [outcome for outcome in answers.values() if outcome.state != "found"]
    return bool(unset) and all(outcome.is_absent for outcome in unset)


def sealed_file(settings: "Settings") -> "Settings | None":
    """Offer to keep secrets in a sealed file where there is no keyring; return the settings with it, None on a no.

    Nothing is offered if the user has chosen a store.

    Raises:
        UsageError, SettingsError: the settings cannot be written.
    """
    from acp_launch.console.ask.terminal import ask_yes_or_no, possible
    from acp_launch.settings.load import FILE, load
    from acp_launch.settings.origin import DEFAULT, origins

    sources = {each.key: each.source for each in origins(settings.config / FILE)}
    if sources[STORE] != DEFAULT or not possible():
        return None
    from acp_launch.cli.config import choose
    from acp_launch.console.stderr import harmless, say

    if not ask_yes_or_no(NO_KEYRING):
        return None
    say(harmless(f"acp-launch: {STORE}: file is now in {choose(STORE, 'file')}", keep=""))
    return load()


def _counted(names: Sequence[str]) -> str:
    return "a secret is" if len(names) == 1 else f"{len(names)} secrets are"


def installed(resolved: "Resolved", again: "Callable[[], Resolved]", agrees: Callable[[str], bool]) -> "Resolved":
    """Offer to install each program that a profile without a plan lacks; if all were installed, resolve it `again`.

    Nothing is offered if one of them has no known installer, or something else is wrong.

    Raises:
        MachineError: an installer failed.
        Stopped: the user interrupted it.
    """
    from acp_launch.console.ask.terminal import possible

    if resolved.draft is None or not possible():
        return resolved
    wanted = _installers(resolved)
    if not wanted:
        return resolved
    from acp_launch.console.stderr import say
    from acp_launch.process.foreground import available

    if not available():
        return resolved
    for command, argv in wanted.items():
        say(f"acp-launch: {command} is not installed; to install it:")
        say(f"    {shlex.join(argv)}")
        if not agrees("Run this now?"):
            return resolved
        _install(argv)
    return again()


def _installers(resolved: "Resolved") -> Mapping[str, Sequence[str]]:
    """Map each missing command to the command line that installs it; empty if one cannot be installed."""
    import shutil

    from acp_launch.profile.agents import installer

    wrong = {problem.path for problem in errors(resolved.problems)}
    absent = [reason.absent for path, reason in resolved.missing.items() if dotted(path) in wrong]
    found = {command: installer(command) for command in absent}
    return found if all(argv and shutil.which(argv[0]) for argv in found.values()) else {}


def _install(argv: Sequence[str]) -> None:
    """Run an installer on the terminal, in the home directory: the project must not replace its settings.

    Raises:
        MachineError: it failed.
        Stopped: the user interrupted it.
    """
    import asyncio
    import shutil

    from acp_launch.launch.loop import hear_guards
    from acp_launch.plan.environment import inherited
    from acp_launch.process.foreground import foreground
    from acp_launch.process.guard import start_guards
    from acp_launch.process.program import LocalProgram

    program = LocalProgram(
        argv[0], (shutil.which(argv[0]) or argv[0], *argv[1:]), inherited(os.environ, "all"), Path.home()
    )

    guards = start_guards()

    async def run() -> "Exit":
        with hear_guards(guards):
            return await foreground(program)

    ended = asyncio.run(run())
    if ended.signal == SIGINT or ended.status == INTERRUPTED:
        raise Stopped(f"{argv[0]} was interrupted; nothing was started", signal_number=SIGINT)
    if ended.status != 0:
        what = f"{shlex.join(argv)} {ended}"
        raise MachineError([Problem("", 0, 0, "", what, "run it yourself and correct what it reports, then try again")])
