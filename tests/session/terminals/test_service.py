"""Commands for the agent, with real processes: all five methods, what is told, and that nothing outlives it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from acp_launch.process import terminal
from acp_launch.process.records import files
from acp_launch.process.spawn import live
from acp_launch.secret.redact import StreamRedactor
from acp_launch.session import terminals as service
from acp_launch.session.events import Refusal, TerminalEvent
from acp_launch.session.terminals import Terminals
from tests.looped import looped
from tests.patience import PATIENCE
from tests.process.conftest import nothing_left_behind as nothing_left_behind
from tests.process.launches import Running, bury, gone
from tests.process.liveness import CHILDREN, Liveness, liveness, program
from tests.secret.canaries import knowing


@pytest.fixture
def alive() -> Iterator[Liveness]:
    with liveness() as heard:
        yield heard


class Desk:
    """Terminals that are served, and who decides about them."""

    def __init__(self, env: dict[str, str]) -> None:
        self.answer = ""  # why not
        self.asked: list[dict[str, Any]] = []
        self.told: list[TerminalEvent] = []
        self.news = asyncio.Event()
        self.terminals = Terminals(Path("/"), env, allowed=self.allowed, tell=self.tell)

    async def allowed(self, call: dict[str, Any]) -> str:
        self.asked.append(call)
        return self.answer

    def tell(self, step: TerminalEvent) -> None:
        self.told.append(step)
        self.news.set()

    async def hears(self, text: str) -> None:
        """Until it was told of these words."""
        while text not in "".join(step.output for step in self.told):
            self.news.clear()
            await self.news.wait()

    async def asks(self, method: str, **params: Any) -> Any:
        return await self.terminals.services()[f"terminal/{method}"]({"sessionId": "s", **params})

    async def runs(self, command: str, *args: str, **params: Any) -> str:
        result = await self.asks("create", command=command, args=list(args), **params)
        assert list(result) == ["terminalId"]
        id: str = result["terminalId"]
        return id

    async def refuses(self, method: str, **params: Any) -> tuple[int, str]:
        with pytest.raises(Refusal) as raised:
            await self.asks(method, **params)
        return raised.value.code, raised.value.message


@asynccontextmanager
async def at_work(env: dict[str, str] | None = None) -> AsyncIterator[Desk]:
    """Everything bounded, and closed at the end."""
    it = Desk({"PATH": os.environ["PATH"]} | (env or {}))
    try:
        async with asyncio.timeout(PATIENCE):
            yield it
    finally:
        await it.terminals.close()
        assert live() == []


@looped
async def test_all_five_methods_are_served() -> None:
    """C-20: `terminal` promises every one of them."""
    methods = {"create", "output", "wait_for_exit", "kill", "release"}
    async with at_work() as desk:
        assert set(desk.terminals.services()) == {f"terminal/{method}" for method in methods}
    assert desk.told == []


@looped
async def test_a_command_is_run_waited_for_and_released() -> None:
    """C-71, C-73; exit codes are unsigned."""
    async with at_work() as desk:
        id = await desk.runs("/bin/sh", "-c", "echo out; echo err >&2; exit 3")
        assert await desk.asks("wait_for_exit", terminalId=id) == {"exitCode": 3, "signal": None}
        assert await desk.asks("output", terminalId=id) == {
            "output": "out\nerr\n",
            "truncated": False,
            "exitStatus": {"exitCode": 3, "signal": None},
        }
        assert await desk.asks("release", terminalId=id) == {}
    line = "/bin/sh -c 'echo out; echo err >&2; exit 3'"
    told = [(step.terminal_id, step.command, step.cwd, step.output, step.exit) for step in desk.told]
    assert told == [
        ("terminal-1", line, "/", "", None),
        ("terminal-1", line, "/", "out\nerr\n", None),
        ("terminal-1", line, "/", "", "exit status 3"),
    ]
    raw = {"command": "/bin/sh", "args": ["-c", "echo out; echo err >&2; exit 3"], "cwd": "/"}
    assert desk.asked == [{"kind": "execute", "title": line, "rawInput": raw}]


@looped
async def test_creating_returns_before_the_command_ends_and_there_is_no_status_while_it_runs() -> None:
    """C-71."""
    async with at_work() as desk:
        id = await desk.runs("/bin/sh", "-c", "echo ready; exec sleep 1000")
        await desk.hears("ready\n")
        assert await desk.asks("output", terminalId=id) == {"output": "ready\n", "truncated": False}
    assert desk.told[-1].exit == "signal SIGTERM"


@looped
async def test_waiting_for_one_holds_up_no_other() -> None:
    """C-11."""
    async with at_work() as desk:
        slow = await desk.runs("sleep", "1000")
        waiting = [asyncio.create_task(desk.asks("wait_for_exit", terminalId=slow)) for _ in range(3)]
        quick = await desk.runs("true")
        assert await desk.asks("wait_for_exit", terminalId=quick) == {"exitCode": 0, "signal": None}
        assert not any(task.done() for task in waiting)
        await desk.asks("kill", terminalId=slow)
        assert [await task for task in waiting] == [{"exitCode": None, "signal": "SIGTERM"}] * 3


@looped
async def test_output_over_the_limit_is_cut_from_its_beginning_at_a_character() -> None:
    """C-72."""
    async with at_work() as desk:
        id = await desk.runs("printf", "a€€€", outputByteLimit=7)
        await desk.asks("wait_for_exit", terminalId=id)
        told = await desk.asks("output", terminalId=id)
        assert (told["output"], told["truncated"]) == ("€€", True)
        id = await desk.runs("printf", "a€€", outputByteLimit=7)
        await desk.asks("wait_for_exit", terminalId=id)
        told = await desk.asks("output", terminalId=id)
        assert (told["output"], told["truncated"]) == ("a€€", False)


@looped
async def test_a_flood_is_bounded_without_any_limit_given() -> None:
    async with at_work() as desk:
        id = await desk.runs("yes")
        for _ in range(4):
            desk.news.clear()
            await desk.news.wait()
        told = await desk.asks("output", terminalId=id)
        assert told["truncated"] is True
        assert len(told["output"]) == 1024 * 1024


@looped
async def test_a_killed_command_can_still_be_looked_at_and_a_released_one_cannot() -> None:
    """C-73."""
    async with at_work() as desk:
        id = await desk.runs("/bin/sh", "-c", "echo ready; exec sleep 1000")
        await desk.hears("ready\n")
        assert await desk.asks("kill", terminalId=id) == {}
        assert await desk.asks("kill", terminalId=id) == {}
        ended = {"exitCode": None, "signal": "SIGTERM"}
        assert await desk.asks("output", terminalId=id) == {
            "output": "ready\n",
            "truncated": False,
            "exitStatus": ended,
        }
        assert await desk.asks("wait_for_exit", terminalId=id) == ended
        assert await desk.asks("release", terminalId=id) == {}
        for method in ("output", "wait_for_exit", "kill", "release"):
            with pytest.raises(Refusal) as raised:
                await desk.asks(method, terminalId=id)
            assert (raised.value.code, raised.value.message, raised.value.data) == (
                -32002,
                "there is no such terminal, or it was released",
                {"terminalId": id},
            )


@pytest.mark.parametrize("id", [None, 1, "terminal-7", [], {}])
@looped
async def test_an_unknown_terminal_is_an_error(id: object) -> None:
    async with at_work() as desk:
        code, message = await desk.refuses("output", terminalId=id)
        assert (code, message) == (-32002, "there is no such terminal, or it was released")


@looped
async def test_releasing_ends_what_runs_and_a_waiter_hears_how(
    alive: Liveness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-73."""
    monkeypatch.setattr(terminal, "GRACE_SECONDS", 0.05)
    async with at_work(alive.env) as desk:
        id = await desk.runs(*program("deaf", "stubborn"))
        await asyncio.to_thread(alive.hear, "stubborn")
        waiting = desk.asks("wait_for_exit", terminalId=id)
        heard, released = await asyncio.gather(waiting, desk.asks("release", terminalId=id))
        assert (heard, released) == ({"exitCode": None, "signal": "SIGKILL"}, {})
        assert live() == []
    assert desk.told[-1].exit == "signal SIGKILL"
    alive.assert_all_dead()


@looped
async def test_a_release_that_the_agent_takes_back_is_done_nevertheless(
    alive: Liveness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "GRACE_SECONDS", 0.05)
    async with at_work(alive.env) as desk:
        id = await desk.runs(*program("deaf", "stubborn"))
        await asyncio.to_thread(alive.hear, "stubborn")
        releasing = asyncio.create_task(desk.asks("release", terminalId=id))
        asyncio.get_running_loop().call_soon(releasing.cancel)
        await asyncio.wait({releasing})
        assert releasing.cancelled()
        while desk.told[-1].exit is None:
            desk.news.clear()
            await desk.news.wait()
    alive.assert_all_dead()


@looped
async def test_what_is_not_allowed_is_not_run_and_that_is_told() -> None:
    async with at_work() as desk:
        desk.answer = "denied: permissions.default: deny"
        code, message = await desk.refuses("create", command="true")
        assert (code, message) == (-32603, "denied: permissions.default: deny")
        assert live() == []
    exit = "it was refused: denied: permissions.default: deny"
    assert desk.told == [TerminalEvent(terminal_id="", command="true", cwd="/", exit=exit)]


@looped
async def test_a_command_that_cannot_be_run_is_said_before_the_user_is_asked() -> None:
    async with at_work() as desk:
        code, message = await desk.refuses("create", command="no-such-tool")
        assert code == -32002
        assert message.startswith('cannot run it: "no-such-tool" is not on PATH')
        assert desk.asked == []


@looped
async def test_a_program_that_will_not_start_is_said(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_bytes(b"\x7fELF of another world")
    tool.chmod(0o755)
    async with at_work() as desk:
        code, message = await desk.refuses("create", command=str(tool))
        reason = "it is not a program for this machine, and not a script with a #! line; name its interpreter first"
        assert (code, message) == (-32603, f"{tool} could not be started: {reason}")
    assert desk.told[-1].exit is not None
    assert desk.told[-1].exit.startswith("it was refused: ")


@looped
async def test_only_so_many_are_open_at_once_and_releasing_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_TERMINALS", 3)
    async with at_work() as desk:
        ids = [await desk.runs("true") for _ in range(3)]
        said = (-32603, "3 terminals are open; release one first")
        assert await desk.refuses("create", command="true") == said
        assert len(desk.asked) == 3
        await desk.asks("release", terminalId=ids[1])
        ids.append(await desk.runs("true"))
        assert len(set(ids)) == 4


@looped
async def test_after_the_end_nothing_is_started_although_it_was_allowed_before() -> None:
    async with at_work() as desk:
        asked, answered = asyncio.Event(), asyncio.Event()

        async def slowly(call: dict[str, Any]) -> str:
            asked.set()
            await answered.wait()
            return ""

        desk.terminals = Terminals(Path("/"), {"PATH": os.environ["PATH"]}, allowed=slowly, tell=desk.tell)
        creating = asyncio.create_task(desk.refuses("create", command="true"))
        await asked.wait()
        await desk.terminals.close()
        answered.set()
        assert await creating == (-32603, "the session is over")
        assert live() == []


TREES = {
    "stubborn": (["deaf", "stubborn"], ["stubborn"]),
    "in a session of its own": (["forker", "setsid"], ["forker", "loner"]),
    "daemon": (["forker", "daemon"], ["forker", "daemon"]),
    "respawning": (["forker", "respawn"], ["forker", "supervisor", "worker"]),
    "scrubbed": (["scrubber"], ["scrubber", "scrubbed"]),
}


@looped
async def test_all_they_started_ends_with_the_session(alive: Liveness, monkeypatch: pytest.MonkeyPatch) -> None:
    """C-73."""
    monkeypatch.setattr(terminal, "GRACE_SECONDS", 0.05)
    async with at_work(alive.env) as desk:
        for argv, _ in TREES.values():
            await desk.runs(*program(*argv))
        await asyncio.to_thread(alive.hear, *[name for _, names in TREES.values() for name in names])
        await desk.terminals.close()
        assert live() == []
    alive.assert_all_dead()


@pytest.mark.parametrize("way", ["hurry", "cancelled"])
@looped
async def test_a_session_that_ends_in_a_hurry_gives_no_grace(
    way: str, alive: Liveness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "GRACE_SECONDS", 10 * PATIENCE)
    async with at_work(alive.env) as desk:
        await desk.runs(*program("deaf", "stubborn"))
        await asyncio.to_thread(alive.hear, "stubborn")
        hurry = asyncio.Event()
        closing = asyncio.create_task(desk.terminals.close(hurry))
        asyncio.get_running_loop().call_soon(hurry.set if way == "hurry" else closing.cancel)
        await asyncio.wait({closing})
        assert closing.cancelled() == (way == "cancelled")
        assert desk.told[-1].exit == "signal SIGKILL"
    alive.assert_all_dead()


@looped
async def test_known_secrets_are_hidden_from_the_agent_and_from_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secrets of this process: `env` in a terminal must not be a way to them."""
    monkeypatch.setattr(terminal, "StreamRedactor", lambda: StreamRedactor(knowing("hunter2hunter2")))
    async with at_work() as desk:
        id = await desk.runs("/bin/sh", "-c", "printf hunter2; printf 'hunter2 and on'")
        await desk.asks("wait_for_exit", terminalId=id)
        assert (await desk.asks("output", terminalId=id))["output"] == "*** and on"
    assert "".join(step.output for step in desk.told) == "*** and on"


@pytest.mark.whole
def test_a_launch_that_is_killed_leaves_no_command_behind(tmp_path: Path, alive: Liveness) -> None:
    """The guards are above them."""
    argvs = [json.dumps(program(*argv)) for argv, _ in TREES.values()]
    names = [name for _, names in TREES.values() for name in names]
    with subprocess.Popen(
        [sys.executable, str(CHILDREN / "terminals.py"), str(tmp_path), *argvs],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        start_new_session=True,
        env={**os.environ, **alive.env},
    ) as launch:
        try:
            running = Running(launch)
            alive.hear(*names)
            assert len(running.children) == len(argvs)
            with gone(running.upper):
                launch.send_signal(signal.SIGKILL)
                launch.wait(PATIENCE)
            alive.assert_all_dead()
            assert files(tmp_path) == []
        finally:
            launch.kill()
            launch.wait(PATIENCE)
            bury()
