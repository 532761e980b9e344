"""`up`, `down`, and `run` with a host (docs/up.md)."""

import json
import signal
import socket
import subprocess
import time

import msgspec
import pytest

from acp_launch import __version__
from acp_launch.errors import StateError
from acp_launch.protocol.jsonrpc import as_line, request
from acp_launch.served.connect import connect
from acp_launch.served.registry import HostNote
from acp_launch.served.wire import FOLLOW, META, READY
from tests.cli.hosted import marked, up
from tests.cli.launcher import Launcher, command
from tests.patience import PATIENCE
from tests.remote.children import tempered
from tests.remote.logins import log_in
from tests.seat.test_logins import sent


@pytest.mark.promise("up")
def test_a_prompt_to_a_host_shows_what_a_run_of_its_own_shows(launch: Launcher) -> None:
    """But for the events of the start."""
    launch.profile("polite")
    outputs = ("json", "text", "quiet")
    alone = {output: launch("run", "p", "hi", "-o", output) for output in outputs}
    with up(launch) as host:
        done = {output: host.run("hi", "-o", output) for output in outputs}
        assert host.methods == ["initialize", *["session/new", "session/prompt"] * 3]
    for output in outputs:
        assert (done[output].code, done[output].err) == (alone[output].code, alone[output].err)
    assert (done["text"].out, done["quiet"].out) == (alone["text"].out, alone["quiet"].out)
    events, expected = done["json"].events, alone["json"].events
    assert [event["type"] for event in events] == [event["type"] for event in expected]
    for event in (*events, *expected):
        del event["time"]
    skip = {"session", "initialized"}
    assert [each for each in events if each["type"] not in skip] == [
        each for each in expected if each["type"] not in skip
    ]


def test_a_session_goes_on_in_the_same_agent_and_is_found_without_the_host(launch: Launcher) -> None:
    launch.profile("replayer")
    with up(launch) as host:
        assert host.run("one", "-s", "work").out == b"live 1\n"
        second = host.run("two", "-s", "work")
        assert (second.code, second.out) == (0, b"live 2\n")
        assert host.methods == ["initialize", "session/new", "session/prompt", "session/prompt"]
        refused = launch.forked("run", "--agent", "true", "x", "-s", "work")
        assert refused.code != 0
    third = launch("run", "p", "three", "-s", "work")
    assert (third.code, third.methods) == (0, ["initialize", "session/load", "_acp-launch/replayed", "session/prompt"])


def test_a_refused_and_a_dying_agent_end_the_run_as_without_a_host(launch: Launcher) -> None:
    launch.profile("crasher", "prompt")
    alone = launch("run", "p", "hi")
    with up(launch) as host:
        first = host.run("hi")
        assert (first.code, first.err) == (alone.code, alone.err)
        second = host.run("hi")  # with an agent that is started again
        assert (second.code, second.err) == (alone.code, alone.err)


def test_a_question_without_a_terminal_is_denied_as_without_a_host(launch: Launcher) -> None:
    launch.profile("asker")
    alone = launch("run", "p", "hi")
    with up(launch) as host:
        done = host.run("hi")
        allowed = host.run("hi", "--approve", "all", "-s", "one")
        again = host.run("hi", "-s", "one")
    assert again.code == alone.code, "it holds for one run"
    assert (done.code, done.out, done.err) == (alone.code, alone.out, alone.err)
    assert allowed.code == 0


def test_a_second_up_tells_the_state_and_a_down_without_a_host_says_so(launch: Launcher) -> None:
    """One from another directory says where the host works; one of another version, the way out."""
    launch.profile("replayer", "1")
    (launch.project / "below").mkdir()
    none = launch.forked("down", "p")
    assert (none.code, "p is not up" in none.err) == (3, True)
    with up(launch) as host:
        second = launch.forked("up", "p", "--keep", "1h")
        again = "acp-launch: --keep begins with the host: acp-launch up p --replace\n"
        assert (second.code, second.err) == (0, f"acp-launch: p is up (pid {host.pid})\n  agent: test-agent\n{again}")
        foreground = launch.forked("up", "p", "--foreground")
        assert (foreground.code, f"p is up (pid {host.pid})" in foreground.err) == (2, True)
        below = Launcher(launch.project / "below", launch.env).forked("up", "p")
        assert (below.code, f"p is up (pid {host.pid}), and works in {launch.project}\n" in below.err) == (2, True)
        with pytest.raises(StateError) as caught:
            connect(msgspec.structs.replace(msgspec.convert(host.note, HostNote), version="0.0.1"))
        assert caught.value.message == f"the host of p is of version 0.0.1, this acp-launch is {__version__}"
        assert caught.value.fix == "acp-launch down p, and up again"


def test_a_second_up_of_a_changed_profile_says_what_has_changed(launch: Launcher) -> None:
    server = {"server": {"command": "cat"}}
    file = launch.profile("replayer", "1")
    with up(launch) as host:
        file.write_text(file.read_text().replace('"1"', '"2"'))
        second = launch.forked("up", "p")
        said = f"acp-launch: p is up (pid {host.pid}), and has changed since\n"
        fix = "    fix: to start it again: acp-launch up p --replace"
        assert (second.code, second.err.startswith(said)) == (2, True)
        assert "- agent.args[" in second.err
        assert second.err.endswith(f"{fix}\n")
        launch.profile("replayer", "1", mcp_servers=server)
        second = launch.forked("up", "p")
        assert (second.code, "+ mcp_servers.server.command" in second.err) == (2, True), second.err
        assert second.err.endswith(f"{fix}; to restart just its servers: acp-launch reload p\n")


def test_two_runs_that_open_the_same_session_at_once_share_it(launch: Launcher) -> None:
    launch.profile("replayer")
    with up(launch) as host:
        both = [
            subprocess.Popen(
                command("run", "p", "hi", "-s", "work"),
                env=launch.env,
                cwd=launch.project,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(2)
        ]
        said = sorted(each.communicate(timeout=PATIENCE)[0] for each in both)
        assert (said, [each.returncode for each in both]) == ([b"live 1\n", b"live 2\n"], [0, 0])
        assert host.methods.count("session/new") == 1
        anew = host.run("hi", "-s", "work", "--new")
        assert (anew.code, host.methods.count("session/new")) == (0, 2)


def test_up_may_start_a_host_again(launch: Launcher) -> None:
    launch.profile("polite")
    with up(launch) as host:
        before = host.pid
        again = marked(launch, host.mark, host.transcript, "up", "p", "--replace")
        assert (again.returncode, b"p is up after" in again.stderr) == (0, True)
        assert host.pid != before
        assert host.run("hi").out == b"You said: hi\n"


def test_of_several_hosts_one_is_to_be_named(launch: Launcher) -> None:
    launch.profile("polite")
    launch.profile("polite", name="q")
    with up(launch) as host:
        assert marked(launch, host.mark, host.transcript, "up", "q").returncode == 0
        for verb, fix in (("down", "name one, or --all"), ("reload", "name one")):
            done = launch.forked(verb)
            assert (done.code, "several profiles are up: p, q" in done.err) == (2, True)
            assert done.err.endswith(f"fix: {fix}\n")
        assert launch.forked("down", "q").code == 0
        assert host.run("hi").out == b"You said: hi\n"


def test_a_host_may_stay_on_its_terminal(launch: Launcher) -> None:
    """As a service manager wants it: a signal ends it, and all that it has started."""
    launch.profile("polite")
    with launch.start("up", "p", "--foreground") as running:
        running.complains("p is up after")
        assert launch.forked("run", "p", "hi").out == b"You said: hi\n"
        running.kill(signal.SIGTERM)
        assert running.end().code == 143


def test_secrets_do_not_travel_to_fronts(launch: Launcher) -> None:
    """The agent says its own; the front has never known it, so the host has masked it."""
    secret = "a-secret-of-the-host"
    launch.scripted(TELLING, env={"TOKEN": "${secret:token}"})
    launch.env["ACP_LAUNCH_SECRET_TOKEN"] = secret
    with up(launch) as host:
        del launch.env["ACP_LAUNCH_SECRET_TOKEN"]
        for output in ("text", "json"):
            done = host.run("hi", "-s", "work", "-o", output)
            assert (done.code, b"the token is ***" in done.out) == (0, True), done.err
            assert secret not in done.out.decode() + done.err
        waited = launch.forked("session", "wait", "work", "-o", "json")
        assert (waited.code, secret in waited.out.decode()) == (0, False)
        assert secret not in json.dumps(host.note) + repr(host.status)


TELLING = """
import os

def prompt(request):
    script.say(script.session_of(request), f"the token is {os.environ['TOKEN']}")
    script.end(request, "end_turn")

script.serve({"session/prompt": prompt})
"""


def test_a_host_needs_the_login_before_it_is_up_and_keeps_its_tokens(launch: Launcher) -> None:
    with tempered() as server:
        launch.profile("mcp_client", mcp_servers={"web": {"type": "http", "url": server.url, "oauth": True}})
        refused = launch("up", "p")
        assert (refused.code, "fix: acp-launch mcp login p web" in refused.err) == (6, True)
        log_in(launch, server.url, "canary-access-71f0", expires=time.time() + 3600)
        server.do("change", settings={"bearer": "canary-access-71f0"})
        with up(launch) as host:
            done = host.run('call web add {"a": 1, "b": 2}\nentries\nenvironment', "-o", "json")
            said = done.out.decode() + done.err + json.dumps(host.note) + repr(host.status)
            assert (done.code, "canary-access" in said) == (0, False), done.err
        assert sent(server) == {"Bearer canary-access-71f0"}


def test_a_front_that_does_not_read_holds_up_neither_agent_nor_others(launch: Launcher) -> None:
    """It gets what there is of the window once it reads, which is far more than a socket holds."""
    launch.profile("flood", "10000")
    with up(launch) as host:
        assert host.run("hi", "-s", "work").code == 0
        with socket.socket(socket.AF_UNIX) as line, line.makefile("rb") as answers:
            line.settimeout(PATIENCE)
            line.connect(host.note["socket"])
            meta = {META: {"name": "work", "can_ask": False}}
            assert answers.readline() == READY
            for number, method, params in (
                (1, "initialize", {"protocolVersion": 1}),
                (2, "session/load", {"sessionId": "-", "cwd": "/", "mcpServers": [], "_meta": meta}),
                (3, FOLLOW, {}),
            ):
                line.sendall(as_line(request(number, method, params)))
                while b'"id":%d' % number not in answers.readline():
                    pass
            for _ in range(3):
                assert host.run("hi", "-s", "work").code == 0
            for _ in range(3):
                while b'"isIdle"' not in (said := answers.readline()):
                    assert said, "it is not closed"
