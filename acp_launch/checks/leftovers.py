"""What launches left behind that were killed together with their guard. Nothing is ended here."""

from collections.abc import Iterator
from pathlib import Path

from acp_launch.checks.check import Check, ok, warning
from acp_launch.process.leftovers import names, remains, standing
from acp_launch.process.records import Launch, read_all


def leftovers(state: Path) -> Iterator[Check]:
    """One line for each such launch, or one that there is none."""
    launches = read_all(state)
    left = [check for launch in launches if standing(launch) == "dead" and (check := _left(launch))]
    running = sum(standing(launch) == "running" for launch in launches)
    yield from left
    if not left:
        yield ok("leftovers", "", f"none; {running} launch{'es' if running != 1 else ''} running", running=running)


def _left(launch: Launch) -> Check | None:
    alive = names(launch, remains(launch).alive())
    if not alive:
        return None
    listed = ", ".join(f"{each.name} ({each.pid})" if each.name else str(each.pid) for each in alive)
    text = f"a {launch.verb} of {launch.profile} left behind {listed}"
    pids = [each.pid for each in alive]
    return warning("leftovers", "", text, "acp-launch reap; the next start ends them as well", pids=pids)
