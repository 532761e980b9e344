"""
What drawing costs: 100,000 updates through the renderer of a terminal, against `--output text` into a pipe.

`python -m tests.benchmarks.render [PAIRS]`. Each side is a process of its own, its clock the CPU it used for the
updates alone: no imports, no agent. Pairs run back to back, A B A B …; what is quoted is the median of their ratios.
The terminal is as fast as can be (/dev/null), so what is measured is ours. The last row is a whole run, agent and all,
on a pty against a pipe. Nothing here asserts.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Raw
from rich.console import Console

from acp_launch.console.stream.redacted import RunOutput
from acp_launch.protocol.conversation import Updated
from acp_launch.session.events import ResultEvent
from tests.benchmarks.run import US, agent, profile

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
    from acp_launch.console.draw.region import Region

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


def measured(side: str, work: str) -> float:
    command = [sys.executable, "-m", "tests.benchmarks.render", side, work]
    return float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def read_all(descriptor: int) -> None:
    """Until everybody has closed the other side."""
    try:
        while os.read(descriptor, 1 << 16):
            pass
    except OSError:  # how a pty tells the end
        pass
    os.close(descriptor)


def whole_run(side: str, profile: str, env: Mapping[str, str]) -> float:
    """`acp-launch run`, its agent included, with its output on a pty or in a pipe."""
    ours, theirs = os.openpty() if side == "live" else os.pipe()
    reader = threading.Thread(target=read_all, args=(ours,))
    reader.start()
    child = subprocess.Popen(
        [*US, "run", "--trust", profile, "hi"], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=env
    )
    os.close(theirs)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    reader.join()
    if child.returncode:
        raise SystemExit(f"{side} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime


def row(what: str, pairs: int, cpu: Callable[[str], float]) -> str:
    both = [(cpu("live"), cpu("plain")) for _ in range(pairs)]
    ratios = [drawn / piped for drawn, piped in both]
    drawn, piped = (statistics.median(side) for side in zip(*both, strict=True))
    ratio = f"{statistics.median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f})"
    return f"| {what} | {ratio} | {drawn:.2f} s | {piped:.2f} s |"


def main() -> None:
    if sys.argv[1:2] in (["live"], ["plain"]):
        output = live() if sys.argv[1] == "live" else plain()
        print(asyncio.run(seconds(output, list(WORK[sys.argv[2]]()))))
        return
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"| {COUNT:,} updates of | ratio of CPU, median (range) | on a terminal | into a pipe |")
    print("|---|---|---|---|")
    for work in WORK:
        print(row(work, pairs, lambda side, work=work: measured(side, work)), flush=True)  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        env = {**os.environ, "HOME": directory, "TERM": "xterm-256color"}
        env |= {f"ACP_LAUNCH_{kind}_DIR": str(scratch / kind.lower()) for kind in ("CONFIG", "STATE", "CACHE")}
        flood = profile(scratch, agent(scratch), str(COUNT), "200")
        print(row("200 B, the whole run", pairs, lambda side: whole_run(side, flood, env)))


if __name__ == "__main__":
    main()
