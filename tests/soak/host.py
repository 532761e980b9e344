"""
A process that runs servers as a launch does, and tells what it sees; for tests.soak: `python -m tests.soak.host WISH`.

Every line of stdout is an object with one member: first `seat`, then `change`, `note`, `stderr` and `over` (a log) as
they come, and, after its stdin has ended, `left`: whatever there still is that was not there before.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from acp_launch.bridge.servers import ServerNeeds, running
from acp_launch.document.scalars import Duration
from acp_launch.plan.model import Origin, StdioPlan, Value
from acp_launch.process import prepare
from acp_launch.process.lifecycle import Change
from acp_launch.profile.model import Backoff, Restart, ServerTimeouts
from acp_launch.profile.values import Share
from acp_launch.served.shared import share_server
from acp_launch.settings.load import directory
from tests.bridge.observing import Silent

SERVER = Path(__file__).with_name("server.py")


class Wished(Struct, kw_only=True):
    """One server. Times are in seconds."""

    name: str
    args: list[str] = field(default_factory=list)
    restarts: int = 5
    pause: float = 0.001
    call: float | None = None
    start: float = 30.0
    share: Share = False
    file: str = str(SERVER)


class Wish(Struct, kw_only=True):
    servers: list[Wished]
    max_line: int = 1 << 26


def plan(wished: Wished) -> StdioPlan:
    pause = Duration(wished.pause)
    return StdioPlan(
        name=wished.name,
        command=Path(sys.executable),
        args=tuple(Value((arg,), Origin("soak")) for arg in ("-I", "-S", wished.file, *wished.args)),
        env={},
        cwd=Path("/"),
        restart=Restart(max=wished.restarts, backoff=Backoff(initial=pause, max=pause), min_uptime=Duration(3600)),
        timeouts=ServerTimeouts(
            start=Duration(wished.start), call=None if wished.call is None else Duration(wished.call)
        ),
        share=wished.share,
        idle=Duration(0.1) if wished.share == "user" else None,
    )


def tell(**what: Any) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def descriptors() -> set[str]:
    """What is open, but for this very listing."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{entry.name} {entry.readlink()}")
        except FileNotFoundError:
            continue
    return found


class Telling(Silent):
    """Tells on stdout what it observes."""

    def changed(self, change: Change) -> None:
        tell(change=msgspec.structs.asdict(change))

    def note(self, text: str) -> None:
        tell(note=text)

    def log(self, server: str) -> Callable[[bytes], None]:
        return lambda chunk: tell(stderr=[server, chunk.decode()])

    def log_end(self, server: str) -> None:
        tell(over=server)


def needs(wish: Wish) -> ServerNeeds:
    share = partial(share_server, directory("STATE"), "soak", wish.max_line)
    needs = ServerNeeds(secrets={}, directories=(Path("/"),), max_line=wish.max_line, hurry=asyncio.Event())
    return replace(needs, share=share)


async def until_stdin_ends() -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(0, ended.set)
    await ended.wait()
    loop.remove_reader(0)


async def main(wish: Wish) -> None:
    prepare.prepare()
    before = descriptors()
    async with running([plan(wished) for wished in wish.servers], needs(wish), Telling()) as ours:
        tell(seat={"path": str(ours.seat.path), "token": ours.seat.token})
        await until_stdin_ends()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    tell(
        left={
            "tasks": [task.get_name() for task in left],
            "processes": prepare.table().children(os.getpid()),
            "descriptors": sorted(descriptors() - before),
        }
    )


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Wish)))
