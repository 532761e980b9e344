"""Ring 3. The jobs that the README shows for CI, run on a pull request that brings a profile of its own."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_launch.document.yaml import parse
from tests.patience import PATIENCE
from tests.redteam.clone import GOOD, Clone, profile
from tests.test_readme import README, blocks

INSTALLS = ("npm", "pip", "pipx")


def steps(service: str) -> list[str]:
    """The commands of the README's job, but for those that install."""
    documents = [parse(block.text, "README")[0] for block in blocks(README.read_text()) if block.language == "yaml"]
    found: list[Any] = [document.root for document in documents if document is not None]
    if service == "GitHub":
        (job,) = (each["jobs"]["review"] for each in found if "jobs" in each)
        (checkout,) = (step for step in job["steps"] if "checkout" in step.get("uses", ""))
        assert checkout["with"]["ref"] == "${{ github.base_ref }}"
        lines = ["git checkout origin/main", *(step["run"] for step in job["steps"] if "run" in step)]
        lines = [line.replace("${{ github.event.number }}", "7") for line in lines]
    else:
        (job,) = (each["review"] for each in found if "review" in each)
        lines = job["script"]
    return [line for line in lines if line.split()[0] not in INSTALLS]


@pytest.mark.parametrize("service", ["GitHub", "GitLab"])
def test_a_job_runs_the_target_branchs_profile_on_the_text_of_the_change(
    clone: Clone, service: str, tmp_path: Path
) -> None:
    (clone.root / ".git").rmdir()

    def git(*arguments: str, cwd: Path = clone.root) -> str:
        name = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        return subprocess.check_output(["git", *name, *arguments], cwd=cwd, text=True, timeout=PATIENCE)

    git("init", "-q", "-b", "main")
    clone.write(profile(GOOD), "ci.yaml")
    git("add", "-A")
    git("commit", "-qm", "one")
    git("switch", "-qc", "change")
    clone.write(name="ci.yaml")
    clone.write(name="ci.local.yaml")
    (clone.root / "new.txt").write_text("a new line\n")
    git("add", "-A")
    git("commit", "-qm", "two")
    git("update-ref", "refs/pull/7/head", "HEAD")
    job = tmp_path / "job"
    git("clone", "-q", str(clone.root), str(job), cwd=tmp_path)
    programs = tmp_path / "programs"
    programs.mkdir()
    ours = shlex.join([sys.executable, "-P", "-m", "acp_launch"])
    seen = tmp_path / "seen"
    (programs / "acp-launch").write_text(f'#!/bin/sh\ntee {shlex.quote(str(seen))} | {ours} "$@"\n')
    (programs / "acp-launch").chmod(0o755)
    env = {**clone.environment(), "PATH": f"{programs}:{os.environ['PATH']}", "CI_COMMIT_SHA": git("rev-parse", "HEAD")}
    script = "\n".join(("set -eo pipefail", "git checkout -q origin/change", *steps(service)))
    done = subprocess.run(
        ["bash", "-c", script], cwd=job, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE
    )
    assert (done.returncode, clone.sang) == (0, False), done.stderr
    assert "+a new line" in seen.read_text()
    assert done.stdout.strip()
    git("checkout", "-q", "origin/change", cwd=job)
    clone.acp_launch("run", "ci", "--trust", "hello", cwd=job)
    assert clone.sang, "the proof that the canary sings"
