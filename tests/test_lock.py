"""One writer at a time: what the kernel promises about the lock."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from acp_launch.private import locked, take_lock
from tests.patience import PATIENCE


def is_free(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.lock"


def test_no_other_process_holds_it_while_the_block_runs(path: Path) -> None:
    with locked(path):
        assert not is_free(path)
    assert is_free(path)


def test_it_is_let_go_when_the_block_fails(path: Path) -> None:
    with pytest.raises(KeyError), locked(path):
        raise KeyError
    assert is_free(path)


def test_threads_of_one_process_exclude_each_other(path: Path) -> None:
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(50):
            with locked(path):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert most == [1]


def test_who_waits_goes_on_when_the_holder_is_killed(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from acp_launch.private import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        got = threading.Event()

        def wait() -> None:
            with locked(path):
                got.set()

        thread = threading.Thread(target=wait)
        thread.start()
        assert not is_free(path) and not got.is_set()
        holder.kill()
        assert got.wait(PATIENCE)
        thread.join(PATIENCE)


def test_a_program_that_is_started_meanwhile_holds_nothing(path: Path) -> None:
    with locked(path):
        child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, close_fds=False)
    try:
        assert is_free(path)
    finally:
        child.communicate(timeout=PATIENCE)


def test_the_file_is_for_the_user_alone_and_holds_nothing(path: Path) -> None:
    with locked(path):
        pass
    assert (path.stat().st_mode & 0o777, path.read_bytes()) == (0o600, b"")


def test_a_umask_that_forbids_everything_forbids_no_later_lock(path: Path) -> None:
    before = os.umask(0o777)
    try:
        with locked(path):
            pass
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_lock_file_that_cannot_be_opened_or_locked_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.mkdir()
    with pytest.raises(IsADirectoryError) as raised, locked(path):
        pass
    assert raised.value.filename == str(path)
    path.rmdir()

    def without_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", without_locks)
    with pytest.raises(OSError, match="No locks available") as refused, locked(path):
        pass
    assert (refused.value.errno, refused.value.filename) == (errno.ENOLCK, str(path))


def test_who_is_in_a_hurry_waits_only_so_long(path: Path) -> None:
    with locked(path):
        with pytest.raises(TimeoutError) as raised, locked(path, 0.05):
            pytest.fail("two hold it")
        assert (raised.value.strerror, raised.value.filename) == ("another process held it for 0.05 s", str(path))
        assert not is_free(path)
    assert is_free(path)


def test_who_is_in_a_hurry_gets_it_as_soon_as_it_is_free(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as other:
        other.enter_context(locked(path))
        monkeypatch.setattr("acp_launch.private.time.sleep", lambda seconds: other.close())
        with locked(path, PATIENCE):
            assert not is_free(path)
    assert is_free(path)


def test_it_is_not_looked_for_behind_a_link(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="it is a link"), locked(path):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_without_its_directory_there_is_no_lock(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), locked(tmp_path / "none" / "x.lock"):
        pass


def test_a_lock_that_another_holds_is_not_taken(path: Path) -> None:
    with locked(path):
        other = os.open(path, os.O_RDWR)
        assert not take_lock(other)
    assert take_lock(other)
    assert not is_free(path)
    os.close(other)
