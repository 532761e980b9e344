"""Work that may never end (issue 3: a keyring that shows a dialog nobody can answer must not hang us)."""

import subprocess
import sys
import threading

import pytest

from acp_launch.secret.bounded import Late, bounded


def test_the_result_comes_back() -> None:
    assert bounded(lambda: 42, limit=5, waiting=lambda _: None) == 42


@pytest.mark.parametrize("error", [ValueError("no"), RuntimeError("no"), SystemExit(3), KeyboardInterrupt()])
def test_what_the_work_raises_is_raised_here(error: BaseException) -> None:
    def work() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        bounded(work, limit=5, waiting=lambda _: None)
    assert caught.value is error


def test_work_that_hangs_is_given_up() -> None:
    never = threading.Event()
    try:
        with pytest.raises(Late):
            bounded(never.wait, limit=0.05, waiting=lambda _: None)
    finally:
        never.set()


def test_words_come_while_it_hangs_until_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_launch.secret.bounded.FIRST_WORD", 0.01)
    never, words = threading.Event(), list[float]()
    try:
        with pytest.raises(Late):
            bounded(never.wait, limit=0.2, waiting=words.append)
    finally:
        never.set()
    assert words == pytest.approx([0.01, 0.03, 0.09])


def test_hung_work_does_not_keep_the_interpreter_from_ending() -> None:
    code = (
        "import threading\nfrom acp_launch.secret.bounded import Late, bounded\n"
        "try: bounded(threading.Event().wait, limit=0.05, waiting=print)\nexcept Late: print('late')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert ended.stdout == "late\n"
