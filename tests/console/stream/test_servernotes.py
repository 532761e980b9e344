"""Ring 2. What a person and a script are told about MCP servers."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from acp_launch.console.stream.ndjson import Ndjson
from acp_launch.console.stream.outlet import Outlet
from acp_launch.console.stream.text import Notices, Quiet, stands
from acp_launch.process.lifecycle import Change, Standing

CRASH = Change(
    server="github",
    state="resting",
    pid=12,
    restarts=1,
    budget=5,
    after=3.25,
    exit="exited with status 1",
    retry=0.2,
    detail=("Traceback", "TypeError: \x1b[31mno"),
)
READY = Change(server="github", state="ready", pid=12, after=0.8123)


def said(capsys: pytest.CaptureFixture[str], *changes: Change) -> str:
    notices = Notices()
    for change in changes:
        notices.server(change)
    return capsys.readouterr().err


def test_a_server_that_starts_and_is_ready_needs_no_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, Change(server="github", state="starting", pid=12), READY) == ""


def test_a_crash_tells_how_its_last_words_and_when_it_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    again = Change(server="github", state="ready", pid=13, restarts=1, after=0.8712)
    assert said(capsys, READY, CRASH, Change(server="github", state="starting", pid=13, restarts=1), again) == (
        "acp-launch: mcp server github exited with status 1; restarting in 0.2 s (restart 1 of 5)\n"
        "    TypeError: \\x1b[31mno\n"
        "acp-launch: mcp server github is ready again after 0.87 s\n"
    )


def test_a_restart_by_hand_is_no_failure_whatever_it_did_before(capsys: pytest.CaptureFixture[str]) -> None:
    failed = Change(server="github", state="failed", restarts=5, exit="exited with status 1", detail=("old words",))
    wish = Change(
        server="github",
        state="resting",
        budget=5,
        exit="was restarted by the user",
        retry=0,
        detail=("last words",),
        by_hand=True,
    )
    starting = Change(server="github", state="starting", pid=13, budget=5, by_hand=True)
    again = Change(server="github", state="ready", pid=13, budget=5, after=0.8712, by_hand=True)
    told = "acp-launch: mcp server github was restarted by you\n"
    back = "acp-launch: mcp server github is ready again after 0.87 s\n"
    said(capsys, failed)
    assert said(capsys, wish, starting, again) == told + back
    assert said(capsys, again, CRASH).startswith(
        "acp-launch: mcp server github is ready again after 0.87 s\nacp-launch: "
    )


def test_a_start_that_fails_before_there_is_a_process_tells_why(capsys: pytest.CaptureFixture[str]) -> None:
    change = Change(
        server="x", state="resting", restarts=1, reason="/bin/x could not be started: no such file", retry=1
    )
    assert said(capsys, change) == (
        "acp-launch: mcp server x is down: /bin/x could not be started: no such file; restarting in 1 s (restart 1)\n"
    )


def test_a_failure_tells_why_and_its_last_five_lines(capsys: pytest.CaptureFixture[str]) -> None:
    words = tuple(f"line {number}" for number in range(9))
    reason = "5 restarts are used up"
    failed = Change(server="github", state="failed", exit="exited with status 1", reason=reason, detail=words)
    assert said(capsys, failed) == (
        "acp-launch: mcp server github failed: exited with status 1; 5 restarts are used up\n"
        "    line 4\n    line 5\n    line 6\n    line 7\n    line 8\n"
    )


def test_the_failure_of_a_server_that_is_not_required_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, Change(server="docs", state="failed", required=False, exit="was killed by SIGKILL")) == (
        "acp-launch: mcp server docs failed: was killed by SIGKILL (not required)\n"
    )


def test_a_reason_that_repeats_how_it_ended_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    how = "exited with status 1"
    assert said(capsys, Change(server="docs", state="failed", exit=how, reason=f"{how} in the handshake")) == (
        "acp-launch: mcp server docs failed: exited with status 1 in the handshake\n"
    )


@pytest.mark.parametrize("before", ["starting", "ready"])
def test_a_server_that_ends_by_itself_is_news(capsys: pytest.CaptureFixture[str], before: Any) -> None:
    over = Change(
        server="docs", state="stopped", exit="exited with status 0", reason="its restart policy is on-failure"
    )
    assert said(capsys, Change(server="docs", state=before), over) == (
        "acp-launch: mcp server docs exited: exited with status 0; its restart policy is on-failure\n"
    )


@pytest.mark.parametrize("before", ["declared", "resting", "stopping"])
def test_a_server_that_we_end_is_no_news(capsys: pytest.CaptureFixture[str], before: Any) -> None:
    notices = Notices()
    notices.server(Change(server="docs", state=before))
    capsys.readouterr()
    notices.server(Change(server="docs", state="stopped", exit="was killed by SIGTERM"))
    assert capsys.readouterr().err == ""


def test_the_summary_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    servers = [
        Standing(server="github", state="ready", after=0.8123, tools=26, opened=True),
        Standing(server="one", state="ready", after=12.34, tools=1, opened=True, restarts=2),
        Standing(server="few", state="ready", opened=True, restarts=1),
        Standing(server="docs", state="failed", required=False, opened=True, reason="exited with status 1"),
        Standing(server="need", state="failed"),
        Standing(server="files", state="starting", opened=True),
        Standing(server="late", state="starting"),
        Standing(server="down", state="resting", opened=True, reason="was killed by SIGKILL"),
    ]
    Notices().standing(servers, "opened")
    assert capsys.readouterr().err == (
        "acp-launch: mcp servers: github ready in 0.81 s, 26 tools; one ready in 12 s, 1 tool, 2 restarts; "
        "few ready, 1 restart; docs failed, not required: exited with status 1; need failed; files starting; "
        "late not opened yet; down restarting soon: was killed by SIGKILL\n"
    )


@pytest.mark.parametrize(
    ("retry", "said"),
    [(None, "soon"), (9.9, "soon"), (10.0, "in 10 s"), (61.4, "in 61 s"), (3480.0, "in 58.3 min")],
)
def test_a_server_that_rests_for_long_says_when_it_is_tried_again(retry: float | None, said: str) -> None:
    resting = Standing(server="web", state="resting", reason="answered 429 Too Many Requests", retry=retry)
    assert stands(resting) == f"web restarting {said}: answered 429 Too Many Requests"


def test_an_agent_that_opens_its_servers_when_it_needs_them_is_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    Notices().standing([Standing(server="a", state="starting"), Standing(server="b", state="declared")], "opened")
    assert capsys.readouterr().err == ""
    Notices().standing([Standing(server="a", state="starting", opened=True)], "opened")
    assert capsys.readouterr().err == "acp-launch: mcp servers: a starting\n"


@pytest.mark.parametrize("state", ["stopping", "stopped", "declared", "starting", "ready"])
def test_a_server_that_the_agent_has_closed_is_no_news(capsys: pytest.CaptureFixture[str], state: Any) -> None:
    closed = Standing(server="a", state=state, opened=True, closed=True, reason="was disconnected")
    Notices().standing([closed], "opened")
    assert capsys.readouterr().err == ""
    Notices().standing([closed, Standing(server="b", state="ready", opened=True, tools=0)], "opened")
    assert capsys.readouterr().err == "acp-launch: mcp servers: b ready, 0 tools\n"


@pytest.mark.parametrize("state", ["failed", "stopped"])
def test_a_failure_that_ends_the_run_is_left_to_the_error(capsys: pytest.CaptureFixture[str], state: Any) -> None:
    notices = Notices()
    notices.server(Change(server="a", state="starting"))
    notices.server(Change(server="a", state=state, exit="exited with status 1", detail=("x",), ends_run=True))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("when", ["opened", "turn"])
def test_without_servers_there_is_nothing_to_say(capsys: pytest.CaptureFixture[str], when: Any) -> None:
    Notices().standing([], when)
    assert capsys.readouterr().err == ""


def test_after_a_turn_a_server_that_was_never_opened_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    opened = Standing(server="github", state="ready", opened=True)
    Notices().standing([opened], "turn")
    assert capsys.readouterr().err == ""
    Notices().standing([opened, Standing(server="a", state="starting"), Standing(server="b", state="ready")], "turn")
    assert capsys.readouterr().err == "acp-launch: mcp servers that the agent has not opened: a, b\n"


def test_after_a_turn_a_server_whose_tools_were_never_read_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    servers = [
        Standing(server="github", state="ready", opened=True, unread=True),
        Standing(server="files", state="ready", opened=True, tools=0),
        Standing(server="dropped", state="ready"),
    ]
    Notices().standing(servers, "turn")
    assert capsys.readouterr().err == (
        "acp-launch: mcp servers that the agent has not opened: dropped\n"
        "acp-launch: mcp servers whose tools the agent has not read: github\n"
    )


@pytest.fixture
def stdout(tmp_path: Path) -> Callable[[Callable[[Outlet], Quiet | Ndjson]], bytes]:
    """What the output that a story gives has written on stdout."""

    def written(story: Callable[[Outlet], Quiet | Ndjson]) -> bytes:
        descriptor = os.open(tmp_path / "stdout", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            asyncio.run(story(Outlet(descriptor)).drain())
        finally:
            os.close(descriptor)
        return (tmp_path / "stdout").read_bytes()

    return written


def test_quiet_output_tells_of_each_failure_once_and_of_no_success(
    stdout: Callable[[Callable[[Outlet], Quiet | Ndjson]], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    def story(outlet: Outlet) -> Quiet:
        quiet = Quiet(outlet)
        quiet.server(Change(server="told", state="failed", exit="was killed by SIGKILL"))
        servers = [
            Standing(server="told", state="failed", reason="was killed by SIGKILL", opened=True),
            Standing(server="new", state="failed", reason="no such file", opened=True),
            Standing(server="fine", state="ready"),
        ]
        quiet.standing(servers, "opened")
        quiet.standing(servers, "turn")
        return quiet

    assert stdout(story) == b""
    assert capsys.readouterr().err == (
        "acp-launch: mcp server told failed: was killed by SIGKILL\n"
        "acp-launch: mcp servers: new failed: no such file\n"
        "acp-launch: mcp servers that the agent has not opened: fine\n"
    )


def test_every_step_is_an_event(stdout: Callable[[Callable[[Outlet], Quiet | Ndjson]], bytes]) -> None:
    def story(outlet: Outlet) -> Ndjson:
        events = Ndjson(outlet)
        events.server(Change(server="github", state="starting", required=False, pid=12))
        events.server(CRASH)
        ready = Standing(server="github", state="ready", after=0.5, tools=2, opened=True, restarts=1)
        events.standing([ready, Standing(server="docs", state="failed", reason="gone")], "opened")
        events.standing([], "turn")
        return events

    starting, crash, servers, after = map(json.loads, stdout(story).splitlines())
    nothing: dict[str, Any] = {"seconds": None, "exit": None, "reason": None, "retry": None, "detail": []}
    assert starting == {
        "type": "server",
        "name": "github",
        "state": "starting",
        "required": False,
        "pid": 12,
        "restarts": 0,
        **nothing,
    }
    assert crash == {
        "type": "server",
        "name": "github",
        "state": "resting",
        "required": True,
        "pid": 12,
        "restarts": 1,
        "seconds": 3.25,
        "exit": "exited with status 1",
        "reason": None,
        "retry": 0.2,
        "detail": ["Traceback", "TypeError: \x1b[31mno"],
    }
    github = {"name": "github", "state": "ready", "required": True, "opened": True, "unread": False}
    docs = {"name": "docs", "state": "failed", "required": True, "opened": False, "unread": False}
    assert servers == {
        "type": "servers",
        "when": "opened",
        "servers": [
            {**github, "seconds": 0.5, "tools": 2, "restarts": 1, "reason": None},
            {**docs, "seconds": None, "tools": None, "restarts": 0, "reason": "gone"},
        ],
    }
    assert after == {"type": "servers", "when": "turn", "servers": []}


def test_a_connection_that_was_lost_is_told_once_however_often_it_is_tried(capsys: pytest.CaptureFixture[str]) -> None:
    down = Change(
        server="docs",
        state="resting",
        restarts=1,
        exit="could not be reached: connection refused",
        reason="check that it runs",
        retry=0.2,
        is_remote=True,
    )
    again = Change(server="docs", state="ready", restarts=7, after=0.8712, is_remote=True)
    attempts = [replace(down, restarts=number) for number in range(1, 8)]
    why = "acp-launch: mcp server docs is down: could not be reached: connection refused; check that it runs"
    back = "acp-launch: mcp server docs is ready again after 0.87 s\n"
    assert said(capsys, READY, *attempts, again) == f"{why}; trying again until it answers\n{back}"
    assert said(capsys, *(replace(each, budget=2) for each in attempts[:2])) == f"{why}; trying again at most 2 times\n"


def test_a_session_that_a_server_has_closed_is_told_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    change = Change(server="docs", state="resting", exit="closed the session", retry=0.0, is_remote=True)
    assert said(capsys, READY, change, READY) == ("acp-launch: mcp server docs closed the session; connecting again\n")
