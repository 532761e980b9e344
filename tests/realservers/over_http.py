"""A published server over HTTP, and the same conversation with it as over stdio."""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil

from tests.realservers.recorder import Responder
from tests.realservers.seated import Script, Server, directly, seated, steady

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PORT": "0"}


@contextmanager
def listening(argv: Sequence[str], cwd: Path, says: str) -> Iterator[int]:
    """The port of a server that chose one itself; `says` is in the line of stderr with which it is ready."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        argv, cwd=cwd, env=ENVIRONMENT, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe, text=True
    )
    assert process.stdin is not None
    assert process.stderr is not None
    try:
        assert any(says in line for line in process.stderr), f"{argv} ended without {says!r}"
        found = psutil.Process(process.pid).net_connections("tcp")
        yield next(each.laddr.port for each in found if each.status == psutil.CONN_LISTEN)
    finally:
        process.kill()
        process.communicate()


UUID = rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
OF_HTTP = (  # what the servers say of their session, where there is one
    (rb" - SessionId " + UUID + rb"|from session " + UUID, b""),
    (rb"session " + UUID, b"session undefined"),
)
# Said before there is a stream for it, and lost by the npm server; the answer of the SDK to a call that was cancelled,
# without which its stream would not end.
APART = (b"notifications/tools/list_changed", b'"code":-32800')


def assert_same_lines(
    stdio: Server, remote: Server, script: Script, answers: Callable[[], Mapping[str, Responder]] = dict
) -> None:
    """What a client hears of the server over stdio, it hears of the one over HTTP, through the seat.

    Not in the same order: over HTTP there is a stream for each request.
    """
    with directly(replace(stdio, env=ENVIRONMENT), answers()) as recorder:
        script(recorder)
        direct = recorder.lines
    with seated(server=remote) as seats, seats.open(answers=answers()) as recorder:
        script(recorder)
        through = recorder.lines
    first, second = counted(direct), counted(through)
    assert (first - second, second - first) == (Counter(), Counter())


def counted(lines: Iterable[bytes]) -> Counter[bytes]:
    plain = []
    for line in lines:
        for pattern, instead in OF_HTTP:
            line = re.sub(pattern, instead, line)
        plain += [] if any(each in line for each in APART) else [steady(line)]
    return Counter(plain)


def remote(url: str, cwd: Path, type: str = "http") -> Server:
    return Server([], cwd, {}, {"url": url, "type": type})
