"""
A stand-in for `batch item`, and the preload of a Dask worker or scheduler that makes it start this file instead.

It appends a line to DIR/starts, waits for DIR/go (or DIR/go-ID), and writes a record. SIGINT is recorded as cancelled;
at the end of its lifeline it ends without a record. It prints its prompt and its secret, as an agent may.

STANDIN_TEMPER of a worker: `blind` does not see the directory, `old` has another version of acp-launch, `bare` none.
Tempers of hostile ones, whose objects append to STANDIN_MARK the process that unpickles them: a worker that `answers`
with such an object, `raises` one, `mistakes` a number that is not an exit code for an answer, has one when it is
`asked` for its faults, or in an event that `warns`; a scheduler that sends one when it is asked who it is
(`introduces`) or with the news of a result (`reports`), and words a warning.
"""

import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def dask_setup(server: Any) -> None:
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
    if temper in HOSTILE:
        HOSTILE[temper](server)


class Bomb(Exception):  # noqa: N818 - it need not be raised
    """An object that says in which process it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        mark = os.environ["STANDIN_MARK"]
        return exec, (f"import os; open({mark!r}, 'a').write(f'{{os.getpid()}} ')",)


def answer_with(answer: object) -> Callable[[Any], None]:
    """Make a worker whose attempts answer with this at once."""

    async def carry_out(*_: object) -> object:
        if isinstance(answer, type):
            raise answer
        return answer

    carry_out.__module__, carry_out.__qualname__ = "acp_launch.batch.cluster", "carry_out"
    return lambda server: replace("carry_out", carry_out)


def replace(name: str, function: Any) -> None:
    from acp_launch.batch import cluster

    vars(cluster)[name] = function


def warn(server: Any) -> None:
    """Say two things to each client, of which Dask's would unpickle one and print the other."""

    async def say_and_pass(*_: object) -> int:
        server.log_event("warn", {"message": pickle.dumps(Bomb())})
        server.log_event("print", "\x1b[31mprinted")
        return 0

    replace("carry_out", say_and_pass)


def introduce(server: Any) -> None:
    from distributed.protocol.serialize import ToPickle

    server.handlers["identity"] = lambda **_: {"type": "Scheduler", "id": ToPickle(Bomb())}


def report(server: Any) -> None:
    import distributed.versions
    from distributed.protocol.serialize import ToPickle

    send_all = server.send_all

    def spoil(client_msgs: dict[str, list[Any]], worker_msgs: Any) -> None:
        bomb = {"type": ToPickle(Bomb())}
        send_all({client: [each | bomb for each in said] for client, said in client_msgs.items()}, worker_msgs)

    server.send_all = spoil
    judge: Callable[..., dict[str, Any]] = distributed.versions.error_message

    def word(*versions: Any, **of_worker: Any) -> dict[str, Any]:
        return judge(*versions, **of_worker) | ({} if of_worker else {"warning": "\x1b[31mprinted"})

    vars(distributed.versions)["error_message"] = word


HOSTILE: dict[str, Callable[[Any], None]] = {
    "answers": answer_with([Bomb()]),
    "raises": answer_with(Bomb),
    "mistakes": answer_with(4711),
    "asked": lambda server: replace("find_fault", lambda *_: Bomb()),
    "warns": warn,
    "introduces": introduce,
    "reports": report,
}


class Nowhere:
    def __init__(self, *parts: str) -> None: ...

    def read_text(self) -> str:
        raise FileNotFoundError


def main() -> int:
    from acp_launch.batch.store import open_batch

    _, _, directory, id, _, number, *trust, _, descriptor = sys.argv[1:]
    batch, attempt, lifeline = open_batch(Path(directory)), int(number), int(descriptor)
    for option in trust:
        (batch.path / f"given{option}").touch()
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
