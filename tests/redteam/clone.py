"""
A repository of a stranger's, as somebody has cloned it, and acp-launch as they run it there.

`tool` in it is a program that leaves a trace outside of the repository if it is ever started: the canary.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli import forkserver
from tests.cli.inprocess import completed

Ended = subprocess.CompletedProcess[str]
EVIL = {"command": "./tool"}
GOOD = {"command": "${python}", "args": ["-I", "-m", "acp_launch.demo.agent"]}
NEW = "this project's profile is not trusted yet"
CHANGED = "this profile has changed since you trusted it"
DOUBTFUL = "this profile cannot be trusted"


def profile(agent: Mapping[str, Any] = EVIL, **sections: Any) -> str:
    """The text of a profile, which is JSON, and so YAML."""
    return json.dumps({"version": 1, "agent": agent, **sections}, indent=1)


@dataclass(frozen=True)
class Clone:
    root: Path
    trace: Path

    @classmethod
    def made(cls, root: Path, trace: Path) -> "Clone":
        (root / ".git").mkdir(parents=True)
        (root / ".acp-launch").mkdir()
        tool = root / "tool"
        tool.write_text(f"#!/bin/sh\necho ran >> {shlex.quote(str(trace))}\n")
        tool.chmod(0o755)
        return cls(root, trace)

    @property
    def own(self) -> Path:
        """Where the user's own profiles are."""
        return Path(os.environ["ACP_LAUNCH_CONFIG_DIR"]) / "profiles"

    @property
    def store(self) -> Path:
        """Where acceptances are."""
        return Path(os.environ["ACP_LAUNCH_STATE_DIR"]) / "trust"

    def file(self, name: str = "review.yaml") -> Path:
        return self.root / ".acp-launch" / name

    def write(self, text: str = "", name: str = "review.yaml") -> Path:
        """A file beside the profiles; the evil profile when nothing is said."""
        file = self.file(name)
        file.write_text(text or profile())
        return file

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-P", "-m", "acp_launch", *arguments]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

    def acp_launch(self, *arguments: str, cwd: "Path | None" = None, **env: str) -> Ended:
        """As the console script runs it: the directory it runs in is not on Python's path."""
        return forkserver.completed(arguments, env={**os.environ, **env}, cwd=cwd or self.root)

    def decides(self, *arguments: str, cwd: "Path | None" = None, **env: str) -> Ended:
        """What acp-launch answers without starting anything, not even itself."""
        return completed(arguments, env={**self.environment(), **env}, cwd=cwd or self.root)

    def accepts(self, name: str = "review", **how: Any) -> None:
        ended = self.decides("trust", name, "--yes", **how)
        assert ended.returncode == 0, ended.stderr

    def starts(self, name: str = "review", **how: Any) -> None:
        """The proof that the canary sings: once everything is accepted, it is started."""
        ended = self.acp_launch("run", name, "hello", **how)
        assert self.sang, ended.stderr
        self.trace.unlink()

    def refuses(self, *arguments: str, why: str, code: int = 7, **how: Any) -> str:
        """Nothing was started, and the reason is said. What was said, in one line."""
        ended = self.decides(*(arguments or ("run", "review", "hello")), **how)
        said = " ".join(ended.stderr.split())
        assert not self.sang, f"it ran: {said}"
        assert (ended.returncode, ended.stdout) == (code, ""), said
        assert why in said
        assert "Traceback" not in said
        return said

    @property
    def sang(self) -> bool:
        return self.trace.exists()
