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
