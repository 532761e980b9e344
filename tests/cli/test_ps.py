"""`ps` and `reap`, as a person uses them."""

import json
import os
import re
import select
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.launcher import DEMO, DEMO_SERVER, Launcher, Running, alive
from tests.patience import PATIENCE


@pytest.fixture
def running(launch: Launcher) -> Iterator[Running]:
    """An agent behind a wrapper, in its turn, with a double-forked daemon."""
    launch.profile("wrapper", "cancellable")
    (launch.project / "sub").mkdir()
    words = ("run", "p", "hi", "--session", "fix-42", "--cwd", "sub", "--output", "json")
    with launch.start(*words, apart=True) as running:
        running.hears("session/prompt")
        yield running


def listed(launch: Launcher) -> list[dict[str, Any]]:
    done = launch("ps", "--json")
    assert (done.code, done.err) == (0, "")
    launches: list[dict[str, Any]] = json.loads(done.out)["launches"]
    return launches


def guards_of(launch: Launcher) -> list[int]:
    """The upper one, the lower one."""
    (found,) = listed(launch)
    return [each["pid"] for each in found["processes"] if each["name"] == "guard"]


def kill_all_three(running: Running, guards: list[int]) -> None:
    """None sees another die."""
    three = [running.process.pid, *guards]
    dying = [os.pidfd_open(pid) for pid in guards]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in three:
            os.kill(pid, number)
    running.process.wait(PATIENCE)
    for descriptor in dying:
        assert select.select([descriptor], [], [], PATIENCE)[0]
        os.close(descriptor)


@pytest.mark.promise("diagnosis")
def test_a_running_launch_is_shown_as_a_tree_without_arguments_and_each_process_once(
    launch: Launcher, running: Running
) -> None:
    done = launch("ps")
    assert (done.code, done.err) == (0, "")
    lines = done.out.decode().splitlines()
    assert re.fullmatch(r"NAME +PID +AGE +MEMORY +RESTARTS +SESSION +DIRECTORY", lines[0])
    assert re.fullmatch(rf"p \(run\) +{running.process.pid} +\d+s +\d+ MiB +fix-42 +{launch.project}/sub", lines[1])
    names = [line.split()[0] for line in lines[2:]]
    depths = [len(line) - len(line.lstrip()) for line in lines[2:]]
    assert sorted(zip(depths, names, strict=True))[:1] == [(2, "agent")]
    assert (2, "guard") in zip(depths, names, strict=True)
    assert (4, "sh") in zip(depths, names, strict=True)
    assert max(depths) == 6
    assert ".py" not in done.out.decode()
    (found,) = listed(launch)
    head = {key: found[key] for key in ("profile", "verb", "state", "pid", "session", "title", "directory")}
    assert head == {
        **{"profile": "p", "verb": "run", "state": "running", "pid": running.process.pid},
        **{"session": "fix-42", "title": "hi", "directory": f"{launch.project}/sub"},
    }
    assert found["memory"] > 1_000_000
    assert 0 <= found["age"] < PATIENCE
    agent = next(each for each in found["processes"] if each["name"] == "agent")
    assert set(agent) == {"name", "command", "pid", "age", "memory", "restarts", "children"}
    assert agent["restarts"] == 0
    assert [child["command"] for child in agent["children"]] == ["sh"]
    flat = [found["pid"], *pids(found["processes"])]
    assert len(flat) == len(set(flat)) >= 6


def pids(processes: list[dict[str, Any]]) -> list[int]:
    return [pid for each in processes for pid in (each["pid"], *pids(each["children"]))]


@pytest.fixture
def supplied(launch: Launcher) -> Iterator[Running]:
    """The demo agent in its turn, with a server it has opened and one that has failed."""
    gone = {"command": sys.executable, "args": ["-I", "-S", "-c", "raise SystemExit(3)"], "required": False}
    servers = {
        "notes": DEMO_SERVER,
        "gone": {**gone, "restart": {"policy": "never"}},
    }
    launch.write({"agent": DEMO, "mcp_servers": servers})
    with launch.start("run", "p", "count 10000", "--output", "json") as running:
        awaited = {("server", "gone", "failed"), ("update", "agent_message_chunk")}
        while awaited:
            awaited.discard(told(json.loads(running.shows(""))))
        yield running


def told(event: dict[str, Any]) -> tuple[str, ...]:
    if event["type"] == "server":
        return "server", event["name"], event["state"]
    return event["type"], event.get("update", {}).get("sessionUpdate", "")


def test_shims_are_named_and_a_server_without_a_process_is_listed(launch: Launcher, supplied: Running) -> None:
    done = launch("ps")
    assert (done.code, done.err) == (0, "")
    lines = done.out.decode().splitlines()
    assert [line for line in lines if re.fullmatch(r"    shim notes +\d+ +\d+s +\d+ MiB", line)] != []
    assert [line for line in lines if re.fullmatch(r"  notes +\d+ +\d+s +\d+ MiB", line)] != []
    assert re.fullmatch(r"  gone +- +\(ended\)", lines[-1])
    (found,) = listed(launch)
    by_name = {each["name"]: each for each in found["processes"]}
    assert sorted(each["name"] for each in found["processes"]) == ["agent", "guard", "guard", "notes"]
    assert "shim notes" in [child["name"] for child in by_name["agent"]["children"]]
    assert found["ended"] == [{"name": "gone", "restarts": 0}]


def test_nothing_is_said_plainly(launch: Launcher) -> None:
    for verb, said in (("ps", "nothing is running\n"), ("reap", "nothing was left behind\n")):
        done = launch(verb)
        assert (done.code, done.out, done.err) == (0, b"", said)
    assert json.loads(launch("ps", "--json").out) == {"launches": []}
    assert json.loads(launch("reap", "--json").out) == {"ended": []}
    launch.profile("polite")
    assert launch("run", "p", "hi").code == 0
    assert listed(launch) == [], "it has ended"
    assert list((launch.state / "launches").iterdir()) == []


def test_what_is_left_behind_is_marked_and_reap_ends_it(launch: Launcher, running: Running) -> None:
    kill_all_three(running, guards_of(launch))
    shown = launch("ps").out.decode()
    assert "p (run)" in shown
    assert "left behind; to stop: acp-launch reap" in shown
    (found,) = listed(launch)
    assert (found["state"], found["pid"]) == ("left behind", None)
    done = launch("reap")
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(r"stopped \d+ process(es)? left behind by a run of p: .+ \(\d+\)\n", done.out.decode())
    assert alive(running.mark) == []
    assert launch("reap").err == "nothing was left behind\n"
    assert listed(launch) == []


def test_the_next_run_ends_what_the_last_one_left_behind_and_says_so(launch: Launcher, running: Running) -> None:
    kill_all_three(running, guards_of(launch))
    launch.profile("polite")
    done = launch("run", "p", "hi")
    assert (done.code, done.out) == (0, b"You said: hi\n")
    assert re.fullmatch(r"acp-launch: stopped \d+ process(es)? left behind by a run of p\n", done.err)
    assert alive(running.mark) == []


def test_a_state_directory_that_cannot_be_written_costs_the_record_and_nothing_else(
    launch: Launcher,
) -> None:
    launch.profile("polite")
    state = launch.state
    state.mkdir(parents=True)
    (state / "launches").write_bytes(b"")
    done = launch("run", "p", "hi")
    assert (done.code, done.out) == (0, b"You said: hi\n")
    assert done.err == (
        f"acp-launch: cannot write {state}/launches (file exists), so `acp-launch ps` will not show this run\n"
    )
