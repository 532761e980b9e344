"""How an end reads."""

import signal

import pytest

from acp_launch.process.spawn import STATUS_LOST
from acp_launch.process.tree import Exit, from_wait_status


@pytest.mark.parametrize(
    ("status", "exit_", "words"),
    [
        (0, Exit(0, None), "exited with status 0"),
        (3 << 8, Exit(3, None), "exited with status 3"),
        (int(signal.SIGKILL), Exit(None, 9), "was killed by SIGKILL"),
        (11 | 0x80, Exit(None, 11), "was killed by SIGSEGV"),  # with a core dump
        (40, Exit(None, 40), "was killed by signal 40"),
        (STATUS_LOST, Exit(None, None), "exited; its status was lost"),
    ],
)
def test_a_wait_status_becomes_a_sentence(status: int, exit_: Exit, words: str) -> None:
    assert from_wait_status(status) == exit_
    assert str(exit_) == words
