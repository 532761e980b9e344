"""
acp-launch with a person who thinks: each question takes them 20 s, by the clock of the process.

argv: the words after `acp-launch`.
"""

import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

THOUGHT = 20.0  # seconds
_real, _thought = time.monotonic, 0.0
time.monotonic = lambda: _real() + _thought  # before anything of ours takes a look at it

from acp_launch.__main__ import main  # noqa: E402
from acp_launch.console.ask.terminal import TerminalQuestions  # noqa: E402
from acp_launch.interactive.questions import ScreenQuestions  # noqa: E402


def thinking(choose: Callable[..., Awaitable[str | None]]) -> Any:
    async def chosen(*words: Any) -> str | None:
        global _thought
        key = await choose(*words)
        _thought += THOUGHT
        return key

    return chosen


if __name__ == "__main__":
    for person in (TerminalQuestions, ScreenQuestions):
        person.choose = thinking(person.choose)  # type: ignore[method-assign]
    sys.argv[0] = "acp-launch"
    main()
