"""A task for each of ten tempers of agents, and what becomes of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil

from acp_launch.batch.model import Outcome
from acp_launch.batch.store import BatchDirectory, open_batch
from tests.batch.repositories import git
from tests.cli import forkserver
from tests.patience import PATIENCE

AGENTS = Path(__file__).parents[1] / "agents"
LIMIT = json.dumps({"status": 429, "retryAfter": 0.1})
# The agent's words, what becomes of the item, and how many attempts that takes.
TEMPERS: dict[str, tuple[list[str], Outcome, int]] = {
    "demo": (["-I", "-m", "acp_launch.demo.agent"], "passed", 1),
    "writes": ([f"{AGENTS}/worker.py"], "passed", 1),
    "recovers": ([f"{AGENTS}/worker.py", "recovers"], "passed", 2),
    "wordless": ([f"{AGENTS}/worker.py", "wordless"], "empty", 1),
    "refuses": ([f"{AGENTS}/refuser.py"], "refused", 1),
    "stops": ([f"{AGENTS}/refuser.py", "max_tokens"], "limited", 1),
    "limited": ([f"{AGENTS}/refuser.py", "error", "-32603", "Slow down", LIMIT], "rate_limited", 2),
    "asks": ([f"{AGENTS}/asker.py"], "denied", 1),
    "dies": ([f"{AGENTS}/crasher.py", "prompt"], "agent_died", 2),
    "hangs": ([f"{AGENTS}/silent_turn.py"], "timed_out", 1),
}
USUAL = tuple(TEMPERS)
TEMPERS["blabs"] = ([f"{AGENTS}/blabber.py"], "passed", 1)
TEMPERS["waits"] = ([f"{AGENTS}/silent_turn.py"], "cancelled", 1)
MORE = {
    "hangs": ", timeouts: {silence: 2s}",  # a time that is waited out
    "blabs": ', env: {KNOWN_TOKEN: "${secret:planted}"}',
}
BATCH = """\
version: 1
profiles: [PROFILES]
tasks: tasks.jsonl
prompt: "echo ${task.id} ${task.note}"
isolation: {kind: worktree, keep: KEEP}
limits: {jobs: 4}
retry: {attempts: 2, on: [rate_limited, agent_died], backoff: {initial: 50ms, max: 100ms}}
"""


class Project:
    """A repository with profiles of some tempers, which are trusted, and a batch over them."""

    def __init__(self, place: Path, tempers: tuple[str, ...] = USUAL, tasks: int = 1, keep: str = "failed") -> None:
        self.place, self.directory = place / "project", place / "out"
        profiles = self.place / ".acp-launch"
        profiles.mkdir(parents=True)
        for name in tempers:
            command = json.dumps(TEMPERS[name][0])
            more = MORE.get(name, "")
            text = f"version: 1\nagent: {{command: {sys.executable}, args: {command}{more}}}\n"
            (profiles / f"{name}.yaml").write_text(text)
            self.call("trust", name, "--yes")
        lines = [{"id": f"t{number}", "vars": {"note": f"number {number}"}} for number in range(tasks)]
        (self.place / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        text = BATCH.replace("PROFILES", ", ".join(tempers)).replace("KEEP", keep)
        (self.place / "batch.yaml").write_text(text)
        self.call("trust", "batch.yaml", "--yes")
        for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message=first"]):
            git(self.place, *words)

    @property
    def batch(self) -> BatchDirectory:
        return open_batch(self.directory)

    def call(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run acp-launch to its end."""
        return forkserver.completed(words, env={**os.environ, **environ}, cwd=self.place, timeout=20 * PATIENCE)

    def apart(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """The same, where it leaves a server that is shared."""
        argv, env = [sys.executable, "-m", "acp_launch", *words], {**os.environ, **environ}
        limit = 20 * PATIENCE
        return subprocess.run(argv, cwd=self.place, env=env, check=False, capture_output=True, text=True, timeout=limit)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start acp-launch; its stdout is a pipe."""
        argv = [sys.executable, "-m", "acp_launch", *words]
        return subprocess.Popen(argv, cwd=self.place, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return self.call("batch", "run", "batch.yaml", "--out", str(self.directory), *words, **environ)

    def story(self) -> dict[str, list[Outcome]]:
        """The outcomes of each item's attempts, in order."""
        batch = self.batch
        return {item.id: [each.outcome for each in batch.verdicts(item.id)] for item in batch.batch.items}

    def left(self) -> list[str]:
        """Processes that work in this place, or were started with a path of it."""
        found = []
        for each in psutil.process_iter(["cmdline", "cwd"]):
            words = [*(each.info["cmdline"] or ()), each.info["cwd"] or ""]
            if any(word.startswith((str(self.place), str(self.directory))) for word in words):
                found.append(" ".join(words))
        return found


def expected(name: str) -> list[Outcome]:
    """What becomes of an item of this temper, attempt by attempt."""
    _, outcome, attempts = TEMPERS[name]
    earlier: Outcome = "agent_died" if name == "recovers" else outcome
    return [*[earlier] * (attempts - 1), outcome]
