"""One holder of a session at a time, whichever dies."""

import os
import re
import stat
import time
from pathlib import Path

import pytest

from acp_launch.errors import SessionError
from acp_launch.session.hold import hold
from tests.patience import PATIENCE
from tests.session.holder import SINCE
from tests.session.programs import line, programs, tell

KEY = ("/p", "demo", "fix-42")


def lock_file(state: Path) -> Path:
    (found,) = (state / "locks").iterdir()
    return found


def test_a_second_run_is_told_who_holds_the_session_and_since_when(tmp_path: Path) -> None:
    with programs("holder", (str(tmp_path), "fix-42")) as [holder]:
        tell(holder, "go")
        assert line(holder) == "held"
        with pytest.raises(SessionError) as caught, hold(tmp_path, KEY):
            pytest.fail("held twice")
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(SINCE))
    assert caught.value.message == (
        f'session "fix-42" is in use by process {holder.pid} (acp-launch run demo --session fix-42), since {since}'
    )
    assert caught.value.fix == "wait for it, end it, or use another --session"


def test_today_needs_no_date(tmp_path: Path) -> None:
    def shown() -> str:
        with hold(tmp_path, KEY), pytest.raises(SessionError) as caught, hold(tmp_path, KEY):
            pytest.fail("held twice")
        return caught.value.message

    assert re.search(r", since \d\d:\d\d:\d\d$", shown()) or re.search(r", since \d\d:\d\d:\d\d$", shown())


def test_a_session_held_by_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    with programs("holder", (str(tmp_path), "fix-42")) as [holder]:
        tell(holder, "go")
        assert line(holder) == "held"
        holder.kill()
        holder.wait(timeout=PATIENCE)
        assert lock_file(tmp_path).read_bytes(), "its note is still there, and does not matter"
        with hold(tmp_path, KEY, now=SINCE), pytest.raises(SessionError, match=f"process {os.getpid()} "):
            hold(tmp_path, KEY).__enter__()


def test_a_child_that_outlives_the_holder_holds_nothing(tmp_path: Path) -> None:
    with programs("holder", (str(tmp_path), "fix-42", "child")) as [holder]:
        tell(holder, "go")
        assert line(holder) == "held"
        holder.kill()
        holder.wait(timeout=PATIENCE)
        with hold(tmp_path, KEY):
            tell(holder, "still there")
            assert line(holder) == "still there"


@pytest.mark.whole
def test_of_ten_that_try_at_once_one_holds_and_nine_name_the_holder(tmp_path: Path) -> None:
    with programs("holder", *[(str(tmp_path), "fix-42")] * 10) as contestants:
        for contestant in contestants:
            tell(contestant, "go")
        answers = [line(contestant) for contestant in contestants]
        winner = contestants[answers.index("held")]
    assert answers.count("held") == 1
    refused = [answer for answer in answers if answer != "held"]
    # The winner may not have written who it is when the others look.
    named = f'session "fix-42" is in use by (another process|process {winner.pid} \\(.*\\), since .*)'
    assert [answer for answer in refused if not re.fullmatch(named, answer)] == []
    assert len(refused) == 9


def test_other_names_profiles_and_projects_are_other_sessions(tmp_path: Path) -> None:
    others = [("/p", "demo", "fix-43"), ("/p", "other", "fix-42"), ("/q", "demo", "fix-42")]
    with hold(tmp_path, KEY):
        for other in others:
            with hold(tmp_path, other):
                assert len(list((tmp_path / "locks").iterdir())) >= 2
    assert list((tmp_path / "locks").iterdir()) == []


def test_a_session_can_be_held_again_after_it_was_let_go_even_by_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), hold(tmp_path, KEY):
        raise KeyboardInterrupt
    assert list((tmp_path / "locks").iterdir()) == [], "a dead holder is not named"
    with hold(tmp_path, KEY):
        assert str(os.getpid()).encode() in lock_file(tmp_path).read_bytes()


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b'{"pid": 1e999}', b"\xff" * 9000, b'{"pid": -5, "since": 1}'])
def test_a_note_that_says_nothing_useful_still_means_in_use(tmp_path: Path, note: bytes) -> None:
    with hold(tmp_path, KEY):
        lock_file(tmp_path).write_bytes(note)
        with pytest.raises(SessionError) as caught:
            hold(tmp_path, KEY).__enter__()
    assert caught.value.message == 'session "fix-42" is in use by another process'


def test_a_session_that_is_let_go_leaves_no_file(tmp_path: Path) -> None:
    """Unnamed sessions would leave one each."""
    with hold(tmp_path, KEY):
        assert lock_file(tmp_path).exists()
    assert list((tmp_path / "locks").iterdir()) == []


def test_a_file_that_was_deleted_between_our_open_and_our_lock_is_not_a_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two would hold the same session, each a file of its own."""
    import fcntl

    real = fcntl.flock
    places: list[Path] = []

    def flock(descriptor: int, operation: int) -> None:
        if not places:  # the last holder lets go right now
            places.append(lock_file(tmp_path))
            places[0].unlink()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with hold(tmp_path, KEY), pytest.raises(SessionError, match="is in use by"), hold(tmp_path, KEY):
        pass
    assert len(places) == 1


def test_the_lock_and_its_directory_are_for_the_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    for number, umask in enumerate((0o000, 0o777)):
        state = tmp_path / str(number)
        before = os.umask(umask)
        try:
            with hold(state, KEY):
                modes = [stat.S_IMODE(path.stat().st_mode) for path in (state / "locks", lock_file(state))]
        finally:
            os.umask(before)
        assert modes == [0o700, 0o600]


def test_a_file_where_the_locks_should_be_is_explained(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("mine")
    with pytest.raises(SessionError) as caught:
        hold(tmp_path, KEY).__enter__()
    assert caught.value.message.startswith(f'cannot lock session "fix-42": {tmp_path}/locks/')
    assert caught.value.message.endswith(": File exists")
    assert str(tmp_path / "locks") in caught.value.fix
    assert (tmp_path / "locks").read_text() == "mine"


def test_a_refusal_leaves_no_descriptor_open(tmp_path: Path) -> None:
    with hold(tmp_path, KEY):
        before = sorted(os.listdir("/dev/fd"))  # noqa: PTH208 - names of descriptors, not paths
        for _ in range(3):
            with pytest.raises(SessionError):
                hold(tmp_path, KEY).__enter__()
        assert sorted(os.listdir("/dev/fd")) == before  # noqa: PTH208
