"""
A project whose one profile, `peer`, starts one of the peers; each run of acp-launch in it is a real process.

After every run nothing it started is alive, and the client wrote nothing the oracle objects to.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import psutil

from tests.cli.launcher import trusting
from tests.oracle import Dialogue
from tests.patience import PATIENCE
from tests.peers.memory import Said

ROOT = Path(__file__).resolve().parents[2]

PROFILE = """\
version: 1
agent:
  command: {python}
  args: [-m, {module}]
  env: {{PYTHONPATH: {root}, ACP_TEST_HISTORY: {history}, ACP_TEST_TRANSCRIPT: {transcript}}}
"""


class Ended(NamedTuple):
    """How one run ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines()]

    def event(self, type: str) -> dict[str, Any]:
        """The only event of this type."""
        (found,) = (event for event in self.events if event["type"] == type)
        return found

    def updates(self, kind: str, *, type: str = "update") -> list[dict[str, Any]]:
        found = [event["update"] for event in self.events if event["type"] == type]
        return [update for update in found if update["sessionUpdate"] == kind]

    def texts(self, kind: str, *, type: str = "update") -> list[str]:
        return [update["content"]["text"] for update in self.updates(kind, type=type)]

    def said(self, *, type: str) -> list[Said]:
        """The conversation in these events, in their order."""
        roles = {"user_message_chunk": "user", "agent_message_chunk": "agent"}
        found = [event["update"] for event in self.events if event["type"] == type]
        return [Said(roles[update["sessionUpdate"]], update["content"]["text"]) for update in found]


@dataclass(frozen=True)
class Bench:
    project: Path
    sdk: str  # what the version of the peer's SDK starts with

    def run(self, *arguments: str) -> Ended:
        """`acp-launch run peer …`."""
        return self.launch("run", "peer", *arguments)

    def launch(self, *arguments: str) -> Ended:
        with self._launched(*arguments) as process:
            stdout, stderr = process.communicate(timeout=PATIENCE)
        return Ended(process.returncode, stdout, stderr)

    def interrupt(self, at: str, *arguments: str) -> Ended:
        """`acp-launch run peer --output json …`, with a Ctrl-C as soon as a line with `at` in it was read."""
        with self._launched("run", "peer", "--output", "json", *arguments) as process:
            assert process.stdout
            seen: list[str] = []
            while at not in (line := process.stdout.readline()):
                assert line, f"the run ended before {at!r}: {seen}"
                seen.append(line)
            process.send_signal(signal.SIGINT)
            rest, stderr = process.communicate(timeout=PATIENCE)
        return Ended(process.returncode, "".join([*seen, line, rest]), stderr)

    @contextmanager
    def _launched(self, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
        mark = uuid4().hex
        process = subprocess.Popen(
            [sys.executable, "-m", "acp_launch", *trusting(arguments)],
            cwd=self.project,
            env={**os.environ, "PYTHONPATH": str(ROOT), "ACP_TEST_MARK": mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate(timeout=PATIENCE)
        assert marked(mark) == [], "a process of the run is still alive"
        assert self._violations() == []

    def _violations(self) -> list[str]:
        """What the client wrote and should not have; the transcript of one run is judged once."""
        transcript = self.project / "transcript"
        if not transcript.exists():
            return ["the peer recorded nothing"]
        dialogue, wrong = Dialogue(), []
        for direction, message in map(json.loads, transcript.read_text().splitlines()):
            line = json.dumps(message).encode() + b"\n"
            if direction == "incoming":
                wrong += dialogue.client(line)
            else:
                dialogue.expect(line, "agent")
        transcript.unlink()
        return wrong


def make_bench(project: Path, *, python: str, module: str, sdk: str) -> Bench:
    profiles = project / ".acp-launch"
    profiles.mkdir(parents=True)
    text = PROFILE.format(
        python=python, module=module, root=ROOT, history=project / "history", transcript=project / "transcript"
    )
    (profiles / "peer.yaml").write_text(text)
    return Bench(project, sdk)


def marked(mark: str) -> list[str]:
    """The command lines of the processes that inherited the mark of a run."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("ACP_TEST_MARK") == mark:
                found.append(" ".join(process.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # it ended meanwhile, or is somebody else's
    return found
