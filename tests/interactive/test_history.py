"""What was typed, kept in a file that processes share."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_launch.interactive import history
from acp_launch.interactive.history import MAX_ENTRY_BYTES, PromptHistory
from acp_launch.secret.redact import Redactor
from acp_launch.secret.value import Secret
from tests.patience import PATIENCE


def told(text: str) -> None:
    raise AssertionError(text)


def past(path: Path, redactor: Redactor | None = None) -> PromptHistory:
    return PromptHistory(path, redactor or Redactor(), told)


def read(path: Path) -> list[str]:
    return list(past(path).load_history_strings())


def test_entries_are_read_newest_first_and_keep_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "history"
    for text in ("one", "two\nlines", 'qu"ote \\ ü'):
        past(path).keep(text)
    assert read(path) == ['qu"ote \\ ü', "two\nlines", "one"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_an_entry_that_repeats_the_last_or_begins_with_a_space_is_not_kept(tmp_path: Path) -> None:
    opened = past(tmp_path / "history")
    for text in ("same", "same", " secretly", "other", "same"):
        opened.keep(text)
    assert read(tmp_path / "history") == ["same", "other", "same"]


def test_a_secret_is_not_kept(tmp_path: Path) -> None:
    redactor = Redactor()
    redactor.register(Secret("hunter2hunter2"))
    opened = past(tmp_path / "history", redactor)
    opened.keep("log in with hunter2hunter2")
    assert (tmp_path / "history").read_text() == '"log in with ***"\n'
    assert opened.get_strings() == ["log in with ***"]


def test_what_was_pasted_is_not_kept_on_disk(tmp_path: Path) -> None:
    opened = past(tmp_path / "history")
    opened.keep("x" * MAX_ENTRY_BYTES)
    assert opened.get_strings() == ["x" * MAX_ENTRY_BYTES]
    assert not (tmp_path / "history").exists()


def test_half_a_line_that_a_killed_process_left_harms_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text('"one"\n"tw')
    past(path).keep("three")
    assert read(path) == ["three", "one"]


def test_a_long_history_is_cut_when_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_ENTRIES", 10)
    monkeypatch.setattr(history, "SPARE_ENTRIES", 5)
    path = tmp_path / "history"
    path.write_text("".join(f'"{number}"\n' for number in range(15)))
    assert read(path) == [str(number) for number in range(14, 4, -1)]
    assert len(path.read_text().splitlines()) == 15, "not worth it yet"
    past(path).keep("15")
    assert read(path) == [str(number) for number in range(15, 5, -1)]
    assert path.read_text() == "".join(f'"{number}"\n' for number in range(6, 16))
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.whole
def test_processes_that_add_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history"
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from acp_launch.interactive.history import PromptHistory\nfrom acp_launch.secret.redact import Redactor\n"
        "past = PromptHistory(Path(sys.argv[1]), Redactor(), sys.exit)\n"
        "for number in range(50):\n    past.keep(f'{sys.argv[2]} {number}')\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), str(number)]) for number in range(4)]
    assert [writer.wait(PATIENCE) for writer in writers] == [0, 0, 0, 0]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(lines) == sorted(f"{writer} {number}" for writer in range(4) for number in range(50))


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    path.with_name("elsewhere").write_text('"mine"\n')
    path.symlink_to("elsewhere")


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Path.mkdir, "is a directory"),
        (pipe, "it is not a regular file"),
        (link, "it is a link"),
        (dangling, "it is a link"),
    ],
)
def test_what_is_no_regular_file_is_neither_read_nor_written_and_said_once(
    tmp_path: Path, make: Callable[[Path], None], reason: str
) -> None:
    """A pipe would stop everything, before anybody could press a key."""
    make(tmp_path / "history")
    said: list[str] = []
    opened = PromptHistory(tmp_path / "history", Redactor(), said.append)
    assert list(opened.load_history_strings()) == []
    opened.keep("one")
    opened.keep("two")
    assert opened.get_strings() == ["one", "two"]
    assert said == [f"note: the prompt history is not saved: {tmp_path / 'history'}: {reason}"]
    assert not (tmp_path / "nowhere").exists()
    if make is link:
        assert (tmp_path / "elsewhere").read_text() == '"mine"\n'


def test_a_file_of_another_user_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "history").write_text('"theirs"\n')
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    said: list[str] = []
    opened = PromptHistory(tmp_path / "history", Redactor(), said.append)
    assert list(opened.load_history_strings()) == []
    opened.keep("one")
    assert (tmp_path / "history").read_text() == '"theirs"\n'
    assert said == [f"note: the prompt history is not saved: {tmp_path / 'history'}: it belongs to another user"]


def test_of_a_file_that_is_too_large_the_end_is_read_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_READ_BYTES", 20)
    path = tmp_path / "history"
    path.write_text("".join(f'"number {number}"\n' for number in range(4)))
    assert read(path) == ["number 3"]
    assert path.read_text() == '"number 3"\n'
