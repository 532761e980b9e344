"""Ring 2. What a person and a script are told about MCP servers."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from acp_launch.console.stream.ndjson import Ndjson
from acp_launch.console.stream.outlet import Outlet
from acp_launch.console.stream.text import Notices, Quiet, stands
from acp_launch.process.lifecycle import Change, Standing
from tests.console.stream.test_plain import written
from tests.console.updates import standing

docs, github = (partial(Change, server=name) for name in ("docs", "github"))
CRASH = github(
    state="resting",
    pid=12,
    restarts=1,
    budget=5,
    after=3.25,
    exit="exited with status 1",
    retry=0.2,
    detail=("Traceback", "TypeError: \x1b[31mno"),
)
READY = github(state="ready", pid=12, after=0.8123)


DOWN = "could not be reached: connection refused"
UP = docs(state="ready", restarts=7, after=0.8712, is_remote=True)
TRIES = [
    docs(state="resting", restarts=number, exit=DOWN, reason="check that it runs", retry=0.2, is_remote=True)
    for number in range(1, 8)
]
BY_HAND = [
    github(state="resting", budget=5, exit="was restarted by the user", retry=0, by_hand=True),
    github(state="starting", pid=13, budget=5, by_hand=True),
    github(state="ready", pid=13, budget=5, after=0.8712, by_hand=True),
]
NINE = tuple(f"line {number}" for number in range(9))
STORIES: dict[str, tuple[list[Change], str]] = {
    "a start needs no words": ([github(state="starting", pid=12), READY], ""),
    "a crash tells how, its last words and when it comes back": (
        [READY, CRASH, github(state="ready", pid=13, restarts=1, after=0.8712)],
        "github exited with status 1; restarting in 0.2 s (restart 1 of 5)\n"
        "    TypeError: \\x1b[31mno\n"
        "github is ready again after 0.87 s\n",
    ),
    "a restart by hand is no failure": (
        [github(state="failed", restarts=5, exit="ended", detail=("old words",)), *BY_HAND],
        "github failed: ended\n    old words\ngithub was restarted\ngithub is ready again after 0.87 s\n",
    ),
    "a start fails before there is a process": (
        [Change(server="x", state="resting", restarts=1, reason="/bin/x could not be started: no such file", retry=1)],
        "x is down: /bin/x could not be started: no such file; restarting in 1 s (restart 1)\n",
    ),
    "a failure tells why and its last five lines": (
        [github(state="failed", exit="exited with status 1", reason="5 restarts are used up", detail=NINE)],
        "github failed: exited with status 1; 5 restarts are used up\n"
        "    line 4\n    line 5\n    line 6\n    line 7\n    line 8\n",
    ),
    "a server is not required": (
        [docs(state="failed", required=False, exit="was killed by SIGKILL")],
        "docs failed: was killed by SIGKILL (not required)\n",
    ),
    "a reason repeats how it ended": (
        [docs(state="failed", exit="exited", reason="exited in the handshake")],
        "docs failed: exited in the handshake\n",
    ),
    **{
        f"it ends by itself, {before}": (
            [docs(state=before), docs(state="stopped", exit="exited", reason="never")],
            "docs exited: exited; never\n",
        )
        for before in ("starting", "ready")
    },
    **{
        f"we end it, {before}": (
            [docs(state=before), docs(state="stopped", exit="was killed by SIGTERM")],
            "",
        )
        for before in ("declared", "stopping")
    },
    **{
        f"the error tells of it, {state}": (
            [docs(state="starting"), docs(state=state, exit="exited", detail=("x",), ends_run=True)],
            "",
        )
        for state in ("failed", "stopped")
    },
    "a lost connection is told once however often it is tried": (
        [READY, *TRIES, UP],
        f"docs is down: {DOWN}; check that it runs; trying again until it answers\ndocs is ready again after 0.87 s\n",
    ),
    "a lost connection with a limit": (
        [replace(each, budget=2) for each in TRIES[:2]],
        f"docs is down: {DOWN}; check that it runs; trying again at most 2 times\n",
    ),
    "a session that a server has closed is told quietly": (
        [READY, docs(state="resting", exit="closed the session", retry=0.0, is_remote=True), READY],
        "docs closed the session; connecting again\n",
    ),
}


@pytest.mark.parametrize(("changes", "told"), STORIES.values(), ids=STORIES)
def test_what_becomes_of_a_server_is_told_in_few_lines(
    capsys: pytest.CaptureFixture[str], changes: list[Change], told: str
) -> None:
    notices = Notices()
    for change in changes:
        notices.show(change)
    assert capsys.readouterr().err.replace("acp-launch: mcp server ", "") == told


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
    Notices().show(standing(servers, "opened"))
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
    Notices().show(standing([Standing(server="a", state="starting"), Standing(server="b", state="declared")], "opened"))
    assert capsys.readouterr().err == ""
    Notices().show(standing([Standing(server="a", state="starting", opened=True)], "opened"))
    assert capsys.readouterr().err == "acp-launch: mcp servers: a starting\n"


@pytest.mark.parametrize("state", ["stopping", "stopped", "declared", "starting", "ready"])
def test_a_server_that_the_agent_has_closed_is_no_news(capsys: pytest.CaptureFixture[str], state: Any) -> None:
    closed = Standing(server="a", state=state, opened=True, closed=True, reason="was disconnected")
    Notices().show(standing([closed], "opened"))
    assert capsys.readouterr().err == ""
    Notices().show(standing([closed, Standing(server="b", state="ready", opened=True, tools=0)], "opened"))
    assert capsys.readouterr().err == "acp-launch: mcp servers: b ready, 0 tools\n"


@pytest.mark.parametrize("when", ["opened", "turn"])
def test_without_servers_there_is_nothing_to_say(capsys: pytest.CaptureFixture[str], when: Any) -> None:
    Notices().show(standing([], when))
    assert capsys.readouterr().err == ""


def test_after_a_turn_servers_that_were_never_opened_or_whose_tools_were_never_read_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    read = Standing(server="files", state="ready", opened=True, tools=0)
    Notices().show(standing([read], "turn"))
    assert capsys.readouterr().err == ""
    unread = Standing(server="github", state="ready", opened=True, unread=True)
    dropped = [Standing(server="a", state="starting"), Standing(server="b", state="ready")]
    Notices().show(standing([unread, read, *dropped], "turn"))
    assert capsys.readouterr().err == (
        "acp-launch: mcp servers that the agent has not opened: a, b\n"
        "acp-launch: mcp servers whose tools the agent has not read: github\n"
    )


def test_quiet_output_tells_of_each_failure_once_and_of_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def story(outlet: Outlet) -> Quiet:
        quiet = Quiet(outlet)
        quiet.show(Change(server="told", state="failed", exit="was killed by SIGKILL"))
        servers = [
            Standing(server="told", state="failed", reason="was killed by SIGKILL", opened=True),
            Standing(server="new", state="failed", reason="no such file", opened=True),
            Standing(server="fine", state="ready"),
        ]
        quiet.show(standing(servers, "opened"))
        quiet.show(standing(servers, "turn"))
        return quiet

    assert written(tmp_path, story) == b""
    assert capsys.readouterr().err == (
        "acp-launch: mcp server told failed: was killed by SIGKILL\n"
        "acp-launch: mcp servers: new failed: no such file\n"
        "acp-launch: mcp servers that the agent has not opened: fine\n"
    )


def test_every_step_is_an_event(tmp_path: Path) -> None:
    def story(outlet: Outlet) -> Ndjson:
        events = Ndjson(outlet, clock=lambda: 0.25)
        events.show(github(state="starting", required=False, pid=12))
        events.show(CRASH)
        ready = Standing(server="github", state="ready", after=0.5, tools=2, opened=True, restarts=1)
        events.show(standing([ready, Standing(server="docs", state="failed", reason="gone")], "opened"))
        events.show(standing([], "turn"))
        return events

    starting, crash, servers, after = map(json.loads, written(tmp_path, story).splitlines())
    at = {"time": "1970-01-01T00:00:00.250Z"}
    nothing: dict[str, Any] = {"seconds": None, "exit": None, "reason": None, "retry": None, "detail": []}
    nothing |= {"budget": None, "byHand": False, "isRemote": False, "endsRun": False, "fault": ""}
    one = {**at, "type": "server", "name": "github", "pid": 12}
    assert starting == {**one, **nothing, "state": "starting", "required": False, "restarts": 0}
    ended = {"exit": "exited with status 1", "retry": 0.2, "budget": 5, "detail": list(CRASH.detail)}
    assert crash == {**one, **nothing, **ended, "state": "resting", "required": True, "restarts": 1, "seconds": 3.25}
    first = {"name": "github", "state": "ready", "opened": True}
    second = {"name": "docs", "state": "failed", "opened": False}
    more = {"required": True, "unread": False, "closed": False, "silent": False, "retry": None, "oldCode": False}
    assert servers == {
        **at,
        "type": "servers",
        "when": "opened",
        "servers": [
            {**first, **more, "seconds": 0.5, "tools": 2, "restarts": 1, "reason": None},
            {**second, **more, "seconds": None, "tools": None, "restarts": 0, "reason": "gone"},
        ],
    }
    assert after == {**at, "type": "servers", "when": "turn", "servers": []}
