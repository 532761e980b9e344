"""What is kept of a session's words: bounded, for the user alone, and never in the way of a run (ours)."""

import os
from pathlib import Path

import pytest

from acp_launch.session import history
from acp_launch.session.history import MAX_ANSWER_CHARACTERS, MAX_FILE_BYTES, History, SessionTurn

KEY = ("/project", "claude", "work")


def turn(number: int, answer: str = "yes") -> SessionTurn:
    return SessionTurn(time=float(number), prompt=f"prompt {number}", answer=answer)


def test_turns_come_back_in_order_and_only_the_user_can_read_them(tmp_path: Path) -> None:
    kept = History(tmp_path)
    assert kept.turns(KEY) == []
    for number in range(3):
        kept.add(KEY, turn(number))
    assert kept.turns(KEY) == [turn(0), turn(1), turn(2)]
    (file,) = (tmp_path / "turns").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_session_that_is_renamed_or_removed_takes_its_history_along(tmp_path: Path) -> None:
    kept, new = History(tmp_path), (*KEY[:2], "done")
    kept.move(KEY, new)
    kept.add(KEY, turn(1))
    kept.move(KEY, new)
    assert (kept.turns(KEY), kept.turns(new)) == ([], [turn(1)])
    kept.remove(new)
    kept.remove(new)
    assert kept.turns(new) == []


def test_a_long_answer_is_cut_and_a_full_file_loses_its_older_half(tmp_path: Path) -> None:
    kept = History(tmp_path)
    for number in range(10):
        kept.add(KEY, turn(number, "x" * (MAX_ANSWER_CHARACTERS + 1)))
    (file,) = (tmp_path / "turns").iterdir()
    assert file.stat().st_size <= MAX_FILE_BYTES
    found = kept.turns(KEY)
    assert [each.time for each in found] == [float(number) for number in range(10 - len(found), 10)]
    assert {len(each.answer) for each in found} == {MAX_ANSWER_CHARACTERS}


def test_half_a_character_is_replaced(tmp_path: Path) -> None:
    kept = History(tmp_path)
    kept.add(KEY, SessionTurn(time=1.0, prompt="\ud83d", answer="a\udc00", tools=("\ud800" * 300,)))
    (found,) = kept.turns(KEY)
    assert (found.prompt, found.answer, found.tools) == ("?", "a?", ("?" * 200,))


def test_the_oldest_histories_go_when_there_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_FILES", 2)
    kept = History(tmp_path)
    for number in range(3):
        before = set((tmp_path / "turns").glob("*"))
        kept.add((*KEY, str(number)), turn(number))
        for file in set((tmp_path / "turns").glob("*")) - before:
            os.utime(file, (number, number))
    assert len(list((tmp_path / "turns").iterdir())) == 2
    assert kept.turns((*KEY, "2")) == [turn(2)]


def test_a_tenth_more_goes_so_that_the_next_runs_look_at_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MAX_FILES", 20)
    kept = History(tmp_path)
    for number in range(21):
        kept.add((*KEY, str(number)), turn(number))
    assert len(list((tmp_path / "turns").iterdir())) == 18


def test_a_line_that_was_cut_off_hides_no_other(tmp_path: Path) -> None:
    kept = History(tmp_path)
    kept.add(KEY, turn(1))
    (file,) = (tmp_path / "turns").iterdir()
    file.write_bytes(b'{"time": 1\n' + file.read_bytes() + b"\xff\n")
    assert kept.turns(KEY) == [turn(1)]


def test_where_nothing_can_be_written_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "turns").write_text("a file")
    History(tmp_path).add(KEY, turn(1))
    assert History(tmp_path).turns(KEY) == []


def test_a_folder_that_is_removed_in_between_is_made_again(tmp_path: Path) -> None:
    kept = History(tmp_path)
    kept.add(KEY, turn(1))
    (file,) = (tmp_path / "turns").iterdir()
    file.unlink()
    file.parent.rmdir()
    kept.add(KEY, turn(2))
    kept.add(KEY, turn(3))
    kept.close()
    assert kept.turns(KEY) == [turn(2), turn(3)]
