"""Which file is read next is said when reading takes long (docs/troubleshooting.md)."""

from pathlib import Path

import pytest

from acp_launch import waits
from acp_launch.cli import main
from tests.clock import Clock


@pytest.mark.parametrize(("seconds", "told"), [(0.4, []), (1.5, ["b 1.5", "c 3.0"])])
def test_the_time_of_all_files_counts_together(
    seconds: float, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, heard = Clock(), list[str]()
    monkeypatch.setattr("time.monotonic", clock)
    work = waits.SlowSteps(1.0)
    work.begin(lambda step, spent: heard.append(f"{step} {spent}"))
    for file in "abcd"[: 4 if told else 2]:
        with work.step(file):
            clock.now += seconds
        clock.now += 100  # spent on something else
    assert heard == told


def test_the_command_line_says_which_file_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(waits.reading, "first_word", 0.0)
    (tmp_path / "slow.yaml").write_text("version: 1\nagent: {command: cat}\n")
    monkeypatch.chdir(tmp_path)
    assert main.run(["validate", "./slow.yaml"]) == 0
    assert "acp-launch: still reading slow.yaml after 0 s\n" in capsys.readouterr().err
