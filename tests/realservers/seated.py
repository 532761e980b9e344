"""A server twice: as it is, and behind shim and seat; and the same conversation held with both."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli import forkserver
from tests.cli.terminal import Process
from tests.patience import PATIENCE
from tests.realservers.recorder import Json, Recorder, Responder

HOST = Path(__file__).with_name("host.py")
# What differs between two processes of one server by its nature: clocks, dice, and what a launch adds.
VOLATILE = (
    (rb"\d{1,2}:\d{2}:\d{2}\s?(AM|PM)", b"<time>"),
    (rb'"blob":"UmVzb3VyY2Ug[^"]*"', b'"blob":"<Resource ... created at <time>>"'),
    (rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(Z|\+00:00)", b"<time>"),
    (rb'"taskId":"[0-9a-f]{32}"', b'"taskId":"<task>"'),
    (rb"[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d{4} \d\d:\d\d:\d\d GMT[^\\]*", b"<time>"),
    (rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", b"<uuid>"),
    (rb'(?s)"level":"[a-z]+","data":"[A-Z][a-z]+[- ]level[- ]message"', b'"level":"<some>","data":"<some message>"'),
    (rb',\\n  \\"ACP_LAUNCH_ID\\": \\"[^"\\]*\\"', b""),
)


@dataclass(frozen=True)
class Server:
    """What to run; `keys` are for the host: `deny`, `call`."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str] = field(default_factory=lambda: {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]})
    keys: Json = field(default_factory=dict)


class Seated:
    """A host process and its servers."""

    def __init__(self, process: Process, cwd: Path) -> None:
        self._process, self._cwd = process, cwd
        told = self.told("entries")
        self.entries = {entry["name"]: entry for entry in told["entries"]}
        self.front = dict(told["front"])  # the address and the token of each server over HTTP

    def told(self, type: str) -> Json:
        """The next line of this type."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if (said := json.loads(line))["type"] == type:
                return dict(said)
        raise AssertionError(f"the host ended without a word about {type}")

    def state(self, wanted: str) -> Json:
        """The next change to this state."""
        while (change := self.told("change"))["state"] != wanted:
            pass
        return change

    def open(self, name: str = "server", answers: Mapping[str, Responder] | None = None) -> Recorder:
        """Open it as an agent does."""
        entry = self.entries[name]
        env = {pair["name"]: pair["value"] for pair in entry["env"]}
        return Recorder([entry["command"], *entry["args"]], env=env, cwd=self._cwd, answers=answers)


@contextmanager
def seated(*, directories: Sequence[Path] = (), silence: float | None = None, **servers: Server) -> Iterator[Seated]:
    """Run a host with these servers. One that ignores `server/discover` for `silence` seconds counts as legacy."""
    cwd = next(iter(servers.values())).cwd
    wanted: Json = {"directories": [str(path) for path in directories or [cwd]]}
    wanted["servers"] = {name: _spec(server) for name, server in servers.items()}
    if silence is not None:
        wanted["silence"] = silence
    with hosting(wanted) as process:
        yield Seated(process, cwd)


@contextmanager
def hosting(wanted: Json) -> Iterator[Process]:
    """Run tests.realservers.host with this on the first line of its stdin."""
    process = forkserver.begin(HOST)
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        try:
            process.stdin.write(json.dumps(wanted).encode() + b"\n")
            process.stdin.flush()
            yield process
        finally:
            process.stdin.close()
            try:
                process.wait(PATIENCE)
            finally:
                process.kill()
    assert process.returncode == 0


def directly(server: Server, answers: Mapping[str, Responder] | None = None) -> Recorder:
    return Recorder(server.argv, env=server.env, cwd=server.cwd, answers=answers)


Script = Callable[[Recorder], None]


def transcripts(
    server: Server, script: Script, answers: Callable[[], Mapping[str, Responder]] = dict
) -> tuple[list[bytes], list[bytes]]:
    """What the client was sent while it followed `script`: with the server itself, and through the seat.

    `answers` makes the client's responders, for each of the two anew.
    """

    def direct() -> list[bytes]:
        with directly(server, answers()) as recorder:
            script(recorder)
            return recorder.lines

    def through() -> list[bytes]:
        # On a busy machine a server may take longer to start than a user waits for its era.
        with seated(server=server, silence=PATIENCE) as seats, seats.open(answers=answers()) as recorder:
            script(recorder)
            return recorder.lines

    with ThreadPoolExecutor(2) as both:
        legs = both.submit(direct), both.submit(through)
        first, second = (leg.result() for leg in legs)
    return list(map(steady, first)), list(map(steady, second))


def steady(line: bytes) -> bytes:
    """Without what differs by nature."""
    for pattern, instead in VOLATILE:
        line = re.sub(pattern, instead, line)
    return line


def assert_same(server: Server, script: Script, answers: Callable[[], Mapping[str, Responder]] = dict) -> list[Json]:
    """The two transcripts are the same lines in the same order; gives them, as messages."""
    direct, through = transcripts(server, script, answers)
    for number, (one, other) in enumerate(zip(direct, through, strict=False)):
        assert other == one, f"line {number} differs: {one[:2000]!r} directly, {other[:2000]!r} through the seat"
    assert len(through) == len(direct)
    return [json.loads(line) for line in direct]


def _spec(server: Server) -> dict[str, Any]:
    return {"argv": list(server.argv), "env": dict(server.env), "cwd": str(server.cwd), **server.keys}
