"""Ring 3, a terminal. The answer on stdout."""

import os
import select
import subprocess
import sys
from io import BufferedWriter, FileIO, TextIOWrapper

import pytest

from acp_launch.console import stdout


def test_a_terminal_has_the_last_line_before_a_question_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is written to stderr, which is not buffered."""
    reading, writing = os.openpty()
    with TextIOWrapper(BufferedWriter(FileIO(writing, "w")), line_buffering=True) as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        stdout.line("first")
        stdout.line("last")
        shown = b""  # a pseudo-terminal hands it on in pieces
        while not shown.endswith(b"last\r\n") and select.select([reading], [], [], 10)[0]:
            shown += os.read(reading, 100)
        assert shown == b"first\r\nlast\r\n"
        monkeypatch.undo()
    os.close(reading)


def test_in_one_file_with_stderr_each_line_stands_where_it_was_written() -> None:
    code = "from acp_launch.console import stderr, stdout; stdout.line('a'); stderr.say('b'); stdout.line('c')"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    assert done.stdout == b"a\nb\nc\n"
