"""Which file is being read is said when it takes long (ours: no mute hang)."""

import threading
from pathlib import Path

import pytest

from acp_launch.profile import progress as module
from acp_launch.profile.progress import ReadProgress
from tests.patience import PATIENCE


class Listener:
    def __init__(self) -> None:
        self.heard: list[tuple[str, float]] = []
        self.spoken = threading.Event()

    def __call__(self, file: str, seconds: float) -> None:
        self.heard.append((file, seconds))
        self.spoken.set()


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def progress(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> ReadProgress:
    """One that speaks at once."""
    monkeypatch.setattr(module, "FIRST_WORD", 0.01)
    return ReadProgress(listener)


def test_a_file_that_takes_long_is_named_and_named_again(progress: ReadProgress, listener: Listener) -> None:
    with progress.file("slow.yaml"):
        assert listener.spoken.wait(PATIENCE)
        listener.spoken.clear()
        assert listener.spoken.wait(PATIENCE)
    assert [file for file, _ in listener.heard[:2]] == ["slow.yaml", "slow.yaml"]
    assert 0 < listener.heard[0][1] < listener.heard[1][1]


def test_the_file_that_is_read_within_another_is_the_one_that_is_named(
    progress: ReadProgress, listener: Listener
) -> None:
    with progress.file("child.yaml"), progress.file("parent.yaml"):
        assert listener.spoken.wait(PATIENCE)
    assert listener.heard[0][0] == "parent.yaml"


def test_the_time_of_all_files_counts_together(progress: ReadProgress, listener: Listener) -> None:
    """A thousand files of which none takes a second are a long time."""
    for number in range(100_000):
        with progress.file(f"{number}.yaml"):
            pass
        if listener.heard:
            return
    pytest.fail("100,000 files were read, and none was named")


def test_no_thread_is_left_behind(progress: ReadProgress) -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match="wrong"), progress.file("a.yaml"):
        raise ValueError("wrong")
    assert threading.active_count() == before


def test_nothing_is_said_where_no_thread_can_be_had(
    progress: ReadProgress, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with progress.file("a.yaml"):
        pass
    assert listener.heard == []


def test_the_command_line_says_which_file_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The parent that takes long, not the profile that was asked for."""
    from acp_launch.cli import main
    from acp_launch.document.nodes import Kind
    from acp_launch.document.yaml import Document, parse
    from acp_launch.problem import Problem
    from acp_launch.profile import parse as layer_parser

    listener = Listener()

    def slow(text: str, label: str, kind: Kind) -> tuple[Document | None, list[Problem]]:
        if label == "slow.yaml":
            assert listener.spoken.wait(PATIENCE)
        return parse(text, label, kind)

    def say(file: str, seconds: float) -> None:
        told(file, seconds)
        listener(file, seconds)

    told = main._say_reading
    monkeypatch.setattr(layer_parser, "parse", slow)
    monkeypatch.setattr(main, "_say_reading", say)
    monkeypatch.setattr(module, "FIRST_WORD", 0.01)
    (tmp_path / "slow.yaml").write_text("agent: {command: cat}\n")
    (tmp_path / "quick.yaml").write_text("version: 1\nextends: ./slow.yaml\n")
    monkeypatch.chdir(tmp_path)
    assert main.run(["validate", "./quick.yaml"]) == 0
    assert "acp-launch: still reading slow.yaml after 0 s\n" in capsys.readouterr().err
