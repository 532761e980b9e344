"""The server host without a launch: what comes over its socket, and when it ends."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from acp_launch.plan.shared import SharedServer, as_plain
from acp_launch.profile.model import Restart, StdioOptions
from acp_launch.served.serverhost import ServerHost
from acp_launch.served.shared import ENDED, JOINED, SHARE
from acp_launch.served.wire import STATUS
from tests.looped import looped
from tests.patience import PATIENCE

pytestmark = pytest.mark.whole  # a host ends long after its last launch

POLITE = str(Path(__file__).parents[1] / "servers" / "polite.py")
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}


def server(*argv: str, **changes: Any) -> SharedServer:
    given: dict[str, Any] = {
        "name": "polite",
        "argv": (sys.executable, "-I", "-S", *(argv or (POLITE,))),
        "directory": None,
        "env": {"PATH": os.environ["PATH"]},
        "compared": ("PATH",),
        "options": StdioOptions(restart=Restart(max=0), share="launch"),
        "idle": 0.05,
        "roots": None,
        "secrets": ("canary",),
    }
    return SharedServer(**{**given, **changes})


class Caller:
    """A launch's end of the socket."""

    def __init__(self, host: ServerHost) -> None:
        theirs, self._line = socket.socketpair()
        theirs.setblocking(False)
        self._line.setblocking(False)
        self._rest = b""
        host.attach(theirs)

    async def say(self, line: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._line, line + b"\n")

    async def share(self, server: SharedServer, launch: str = "a") -> None:
        request = {"label": "run p", "launch": launch, "pid": 1, "directories": ["/"]}
        await self.say(SHARE + json.dumps({"server": as_plain(server), "request": request}).encode())

    async def ask(self, **message: Any) -> Any:
        await self.say(json.dumps({"jsonrpc": "2.0", "id": 1, **message}).encode())
        return json.loads(await self.hear())

    async def hear(self) -> bytes:
        """The next line; empty at the end."""
        async with asyncio.timeout(PATIENCE):
            while b"\n" not in self._rest:
                chunk = await asyncio.get_running_loop().sock_recv(self._line, 65536)
                if not chunk:
                    return b""
                self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def leave(self) -> None:
        self._line.close()


@asynccontextmanager
async def hosted(tmp_path: Path) -> AsyncIterator[Callable[[], Caller]]:
    """Run a host, and then to its own end."""
    async with asyncio.TaskGroup() as tasks:
        host = ServerHost(tmp_path, 1 << 20, asyncio.Event(), tasks)
        running = tasks.create_task(host.run())
        with ExitStack() as lines:

            def caller() -> Caller:
                made = Caller(host)
                lines.callback(made.leave)
                return made

            yield caller
        async with asyncio.timeout(PATIENCE):
            await running
        await host.close()


@looped
async def test_two_launches_of_the_same_server_have_one_process_and_the_last_one_ends_it(tmp_path: Path) -> None:
    async with hosted(tmp_path) as caller:
        one, two, three = caller(), caller(), caller()
        await one.share(server())
        await two.share(server(), "b")
        await three.share(server(env={"PATH": "/"}), "c")
        pids = [json.loads((await each.hear()).removeprefix(JOINED))["pid"] for each in (one, two, three)]
        assert pids[0] == pids[1] != pids[2]
        assert "serverInfo" in (await one.ask(**HELLO))["result"]
        said = await caller().ask(method=STATUS)
        assert [(each["name"], len(each["uses"])) for each in said["result"]["servers"]] == [
            ("polite", 2),
            ("polite#2", 1),
        ]


@looped
async def test_before_the_handshake_a_ping_waits_for_the_process_and_all_else_is_refused(tmp_path: Path) -> None:
    async with hosted(tmp_path) as caller:
        one = caller()
        await one.share(server())
        await one.hear()
        assert (await one.ask(method="ping"))["result"] == {}
        assert (await one.ask(method="tools/list"))["error"]["code"] == -32601


@pytest.mark.parametrize("line", [SHARE + b"{", SHARE + b'{"server": {}}', SHARE + b"\xff"], ids=repr)
@looped
async def test_what_is_no_request_ends_the_connection_and_not_the_host(tmp_path: Path, line: bytes) -> None:
    async with hosted(tmp_path) as caller:
        one, two = caller(), caller()
        await one.say(line)
        assert await one.hear() == b""
        await two.share(server())
        assert (await two.hear()).startswith(JOINED)


@looped
async def test_a_process_that_fails_for_good_says_so_to_each_launch(tmp_path: Path) -> None:
    async with hosted(tmp_path) as caller:
        callers = [caller() for _ in range(2)]
        for each in callers:
            await each.share(server("-c", "import sys; sys.exit('no such luck canary')"))
        for each in callers:
            said = [await each.hear()]
            while said[-1].startswith(JOINED):  # at first, and for each restart
                said.append(await each.hear())
            whys = [json.loads(line.removeprefix(JOINED))["why"] for line in said[:-1]]
            assert whys == ["", *["exited with status 1"] * (len(whys) - 1)]
            end = json.loads(said[-1].removeprefix(ENDED))
            assert (end["ended"]["how"], end["detail"]) == ("exited with status 1", ["no such luck ***"])
