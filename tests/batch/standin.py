"""
A stand-in for `batch item`, and the preload of a Dask worker that makes it start this file instead.

It appends a line to DIR/starts, waits for DIR/go (or DIR/go-ID), and writes a record. SIGINT is recorded as cancelled;
at the end of its lifeline it ends without a record. It prints its prompt and its secret, as an agent may.

STANDIN_TEMPER of a worker: `blind` does not see the directory, `old` has another version of acp-launch, `bare` none.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any


def dask_setup(worker: object) -> None:
    temper = os.environ.get("STANDIN_TEMPER")
    if temper == "bare":
        sys.modules["acp_launch.batch.cluster"] = None  # type: ignore[assignment]
        return
    from acp_launch.batch import cluster, engine

    engine.COMMAND = (sys.executable, __file__)  # type: ignore[assignment]
    if temper == "old":
        vars(cluster)["__version__"] = "0.0.1"
    if temper == "blind":
        vars(cluster)["Path"] = Nowhere


class Nowhere:
    def __init__(self, *parts: str) -> None: ...

    def read_text(self) -> str:
        raise FileNotFoundError


def main() -> int:
    from acp_launch.batch.store import open_batch

    _, _, directory, id, _, number, _, descriptor = sys.argv[1:]
    batch, attempt, lifeline = open_batch(Path(directory)), int(number), int(descriptor)
    print(batch.find_item(id).prompt, os.environ.get("ACP_LAUNCH_SECRET_X"), flush=True)
    os.set_blocking(lifeline, False)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with batch.lock(id):
        if attempt in batch.attempts(id):
            return batch.read_record(id, attempt).exit_code
        batch.begin(id, attempt)
        with (batch.path / "starts").open("a") as file:
            file.write(f"{id} {attempt} {os.getpid()} {os.getppid()}\n")
        outcome, code = wait_for_the_end(batch.path, id, lifeline)
        with (batch.path / "ends").open("a") as file:
            file.write(f"{id} {attempt}\n")
        if outcome:
            batch.write_record(make_record(id, attempt, outcome, code))
        return code


def make_record(item: str, attempt: int, outcome: Any, code: int) -> Any:
    from acp_launch.batch.model import Record

    names = ("batch", "task", "profile", "profile_digest", "acp_launch", "host", "repo", "started", "ended")
    given: dict[str, Any] = {"seconds": 0.0, "matrix": {}, "sample": 1, **dict.fromkeys(names, "")}
    return Record(item=item, attempt=attempt, outcome=outcome, exit_code=code, **given)


def wait_for_the_end(directory: Path, id: str, lifeline: int) -> tuple[str, int]:
    try:
        while not ((directory / "go").exists() or (directory / f"go-{id}").exists()):
            with suppress(BlockingIOError):
                if os.read(lifeline, 1) == b"":
                    return "", 143
            time.sleep(0.02)
    except KeyboardInterrupt:
        return "cancelled", 130
    return "passed", 0


if __name__ == "__main__":
    sys.exit(main())
