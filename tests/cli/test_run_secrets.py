"""
Secrets and what is seen of them: found exactly where they must be, and nowhere else.

The canaries are planted for two servers and the agent. An agent that shall have something to tell gets the servers
with `bridge: false`, and sees their values in `session/new`; one that gets them bridged never sees any.
"""

import base64
import json
import shlex
import signal
import socket
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cli.launcher import DEMO, DEMO_SERVER, Ended, Launcher
from tests.cli.terminal import on_terminal
from tests.cli.test_secrets import kept

CANARIES = {
    "agent": "canary-of-the-agent-" + "Ag3nT" * 4,
    "one": 'canary of "one" / with \\ and wörds & 100% κ+=',
    "two": "Zm9v" * 3 + "canary-two-==",
    "arg": "canary-of-an-argument",
}
KEYS = {"store": "file", "file": {"key_file": "key"}}


@pytest.fixture
def planted(launch: Launcher) -> Iterator[Launcher]:
    """A sealed file with the canaries, and a port that takes connections."""
    launch.configure(json.dumps({"secrets": KEYS}))
    for name, value in CANARIES.items():
        kept(launch, name, value)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        launch.env["PORT_OF_TWO"] = str(listening.getsockname()[1])
        yield launch


def blabber(launch: Launcher, *arguments: str) -> None:
    """An agent that tells everybody what it was told."""
    server = {"command": sys.executable, "env": {"VALUE": "${secret:one}"}, "bridge": False}
    url = "http://127.0.0.1:${env:PORT_OF_TWO}/mcp"
    remote = {"type": "http", "url": url, "headers": {"X": "${secret:two}"}, "bridge": False}
    env = {"KNOWN_AGENT": "${secret:agent}"}
    launch.profile("blabber", *arguments, agent={"env": env}, mcp_servers={"one": server, "two": remote})


def shapes(value: str) -> list[str]:
    """What a person who looks for the value would look for."""
    return [
        value,
        base64.b64encode(value.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
        base64.b64encode(f"user:{value}".encode()).decode()[8:-4],
        urllib.parse.quote(value, safe=""),
        urllib.parse.quote_plus(value),
        shlex.quote(value),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        repr(value)[1:-1],
    ]


def seen(text: str) -> list[str]:
    """The canaries that can be read in `text`."""
    return [name for name, value in CANARIES.items() if any(shape in text for shape in shapes(value))]


def files(launch: Launcher) -> list[Path]:
    """Every file we could have written."""
    roots = (Path(launch.env["HOME"]), launch.project)
    return [file for root in roots for file in root.rglob("*") if file.is_file()]


def blind(launch: Launcher, done: Ended) -> None:
    """Nothing that was printed or written shows a canary."""
    assert seen(done.out.decode()) == []
    assert seen(done.err) == []
    assert [file for file in files(launch) if seen(file.read_bytes().decode(errors="replace"))] == []


def test_the_canaries_are_where_they_would_be_found(planted: Launcher) -> None:
    """This file's own search finds what it looks for; else it would prove nothing."""
    for name, value in CANARIES.items():
        assert all(seen(f"<{shape}>") == [name] for shape in shapes(value))
    (planted.project / "leak.txt").write_text(CANARIES["one"])
    assert any(seen(file.read_text(errors="replace")) for file in files(planted))


@pytest.mark.parametrize(
    ("output", "ending", "code"),
    [("text", "", 0), ("quiet", "fail", 4), ("json", "die", 4), ("text", "ask", 10), ("json", "fail", 4)],
)
def test_an_agent_that_tells_what_it_knows_is_not_heard(planted: Launcher, output: str, ending: str, code: int) -> None:
    blabber(planted, *filter(None, [ending]))
    done = planted("run", "p", "hi", "--output", output, "--verbose", "--session", "s")
    assert done.code == code, done.err
    assert "***" in done.out.decode() + done.err
    blind(planted, done)
    servers = {server["name"]: server for server in done.params("session/new")["mcpServers"]}
    assert servers["one"]["env"] == [{"name": "VALUE", "value": CANARIES["one"]}]
    assert servers["two"]["headers"] == [{"name": "X", "value": CANARIES["two"]}]


def test_the_terminal_shows_nothing(planted: Launcher) -> None:
    blabber(planted)
    with on_terminal("run", "p", "hi", "--verbose", cwd=planted.project, env=planted.env) as terminal:
        assert terminal.ends() == 0
    assert seen(terminal.text) == []
    assert seen(terminal.text.replace("\n", "")) == [], "a terminal wraps what is too wide for it"
    assert "***" in terminal.text


def test_a_secret_in_the_prompt_is_not_repeated_nor_kept_with_the_session(planted: Launcher) -> None:
    blabber(planted)
    done = planted("run", "p", CANARIES["one"], "--output", "json", "--session", "s")
    assert done.code == 0, done.err
    blind(planted, done)
    assert b"***" in planted("session", "show", "s", "--json", "--profile", "p").out


def processes(root: int) -> Iterator[tuple[str, str]]:
    """Command line and environment of a process and of everything below it, whatever environment that has."""
    process = psutil.Process(root)
    for each in (process, *process.children(recursive=True)):
        environment = Path(f"/proc/{each.pid}/environ").read_bytes().decode(errors="replace")
        yield " ".join(each.cmdline()), environment


@pytest.mark.promise("secret")
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_each_canary_is_in_the_environment_of_its_own_process_and_in_no_other_place(planted: Launcher) -> None:
    planted.write(
        {
            "agent": {**DEMO, "env": {"FOR": "${secret:agent}"}},
            "mcp_servers": {
                "one": {**DEMO_SERVER, "env": {"FOR": "${secret:one}"}},
                "two": {
                    **DEMO_SERVER,
                    "args": [*DEMO_SERVER["args"], "${secret:arg}"],
                    "env": {"FOR": "${secret:two}"},
                },
            },
        }
    )
    with planted.start("run", "p", "count", "2000", "--output", "json", "--session", "s") as running:
        ready: set[str] = set()
        while ready != {"one", "two"}:  # the agent counts, and opens its two servers meanwhile
            event = json.loads(running.shows("{"))
            if event["type"] == "server" and event["state"] == "ready":
                ready.add(event["name"])
        tree = list(processes(running.process.pid))
        running.kill(signal.SIGINT)
        done = running.end()
    assert done.code == 130, done.err
    commands = [seen(command) for command, _ in tree]
    assert [names for names in commands if names] == [["arg"]], "of the one server that wants it there"
    found = {name: [command for command, environment in tree if name in seen(environment)] for name in CANARIES}
    assert {name: len(commands) for name, commands in found.items()} == {"agent": 1, "one": 1, "two": 1, "arg": 0}
    shims = [environment for command, environment in tree if "shim.py" in command]
    assert len(shims) == 2
    assert not [names for names in map(seen, shims) if set(names) & {"one", "two", "arg"}]
    assert "demo.agent" in found["agent"][0]
    assert "demo.server" in found["one"][0]
    assert "demo.server" in found["two"][0]
    assert not any("acp_launch run" in command for commands in found.values() for command in commands)
    blind(planted, done)
