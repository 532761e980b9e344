"""
A process that runs servers as a launch does, without an agent: `python -m tests.realservers.host` with the servers as
JSON on the first line of stdin, `{name: {argv, env, cwd, …}}`, or `{name: {url, type, …}}` for remote ones; the rest
are the keys of a profile.

Writes a line with the entries an agent would be given, then one for each change of a server and each note. Lives until
its stdin ends.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from acp_launch.bridge import exchange, shim
from acp_launch.bridge.offer import ShimCommand, entries
from acp_launch.bridge.servers import ServerNeeds, running
from acp_launch.document.scalars import Duration
from acp_launch.plan.model import Origin, RemotePlan, StdioPlan, Value
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
    call = server.get("call")
    return StdioPlan(
        name=name,
        command=Path(command),
        args=tuple(map(value, args)),
        env={variable: value(text) for variable, text in server["env"].items()},
        cwd=Path(server["cwd"]),
        restart=Restart(backoff=Backoff(initial=Duration(0.01))),
        timeouts=ServerTimeouts(call=None if call is None else Duration(call)),
        tools=Tools(deny=tuple(server.get("deny", ()))),
    )


def say(**line: object) -> None:
    print(json.dumps(line), flush=True)


class Saying(Silent):
    def changed(self, change: Change) -> None:
        say(type="change", **msgspec.structs.asdict(change))

    def note(self, text: str) -> None:
        say(type="note", text=text)


async def main(directories: list[Path], servers: dict[str, Any]) -> None:
    plans = [plan(name, server) for name, server in servers.items()]
    needs = ServerNeeds(
        secrets={},
        directories=directories,
        max_line=1 << 26,
        hurry=asyncio.Event(),
    )
    async with running(plans, needs, Saying()) as ours:
        way = ShimCommand(Path(sys.executable), Path(shim.__file__), ours.seat.path, ours.seat.token)
        http = await ours.http()
        addresses = {name: {"url": http.address(name), "token": http.token(name)} for name in servers}
        say(type="entries", entries=entries(plans, {}, way), front=addresses)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


if __name__ == "__main__":
    asked = json.loads(sys.stdin.readline())
    exchange.DISCOVER_TIMEOUT = asked.get("silence", exchange.DISCOVER_TIMEOUT)
    asyncio.run(main([Path(directory) for directory in asked["directories"]], asked["servers"]))
