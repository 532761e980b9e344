"""Places and texts that end in a message, never in a traceback: docs/batch.md."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from acp_launch import descent
from acp_launch.batch import store
from acp_launch.batch.check import check
from acp_launch.batch.outcome import read_events
from acp_launch.batch.store import encode
from acp_launch.process.lifecycle import Change
from acp_launch.session import events
from tests.batch.directories import add_record, make_batch, make_record
from tests.cli.conftest import launch
from tests.cli.launcher import Launcher

__all__ = ["launch"]  # a fixture
HALF = "\\ud83d"
PLAIN = "version: 1\nprofiles: [demo]\ntasks: [{id: a, prompt: hi}]\n"


@pytest.mark.parametrize("words", [("run", "b.yaml"), ("item", "out", "a.demo"), ("status", "BATCH")], ids=" ".join)
def test_a_deleted_working_directory_is_said_unless_a_whole_path_is_given(
    launch: Launcher, tmp_path: Path, words: tuple[str, ...]
) -> None:
    batch, gone = make_batch(tmp_path / "batch"), tmp_path / "gone"
    gone.mkdir()
    script = 'rmdir "$PWD"; exec "$0" -m acp_launch batch "$@"'
    argv = ["sh", "-c", script, sys.executable, *(str(batch.path) if word == "BATCH" else word for word in words)]
    done = subprocess.run(argv, cwd=gone, env=launch.env, capture_output=True, text=True, check=False)
    if "BATCH" in words:
        assert (done.returncode, done.stdout) == (0, "nightly: 1 due\n")
    else:
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == "acp-launch: the directory you are in no longer exists\n    fix: cd somewhere else\n"


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC])
def test_a_directory_that_takes_nothing_is_shown_and_what_needs_it_says_why(
    launch: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    batch = make_batch(tmp_path / "batch", ("a.demo", "b.demo"))
    add_record(batch, make_record())
    opening = descent.open_file

    def refuse(path: Path, flags: int, *rest: Any, **more: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(number, os.strerror(number), str(path))
        return opening(path, flags, *rest, **more)

    monkeypatch.setattr(store, "open_file", refuse)
    monkeypatch.setattr("acp_launch.private.open_file", refuse)
    status = launch.within("batch", "status", str(batch.path), "--json")
    if number != errno.ENOSPC:
        assert (status.code, json.loads(status.out)["counts"]) == (0, {"passed": 1}), status.err
    report = launch.within("batch", "report", str(batch.path))
    assert (report.code, report.out.startswith(b"nightly: 1 of 2 items passed")) == (0, True)
    cancelled = launch.within("batch", "cancel", str(batch.path))
    assert (cancelled.code, cancelled.err) == (
        3,
        f"acp-launch: cannot write {batch.path}/cancel: {os.strerror(number)}\n",
    )


@pytest.mark.parametrize("name", ["batch.json", "result.json"])
@pytest.mark.parametrize("how", ["huge", "deep", "a pipe"])
def test_a_file_that_no_batch_would_write_is_refused(launch: Launcher, tmp_path: Path, name: str, how: str) -> None:
    batch = make_batch(tmp_path / "batch")
    add_record(batch, make_record())
    file = batch.path / name if name == "batch.json" else batch.directory_of("a.demo", 1) / name
    if how == "huge":
        os.truncate(file, 1 << 40)
    elif how == "deep":
        file.write_text('{"a":' * 100_000)
    else:
        file.unlink()
        os.mkfifo(file)
    for verb in ("status", "report"):
        done = launch.within("batch", verb, str(batch.path))
        assert (done.code in (2, 3), "Traceback" in done.err) == (True, False), done.err


# Half of a surrogate pair.


def test_half_of_a_character_in_a_batch_is_printed_with_its_place(launch: Launcher) -> None:
    (launch.project / "b.yaml").write_text(PLAIN + f'check: {{command: ["{HALF}"], timeout: "{HALF}"}}\n')
    for words in (("check",), ("check", "--json"), ("prepare", "--trust")):
        done = launch.forked("batch", words[0], "b.yaml", *words[1:])
        said = done.out.decode() + done.err
        assert (done.code, "no program can receive the character U+D83D" in said) == (2, True), said
        assert "Traceback" not in said
        assert "b.yaml:4:" in said or '"line": 4' in said


@pytest.mark.parametrize("task", [{"id": HALF}, {"id": "a", "prompt": HALF}, {"id": "a", "vars": {HALF: HALF}}])
def test_half_of_a_character_in_a_file_of_tasks_is_a_problem_of_its_line(task: dict[str, Any]) -> None:
    line = json.dumps(task).replace("\\\\", "\\").encode()
    text = "version: 1\nprofiles: [demo]\nprompt: x\ntasks: t.jsonl\n"
    found = check(text, "b.yaml", repo="/", read_tasks=lambda name: (b'{"id": "first"}\n' + line, "t.jsonl"))
    assert [(problem.file, problem.line) for problem in found.problems] == [("t.jsonl", 2)]


def test_half_of_a_character_from_an_agent_can_be_recorded() -> None:
    half, when = "\ud83d", "2026-11-27T08:30:00.250Z"
    raw = json.dumps(half)
    change = Change(server=half, state="ready", restarts=1)
    said: list[events.AnyEvent] = [
        events.InitializedEvent(when, result=Raw(f'{{"agentInfo":{{"name":{raw},"version":{raw}}}}}'.encode())),
        events.SessionEvent(
            when,
            session_id=half,
            name="s",
            how="new",
            replayed=0,
            result=Raw(f'{{"modes":{{"currentModeId":{raw}}}}}'.encode()),
        ),
        *(
            events.UpdateEvent(when, session_id=half, update=Raw(f'{{"sessionUpdate":{update}}}'.encode()))
            for update in (
                f'"usage_update","cost":{{"amount":1,"currency":{raw}}}',
                f'"current_mode_update","currentModeId":{raw}',
            )
        ),
        replace(change, time=when),
        events.ErrorEvent(
            when, exit_code=4, message=half, fix=half, detail=[], problems=[], code=None, data={half: [half]}
        ),
    ]
    members = read_events(map(events.encode, said))
    record = make_record(**members)
    assert b"\\u" not in encode(record)
    assert record.error is not None
    assert (record.error.message, record.error.data, record.agent.name) == ("?", {"?": ["?"]}, "?")
