"""Whole batches, with real agents, git and engines."""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from acp_launch.batch.store import RESULTS
from tests.batch.tempers import USUAL, Project, expected
from tests.batch.test_worktree import look
from tests.cli.launcher import ROOT
from tests.confined import needs_box
from tests.patience import PATIENCE, until
from tests.registry.published import binary, entry, serving

needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="needs acp-launch[dask]")
ENGINES = pytest.mark.parametrize(
    "engine", [pytest.param((), id="local"), pytest.param(("--engine", "dask"), id="dask", marks=needs_dask)]
)
EXIT_CODES = {"refused": 9, "limited": 9, "denied": 10, "timed_out": 124, "rate_limited": 4, "agent_died": 4}
SECRET = "sk-planted-7c1e94d2b8f35a60"


@pytest.mark.sample(0, 1)
@ENGINES
def test_items_of_each_temper_end_as_expected(tmp_path: Path, engine: tuple[str, ...]) -> None:
    project = Project(tmp_path)
    before = look(project.place)
    ended = project.run("--output", "json", *engine)
    assert ended.returncode == 9, ended.stderr
    assert project.story() == {f"t0.{name}": expected(name) for name in USUAL}
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-1]) == ("batch", "end")
    assert kinds.count("started") == kinds.count("ended") == 13
    assert events[-1]["exitCode"] == 9
    records = list(project.batch.records())
    lines = (project.directory / RESULTS).read_text().splitlines()
    assert [(line["item"], line["attempt"]) for line in map(json.loads, lines)] == [
        (each.item, each.attempt) for each in records
    ]
    for each in records:
        wrote = {"writes": 1, "recovers": 1 + (each.attempt > 1)}.get(each.profile, 0)
        assert each.patch is not None and each.patch.files == wrote
        assert (each.worktree is not None) == (each.outcome != "passed")
        assert each.exit_code == EXIT_CODES.get(each.outcome, 0)
        assert (each.resets is not None) == (each.outcome == "rate_limited")
    kept = {each.name for each in (project.directory / "trees").glob("t*")}
    assert kept == {id for id, outcomes in project.story().items() if outcomes[-1] != "passed"}
    assert look(project.place) == before
    assert project.left() == []


def test_a_batch_that_is_killed_again_and_again_is_resumed(tmp_path: Path) -> None:
    """At three moments: after so many events, the first of them before any."""
    project = Project(tmp_path, ("demo", "writes", "refuses", "dies", "wordless"), tasks=2)
    assert project.call("batch", "prepare", "batch.yaml", "--out", str(project.directory)).returncode == 0
    resume = "batch", "run", "--resume", str(project.directory), "--output", "json"
    done = dict[str, dict[str, bytes]]()
    for number in (0, 3, 2):
        process = project.start(*resume)
        assert process.stdout is not None
        for _ in range(number):
            process.stdout.readline()
        process.kill()
        process.communicate()
        until(lambda: not project.left())
        check_done(project, done)
    assert project.call(*resume).returncode == 9
    check_done(project, done)
    ends = {id: [each for each in outcomes if each != "cancelled"] for id, outcomes in project.story().items()}
    assert ends == {id: expected(id.partition(".")[2]) for id in ends}
    results = (project.directory / RESULTS).read_bytes()
    (project.directory / RESULTS).unlink()
    assert project.call("batch", "status", str(project.directory)).returncode == 0
    assert (project.directory / RESULTS).read_bytes() == results
    assert project.left() == []


def check_done(project: Project, done: dict[str, dict[str, bytes]]) -> None:
    """Check that items which were done have the same files, and note those that are done now."""
    batch = project.batch
    now = {item.id: files_of(batch.directory_of(item.id)) for item in batch.batch.items if batch.judge(item.id).is_done}
    assert {id: now.get(id) for id in done} == done
    done.update(now)


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(each.relative_to(directory)): each.read_bytes() for each in directory.rglob("*") if each.is_file()}


def test_two_submitters_carry_out_each_attempt_once(tmp_path: Path) -> None:
    project = Project(tmp_path, ("writes", "recovers"), keep="always")
    assert project.call("batch", "prepare", "batch.yaml", "--out", str(project.directory)).returncode == 0
    resume = "batch", "run", "--resume", str(project.directory)
    submitters = [project.start(*resume) for _ in range(2)]
    for each in submitters:
        each.communicate(timeout=20 * PATIENCE)
        assert each.returncode == 0
    assert project.story() == {f"t0.{name}": expected(name) for name in ("writes", "recovers")}
    for tree in (each for each in (project.directory / "trees").iterdir() if not each.name.startswith(".")):
        assert (tree / "work").read_text().count("\n") == 1, "two turns in one tree"
    assert not list(project.directory.rglob("*.lost-*"))
    assert project.left() == []


def test_a_planted_secret_is_in_no_file_of_a_batch(tmp_path: Path) -> None:
    project = Project(tmp_path, ("blabs",), tasks=2)
    ended = project.run("--output", "json", ACP_LAUNCH_SECRET_PLANTED=SECRET)
    assert ended.returncode == 0, ended.stderr
    assert SECRET not in ended.stdout + ended.stderr
    reported = project.call(
        "batch", "report", str(project.directory), "--html", "page.html", "--junit", "junit.xml", "--markdown"
    )
    assert reported.returncode == 0
    assert SECRET not in reported.stdout + reported.stderr
    for each in (*project.directory.rglob("*"), *project.place.rglob("*"), *Path(os.environ["HOME"]).rglob("*")):
        if each.is_file():
            assert SECRET.encode() not in each.read_bytes(), each


@ENGINES
def test_what_a_profile_uses_is_there_in_an_item(tmp_path: Path, engine: tuple[str, ...]) -> None:
    """An agent of the registry, its seat, a server that launches share, a place; on a worker, too."""
    needs_box()
    program = f"#!/bin/sh\nexec {sys.executable} -I -S {ROOT}/tests/agents/spy.py\n".encode()
    server = {"command": sys.executable, "args": ["-I", "-S", f"{ROOT}/tests/servers/polite.py"], "cwd": "/usr"}
    shared = {**server, "env": {"T": "${secret:planted}"}, "share": "user", "idle": "1h"}
    uses: dict[str, Any] = {"agent": {"registry": "an-agent"}, "mcp_servers": {"polite": shared}}
    project = Project(tmp_path, ("demo",), tasks=0)
    for name, more in (("open", {}), ("boxed", {"runtime": {"confined": {"read": [str(ROOT)]}}})):
        text = json.dumps({"version": 1, **uses, **more})
        (project.place / ".acp-launch" / f"{name}.yaml").write_text(text)
    file = project.place / "batch.yaml"  # of the checkout, which no place shows
    task = {"id": "t", "prompt": f"call('polite', 'pid')\nos.path.exists({str(file)!r})"}
    keys = {"profiles": ["open", "boxed"], "tasks": [task], "isolation": {"kind": "worktree"}}
    file.write_text(json.dumps({"version": 1, **keys, "check": {"command": ["test", "-e", str(file)]}}))
    known = {"ACP_LAUNCH_SECRET_PLANTED": SECRET}
    try:
        with serving() as web:
            web.index(entry("an-agent", binary=binary(web.put("/agent", program), program)))
            missing = project.run("--trust", *engine, **known)
            assert (missing.returncode, "the registry's agent an-agent is not installed" in missing.stderr) == (3, True)
            assert project.call("agents", "install", "an-agent", ACP_LAUNCH_REGISTRY=web.address).returncode == 0
        words = "batch", "run", "batch.yaml", "--out", str(project.directory), "--trust"
        ended = project.apart(*words, *engine, **known)
        story = project.story()
        answers = [(project.directory / "items" / id / "1" / "answer.md").read_text().splitlines() for id in story]
    finally:
        project.call("down", "--servers", "--force")
    assert story == {"t.open": ["passed"], "t.boxed": ["failed"]}, ended.stderr
    assert answers[0][0] == answers[1][0], "one process"
    assert [each[1] for each in answers] == ["true", "false"]
    files = [each for each in project.directory.rglob("*") if each.is_file()]
    assert not [each for each in files if SECRET.encode() in each.read_bytes()]
