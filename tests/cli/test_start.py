"""What is shown of an agent's stderr while it runs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acp_launch.cli.start import stderr_log


def test_a_character_that_is_cut_between_two_chunks_is_shown_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: Any = SimpleNamespace(state=tmp_path)
    plan: Any = SimpleNamespace(profile="p")
    with stderr_log(settings, plan, echo=True) as log:
        for chunk in (b"caf\xc3", b"\xa9, \xff", b" \xe2\x98"):
            log(chunk)
    assert capsys.readouterr().err == "caf\u00e9, \ufffd \ufffd"
    [file] = (tmp_path / "log").iterdir()
    assert file.read_bytes() == b"caf\xc3\xa9, \xff \xe2\x98"


def test_what_is_shown_of_it_cannot_drive_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines, tabs and words stay; colours go, and every other control is made visible. The file has it as it came."""
    settings: Any = SimpleNamespace(state=tmp_path)
    plan: Any = SimpleNamespace(profile="p")
    said = "\x1b[1;31mred\x1b[0m\ttab\n\x1b]52;c;eA==\x07\x1b]0;title\x07\x1b[2J\u202eolleh\x9b2J\n".encode()
    with stderr_log(settings, plan, echo=True) as log:
        log(said)
    shown = "red\ttab\n\\x1b]52;c;eA==\\x07\\x1b]0;title\\x07\\x1b[2J\\u202eolleh\\x9b2J\n"
    assert capsys.readouterr().err == shown
    [file] = (tmp_path / "log").iterdir()
    assert file.read_bytes() == said
