"""Forty items: four tasks for each of ten tempers, and what becomes of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

from acp_launch.batch.model import Outcome

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
SILENCE = "2s"  # of the agent that hangs: a time that is waited out
BATCH = f"""\
version: 1
profiles: [{", ".join(TEMPERS)}]
tasks: tasks.jsonl
prompt: "echo ${{task.id}} ${{task.note}}"
isolation: {{kind: worktree}}
limits: {{jobs: 4}}
retry: {{attempts: 2, on: [rate_limited, agent_died], backoff: {{initial: 50ms, max: 100ms}}}}
"""


def make_project(place: Path, tempers: tuple[str, ...] = tuple(TEMPERS), tasks: int = 4, batch: str = BATCH) -> Path:
    """Make a repository with profiles of these tempers and a batch over them; return the batch's file."""
    profiles = place / ".acp-launch"
    profiles.mkdir(parents=True)
    for name in tempers:
        command = "[" + ", ".join(json.dumps(word) for word in TEMPERS[name][0]) + "]"
        timeouts = f", timeouts: {{silence: {SILENCE}}}" if name == "hangs" else ""
        text = f"version: 1\nagent: {{command: {sys.executable}, args: {command}{timeouts}}}\n"
        (profiles / f"{name}.yaml").write_text(text)
    lines = [{"id": f"t{number}", "vars": {"note": f"number {number}"}} for number in range(tasks)]
    (place / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (place / "batch.yaml").write_text(batch.replace(", ".join(TEMPERS), ", ".join(tempers)))
    (place / ".gitignore").write_text(".acp-launch/batches/\n")
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message=first"]):
        git(place, *words)
    return place / "batch.yaml"


def git(place: Path, *words: str) -> str:
    names = {f"GIT_{role}_{what}": "t@t" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **names}
    return subprocess.run(["git", *words], cwd=place, env=env, check=True, capture_output=True, text=True).stdout
