"""
A program that writes to a session store and says what it has written: `store_writer STATE_DIR WHO COUNT DEATH`.

It says `ready`, waits for a line, then saves COUNT sessions, each through a store opened anew, printing the number
of each when `save` has returned. DEATH says when it kills itself: `never`, `before-link`, `after-link`, or a number
of steps of SQLite's virtual machine.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acp_launch.session.store import Record, Registry, open_registry


def record(who: str, number: int) -> Record:
    return Record(
        "/p", "work", f"{who}-{number}", f"id-{who}-{number}", "demo", "1", "demo", "/p", "x" * 300, number, number
    )


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(death: str) -> None:
    link: Callable[..., Any] = os.link
    if death == "before-link":
        os.link = lambda *_: die()
    elif death == "after-link":
        os.link = lambda *names: (link(*names), die())[0]  # type: ignore[func-returns-value]


def arm_steps(registry: Registry, left: list[int]) -> None:
    def step() -> int:
        left[0] -= 1
        if left[0] < 0:
            die()
        return 0

    registry._connection.set_progress_handler(step, 1)


def main(state_dir: str, who: str, count: str, death: str) -> None:
    arm(death)
    left = [int(death)] if death.isdigit() else []
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(count)):
        with open_registry(Path(state_dir)) as registry:
            if left:
                arm_steps(registry, left)
            registry.save(record(who, number))
            print(number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
