"""
What drawing costs: 100,000 updates through the renderer of a terminal, against `--output text` into a pipe.

`python -m tests.benchmarks.render [PAIRS]`, measured as in tests.benchmarks.pairs. Each side is a process of its own,
its clock the CPU it used for the updates alone: no imports, no agent. The terminal is as fast as can be (/dev/null),
so what is measured is ours; tests.benchmarks.fronts has a whole turn on one.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from msgspec import Raw
from rich.console import Console

from acp_launch.console.stream.redacted import RunOutput
from acp_launch.protocol.conversation import Updated
from acp_launch.session.events import ResultEvent
from tests.benchmarks.pairs import HEAD, compared, row, wanted

COUNT = 100_000
BATCH = 300  # updates that one read of a busy pipe holds
SIZE = 30  # characters of an update: a few tokens

PROSE = "The quick brown fox jumps over the lazy dog, and then it goes **home** to rest in `its` den. " * 5 + "\n\n"
LIST = "Here is what was found:\n\n" + "- one *thing* and [another](https://example.com/page)\n" * 6 + "\n"
CODE = (
    "```python\n"
    + "def area(width: float, height: float) -> float:\n    return width * height  # both\n\n" * 8
    + "```\n\n"
)
TABLE = "| name | size | kind |\n|---|---|---|\n" + "| README.md | 1024 | text |\n" * 8 + "\n"
TEXTS = {
    "prose": PROSE,
    "a mixture": "## What I found\n\n" + PROSE * 2 + LIST + CODE + TABLE,
    "code": CODE,
    "one line without end": "x" * 1000,
}


def chunks(text: str, kind: str = "agent_message_chunk") -> Iterator[Updated]:
    """`COUNT` updates, as the pump hands them over."""
    text = text * (COUNT * SIZE // len(text) + 1)
    for number in range(COUNT):
        content = {"type": "text", "text": text[number * SIZE : (number + 1) * SIZE]}
        yield Updated("s", kind, Raw(json.dumps({"sessionUpdate": kind, "content": content}).encode()), False)


def tool_updates() -> Iterator[Updated]:
    """One call that tells of every percent of a percent."""
    kind = "tool_call_update"
    for number in range(COUNT):
        body = {"sessionUpdate": kind, "toolCallId": "1", "status": "in_progress", "title": f"Step {number}"}
        yield Updated("s", kind, Raw(json.dumps(body).encode()), False)


WORK: dict[str, Callable[[], Iterator[Updated]]] = {
    **{name: (lambda text=text: chunks(text)) for name, text in TEXTS.items()},  # type: ignore[misc]
    "thoughts": lambda: chunks(PROSE, "agent_thought_chunk"),
    "a busy tool call": tool_updates,
}


def live() -> RunOutput:
    from acp_launch.console.draw.live import Live
    from acp_launch.console.draw.live_region import Region

    screen = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as the process
    return Live(Region(Console(file=screen, force_terminal=True, width=100, height=40, color_system="256")))


def plain() -> RunOutput:
    from acp_launch.console.stream.outlet import Outlet
    from acp_launch.console.stream.text import Plain

    sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    return Plain(Outlet(os.open(os.devnull, os.O_WRONLY)))


async def seconds(output: RunOutput, updates: list[Updated]) -> float:
    began = time.process_time()
    for number, update in enumerate(updates):
        output.update(update)
        if number % BATCH == 0:
            await output.drain()
            await asyncio.sleep(0)  # where the pump reads again, and frames are drawn
    output.show(ResultEvent(stop_reason="end_turn", result=Raw(b"{}")))
    await output.drain()
    return time.process_time() - began


def measured(work: str, side: str) -> float:
    command = [sys.executable, "-m", "tests.benchmarks.render", side, work]
    return float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def main() -> None:
    if sys.argv[1:2] in (["live"], ["plain"]):
        output = live() if sys.argv[1] == "live" else plain()
        print(asyncio.run(seconds(output, list(WORK[sys.argv[2]]()))))
        return
    pairs = wanted(5)
    print(HEAD)
    for work in WORK:
        both = compared(partial(measured, work, "live"), partial(measured, work, "plain"), pairs, warm=False)
        print(row(f"{COUNT:,} updates of {work}, CPU", "into a pipe", "-", both), flush=True)


if __name__ == "__main__":
    main()
