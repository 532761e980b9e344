"""A launch with everybody who can be killed, in the midst of calls."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Any

from acp_launch.process.records import RecordedLaunch, read_all
from tests.cli.launcher import command
from tests.patience import PATIENCE
from tests.seat.roll import Voice, Watched
from tests.seat.stage import Json, Play, Stage, message

# Each with the processes that say hello: itself, and who must not outlive it.
TEMPERS = {
    "polite": ["polite"],
    "wrapped": ["wrapped"],
    "deaf": ["deaf"],
    "stubborn": ["stubborn"],
    "setsid": ["setsid", "setsid-parent"],
    "forker": ["forker", "forker-child"],
    "daemon": ["daemon", "daemon-helper"],
    "scrubbed": ["scrubbed", "scrubbed-helper"],
}
CALL = "2"  # the id of an agent's first request after `initialize`
# Seconds: 2 are promised after `kill -9` of the launcher, an orderly end may take two graces of 2
# (docs/internals.md), and a busy machine what is left.
LIMIT = 10.0


@dataclass
class Cast:
    """Everybody alive, each server in the midst of a call, and `other` in one that nobody disturbs."""

    stage: Stage
    play: Play
    voices: dict[str, Voice]
    watched: dict[str, Watched]
    killed: float = 0.0  # when the first of them was, on the monotonic clock

    def kill(self, who: str, number: int = SIGKILL) -> None:
        """`launcher`, `upper guard`, `lower guard`, `agent`, `wrapper` (the agent's), `shim SERVER`, `shell` (of
        `wrapped`), or a voice."""
        self.killed = self.killed or time.monotonic()
        if who in self.watched:
            self.watched[who].kill(number)
        else:
            self.voices[who].kill(number)

    def kill_together(self, number: int, *victims: str) -> None:
        """One after the other at once; who has gone with one before it needs no signal any more."""
        self.kill(victims[0], number)
        for victim in victims[1:]:
            with suppress(ProcessLookupError):
                self.kill(victim, number)

    def nobody_stays(self) -> None:
        """Return once everybody who ever came is dead."""
        self.stage.roll.all_die()
        for process in self.watched.values():
            process.dies()

    def nobody_survives(self) -> None:
        """The same, within the limit from the first kill."""
        self.nobody_stays()
        took = time.monotonic() - self.killed
        print(f"the last one was dead {took:.2f} s after the first")
        assert took < LIMIT

    def answer(self, server: str) -> Json:
        """What the call in the midst of which `server` was is answered with."""
        return message(self.play.agent.do("answer", server, CALL))

    def finish_other(self) -> None:
        """Nobody has disturbed it."""
        self.stage.release("other", "undisturbed")
        assert self.answer("other")["result"]["content"][0]["text"] == "undisturbed"
        self.add_up("other")

    def end_in_order(self) -> None:
        self.finish_other()
        assert self.play.end().code == 0
        self.nobody_stays()

    def add_up(self, server: str) -> None:
        """A call to it works."""
        assert self.play.agent.call(server, "add", a=1, b=2) == 3


@contextmanager
def cast(stage: Stage, *tempers: str, wrapped: bool = False, apart: bool = False) -> Iterator[Cast]:
    """`tempers` and `other`, all of them with a call in flight; `wrapped` puts the agent behind a shell. `apart` as
    `Launcher.start`: where processes are left on purpose."""
    servers = {name: entry(stage, name) for name in tempers} | {"other": stage.server("polite")}
    agent: dict[str, Any] = {"agent": shell(stage)} if wrapped else {}
    with stage.play(servers=servers, apart=apart, **agent) as play:
        voices = {"agent": play.agent.voice}
        for server in servers:
            play.agent.start(server, "wait", path=stage.fifo(server))
            for name in TEMPERS.get(server, [server]):
                voices[name] = stage.roll.hear(name)
            voices[server].says("waiting")
        if "scrubbed" in tempers:  # nothing but having been seen shows whose it is
            helper = voices["scrubbed-helper"].pid
            on_record(stage, play, lambda launch: helper in {seen.pid for seen in launch.seen})
        watched = {name: Watched(pid) for name, pid in strangers(stage, play, voices).items()}
        try:
            yield Cast(stage, play, voices, watched)
        finally:
            for process in watched.values():
                process.close()


def entry(stage: Stage, temper: str) -> Json:
    restart = {"backoff": {"initial": "10ms"}}
    return stage.wrapped("polite", temper) if temper == "wrapped" else stage.server(temper, restart=restart)


def shell(stage: Stage) -> Json:
    """The agent behind `sh -c`, as wrapper scripts are."""
    agent = str(Path(__file__).parents[1] / "agents" / "mcp_client.py")
    return {"command": "sh", "args": ["-c", '"$@"; exit $?', "sh", sys.executable, "-I", "-S", agent]}


def strangers(stage: Stage, play: Play, voices: dict[str, Voice]) -> dict[str, int]:
    """Those who say no hello: ours, the shims, and shells."""
    launcher = play.running.process.pid
    pids = play.agent.do("pids")
    upper, lower = guards(stage, play)
    found = {"launcher": launcher, "upper guard": upper, "lower guard": lower}
    if pids["parent"] != lower:
        found["wrapper"] = pids["parent"]
    if "wrapped" in voices:
        found["shell"] = parent(voices["wrapped"].pid)
    return found | {f"shim {server}": pid for server, pid in pids["shims"].items()}


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def run(stage: Stage, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Another acp-launch beside the one on stage."""
    return subprocess.run(
        command(*arguments),
        cwd=stage.launch.project,
        env=stage.launch.env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def guards(stage: Stage, play: Play) -> list[int]:
    """The pids of the upper and the lower one."""
    return [each.pid for each in on_record(stage, play, lambda launch: len(launch.guards) == 2).guards]


def on_record(stage: Stage, play: Play, holds: Callable[[RecordedLaunch], bool]) -> RecordedLaunch:
    """The launch record, once this holds; a program is run between two looks, so that others get on."""
    deadline = time.monotonic() + PATIENCE
    while True:
        for launch in read_all(Path(stage.launch.env["ACP_LAUNCH_STATE_DIR"])):
            if launch.launcher.pid == play.running.process.pid and holds(launch):
                return launch
        assert time.monotonic() < deadline, "the launch record never said so"
        subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)
