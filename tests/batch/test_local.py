"""The engine of this machine: with a stand-in for `batch item`, and with real ones under `batch run`."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acp_launch.batch import engine as starting
from acp_launch.batch import local
from acp_launch.batch.engine import EngineGone
from acp_launch.batch.local import LocalEngine
from acp_launch.batch.store import BatchDirectory, open_batch
from tests.batch import standin
from tests.batch.made import make_directory
from tests.looped import bounded
from tests.patience import PATIENCE, until

DEAF = """
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
print("deaf", flush=True)
time.sleep(600)
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BatchDirectory:
    monkeypatch.setattr(starting, "COMMAND", (sys.executable, standin.__file__))
    return make_directory(tmp_path / "batch", ["a", "b"])


async def look_for(path: Path, text: str) -> None:
    """Wait until a file has this text."""
    await asyncio.to_thread(until, lambda: path.exists() and text in path.read_text())


async def begin(engine: LocalEngine, directory: BatchDirectory, *ids: str) -> "list[asyncio.Task[int]]":
    tasks = [asyncio.create_task(engine.submit(id, 1, None)) for id in ids]
    for id in ids:
        await look_for(directory.path / "starts", f"{id} 1 ")
    return tasks


def find_pid(directory: BatchDirectory, id: str) -> int:
    started = directory.read_started(id, 1)
    assert started is not None
    return started.pid


@bounded
async def test_an_attempt_is_a_process_in_a_session_of_its_own(directory: BatchDirectory) -> None:
    async with LocalEngine(directory) as engine:
        (task,) = await begin(engine, directory, "a")
        pid = find_pid(directory, "a")
        assert os.getsid(pid) == pid != os.getsid(0)
        (directory.path / "go").touch()
        assert await task == 0
    assert directory.attempts("a") == [1]
    assert directory.log_of("a", 1).read_text() == " None\n", "what it said on stdout"
    assert directory.log_of("a", 1).stat().st_mode & 0o777 == 0o600


@bounded
async def test_cancel_is_a_ctrl_c_for_every_attempt(directory: BatchDirectory) -> None:
    async with LocalEngine(directory) as engine:
        tasks = await begin(engine, directory, "a", "b")
        engine.cancel()
        assert await asyncio.gather(*tasks) == [130, 130]
    assert [directory.read_record(id, 1).outcome for id in "ab"] == ["cancelled", "cancelled"]


@bounded
async def test_no_other_process_holds_the_lifeline_of_an_attempt(directory: BatchDirectory) -> None:
    """The one that started later would, if it inherited it."""
    async with LocalEngine(directory) as engine:
        first, *_ = await begin(engine, directory, "a", "b")
        first.cancel()  # which closes it
        await asyncio.to_thread(until, lambda: not directory.is_running("a"))
        engine.cancel()
    assert directory.attempts("a") == []


@bounded
async def test_the_end_of_the_engine_ends_what_runs(directory: BatchDirectory) -> None:
    async with LocalEngine(directory) as engine:
        tasks = await begin(engine, directory, "a", "b")
        pids = [find_pid(directory, id) for id in "ab"]
    assert all(task.done() for task in tasks)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@bounded
async def test_an_attempt_that_takes_no_signal_is_killed(
    directory: BatchDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "COMMAND", (sys.executable, "-c", DEAF))
    monkeypatch.setattr(local, "GRACE_SECONDS", 0.01)
    async with LocalEngine(directory) as engine:
        task = asyncio.create_task(engine.submit("a", 1, None))
        await look_for(directory.log_of("a", 1), "deaf")
        engine.end_now()
        assert await task == 128 + signal.SIGKILL


@bounded
async def test_a_process_that_cannot_be_started_ends_the_engine(
    directory: BatchDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "COMMAND", ("/nowhere/python",))
    async with LocalEngine(directory) as engine:
        with pytest.raises(EngineGone, match="cannot start `batch item a`: No such file or directory"):
            await engine.submit("a", 1, None)


# Real ones.


@contextmanager
def running_batch(place: Path) -> "Iterator[subprocess.Popen[str]]":
    """A `batch run` of six long items, of which two run."""
    tasks = [{"id": f"t{number}", "prompt": "count 1000"} for number in range(6)]
    document = {"version": 1, "profiles": ["demo"], "tasks": tasks, "limits": {"jobs": 2}}
    (place / "batch.yaml").write_text(json.dumps(document))
    words = ("batch", "run", "batch.yaml", "--out", "batch", "--output", "json")
    with subprocess.Popen(
        [sys.executable, "-m", "acp_launch", *words],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            begun = [next(process.stdout) for _ in range(3)]
            assert [json.loads(line)["type"] for line in begun] == ["batch", "started", "started"]
            yield process
        finally:
            process.kill()


@pytest.mark.promise("batch")
@pytest.mark.sample(1)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_what_runs_and_a_resumed_batch_goes_on(tmp_path: Path, number: int, code: int) -> None:
    with running_batch(tmp_path) as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (code, "")
    *ended, end = [json.loads(line) for line in out.splitlines()]
    assert sorted((event["type"], event["item"], event["outcome"]) for event in ended) == [
        ("ended", "t0.demo", "cancelled"),
        ("ended", "t1.demo", "cancelled"),
    ]
    assert end["counts"] == {"due": 6}
    assert end["exitCode"] == code
    batch = open_batch(tmp_path / "batch")
    assert not any(batch.is_running(item.id) for item in batch.batch.items)
    assert len((tmp_path / "batch/results.jsonl").read_text().splitlines()) == 2


def test_a_second_signal_ends_everything_at_once(tmp_path: Path) -> None:
    with running_batch(tmp_path) as process:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    assert process.returncode in (130, 143), "both signals may wait for the process"
    batch = open_batch(tmp_path / "batch")
    with batch.lock("t0.demo", PATIENCE), batch.lock("t1.demo", PATIENCE):
        pass


@pytest.mark.promise("batch")
def test_items_end_with_a_submitter_that_is_killed(tmp_path: Path) -> None:
    with running_batch(tmp_path) as process:
        process.kill()
        process.communicate(timeout=PATIENCE)
    batch = open_batch(tmp_path / "batch")
    with batch.lock("t0.demo", PATIENCE), batch.lock("t1.demo", PATIENCE):
        assert [batch.attempts(id) for id in ("t2.demo", "t3.demo")] == [[], []]
