"""The directory of a batch."""

import json
from pathlib import Path

import pytest

from acp_launch.batch.model import Limits, Retry
from acp_launch.batch.store import RESULT, RESULTS, encode, open_batch
from acp_launch.document.scalars import Duration
from acp_launch.errors import StateError, UsageError
from tests.batch.directories import RETRY, add_record, make_batch, make_record


def test_a_frozen_batch_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = make_batch(tmp_path, ["a.demo", "b.demo"], limits=Limits(timeout=Duration(1800)), retry=Retry()).batch
    assert open_batch(tmp_path).batch == written
    assert str(open_batch(tmp_path).batch.limits.timeout) == "30m"


def test_a_directory_without_a_batch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no batch"):
        open_batch(tmp_path)


def test_a_damaged_batch_is_named(tmp_path: Path) -> None:
    batch = make_batch(tmp_path)
    (tmp_path / "batch.json").write_bytes(encode(batch.batch)[:-20])
    with pytest.raises(StateError, match=r"batch\.json is damaged"):
        open_batch(tmp_path)


def test_an_unknown_item_is_refused_with_the_likeliest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'no item "a\.dmo"; did you mean "a\.demo"'):
        make_batch(tmp_path).find_item("a.dmo")


def test_an_attempt_without_a_record_did_not_happen(tmp_path: Path) -> None:
    batch = make_batch(tmp_path)
    with batch.lock("a.demo"):
        (batch.begin("a.demo", 1) / "events.ndjson").write_text("{}")
        assert batch.judge("a.demo").attempt == 1
        batch.begin("a.demo", 1)
        batch.begin("a.demo", 1)
    names = sorted(each.name for each in batch.directory_of("a.demo").iterdir())
    assert names == ["1", "1.lost-1", "1.lost-2", "lock"]
    assert (batch.directory_of("a.demo") / "1.lost-1" / "events.ndjson").read_text() == "{}"


def test_records_decide_what_is_due(tmp_path: Path) -> None:
    batch = make_batch(tmp_path, retry=RETRY)
    add_record(batch, make_record(outcome="agent_died"))
    assert batch.judge("a.demo").attempt == 2
    add_record(batch, make_record(attempt=2))
    standing = batch.judge("a.demo")
    assert standing.is_done and standing.last and standing.last.outcome == "passed"
    batch.reopen("a.demo")
    assert batch.judge("a.demo").attempt == 3


def test_attempts_are_ordered_by_number(tmp_path: Path) -> None:
    batch = make_batch(tmp_path)
    for number in range(1, 12):
        add_record(batch, make_record(attempt=number, outcome="cancelled"))
    assert batch.attempts("a.demo") == [*range(1, 12)]
    assert batch.judge("a.demo").attempt == 12


def test_results_are_made_from_the_records_alone(tmp_path: Path) -> None:
    batch = make_batch(tmp_path, ["b.demo", "a.demo"], retry=RETRY)
    add_record(batch, make_record("a.demo", answer="ä\u2028\x00<script>"))
    add_record(batch, make_record("b.demo", outcome="agent_died"))
    add_record(batch, make_record("b.demo", 2))
    batch.begin("b.demo", 3)  # it has no record
    batch.write_results()
    first = (tmp_path / RESULTS).read_bytes()
    lines = [json.loads(line) for line in first.splitlines()]
    assert [(each["item"], each["attempt"]) for each in lines] == [("b.demo", 1), ("b.demo", 2), ("a.demo", 1)]
    assert lines[2]["answer"] == "ä\u2028\x00<script>"
    (tmp_path / RESULTS).unlink()
    batch.write_results()
    assert (tmp_path / RESULTS).read_bytes() == first
    assert [(record.item, record.attempt) for record in batch.records()] == [
        ("b.demo", 1),
        ("b.demo", 2),
        ("a.demo", 1),
    ]


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    batch = make_batch(tmp_path)
    add_record(batch, make_record())
    (batch.directory_of("a.demo", 1) / RESULT).write_bytes(b'{"schema":1')
    with pytest.raises(StateError, match=r"a\.demo/1/result\.json is damaged"):
        batch.judge("a.demo")


def test_a_record_without_what_a_later_version_adds_or_lacks_is_read(tmp_path: Path) -> None:
    batch = make_batch(tmp_path)
    add_record(batch, make_record())
    file = batch.directory_of("a.demo", 1) / RESULT
    file.write_text(json.dumps({**json.loads(file.read_text()), "colour": "green"}))
    assert batch.read_record("a.demo", 1).outcome == "passed"
