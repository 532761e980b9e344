"""
Checks of a profile before anything starts: its problems, its trust, its secrets, and the store that holds them.

`parts` plans the agent and each server separately, so that a problem of one does not hide the others. A part that
can be planned is started and checked by the caller (see `answers`).
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.checks.check import MACHINE, Check, of_error, of_problem, ok, problem, warning
from acp_launch.errors import LaunchError, NotTrusted, ProfileError
from acp_launch.plan.executable import CannotRun, find
from acp_launch.plan.model import LaunchPlan, Need, RemotePlan, ServerPlan, StdioPlan, next_command, unfit
from acp_launch.plan.resolve import process, reduce_to, resolve
from acp_launch.problem import Problem, count, errors, ours
from acp_launch.profile.discover import Found
from acp_launch.profile.load import Loaded, inspect_all
from acp_launch.profile.trust import TrustState, trust_state
from acp_launch.regex import regex
from acp_launch.secret import lookup
from acp_launch.secret.lookup import Waiting, within
from acp_launch.secret.stores import chosen_kind
from acp_launch.secret.value import Outcome, Store, StoreFault
from acp_launch.settings.model import Settings

AGENT = "agent"
SERVERS = "mcp_servers"


class ProfilePart(Struct, frozen=True, kw_only=True):
    """
    The agent or one server of a profile, planned on its own.

    `server` is its name, empty for the agent. `plan.agent` is the process to start, of all but a remote server. `plan`
    is None if this machine cannot start it.
    """

    server: str = ""
    plan: LaunchPlan | None = None
    planned: ServerPlan | None = None
    problems: tuple[Problem, ...] = ()
    needs: tuple[Need, ...] = ()
    is_required: bool = True

    @property
    def remote(self) -> RemotePlan | None:
        return self.planned if isinstance(self.planned, RemotePlan) else None

    @property
    def kind(self) -> str:
        """The name of its checks."""
        return "server" if self.server else AGENT

    @property
    def label(self) -> str:
        """The name and the subject of its checks."""
        return f"server {self.server}" if self.server else AGENT


def parts(loaded: Loaded, *, cwd: Path, environ: Mapping[str, str], override: Path | None) -> Iterator[ProfilePart]:
    """Plan the agent first, then the servers in the profile's order. `cwd` is the directory of the command, `override`
    is `--cwd`."""
    others = tuple(found for found in loaded.problems if not f"{found.path}.".startswith(f"{SERVERS}."))
    alone = replace(loaded, profile=replace(loaded.profile, mcp_servers={}), problems=others)
    resolved = resolve(alone, cwd=cwd, environ=environ, cwd_override=override)
    yield ProfilePart(plan=resolved.plan, problems=resolved.problems, needs=resolved.needs)
    for name, server in loaded.profile.mcp_servers.items():
        resolved = resolve(reduce_to(loaded, [name]), cwd=cwd, environ=environ, cwd_override=override)
        plan, planned = resolved.plan, next(iter(resolved.plan.servers), None) if resolved.plan else None
        if plan is not None and isinstance(planned, StdioPlan):
            plan = replace(plan, agent=process(planned, environ))
        yield ProfilePart(
            server=name,
            plan=plan if planned is not None else None,
            planned=planned,
            problems=resolved.problems,
            needs=resolved.needs,
            is_required=server.required,
        )


def faults(parts: list[ProfilePart]) -> Iterator[Check]:
    """Report each problem of the parts once; a problem that all parts share is reported for the agent."""
    told: set[Problem] = set()
    for part in parts:
        for found in part.problems:
            if found not in told:
                told.add(found)
                yield of_problem(part.kind, part.server, found, MACHINE)


def profiles(everything: Iterable[Found], cache: Path) -> Iterator[Check]:
    """Check every profile that can be named from here: the good ones in one line, each bad one in its own.

    A bad profile that another one shadows is only a warning, since no command can name it.
    """
    good: list[str] = []
    for found, _, problems in inspect_all(everything, cache=cache):
        if faults := errors(problems):
            yield _bad(found, faults)
        elif found.shadowed_by is None:
            good.append(found.name)
    yield ok("profiles", "", f"{', '.join(good) or 'none'}", names=good)


def _bad(found: Found, faults: Sequence[Problem]) -> Check:
    text = f"{count(len(faults), 'problem')} ({found.origin})"
    fix = ours("validate", str(found.file))
    if found.shadowed_by is not None:
        return warning("profile", found.name, text, fix, problems=len(faults))
    return problem("profile", found.name, text, fix, ProfileError.exit_code, problems=len(faults))


GOOD = {"own": "your own, or built in", "accepted": "trusted; you will be asked again if it changes"}
BAD = {
    "new": "this project's profile is not trusted yet",
    "changed": "it has changed since you trusted it",
    "doubtful": "it cannot be trusted",
}


MAX_REPORT_LINES = 40  # `trust` shows all that it would run
_COLOUR = regex(r"\x1b\[[0-9;]*m")


def trust(
    loaded: Loaded, settings: Settings, report: Callable[[TrustState], Iterable[str]], *, allow_once: bool
) -> Check:
    """
    Check whether the profile may start anything.

    `report` describes what a profile that is not trusted would run. `allow_once` is `--trust`, which accepts a profile
    for this run, unless it cannot be accepted.
    """
    try:
        found = trust_state(loaded, settings)
    except LaunchError as error:
        return of_error("trust", error)[0]
    if found.is_trusted:
        return ok("trust", "", GOOD[found.how], how=found.how)
    fix = f"to trust it: acp-launch trust {quote(loaded.found.called)}; to run it once: --trust"
    fix = "make it a file in the project that only you can write" if found.how == "doubtful" else fix
    if allow_once and found.how != "doubtful":
        return warning("trust", "", f"{BAD[found.how]}; trusted for this run (--trust)", fix, how=found.how)
    why = f"{BAD[found.how]}{': ' if found.doubts else ''}{'; '.join(found.doubts)}; nothing was started"
    check = problem("trust", "", why, fix, NotTrusted.exit_code, how=found.how)
    lines = [_COLOUR.sub("", line) for line in report(found)]
    more = [f"and {len(lines) - MAX_REPORT_LINES} more lines"] if len(lines) > MAX_REPORT_LINES else []
    return replace(check, detail=(*lines[:MAX_REPORT_LINES], *more))


def secret_checks(outcomes: Mapping[str, Outcome], *, has_terminal: bool) -> Iterator[Check]:
    """Report for each secret whether it was found, and where; never its value. `has_terminal` as in `next_command`."""
    for name, outcome in outcomes.items():
        facts = {"state": outcome.state, "source": outcome.source}
        if outcome.state == "found":
            yield ok("secret", name, f"found: {outcome.source}", **facts)
        else:
            why = outcome.reason or f"not in the {outcome.source}"
            yield problem("secret", name, why, next_command(name, outcome, has_terminal=has_terminal), **facts)


def lacking_secrets(part: ProfilePart, known: Mapping[str, object]) -> list[str]:
    """List the secrets that a part needs and that were not found."""
    return list(dict.fromkeys(need.name for need in part.needs if need.name not in known))


def unfit_checks(parts: Sequence[ProfilePart], outcomes: Mapping[str, Outcome]) -> Iterator[Check]:
    """Report secrets that do not fit their place: the value of a header must be one line."""
    values = lookup.secrets(outcomes)
    for part in parts:
        if part.remote is not None:
            yield from (of_problem("server", part.server, found, MACHINE) for found in unfit(part.plan, values))


# The secret store must answer without a dialog, since doctor asks nothing. From a keyring a name is read that does not
# exist, because reading is what unlocks a keyring. A sealed file is opened if that needs no passphrase. A program could
# do anything, so it is only looked up on PATH.
ABSENT = "acp-launch-doctor.this-is-no-secret"
USABLE = ("found", "missing")
CHOOSE = "acp-launch secret set NAME shows the other stores"


class StoreCheck(Struct, frozen=True):
    """The result of checking the secret store; `fault` says why it cannot be used now."""

    check: Check
    fault: StoreFault | None = None


def store(settings: Settings, opened: Callable[[Settings], Store], waiting: Waiting) -> StoreCheck:
    """Check the secret store. `opened` opens it so that it shows no dialog."""
    kind, row = settings.secrets.store, chosen_kind(settings.secrets)
    if row.argv:
        command = row.argv(settings.secrets)
        home = Path.home()
        found = find(command[0], project=home, path=os.environ.get("PATH"))
        if isinstance(found, CannotRun):
            fault = StoreFault("unavailable", found.message, fix=found.fix)
            return StoreCheck(warning("secrets", "", f"{kind}: {found.message}", found.fix, store=kind), fault)
        return StoreCheck(ok("secrets", "", f"{kind} ({found}): run for each secret", store=kind, state="not asked"))
    label, limit = str(kind), settings.secrets.timeout
    try:
        made = opened(settings)
        label = made.label
        if row.is_desktop:
            made.prepare()
            outcome = within(made, lambda: made.read([ABSENT]), limit=limit, waiting=waiting)[ABSENT]
            if outcome.state not in USABLE:
                raise StoreFault(outcome.state, outcome.reason, fix=outcome.fix)
            text = "it answers without a dialog"
        else:
            names = within(made, made.names, limit=limit, waiting=waiting)
            text = row.unlisted if names is None else count(len(names), "secret")
    except StoreFault as fault:
        told = fault.reason if label in fault.reason else f"{label}: {fault.reason}"
        check = warning("secrets", "", told, fault.fix or CHOOSE, store=kind, state=fault.state)
        return StoreCheck(check, fault)
    return StoreCheck(ok("secrets", "", f"{label}: {text}", store=kind, state="usable"))


def open_checked(opening: Callable[[], Store], asked: StoreCheck) -> Store:
    """Open a store that has been checked.

    Raises:
        StoreFault: it has failed its check, and is not tried again.
    """
    if asked.fault is not None:
        raise asked.fault
    return opening()
