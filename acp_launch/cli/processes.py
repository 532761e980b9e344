"""
The verbs `ps` and `reap`: show running launches; stop processes of launches that were killed with their guard.
"""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from acp_launch.console.processes import Sessions
    from acp_launch.process.leftovers import LaunchTree

STATES = {"works": "runs"}  # of a session of a host, as users call them: runs, asks or idle
EARLIER = 2.0  # seconds by which two clocks of the system may differ: an older note is of another process
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


def ps(as_json: Json = False) -> None:
    """Show your running launches: sessions, directory, processes."""
    from pathlib import Path

    from acp_launch.console.processes import show_families
    from acp_launch.process.leftovers import launch_tree
    from acp_launch.process.records import read_all
    from acp_launch.process.spawn import require_platform
    from acp_launch.settings.load import load

    require_platform()
    state = load().state
    families = [found for launch in read_all(state) if (found := launch_tree(launch))]
    families.sort(key=lambda each: each.root.age if each.root else 0.0, reverse=True)
    show_families(families, _sessions(families, state), home=str(Path.home()), as_json=as_json)


def _sessions(families: "Sequence[LaunchTree]", state: "Path") -> "Sessions":
    """Return the sessions that the launches hold, and their states in a host."""
    import time

    from acp_launch.cli.attach import hosted_sessions
    from acp_launch.console.processes import HeldSession
    from acp_launch.session.hold import list_held
    from acp_launch.session.store import open_registry

    now = time.time()
    since = {family.root.pid: now - family.root.age for family in families if family.root}
    used = [each for each in list_held(state) if each.pid in since and each.since >= since[each.pid] - EARLIER]
    if not used:
        return {}
    with open_registry(state) as registry:
        titles = [record.title if (record := registry.find(*each.key)) else "" for each in used]
    hosted = hosted_sessions(state)
    found: dict[int, list[HeldSession]] = {}
    for each, title in zip(used, titles, strict=True):
        shown = HeldSession(each.key[2], title)
        if (status := hosted.get(each.key)) is not None:
            shown = shown._replace(
                title=title or status.title,
                state=STATES.get(status.state, status.state),
                age=max(0.0, now - status.since),
                fronts=status.fronts,
                queued=status.queued,
            )
        found.setdefault(each.pid, []).append(shown)
    return found


def reap(as_json: Json = False) -> None:
    """Stop processes left behind by launches that crashed."""
    from acp_launch.console.processes import show_ended
    from acp_launch.process.leftovers import clear
    from acp_launch.process.spawn import require_platform
    from acp_launch.process.workdir import sweep
    from acp_launch.settings.load import load

    require_platform()
    state = load().state
    ended = clear(state)
    sweep(state)
    show_ended(ended, as_json=as_json)
