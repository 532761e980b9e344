"""Ring 3, a terminal. The answer on stdout."""

import os
import subprocess
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


def test_in_one_file_with_stderr_each_line_stands_where_it_was_written() -> None:
    code = "from acp_launch.console import stderr, stdout; stdout.line('a'); stderr.say('b'); stdout.line('c')"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    assert done.stdout == b"a\nb\nc\n"
