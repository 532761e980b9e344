"""
A process that runs servers as a launch does, without an agent: `python -m tests.realservers.host` with the servers as
JSON on the first line of stdin, `{name: {argv, env, cwd, …}}`, or `{name: {url, type, …}}` for remote ones; the rest
are the keys of a profile, and `restarts`: so many and no more, however long a process lives.

Writes a line with the entries an agent would be given, then one for each change of a server and each note; with `tells`
also what servers say on stderr, and when a log is over. Lives until its stdin ends, and writes what is left then that
was not there before.
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
from msgspec.structs import replace

from acp_launch.bridge import exchange, shim
from acp_launch.bridge.offer import ShimCommand, entries
from acp_launch.bridge.servers import ServerNeeds, running
from acp_launch.document.scalars import Duration
from acp_launch.plan.model import Origin, RemotePlan, StdioPlan, Value
from acp_launch.process import prepare
from acp_launch.process.lifecycle import Change
from acp_launch.profile.model import (
    Backoff,
    RemoteBackoff,
    RemoteRestart,
    RemoteTimeouts,
    Restart,
    ServerTimeouts,
    Tools,
)
from acp_launch.served.shared import share_server
from acp_launch.settings.load import directory
from tests.bridge.observing import Silent


def value(text: str) -> Value:
    return Value((text,), Origin("test"))


def plan(name: str, server: dict[str, Any]) -> StdioPlan | RemotePlan:
    return remote(name, server) if "url" in server else program(name, server)


def remote(name: str, server: dict[str, Any]) -> RemotePlan:
    call = server.get("call")
    return RemotePlan(
        name=name,
        type=server.get("type", "http"),
        url=value(server["url"]),
        headers={},
        restart=RemoteRestart(backoff=RemoteBackoff(initial=Duration(0.01), max=Duration(0.5))),
        timeouts=RemoteTimeouts(start=Duration(server.get("start", 30)), call=None if call is None else Duration(call)),
        tools=Tools(deny=tuple(server.get("deny", ()))),
        protocol=server.get("protocol", "auto"),
    )


def program(name: str, server: dict[str, Any]) -> StdioPlan:
    command, *args = server["argv"]
    call, share = server.get("call"), server.get("share", False)
    pause = Duration(server.get("pause", 0.01))
    restart = Restart(backoff=Backoff(initial=pause))
    if "restarts" in server:
        backoff = Backoff(initial=pause, max=pause)
        restart = Restart(max=server["restarts"], backoff=backoff, min_uptime=Duration(3600))
    return StdioPlan(
        name=name,
        command=Path(command),
        args=tuple(map(value, args)),
        env={variable: value(text) for variable, text in server["env"].items()},
        cwd=Path(server["cwd"]),
        restart=restart,
        timeouts=ServerTimeouts(start=Duration(server.get("start", 30)), call=None if call is None else Duration(call)),
        tools=Tools(deny=tuple(server.get("deny", ()))),
        share=share,
        idle=Duration(0.1) if share == "user" else None,
    )


def say(**line: object) -> None:
    print(json.dumps(line), flush=True)


class Saying(Silent):
    def __init__(self, tells: bool) -> None:
        self._tells = tells

    def changed(self, change: Change) -> None:
        say(type="change", **msgspec.structs.asdict(change))

    def note(self, text: str) -> None:
        say(type="note", text=text)

    def log(self, server: str) -> Callable[[bytes], None]:
        return partial(self._log, server)

    def _log(self, server: str, chunk: bytes) -> None:
        if self._tells:
            say(type="stderr", server=server, text=chunk.decode())

    def log_end(self, server: str) -> None:
        if self._tells:
            say(type="over", server=server)


def descriptors() -> set[str]:
    """What is open, but for this very listing."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{entry.name} {entry.readlink()}")
        except FileNotFoundError:
            continue
    return found


async def until_stdin_ends() -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(0, ended.set)
    await ended.wait()
    loop.remove_reader(0)


async def main(asked: dict[str, Any]) -> None:
    prepare.prepare()
    before = descriptors()
    servers, max_line = asked["servers"], asked.get("max_line", 1 << 26)
    plans = [plan(name, server) for name, server in servers.items()]
    places = [Path(place) for place in asked["directories"]]
    needs = ServerNeeds(secrets={}, directories=places, max_line=max_line, hurry=asyncio.Event())
    needs = replace(needs, share=partial(share_server, directory("STATE"), "test", max_line))
    async with running(plans, needs, Saying(asked.get("tells", False))) as ours:
        seat = {"path": str(ours.listener.path), "token": ours.listener.token}
        way = ShimCommand(Path(sys.executable), Path(shim.__file__), ours.listener.path, ours.listener.token)
        front = {}
        if asked.get("front", True):
            http = await ours.http()
            front = {name: {"url": http.address(name), "token": http.token(name)} for name in servers}
        say(type="entries", entries=entries(plans, {}, way), front=front, seat=seat)
        await until_stdin_ends()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    say(
        type="left",
        tasks=[task.get_name() for task in left],
        processes=prepare.table().children(os.getpid()),
        descriptors=sorted(descriptors() - before),
    )


if __name__ == "__main__":
    asked = json.loads(sys.stdin.readline())
    exchange.DISCOVER_TIMEOUT = asked.get("silence", exchange.DISCOVER_TIMEOUT)
    asyncio.run(main(asked))
