"""A permission question on the terminal: what, which options, one line of an answer."""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

from acp_launch.console.echo import forget_typed
from acp_launch.console.stderr import YELLOW, harmless, say
from acp_launch.protocol import acp
from acp_launch.secret.redact import redactor
from acp_launch.session.permission import choose
from acp_launch.session.toolcall import title

STDIN = 0
SHOWN = 4000  # characters of one detail
YES, NO = ("y", "yes"), ("", "n", "no")


def possible() -> bool:
    """Whether there is somebody to ask: stdin to read from and stderr to ask on are both terminals."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


class Question:
    """Asks one question at a time, however many are open."""

    def __init__(self, pause: Callable[[], None]) -> None:
        """`pause` frees the terminal of whatever else draws on it."""
        self._pause = pause
        self._turn = asyncio.Lock()

    async def ask(self, call: dict[str, Any], options: list[Any]) -> str | None:
        """The option chosen; an empty line and the end of input deny, anything unclear is asked again."""
        async with self._turn:
            self._pause()
            offered = [option for option in map(acp.mapping, options) if isinstance(option.get("optionId"), str)]
            _show(call, offered)
            forget_typed()  # an answer typed before the question is none
            while True:
                line = await _answer()
                chosen, is_clear = _chosen(line.strip().lower(), offered)
                if is_clear:
                    return chosen


def _show(call: dict[str, Any], offered: list[dict[str, Any]]) -> None:
    # Before anything is cut: half a secret is one that nobody can recognise.
    call, offered = redactor.tree(call), redactor.tree(offered)
    say(f"The agent asks for permission: {harmless(title(call), keep='')}", style=YELLOW)
    for line in _particulars(call):
        say(f"    {_shortened(harmless(line))}")
    for number, option in enumerate(offered, 1):
        say(f"  {number}. {harmless(acp.text(option.get('name')) or acp.text(option.get('kind')), keep='')}")


def _particulars(call: dict[str, Any]) -> list[str]:
    lines = [acp.text(location.get("path")) for location in map(acp.mapping, acp.sequence(call.get("locations")))]
    given = acp.mapping(call.get("rawInput"))
    return [
        f"kind: {acp.text(call.get('kind')) or 'other'}",
        *lines,
        *(f"{key}: {value}" for key, value in given.items()),
    ]


def _shortened(text: str) -> str:
    """All of it, or a word about what is not shown: nobody should allow what they think they have seen whole."""
    if len(text) <= SHOWN:
        return text
    return (
        f"{text[: SHOWN // 2]}\n    [... {len(text) - SHOWN:,} characters are not shown ...]\n    {text[-SHOWN // 2 :]}"
    )


def _chosen(answer: str, offered: list[dict[str, Any]]) -> tuple[str | None, bool]:
    """The option's id, and whether the answer was one; an empty line and the end of input mean no."""
    if answer.isdecimal() and 0 < int(answer) <= len(offered):
        return str(offered[int(answer) - 1]["optionId"]), True
    return choose(answer in YES, offered), answer in YES or answer in NO


async def _answer() -> str:
    sys.stderr.write("Number, y or n [n]: ")
    sys.stderr.flush()
    line = ""
    try:
        line = await _line()
    finally:
        if not line.endswith("\n"):  # Ctrl-D, Ctrl-C or a time-out: the next words begin on a line of their own
            sys.stderr.write("\n")
    return line


async def _line() -> str:
    """One line from the terminal, "" at its end; the event loop goes on meanwhile."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(STDIN, ready.set)
    try:
        await ready.wait()
        return os.read(STDIN, 4096).decode(errors="replace")
    finally:
        loop.remove_reader(STDIN)
