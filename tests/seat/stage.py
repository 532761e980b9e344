"""acp-launch with an agent that obeys the test, and servers of every temper."""

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.launcher import Ended, Launcher, Running
from tests.seat.roll import Roll, Voice

SERVERS = Path(__file__).parents[1] / "servers"
Json = dict[str, Any]


class Agent:
    """tests/agents/mcp_client.py in its turn; the commands are listed there."""

    def __init__(self, voice: Voice) -> None:
        self.voice = voice

    def do(self, command: str, *words: str, **arguments: object) -> Any:
        """One command and what came of it; `arguments` are its JSON."""
        rest = [json.dumps(arguments)] if arguments else []
        self.voice.tell(" ".join([command, *words, *rest]))
        reply = json.loads(self.voice.hears())
        assert "failed" not in reply, reply["failed"]
        return reply

    def ask(self, server: str, method: str, /, **params: object) -> Json:
        """The whole answer to a request."""
        return message(self.do("ask", server, method, **params))

    def call(self, server: str, tool: str, /, **arguments: object) -> Any:
        """What the tool says: JSON as a value, anything else as text."""
        return spoken(message(self.do("call", server, tool, **arguments)))

    def refused(self, server: str, tool: str, /, **arguments: object) -> Json:
        """The error a call was answered with."""
        return dict(message(self.do("call", server, tool, **arguments))["error"])

    def start(self, server: str, tool: str, /, **arguments: object) -> int:
        """A call that is not waited for; its id."""
        return int(self.do("start", server, tool, **arguments)["id"])

    def awaits(self) -> list[Json]:
        """The answers to the calls that were started, in that order."""
        return [message(answer) for answer in self.do("await")]

    def opened(self, server: str) -> Json:
        return message(self.do("opened", server))

    def tools(self, server: str) -> list[str]:
        return [tool["name"] for tool in self.ask(server, "tools/list")["result"]["tools"]]

    def expect(self, server: str, method: str) -> Json:
        return message(self.do("expect", server, method))


def message(answer: Json) -> Json:
    """The message in an answer of the agent."""
    assert "lost" not in answer, "the connection ended without an answer"
    return dict(json.loads(answer["line"]))


def spoken(answer: Json) -> Any:
    """The text in a tool's result."""
    assert "result" in answer, answer
    (content,) = answer["result"]["content"]
    try:
        return json.loads(content["text"])
    except ValueError:
        return content["text"]


def told() -> Iterator[tuple[str, bytes]]:
    """The words and variables of each process that we may read."""
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            with suppress(OSError):
                yield process.name, (process / name).read_bytes()


@dataclass
class Play:
    """One run of acp-launch, in the midst of its turn."""

    running: Running
    agent: Agent

    def end(self) -> Ended:
        """The turn ends, and acp-launch with it."""
        self.agent.voice.tell("end")
        return self.running.end()


@dataclass
class Stage:
    launch: Launcher
    roll: Roll
    scratch: Path

    def server(self, temper: str, *arguments: str, name: str = "", **keys: Any) -> Json:
        """The entry of one of tests/servers for a profile; `name` is what it says on the liveness line."""
        argv = ["-I", "-S", str(SERVERS / f"{temper}.py"), *arguments]
        env = {"LIVENESS": self.roll.port, "LIVENESS_NAME": name or temper, **keys.pop("env", {})}
        return {"command": sys.executable, "args": argv, "env": env, **keys}

    def wrapped(self, temper: str, name: str) -> Json:
        """The same behind a shell that waits for it."""
        entry = self.server(temper, name=name)
        return {**entry, "command": "sh", "args": ["-c", '"$@"; true', "sh", entry["command"], *entry["args"]]}

    def servers(self, **tempers: Json) -> Json:
        """Entries by name, each of which says that name."""
        return {
            name: entry if "url" in entry else {**entry, "env": {**entry["env"], "LIVENESS_NAME": name}}
            for name, entry in tempers.items()
        }

    def fifo(self, name: str) -> str:
        path = self.scratch / name
        if not path.exists():
            os.mkfifo(path)
        return str(path)

    def release(self, name: str, text: str) -> None:
        """What waits at this fifo reads `text` and goes on."""
        Path(self.fifo(name)).write_text(text)

    @contextmanager
    def play(
        self, *options: str, servers: Json, prefix: Sequence[str] = (), apart: bool = False, **sections: Any
    ) -> Iterator[Play]:
        """A run in whose turn the agent obeys; `options` are its own, `sections` go to the profile, `prefix` is a
        command that becomes it. `apart` as `Launcher.start`."""
        start = self.play_later(*options, servers=servers, prefix=prefix, apart=apart, **sections)
        with start as running, self.enter(running) as play:
            yield play

    @contextmanager
    def play_later(
        self, *options: str, servers: Json, prefix: Sequence[str] = (), apart: bool = False, **sections: Any
    ) -> Iterator[Running]:
        """The same from its first moment; `enter` waits for the agent."""
        self.launch.profile("mcp_client", *options, mcp_servers=self.servers(**servers), **sections)
        words = ("run", "p", "obey", "--output", "json")
        with self.launch.start(*words, prefix=prefix, apart=apart, LIVENESS=self.roll.port) as running:
            yield running

    @contextmanager
    def enter(self, running: Running) -> Iterator[Play]:
        end = os.pidfd_open(running.process.pid)
        self.roll.witnesses.append(end)
        try:
            yield Play(running, Agent(self._entrance(running)))
        finally:
            self.roll.witnesses.remove(end)
            os.close(end)

    def _entrance(self, running: Running) -> Voice:
        try:
            return self.roll.hear("agent")
        except AssertionError as error:
            running.kill(signal.SIGKILL)
            raise AssertionError(f"{error}\n{running.end().err}") from None
