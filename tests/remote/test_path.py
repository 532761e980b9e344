"""The way of a call to a remote server and back: the modules of ours that it enters, and how often it is read."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest

import acp_launch
from acp_launch.app.credentials import LoginCredentials, ServerLogin
from acp_launch.bridge import shim
from acp_launch.bridge.offer import ShimCommand, entries
from acp_launch.bridge.servers import ServerNeeds, running
from acp_launch.oauth.grant import Logins
from acp_launch.plan.model import RemotePlan
from acp_launch.protocol import jsonrpc
from tests.bridge.observing import Silent
from tests.patience import PATIENCE
from tests.realservers.host import plan

from .children import tempered
from .peer import HELLO

PACKAGE = str(Path(acp_launch.__file__).parent)
READ = jsonrpc.decode.__code__


class Way:
    """What was entered while it was watched."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.reads: list[bytes] = []

    def enter(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            self.modules.add(code.co_filename.removeprefix(PACKAGE))
            if code is READ:
                self.reads.append(frame.f_locals["line"])


@contextmanager
def watched() -> Iterator[Way]:
    way = Way()
    sys.setprofile(way.enter)
    try:
        yield way
    finally:
        sys.setprofile(None)


class Agent:
    def __init__(self, shim: asyncio.subprocess.Process) -> None:
        assert shim.stdin
        assert shim.stdout
        self._input, self._output, self._numbers = shim.stdin, shim.stdout, 0

    def tell(self, **message: Any) -> None:
        self._input.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def ask(self, method: str, **params: Any) -> Any:
        self._numbers += 1
        self.tell(id=self._numbers, method=method, params=params)
        async with asyncio.timeout(PATIENCE):
            while (answer := json.loads(await self._output.readline())).get("id") != self._numbers:
                pass
        return answer["result"]


def no_tokens(*login: object) -> NoReturn:
    raise AssertionError("the user has not logged in")


@pytest.mark.parametrize("answers", ["json", "sse"])
def test_a_call_enters_twelve_modules_and_is_read_once_each_way(answers: str, tmp_path: Path) -> None:
    async def use(url: str) -> Way:
        server = plan("docs", {"url": url, "env": {}, "cwd": str(tmp_path)})
        assert isinstance(server, RemotePlan)
        login = ServerLogin(server, None)
        credentials = LoginCredentials(login, None, no_tokens, Logins(tmp_path), "acp-launch mcp login")
        needs = ServerNeeds(
            secrets={},
            directories=[tmp_path],
            max_line=1 << 26,
            hurry=asyncio.Event(),
            credentials={"docs": credentials},
        )
        async with running([server], needs, Silent()) as ours:
            way = ShimCommand(Path(sys.executable), Path(shim.__file__), ours.listener.path, ours.listener.token)
            (entry,) = entries([server], {}, way)
            env = {**os.environ, **{pair["name"]: pair["value"] for pair in entry["env"]}}
            process = await asyncio.create_subprocess_exec(
                entry["command"], *entry["args"], env=env, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            agent = Agent(process)
            await agent.ask("initialize", **HELLO)
            agent.tell(method="notifications/initialized")
            await agent.ask("tools/list")
            await agent.ask("tools/call", name="echo", arguments={"text": "first"})
            with watched() as found:
                await agent.ask("tools/call", name="echo", arguments={"text": "second"})
            assert process.stdin
            process.stdin.close()
            await process.wait()
            return found

    with tempered(answers=answers) as server:
        way = asyncio.run(use(server.url))
    assert len(way.modules) <= 12, sorted(way.modules)
    assert [b'"second"' in line for line in way.reads].count(True) == 2
