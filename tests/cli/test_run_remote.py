"""`run` with http and sse servers that the agent connects to itself: one that does not answer is reported."""

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


def test_an_agent_that_takes_no_such_server_does_without_one_that_is_not_required(launch: Launcher, dead: str) -> None:
    launch.profile("polite", mcp_servers={"web": {"type": "http", "url": dead, "bridge": False, "required": False}})
    launch("trust", "p", "--yes")
    done = launch("run", "p", "hi")
    assert done.code == 0
    assert 'does not support http MCP servers, so it cannot use "web"' in done.err
    assert "; the session opens without it" in done.err


def test_a_host_that_only_this_machine_knows_is_judged_when_it_is_planned(launch: Launcher) -> None:
    web(launch, "http://${env:WHERE}/mcp", headers={"Authorization": "Bearer ${secret:t}"})
    told = "Authorization would be sent unencrypted"
    for where, is_told in (("docs.example.com", True), ("localhost:1", False)):
        planned = launch("plan", "p", WHERE=where)
        assert (told in planned.err + planned.out.decode()) is is_told
