"""From the wish on the command line to the exit code. Nothing starts before everything that can be checked was."""

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from acp_launch.cli import prompt
from acp_launch.cli.screen import Screen
from acp_launch.cli.start import guarded, started, stderr_log
from acp_launch.errors import LaunchError, UsageError
from acp_launch.plan.model import LaunchPlan
from acp_launch.settings.load import load
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from acp_launch.cli.planning import Planned
    from acp_launch.secret.value import Secret
    from acp_launch.session.observer import TurnEnd
    from acp_launch.session.permission import Approve
    from acp_launch.session.registry import Record, Registry

ENDED_WELL, ENDED_SHORT, DENIED = 0, 9, 10  # DESIGN §5


class Wish(Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    words: tuple[str, ...]
    file: Path | None
    agent: str | None
    session: str | None
    latest: bool
    new: bool
    replay: bool
    cwd: Path | None
    output: str
    approve: "Approve | None"
    timeout: float | None
    verbose: bool


class Kept(Struct, frozen=True):
    """What was found out before the start. `secrets` by name; `record` of the session that is continued."""

    settings: Settings
    secrets: "Mapping[str, Secret]"
    registry: "Registry"
    name: str
    record: "Record | None"


def carry_out(wish: Wish) -> int:
    """Do it, and give the exit code."""
    screen = Screen(wish.output)
    try:
        return _carried_out(wish, screen)
    except LaunchError as error:
        screen.failed(error)
        raise


def _carried_out(wish: Wish, screen: Screen) -> int:
    from acp_launch.process.spawn import require_platform

    require_platform()
    settings = load()
    profile, words = _profile_and_words(wish)
    plan, secrets = _plan(profile, words, wish, settings, screen)
    text = prompt.read(words, wish.file)
    with ExitStack() as stack:
        registry, name, record = _session(wish, plan, settings, stack)
        return _turn(wish, plan, text, screen, Kept(settings, secrets, registry, name, record))


def _profile_and_words(wish: Wish) -> tuple[str, tuple[str, ...]]:
    """With `--agent` there is no profile, and every word belongs to the prompt."""
    if wish.agent is not None:
        return "", wish.words
    if not wish.words:
        raise UsageError("which profile?", fix="acp-launch run PROFILE PROMPT…; acp-launch list shows the profiles")
    return wish.words[0], wish.words[1:]


def _plan(profile: str, words: tuple[str, ...], wish: Wish, settings: Settings, screen: Screen) -> "Planned":
    from acp_launch.cli.planning import adhoc_plan, planned, resolved_profile

    if wish.agent is not None:
        return adhoc_plan(wish.agent, cwd=wish.cwd, session=wish.session)
    resolved = resolved_profile(profile, settings, cwd=wish.cwd, session=wish.session)
    if resolved.plan is not None:
        prompt.require(words, wish.file)
    return planned(resolved, settings, waiting=screen.waiting)


def _session(
    wish: Wish, plan: LaunchPlan, settings: Settings, stack: ExitStack
) -> "tuple[Registry, str, Record | None]":
    """The store, the session's name, its record when it is continued; open and held until `stack` closes.

    The store is opened for a new session too: what is wrong with it is said before anything starts.
    """
    from acp_launch.session import choice
    from acp_launch.session.hold import hold
    from acp_launch.session.registry import open_registry

    if wish.latest and (wish.session or wish.new):
        raise UsageError("--continue takes the latest session, so it goes without --session and --new")
    registry = stack.enter_context(open_registry(settings.state))
    name = choice.latest_name(registry, plan) if wish.latest else plan.session or choice.fresh_name()
    stack.enter_context(hold(settings.state, (str(plan.project), plan.profile, name)))
    if wish.new or not (wish.latest or plan.session):
        return registry, name, None
    return registry, name, choice.continued(registry, plan, name, latest=wish.latest)


def _turn(wish: Wish, plan: LaunchPlan, text: str, screen: Screen, kept: Kept) -> int:
    """Spawn the agent, and only then import what talks to it: both take their time together."""
    with guarded(kept.settings, plan, "run") as guard, started(plan, kept.secrets) as spawned:
        import asyncio

        from acp_launch.launch import Job, launch
        from acp_launch.process.serverlog import ServerLogs
        from acp_launch.session.keep import Keeper
        from acp_launch.session.permission import Policy

        keeper = Keeper(kept.registry, plan, kept.record, text)
        server_logs = closing(ServerLogs(kept.settings.state / "log", plan.profile))
        with stderr_log(kept.settings, plan, echo=wish.verbose) as log, server_logs as logs:
            job = Job(
                prompt=text,
                name=kept.name,
                continued=kept.record,
                replay=wish.replay,
                policy=Policy(plan.permission, wish.approve),
                ask=screen.ask(),
                timeout=wish.timeout,
                opened=keeper.opened,
                secrets=kept.secrets,
                max_line=kept.settings.max_line,
                log=log,
                guard=guard,
                server_logs=logs,
            )
            end = asyncio.run(launch(plan, job, spawned, screen.observer))
    keeper.ended(end.title)
    return exit_code(end)


def exit_code(end: "TurnEnd") -> int:
    """What a turn's end means to a shell."""
    if end.denied:
        return DENIED
    return ENDED_WELL if end.stop_reason == "end_turn" else ENDED_SHORT
