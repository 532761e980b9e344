"""A verb in this process, by the words that a user types after it."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from acp_launch.cli.main import run


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Typed = Callable[..., Answer]


def typing(capsys: pytest.CaptureFixture[str], *verb: str) -> Typed:
    def answer(*arguments: str) -> Answer:
        code = run([*verb, *arguments])
        return Answer(code, *capsys.readouterr())

    return answer
