"""`session wait`: the latest turn of a session of a host, from its beginning to its end."""

import asyncio
from typing import TYPE_CHECKING

from acp_launch.cli.fronting import asked
from acp_launch.cli.screen import Screen
from acp_launch.cli.session_needs import exit_code
from acp_launch.console.stderr import DIM, harmless, say, share
from acp_launch.errors import RunExpired, SessionError, WaitExpired
from acp_launch.host.door import knock
from acp_launch.host.front import Attached, joined, met
from acp_launch.host.place import HostNote, find
from acp_launch.host.wire import Entrance
from acp_launch.launch.loop import Interrupts
from acp_launch.problem import ours
from acp_launch.session.client import Client
from acp_launch.session.connection import Budget
from acp_launch.session.permission.gate import Gate
from acp_launch.session.permission.policy import Policy

if TYPE_CHECKING:
    from acp_launch.session.observer import TurnEnd
    from acp_launch.session.store import Record
    from acp_launch.settings.model import Settings


def wait(record: "Record", settings: "Settings", *, output: str, timeout: float | None) -> int:
    """Show the turn as `run` does, and return its exit code. Ctrl-C ends the wait, not the turn.

    Raises:
        SessionError: no host has the session, or it has had no turn.
        WaitExpired: the turn was not over in time; it goes on.
        LaunchError: how the turn failed.
    """
    note = find(settings.state, record.project, record.profile)
    status = asked(note) if note is not None and note.socket else None
    states = {each.name: each.state for each in status.sessions} if status else {}
    if note is None or status is None or record.name not in {*states, *status.past}:
        fix = f"a turn can be waited for while its host is up; {ours('ps')} shows what runs"
        raise SessionError(f'no host has the session "{record.name}"', fix=fix)
    share()
    if states.get(record.name) == "asks":
        say(harmless(f"acp-launch: {record.name} waits for an answer", keep=""), style=DIM)
    screen = Screen(output)
    with screen.reporting():
        return exit_code(asyncio.run(_ended(record, note, settings, screen, timeout)))


async def _ended(
    record: "Record", note: HostNote, settings: "Settings", screen: Screen, timeout: float | None
) -> "TurnEnd":
    observer = screen.observer

    async def story(attached: Attached) -> "TurnEnd":
        # The host has judged every call, so there is nothing to report.
        gate = Gate(Policy("allow", approve="all", cwd=note.cwd))
        client = Client(attached.connection, name=record.name, title=record.title, gate=gate, observer=observer)
        entrance = Entrance(name=record.name, can_ask=False, after=-1, watches=True)
        end = await joined(attached, client, record.session_id, entrance)
        await observer.drain()
        return end

    async with Interrupts(budget=Budget(timeout)) as interrupts:
        try:
            end = await met(knock(note), observer, story, interrupts, max_line=settings.max_line)
        except RunExpired:
            raise WaitExpired(f"the turn was not over within {interrupts.budget}; it goes on") from None
        interrupts.check()
        return end
