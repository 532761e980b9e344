"""
What starts an agent elsewhere: the bytes before the agent's own on the stdin of half.py or half.js. Pure.

A container has the program as a file. For ssh, `BOOT` is the text of `python3 -I -S -c`, and `program()` comes first.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

# It has no single quote and no backslash, so that it can be quoted for the shell there.
BOOT = """\
import os
def read(size):
    text = b""
    while len(text) < size:
        text += os.read(0, size - len(text)) or os._exit(1)
    return text
exec(read(int(read(9))))
"""


class RemoteSeat(Struct, frozen=True):
    """The seat there: the directory to make, the socket that ssh has bound, and the text of each file."""

    directory: str
    socket: str
    files: Mapping[str, str]


def make_header(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    *,
    grace: float,
    where: str,
    login_path: bool = False,
    seat: RemoteSeat | None = None,
) -> bytes:
    """Tell the half what to start.

    `env` is added to the variables there. `grace` are the seconds for the agent to end after its stdin has. `where`
    ends a message: "on build1". `login_path`: PATH is the login shell's, unless `env` has one.
    """
    made = None if seat is None else asdict(seat) | {"files": dict(seat.files)}
    task = {"argv": list(argv), "env": dict(env), "cwd": cwd, "grace": grace, "where": where}
    return _measured(json.dumps(task | {"login_path": login_path, "seat": made}).encode())


@cache
def program() -> bytes:
    """Return the text of half.py, for `BOOT`."""
    return _measured(read_program("half.py").encode())


def container_files() -> dict[str, str]:
    """Return the text of each program for a container, which `/bin/sh half.sh` and `/bin/sh shim.sh` start."""
    names = ("half.py", "half.js", "shim.py", "shim.js", "copying.py")
    starter = read_program("start.sh")
    return {name: read_program(name) for name in names} | {"half.sh": starter, "shim.sh": starter}


def read_program(name: str) -> str:
    """Read one of the programs that run where the agent is: half.py, shim.py, copying.py and their likes."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _measured(text: bytes) -> bytes:
    return b"%08d\n%b" % (len(text), text)
