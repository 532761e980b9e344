"""`run` with http and sse servers that the agent connects to itself: one that does not answer is reported."""

import json
import socket
from collections.abc import Iterator

import pytest

from tests.cli.launcher import Launcher
from tests.demo.web import serving


@pytest.fixture
def dead() -> Iterator[str]:
    """An address of this machine where nobody listens, and nobody else will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"


def web(launch: Launcher, url: str, *agent: str, **more: object) -> None:
    server = {"type": "http", "url": url, "bridge": False, **more}
    launch.profile(*(agent or ("polite", "http", "sse")), mcp_servers={"web": server})
    launch("trust", "p", "--yes")


def test_a_server_that_answers_is_the_agents(launch: Launcher) -> None:
    with serving() as there:
        web(launch, there.url, "over_http", headers={"X-Token": "${secret:t}"})
        done = launch("run", "p", "headers", ACP_LAUNCH_SECRET_T="hunter2")
    assert (done.code, done.out) == (0, b"token ***\n")


@pytest.mark.parametrize("type", ["http", "sse"])
def test_a_required_server_that_does_not_answer_ends_the_run(launch: Launcher, dead: str, type: str) -> None:
    web(launch, dead, type=type)
    done = launch("run", "p", "hi")
    assert (done.code, done.out) == (8, b"")
    said = f'no answer from the MCP server "web" at {dead}: Connection refused'
    assert f"acp-launch: {said}\n    fix: start it, or correct its url; with required: false" in done.err
    events = launch("run", "p", "hi", "--output", "json")
    assert (events.code, json.loads(events.out.splitlines()[-1])["message"]) == (8, said)


def test_doctor_and_run_judge_a_dead_server_alike(launch: Launcher, dead: str) -> None:
    web(launch, dead)
    checked = launch("doctor", "p")
    assert checked.code == 8
    assert "could not be reached: connection refused" in checked.out.decode()
    web(launch, dead, required=False)
    assert launch("doctor", "p").code == 0
    assert launch("run", "p", "hi").code == 0


def test_a_session_opens_without_a_server_that_is_not_required(launch: Launcher, dead: str) -> None:
    web(launch, dead, required=False)
    done = launch("run", "p", "hi")
    assert done.code == 0
    assert f'no answer from the MCP server "web" at {dead}: Connection refused; the session opens' in done.err


def test_an_agent_that_takes_no_such_server_does_without_one_that_is_not_required(launch: Launcher, dead: str) -> None:
    launch.profile("polite", mcp_servers={"web": {"type": "http", "url": dead, "bridge": False, "required": False}})
    launch("trust", "p", "--yes")
    done = launch("run", "p", "hi")
    assert done.code == 0
    assert 'does not support http MCP servers, so it cannot use "web"' in done.err
    assert "; the session opens without it" in done.err


def test_where_a_proxy_stands_between_only_what_is_on_this_machine_can_be_told(launch: Launcher, dead: str) -> None:
    web(launch, "http://nowhere.invalid/mcp")
    assert launch("run", "p", "hi", http_proxy=dead).code == 0
    web(launch, dead)
    assert launch("run", "p", "hi", http_proxy=dead).code == 8


def test_a_host_that_only_this_machine_knows_is_judged_when_it_is_planned(launch: Launcher) -> None:
    web(launch, "http://${env:WHERE}/mcp", headers={"Authorization": "Bearer ${secret:t}"})
    told = "Authorization would be sent unencrypted"
    for where, is_told in (("docs.example.com", True), ("localhost:1", False)):
        planned = launch("plan", "p", WHERE=where)
        assert (told in planned.err + planned.out.decode()) is is_told
