"""The permission log: every answer on a line, nothing secret, and never in the way of a run (ours)."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acp_launch.secret.redact import Redactor
from acp_launch.secret.value import Secret
from acp_launch.session.events import Way
from acp_launch.session.permission import audit as module
from acp_launch.session.permission.audit import MAX_LINE_BYTES, Audit, entries, files
from tests.clock import Clock
from tests.patience import PATIENCE

CALL = {
    "toolCallId": "c1",
    "title": "Run it",
    "kind": "execute",
    "name": "Bash",
    "locations": [{"path": "src/a"}],
    "rawInput": {"command": "rm -rf x"},
}
OPTIONS = [{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}, "odd"]


class Notes(list[str]):
    def __call__(self, text: str) -> None:
        self.append(text)


def audit(state: Path, notes: Notes | None = None, profile: str = "work") -> Audit:
    return Audit(
        state, profile, project="/p", note=Notes() if notes is None else notes, clock=lambda: 1_795_000_000.1234
    )


def test_an_option_among_several_of_its_kind_is_named(tmp_path: Path) -> None:
    log = audit(tmp_path)
    offered = [{"optionId": id, "name": f"Keep {id}", "kind": "allow_once"} for id in ("mine", "theirs")]
    log.record("asked", CALL, offered, allowed=True, by="you", option_id="theirs", session="s1")
    assert [entry["chosen"] for entry in lines(log)] == ["Keep theirs"]


def record(log: Audit, call: dict[str, Any] = CALL, how: Way = "asked", *, allowed: bool = False) -> None:
    log.record(how, call, OPTIONS, allowed=allowed, by="permissions.rules[1]", option_id="n", session="s1", cwd="/p")


def lines(log: Audit) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.file.read_text().splitlines()]


def test_an_answer_is_one_line_that_says_all_of_it(tmp_path: Path) -> None:
    log = audit(tmp_path)
    record(log)
    assert lines(log) == [
        {
            "time": "2026-11-18T11:06:40.123Z",
            "profile": "work",
            "project": "/p",
            "session": "s1",
            "how": "asked",
            "answer": "deny",
            "by": "permissions.rules[1]",
            "option": "n",
            "chosen": "",
            "offered": ["allow_once", "reject_once", ""],
            "tool_call": "c1",
            "title": "Run it",
            "kind": "execute",
            "tool": "Bash",
            "paths": ["/p/src/a"],
            "command": "rm -rf x",
            "input": {"command": "rm -rf x"},
        }
    ]


def test_what_ran_without_being_asked_about_is_no_answer(tmp_path: Path) -> None:
    log = audit(tmp_path)
    record(log, how="unasked", allowed=True)
    record(log, how="service", allowed=True)
    assert [(line["how"], line["answer"]) for line in lines(log)] == [("unasked", "ran"), ("service", "allow")]


def test_it_is_appended_to_by_every_run_and_is_for_the_user_alone(tmp_path: Path) -> None:
    for _ in range(3):
        log = audit(tmp_path / "state")
        record(log)
        log.close()
    assert len(lines(log)) == 3
    assert stat.S_IMODE(log.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.file.parent.stat().st_mode) == 0o700


def test_a_run_that_is_asked_nothing_leaves_nothing(tmp_path: Path) -> None:
    audit(tmp_path / "state").close()
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    "call",
    [
        {**CALL, "rawInput": {"command": "x" * 1_000_000}},
        {**CALL, "title": "\x00" * 100_000, "rawInput": {"paths": ["\x00" * 9000] * 1000}},
        {**CALL, "locations": [{"path": "\U0001f600" * 9000}] * 3},
        {**CALL, "rawInput": {"content": ["\x01" * 100_000] * 50}},
        {"toolCallId": "\x01" * 99_999, "kind": "\x01" * 99_999, "name": "\x01" * 99_999, "title": "\x01" * 99_999},
    ],
    ids=["command", "paths", "wide", "content", "names"],
)
def test_no_line_is_longer_than_one_write(tmp_path: Path, call: dict[str, Any]) -> None:
    log = audit(tmp_path)
    record(log, call)
    record(log)
    first, second = log.file.read_bytes().splitlines(keepends=True)
    assert 100 < len(first) <= MAX_LINE_BYTES
    assert "characters more]" in json.dumps(json.loads(first))
    assert json.loads(second)["title"] == "Run it"


def test_what_is_cut_says_how_much_is_missing(tmp_path: Path) -> None:
    log = audit(tmp_path)
    record(log, {**CALL, "rawInput": {"command": "x" * 10_000, "paths": [str(number) for number in range(50)]}})
    (line,) = lines(log)
    assert line["command"] == "x" * 8000 + " [... 2,000 characters more]"
    assert line["input"].startswith('{"command": "xxx') and line["input"].endswith(" characters more]")
    assert line["paths"][19:] == ["/p/18", "[... 31 more]"]


@pytest.mark.parametrize("text", ["\ud83d", "a\nb\r\x1b[2J", "\u2028"])
def test_whatever_an_agent_writes_is_one_line(tmp_path: Path, text: str) -> None:
    log = audit(tmp_path)
    record(log, {"title": text})
    assert log.file.read_bytes().count(b"\n") == 1
    assert json.loads(log.file.read_bytes())["title"] == text.replace("\ud83d", "?")


def test_what_is_nested_too_deep_is_not_written_down(tmp_path: Path) -> None:
    nested: Any = "x"
    for _ in range(100_000):
        nested = [nested]
    log = audit(tmp_path)
    record(log, {"title": "deep", "rawInput": {"x": nested}})
    assert lines(log)[0]["input"] == "[nested too deep]"


def test_secrets_are_redacted_before_anything_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    knowing = Redactor()
    knowing.register(Secret("hunter2hunter2"))
    monkeypatch.setattr(module, "redactor", knowing)
    log = audit(tmp_path)
    call = {"title": "x hunter2hunter2", "rawInput": {"command": "x" * 7995 + "hunter2hunter2", "hunter2hunter2": 1}}
    record(log, call)
    text = log.file.read_text()
    assert "hunter2" not in text
    assert lines(log)[0]["title"] == "x ***"


def test_a_log_that_cannot_be_written_is_said_once_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("in the way")
    notes = Notes()
    log = audit(tmp_path, notes)
    for _ in range(3):
        record(log)
    assert notes == [f"cannot write the permission log {log.file} (File exists); the run continues without it"]
    (tmp_path / "log").unlink()
    record(log)
    assert len(lines(log)) == 1, "it is tried again"
    assert len(notes) == 1


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/null")], ids=["pipe", "link"])
def test_what_is_no_file_is_not_written_to(tmp_path: Path, make: Callable[[Path], object]) -> None:
    notes = Notes()
    log = audit(tmp_path, notes)
    log.file.parent.mkdir()
    make(log.file)
    record(log)
    assert len(notes) == 1 and "cannot write the permission log" in notes[0]


HALF = """
import resource, signal, sys
from pathlib import Path
from acp_launch.session.permission.audit import Audit
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
notes = []
log = Audit(Path(sys.argv[1]), "work", project="/p", note=notes.append)
def record(title):
    log.record("asked", {"title": title}, [], allowed=True, by="you", option_id=None, session="s")
record("one")
size = log.file.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))
record("two")
record("three")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
record("four")
print(len(notes))
"""


def test_a_disk_that_takes_half_a_line_spoils_no_other(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HALF, str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert (done.stdout, done.stderr) == ("1\n", "")
    found, damaged = entries(files(tmp_path))
    assert ([entry["title"] for entry in found], damaged) == (["one", "four"], 1)


def test_half_a_line_that_another_run_left_spoils_no_other(tmp_path: Path) -> None:
    log = audit(tmp_path)
    log.file.parent.mkdir()
    log.file.write_bytes(b'{"time": "2')
    record(log)
    found, damaged = entries([log.file])
    assert ([entry["title"] for entry in found], damaged) == (["Run it"], 1)


def test_logs_are_read_together_in_the_order_of_time(tmp_path: Path) -> None:
    for number, profile in enumerate(["b", "a", "b", "a"]):
        log = Audit(tmp_path, profile, project="/p", note=Notes(), clock=lambda number=number: 100.0 + number)  # type: ignore[misc]
        record(log, {"title": str(number)})
        log.close()
    assert [entry["title"] for entry in entries(files(tmp_path))[0]] == ["0", "1", "2", "3"]
    assert [entry["title"] for entry in entries(files(tmp_path), 3)[0]] == ["1", "2", "3"]
    assert [entry["title"] for entry in entries(files(tmp_path, "b"), 1)[0]] == ["2"]
    assert entries(files(tmp_path), 0)[0] == []


def test_a_flood_is_counted_and_what_is_beyond_does_not_fill_the_disk(tmp_path: Path) -> None:
    clock, notes = Clock(1_795_000_000.0), Notes()
    log = Audit(tmp_path, "work", project="/p", note=notes, clock=clock)
    for number in range(40_000):
        record(log, {**CALL, "title": f"Run {number}", "rawInput": {"command": "x" * 200}}, allowed=number % 4 == 0)
    log.close()
    assert log.file.stat().st_size < module.BURST + 2 * MAX_LINE_BYTES
    kept = lines(log)
    single = [entry for entry in kept if "count" not in entry]
    counts = {"allow": 0, "deny": 0}
    for entry in kept:
        counts[entry["answer"]] += entry.get("count", 1)
    assert counts == {"allow": 10_000, "deny": 30_000}, "none is lost"
    assert [entry["title"] for entry in single] == [f"Run {number}" for number in range(len(single))]
    assert len(single) > 1_000
    beyond = next(entry for entry in kept if "count" in entry)
    assert {**beyond, "count": 0, "title": "", "time": "", "answer": ""} == {
        **dict.fromkeys(("time", "title", "answer"), ""),
        **{"profile": "work", "project": "/p", "session": "s1", "how": "asked", "kind": "execute", "count": 0},
        "by": "permissions.rules[1]",
    }
    assert beyond["title"] == f"{beyond['count']:,} more calls, which came too fast to be logged"
    assert notes == ["the agent asks too fast to log each call: the permission log counts the rest"]


def test_after_a_flood_everything_is_on_record_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BURST", 1000)
    clock = Clock(1_795_000_000.0)
    log = Audit(tmp_path, "work", project="/p", note=Notes(), clock=clock)
    for number in range(10):
        record(log, {**CALL, "title": f"early {number}"})
    clock.now += 60
    record(log, {**CALL, "title": "late"})
    assert [entry["title"] for entry in lines(log)] == [
        *("early 0", "early 1", "early 2"),
        "7 more calls, which came too fast to be logged",
        "late",
    ]


def test_kinds_of_the_agents_making_are_not_counted_apart_for_ever(tmp_path: Path) -> None:
    log = Audit(tmp_path, "work", project="/p", note=Notes(), clock=Clock(1_795_000_000.0))
    for number in range(6_000):
        record(log, {"kind": f"kind {number}", "title": "x" * 300})
    log.close()
    counted = [entry for entry in lines(log) if "count" in entry]
    assert len(counted) == module.KINDS + 1
    assert counted[-1]["kind"] == ""


def test_a_file_that_is_full_becomes_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 2_000)
    log = audit(tmp_path)
    for number in range(20):
        record(log, {**CALL, "title": str(number)})
    log.close()
    assert sorted(file.name for file in log.file.parent.iterdir()) == [log.file.name, f"{log.file.name}.1"]
    assert all(file.stat().st_size <= 2_000 for file in log.file.parent.iterdir())
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in log.file.parent.iterdir())
    for found, damaged in (entries(files(tmp_path)), entries(files(tmp_path, "work"))):
        titles = [int(entry["title"]) for entry in found]
        assert (titles, damaged) == (list(range(titles[0], 20)), 0)
        assert len(titles) > 4


def test_several_runs_go_on_in_the_new_file_and_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = audit(tmp_path), audit(tmp_path)
    record(one, {**CALL, "title": "one"})
    record(other, {**CALL, "title": "other"})
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 1)
    record(one, {**CALL, "title": "new"})
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 10_000)
    record(other, {**CALL, "title": "new, too"})
    assert [entry["title"] for entry in lines(one)] == ["new", "new, too"]
    assert [entry["title"] for entry in entries(files(tmp_path))[0]] == ["one", "other", "new", "new, too"]
    one.file.unlink()
    record(one, {**CALL, "title": "moved away"})
    assert [entry["title"] for entry in lines(one)] == ["moved away"]


def test_a_file_that_another_run_is_turning_over_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was stopped in the midst of it does not keep the user waiting."""
    import fcntl

    log = audit(tmp_path)
    record(log)
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 1)
    with log.file.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        record(log)
    assert len(lines(log)) == 2


def test_profiles_with_names_no_file_can_have_keep_logs_of_their_own(tmp_path: Path) -> None:
    profiles = ["a/b", "--agent x #1", "y" * 400, "y" * 401, "ü"]
    for profile in profiles:
        log = audit(tmp_path, profile=profile)
        record(log)
        assert [line["profile"] for line in lines(log)] == [profile]
        log.close()
    assert len(files(tmp_path)) == len(profiles)
