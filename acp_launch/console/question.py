"""A permission question on the terminal: what, which options, one line of an answer."""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

from acp_launch.console.stderr import YELLOW, harmless, say
from acp_launch.protocol import acp
from acp_launch.session.permission import choose
from acp_launch.session.toolcall import title

STDIN = 0


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
        """The option chosen; an empty line, end of input or anything else denies."""
        async with self._turn:
            self._pause()
            offered = [option for option in map(acp.mapping, options) if isinstance(option.get("optionId"), str)]
            say(f"The agent asks for permission: {harmless(title(call), keep='')}", style=YELLOW)
            for line in _particulars(call):
                say(f"    {harmless(line, keep='')[:200]}")
            for number, option in enumerate(offered, 1):
                say(f"  {number}. {harmless(acp.text(option.get('name')) or acp.text(option.get('kind')), keep='')}")
            sys.stderr.write("Number, y or n [n]: ")
            sys.stderr.flush()
            return _chosen((await _line()).strip().lower(), offered)


def _particulars(call: dict[str, Any]) -> list[str]:
    lines = [acp.text(location.get("path")) for location in map(acp.mapping, acp.sequence(call.get("locations")))]
    given = acp.mapping(call.get("rawInput"))
    return [
        f"kind: {acp.text(call.get('kind')) or 'other'}",
        *lines,
        *(f"{key}: {value}" for key, value in given.items()),
    ]


def _chosen(answer: str, offered: list[dict[str, Any]]) -> str | None:
    if answer.isdigit() and 0 < int(answer) <= len(offered):
        return str(offered[int(answer) - 1]["optionId"])
    return choose(answer in ("y", "yes"), offered)


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
