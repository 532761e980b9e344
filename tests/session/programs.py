"""Start the programs beside this file and talk with them; whatever a test starts is dead when it ends."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
Program = subprocess.Popen[str]


@contextmanager
def programs(name: str, *arguments: tuple[str, ...]) -> Iterator[list[Program]]:
    """One process of the module `name` per argument list, all past their imports and waiting to be told."""
    started: list[Program] = []
    try:
        started.extend(_start(name, each) for each in arguments)
        for program in started:
            assert line(program) == "ready"
        yield started
    finally:
        for program in started:
            program.kill()
            program.communicate(timeout=PATIENCE)


def tell(program: Program, text: str) -> None:
    assert program.stdin
    program.stdin.write(f"{text}\n")
    program.stdin.flush()


def line(program: Program) -> str:
    assert program.stdout
    return program.stdout.readline().rstrip("\n")


def _start(name: str, arguments: tuple[str, ...]) -> Program:
    command = [sys.executable, "-m", f"tests.session.{name}", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
