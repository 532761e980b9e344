"""Ring 3. Agents, sessions and prompts of a program (docs/api.md)."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

import acp_launch
from acp_launch.errors import AgentError, RunExpired, SessionError, UsageError, WaitExpired
from acp_launch.session import events
from tests.cli.launcher import AGENTS, Launcher, names
from tests.confined import needs_box
from tests.looped import bounded
from tests.patience import AS_USERS_WAIT, PATIENCE


async def end_of(session: acp_launch.Session, text: str) -> events.ResultEvent:
    found = [event async for event in session.prompt(text)]
    assert isinstance(found[-1], events.ResultEvent)
    return found[-1]


@bounded
async def test_a_prompt_is_answered_in_typed_events(launch: Launcher) -> None:
    heard: list[events.AnyEvent] = []
    async with acp_launch.launch("demo", cwd=launch.project, on_event=heard.append) as agent:
        assert (agent.name, agent.version) == ("Demo agent (scripted, no model)", "0.1.0")
        assert agent.capabilities.load
        async with agent.session("nightly") as session:
            found = [event async for event in session.prompt("add 2 3")]
            assert (session.name, session.title, bool(session.id)) == ("nightly", "add 2 3", True)
            (server,) = await agent.servers()
            assert (server.server, server.state, server.tools) == ("notes", "ready", 3)
    end = found[-1]
    assert isinstance(end, events.ResultEvent)
    assert (end.text, end.stop_reason) == ("5", "end_turn")
    assert "".join(event.text for event in found if isinstance(event, events.UpdateEvent)) == "5"
    kinds = {type(event) for event in heard}
    assert {events.InitializedEvent, events.SessionEvent, events.ServerEvent} <= kinds


def test_the_events_are_those_of_a_run(launch: Launcher) -> None:
    launch.profile("polite")
    found: list[events.AnyEvent] = []
    acp_launch.run("p", "hi", cwd=launch.project, trust=True, on_event=found.append)
    told = [msg["type"] for msg in launch("run", "p", "hi", "-o", "json").events]
    assert [type(event).__struct_config__.tag for event in found] == told


@bounded
async def test_a_named_session_is_continued_listed_and_locked(launch: Launcher) -> None:
    launch.profile("replayer")
    heard: list[events.AnyEvent] = []
    options = {"cwd": launch.project, "trust": True}
    async with acp_launch.launch("p", **options, on_event=heard.append) as agent:  # type: ignore[arg-type]
        async with agent.session("work") as session:
            await end_of(session, "one")
            done = await asyncio.to_thread(launch, "run", "p", "x", "-s", "work")
            assert (done.code, 'session "work" is in use' in done.err) == (3, True)
        async with agent.session("work") as session:  # the name is free again
            await end_of(session, "two")
        async with agent.session("work", new=True) as session:
            await end_of(session, "three")
    opened = [event for event in heard if isinstance(event, events.SessionEvent)]
    assert [event.how for event in opened] == ["new", "resume", "new"]
    assert names(launch) == ["work"]
    assert "three" in launch("session", "history", "work").out.decode()


@bounded
async def test_a_session_of_another_process_is_refused_with_the_words_of_the_command_line(launch: Launcher) -> None:
    launch.profile("replayer")
    async with (
        acp_launch.launch("p", cwd=launch.project, trust=True) as one,
        acp_launch.launch("p", cwd=launch.project, trust=True) as other,
        one.session("work"),
    ):
        with pytest.raises(SessionError, match=r'"work" is in use by process \d+ \(a Python program, p\)') as refused:
            async with other.session("work"):
                pass
        assert refused.value.exit_code == 3


TALKATIVE = """
import os
def prompt(request):
    for number in range(2000):
        script.say(script.session_of(request), f"{number:010000} ")
        os.write(said, b".")
    script.end(request)
said = os.open("said", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
script.serve({"session/prompt": prompt})
"""


@bounded
async def test_an_agent_waits_for_a_reader_that_is_slow(launch: Launcher) -> None:
    launch.scripted(TALKATIVE)
    said = launch.project / "said"
    async with acp_launch.launch("p", cwd=launch.project, trust=True) as agent, agent.session() as session:
        found = session.prompt("hi")
        texts = [getattr(await anext(found), "text", "")]
        before, same = 0, 0
        while same < 50 and before < 2000:
            await agent.servers()
            now = said.stat().st_size
            before, same = now, same + 1 if now == before else 0
        texts += [event.text async for event in found if isinstance(event, events.UpdateEvent)]
        assert "".join(texts).split() == [f"{number:010000}" for number in range(2000)]


@bounded
async def test_leaving_the_loop_cancels_the_turn_and_the_session_goes_on(launch: Launcher) -> None:
    launch.profile("cancellable")
    async with acp_launch.launch("p", cwd=launch.project, trust=True) as agent, agent.session() as session:
        for _ in range(2):
            async for event in session.prompt("hi"):
                if isinstance(event, events.UpdateEvent):
                    break
        for _ in range(2):
            async with aclosing(session.prompt("hi")) as found:
                async for event in found:
                    if isinstance(event, events.UpdateEvent):
                        break
        held = session.prompt("hi")
        await anext(held)
        with pytest.raises(SessionError, match="is in a turn"):
            await end_of(session, "hi")
        await held.aclose()
        assert [event async for event in held] == []


@bounded
async def test_cancelling_the_task_cancels_the_turn(launch: Launcher) -> None:
    launch.profile("cancellable")
    async with acp_launch.launch("p", cwd=launch.project, trust=True) as agent, agent.session() as session:
        began = asyncio.Event()

        async def prompt() -> None:
            async for event in session.prompt("hi"):
                if isinstance(event, events.UpdateEvent):
                    began.set()

        task = asyncio.create_task(prompt())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(RunExpired, match=r"the prompt took longer than 0\.1 s"):
            [event async for event in session.prompt("hi", timeout=0.1)]


@bounded
async def test_an_agent_that_thinks_is_waited_for_with_an_event(
    launch: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in AS_USERS_WAIT.items():
        monkeypatch.setenv(name, value)
    launch.profile("cancellable")
    is_told = asyncio.Event()

    def hear(event: events.AnyEvent) -> None:
        if isinstance(event, events.WaitingEvent):
            is_told.set()

    running = acp_launch.launch("p", cwd=launch.project, trust=True, on_event=hear)
    async with running as agent, agent.session() as session, aclosing(session.prompt("hi")) as found:
        await anext(found)
        await is_told.wait()
        assert await agent.servers() == ()


@bounded
async def test_an_agent_that_does_not_end_its_turn_is_given_up(
    launch: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in AS_USERS_WAIT.items():
        monkeypatch.setenv(name, value)
    launch.profile("cancel_deaf", "never")
    async with acp_launch.launch("p", cwd=launch.project, trust=True) as agent:
        async with agent.session() as session:
            async with aclosing(session.prompt("hi")) as found:
                await anext(found)
            with pytest.raises((WaitExpired, AgentError)):
                await end_of(session, "hi")
        async with agent.session() as session, aclosing(session.prompt("hi")) as found:  # of another process
            assert isinstance(await anext(found), events.AnyEvent)


@bounded
async def test_an_agent_that_dies_is_started_again_for_the_next_session(launch: Launcher) -> None:
    launch.profile("crasher", "prompt")
    async with acp_launch.launch("p", cwd=launch.project, trust=True) as agent:
        for _ in range(2):
            async with agent.session() as session:
                with pytest.raises(AgentError, match="the agent exited with status 3") as died:
                    await end_of(session, "hi")
                assert died.value.exit_code == 4
                assert any("last words" in line or line for line in died.value.detail)


@bounded
async def test_what_was_left_is_refused(launch: Launcher) -> None:
    launch.profile("polite")
    async with acp_launch.launch("p", cwd=launch.project, trust=True) as agent:
        async with agent.session() as session:
            pass
        with pytest.raises(SessionError, match="was left"):
            await end_of(session, "hi")
        with pytest.raises(SessionError, match="was left"):
            await session.set("mode", "x")
        assert session.id
    with pytest.raises(AgentError):
        await agent.servers()
    with pytest.raises(AgentError):
        async with agent.session():
            pass


@bounded
async def test_a_private_host_that_is_killed_ends_its_prompts(launch: Launcher) -> None:
    launch.profile("cancellable")
    async with acp_launch.launch("p", cwd=launch.project, trust=True) as agent, agent.session() as session:
        found = session.prompt("hi")
        await anext(found)
        below = psutil.Process(agent._process._process.pid).children(recursive=True)
        agent._process._process.kill()
        with pytest.raises(acp_launch.LaunchError, match=r"the process of the agent has ended \(SIGKILL\)"):
            [event async for event in found]
        assert not psutil.wait_procs(below, PATIENCE)[1], "its guards end them"


@bounded
async def test_options_are_set_in_each_session_and_later(launch: Launcher) -> None:
    launch.profile("filler")
    running = acp_launch.launch("p", cwd=launch.project, trust=True, options={"mode": "edit"})
    async with running as agent, agent.session() as session:
        assert session._client.state.options[0].current == "edit"
        await session.set("mode", "yolo")
        assert session._client.state.options[0].current == "yolo"
        with pytest.raises(acp_launch.LaunchError, match="ultra"):
            await session.set("mode", "ultra")


@bounded
async def test_five_agents_at_once_in_one_loop(launch: Launcher) -> None:
    async def one(number: int) -> str:
        async with acp_launch.launch("demo", cwd=launch.project) as agent, agent.session() as session:
            return (await end_of(session, f"add {number} 1")).text

    assert await asyncio.gather(*map(one, range(5))) == [str(number + 1) for number in range(5)]


@bounded
async def test_a_loop_that_is_busy_while_an_agent_ends_may_open_sockets(launch: Launcher) -> None:
    loop = asyncio.get_running_loop()
    async with acp_launch.launch("demo", cwd=launch.project) as agent:
        ending = asyncio.create_task(agent._end())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        deadline = loop.time() + PATIENCE
        while agent._process.line.fileno() >= 0:  # until its thread has closed it
            assert loop.time() < deadline
            os.sched_yield()
        opened = [each for _ in range(4) for each in socket.socketpair()]  # with the descriptors that are free now
        for each in opened:
            each.setblocking(False)
        reading = [asyncio.create_task(loop.sock_recv(each, 1)) for each in opened]
        await ending
        for each in opened:
            each.send(b"x")
        assert await asyncio.gather(*reading) == [b"x"] * len(opened)
    for each in opened:
        each.close()


def _count_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


@pytest.mark.filterwarnings("error")
@bounded
async def test_an_opening_that_is_cancelled_leaves_no_socket(launch: Launcher) -> None:
    async with acp_launch.launch("demo", cwd=launch.project) as agent:
        before = _count_descriptors()
        for turns in range(12):
            opening = asyncio.create_task(agent.session().__aenter__())
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.wait([opening])
        while _count_descriptors() > before:
            await agent.servers()


@bounded
async def test_a_session_is_open_once_in_a_program(launch: Launcher) -> None:
    async with acp_launch.launch("demo", cwd=launch.project) as agent:
        async with agent.session("work") as session:
            with pytest.raises(SessionError, match='session "work" is open in this program') as refused:
                async with agent.session("work"):
                    pass
            assert (refused.value.exit_code, refused.value.fix) == (3, "use it, or leave it first")
            assert (await end_of(session, "add 2 3")).text == "5"
        async with agent.session("work") as session:
            assert (await end_of(session, "add 2 4")).text == "6"


@bounded
async def test_variables_of_a_launch_are_its_own(launch: Launcher) -> None:
    launch.profile("spy")
    asked = "os.environ.get('GIVEN')"

    async def one(value: str) -> str:
        launching = acp_launch.launch("p", cwd=launch.project, trust=True, env={"GIVEN": value})
        async with launching as agent, agent.session() as session:
            return (await end_of(session, asked)).text.strip()

    assert list(await asyncio.gather(one("a"), one("b"))) == ['"a"', '"b"']
    assert "GIVEN" not in os.environ
    with pytest.raises(UsageError, match="illegal environment variable name"):
        await acp_launch.launch("demo", cwd=launch.project, env={"A=B": "x"}).__aenter__()


@bounded
async def test_a_named_wait_is_limited(launch: Launcher) -> None:
    launch.profile("cancellable")
    launching = acp_launch.launch("p", cwd=launch.project, trust=True, timeouts={"silence": 0.2})
    async with launching as agent, agent.session() as session:
        with pytest.raises(WaitExpired, match="no activity"):
            await end_of(session, "hi")


def test_an_agent_of_a_command_line_may_be_confined(launch: Launcher) -> None:
    command = f"{sys.executable} -I {AGENTS / 'spy.py'}"
    asked = f"os.path.exists({str(launch.project.parent / 'other')!r})"
    (launch.project.parent / "other").write_text("x")
    assert acp_launch.run(None, asked, agent=command, cwd=launch.project).answer.strip() == "true"
    needs_box()
    confined = acp_launch.run(None, asked, agent=command, cwd=launch.project, confined=True)
    assert confined.answer.strip() == "false"


@bounded
async def test_several_sessions_of_an_agent_at_once(launch: Launcher) -> None:
    async with acp_launch.launch("demo", cwd=launch.project) as agent:

        async def one(number: int) -> str:
            async with agent.session(f"s{number}") as session:
                return (await end_of(session, f"add {number} 1")).text

        assert await asyncio.gather(*map(one, range(4))) == ["1", "2", "3", "4"]


@bounded
async def test_a_file_is_attached_also_where_a_loop_runs(launch: Launcher) -> None:
    (launch.project / "a.txt").write_text("12 words")
    found = acp_launch.run("demo", "hello", cwd=launch.project, attach=[launch.project / "a.txt"])
    assert found.stop_reason == "end_turn"
    with pytest.raises(acp_launch.LaunchError, match=r"no\.txt"):
        acp_launch.run("demo", "hello", cwd=launch.project, attach=[launch.project / "no.txt"])


PROGRAM = """
import asyncio, os, signal, sys, threading
import acp_launch
before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)]
mask, here, environ = os.umask(0o22), os.getcwd(), dict(os.environ)
assert acp_launch.run("demo", "add 2 3").answer == "5"
async def main():
    async with acp_launch.launch("demo") as agent, agent.session() as session:
        async for event in session.prompt("write a.txt"):
            pass
asyncio.run(main())
assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)]
assert (mask, here, environ) == (os.umask(mask), os.getcwd(), dict(os.environ))
import gc; assert gc.isenabled() and not gc.get_freeze_count()
assert threading.active_count() == 1, threading.enumerate()
"""


def test_a_program_keeps_its_signals_its_streams_and_itself(launch: Launcher) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", PROGRAM],
        cwd=launch.project,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


class _OutOfTimeError(Exception):
    """What a test runner's alarm raises."""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, _OutOfTimeError])
def test_what_a_signal_raises_ends_a_run_and_leaves_nothing(launch: Launcher, kind: type[BaseException]) -> None:
    def interrupted(number: int, frame: object) -> None:
        raise kind

    former = signal.signal(signal.SIGINT, interrupted)
    try:
        _interrupt_run(launch, kind)
    finally:
        signal.signal(signal.SIGINT, former)
    for thread in threading.enumerate():
        if thread.name == "acp-launch":  # it has told its end
            thread.join(PATIENCE)
            assert not thread.is_alive()


def _interrupt_run(launch: Launcher, kind: type[BaseException]) -> None:
    launch.profile("cancellable")
    begun = threading.Event()

    def interrupt() -> None:
        begun.wait(PATIENCE)
        os.kill(os.getpid(), signal.SIGINT)

    def hear(event: events.AnyEvent) -> None:
        if isinstance(event, events.UpdateEvent):
            begun.set()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(kind):
        acp_launch.run("p", "hi", cwd=launch.project, trust=True, on_event=hear)
    thread.join()
