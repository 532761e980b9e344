"""
What starts an agent elsewhere: the bytes before the agent's own on the stdin of half.py or half.js. Pure.

A container has the program as a file. For ssh, `plan.place.BOOT` reads it from its input: `program()` comes first.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict


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
    silence: float = 0,
    login_path: bool = False,
    needs_home: bool = False,
    seat: RemoteSeat | None = None,
) -> bytes:
    """Tell the half what to start.

    `env` is added to the variables there. `grace` are the seconds for the agent to end after its stdin has. `where`
    ends a message: "on build1". `silence` are the seconds after which a line without a byte is lost, 0 if it cannot
    fall silent. `login_path`: PATH is the login shell's, unless `env` has one; `needs_home`: HOME is
    writable, likewise.
    """
    made = None if seat is None else asdict(seat) | {"files": dict(seat.files)}
    task = {"argv": list(argv), "env": dict(env), "cwd": cwd, "grace": grace, "where": where, "silence": silence}
    return _measured(json.dumps(task | {"login_path": login_path, "needs_home": needs_home, "seat": made}).encode())


@cache
def program() -> bytes:
    """Return the text of half.py, for `plan.place.BOOT`."""
    return _measured(read_program("half.py").encode())


def read_program(name: str) -> str:
    """Read one of the programs that run where the agent is: half.py, shim.py, copying.py and their likes."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _measured(text: bytes) -> bytes:
    return b"%08d\n%b" % (len(text), text)
