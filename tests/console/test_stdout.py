"""Ring 3, a terminal. The answer on stdout."""

import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper

import pytest

from acp_launch.console import stdout


def test_a_terminal_has_the_last_line_before_a_question_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is written to stderr, which is not buffered."""
    reading, writing = os.openpty()
    os.set_blocking(reading, False)
    with TextIOWrapper(BufferedWriter(FileIO(writing, "w")), line_buffering=True) as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        stdout.line("first")
        stdout.line("last")
        assert os.read(reading, 100).replace(b"\r", b"") == b"first\nlast\n"
        monkeypatch.undo()
    os.close(reading)
