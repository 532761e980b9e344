"""The names-only index beside the state."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_launch.private import locked
from acp_launch.secret.lookup import NameIndex
from acp_launch.secret.value import Outcome, Secret


@pytest.fixture
def index(tmp_path: Path) -> NameIndex:
    return NameIndex(tmp_path / "state", "keyring")


def test_what_was_put_is_remembered_with_its_time(index: NameIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.5)
    index.put("b")
    index.put("a")
    assert index.names() == {"a": 1000.5, "b": 1000.5}
    index.drop("b")
    index.drop("never there")
    assert index.names() == {"a": 1000.5}


def test_stores_do_not_mix(index: NameIndex, tmp_path: Path) -> None:
    other = NameIndex(tmp_path / "state", "file")
    index.put("a")
    other.put("b")
    assert (list(index.names()), list(other.names())) == (["a"], ["b"])


def test_it_is_for_the_user_alone_and_leaves_nothing_beside_it(index: NameIndex, tmp_path: Path) -> None:
    index.put("a")
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state" / "secrets.json").stat().st_mode & 0o777 == 0o600
    assert {file.name for file in (tmp_path / "state").iterdir()} == {"secrets.json", "secrets.lock"}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[]", b'{"stores": 3}', b'{"stores": {"keyring": [1]}}', b"[" * 100_000]
)
def test_one_that_is_no_index_counts_as_empty_and_is_made_anew(
    index: NameIndex, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "secrets.json").write_bytes(content)
    assert index.names() == {}
    index.put("a")
    assert list(index.names()) == ["a"]


def test_one_bad_entry_costs_only_itself(index: NameIndex, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    entries = {"good": 5.5, "endless": 1e999, "huge": 10**400, "before": -1, "said": "yesterday"}
    stores = {"bad": 5, "file": {"other": 1.0}, "keyring": entries}
    (tmp_path / "state" / "secrets.json").write_text(json.dumps({"stores": stores}))
    assert index.names() == {"good": 5.5, "endless": None, "huge": None, "before": None, "said": None}
    index.put("new")
    assert NameIndex(tmp_path / "state", "file").names() == {"other": 1.0}


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["directory", "pipe"])
def test_one_that_cannot_be_read_is_left_as_it_is_and_not_waited_for(
    index: NameIndex, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    (tmp_path / "state").mkdir()
    file = tmp_path / "state" / "secrets.json"
    make(file)
    index.put("a")
    assert index.names() == {}
    assert file.exists() and not file.is_file()


def test_a_process_that_keeps_the_lock_costs_a_moment_and_the_entry(
    index: NameIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_launch.secret.lookup.LOCK_TIMEOUT", 0.05)
    index.put("before")
    with locked(tmp_path / "state" / "secrets.lock"):
        index.put("meanwhile")
    assert index.names().keys() == {"before"}


def test_what_the_store_has_corrects_it_and_keeps_the_better_time(
    index: NameIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 5.0)
    index.put("kept")
    index.put("gone")
    assert index.correct({"kept": 9.0, "new": 7.0, "undated": None}) == {"kept": 5.0, "new": 7.0, "undated": None}
    assert index.names() == {"kept": 5.0, "new": 7.0, "undated": None}


def test_lookups_correct_it_too(index: NameIndex) -> None:
    index.put("gone")
    index.put("locked")
    answers = {
        "gone": Outcome("missing", "shelf"),
        "locked": Outcome("locked", "shelf"),
        "met": Outcome("found", "shelf", Secret("x")),
        "elsewhere": Outcome("found", "ACP_LAUNCH_SECRET_ELSEWHERE", Secret("x")),
    }
    index.learn(answers, "shelf")
    assert index.names().keys() == {"locked", "met"}


def test_a_directory_that_cannot_be_written_costs_only_the_list(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a directory should be")
    index = NameIndex(tmp_path / "state", "keyring")
    index.put("a")
    assert index.names() == {}


@pytest.mark.whole
def test_ten_processes_at_once_lose_no_name(index: NameIndex, tmp_path: Path) -> None:
    code = "import sys, pathlib\nfrom acp_launch.secret.lookup import NameIndex\n"
    code += f"index = NameIndex(pathlib.Path({str(tmp_path / 'state')!r}), 'keyring')\n"
    code += "sys.stdin.readline()\nfor part in range(5): index.put(f'{sys.argv[1]}/{part}')\n"
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(number)], stdin=subprocess.PIPE) for number in range(10)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()  # they all begin
    assert [writer.wait(30) for writer in writers] == [0] * 10
    assert index.names().keys() == {f"{number}/{part}" for number in range(10) for part in range(5)}
    assert set(json.loads((tmp_path / "state" / "secrets.json").read_text())) == {"version", "stores"}
