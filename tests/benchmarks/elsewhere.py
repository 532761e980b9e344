"""
A run whose agent is in a container or on another machine, as a ratio: `python -m tests.benchmarks.elsewhere [PAIRS]`.

The floor is the same agent started by the engine or by ssh alone, with the raw client, and then a run of it here. The
second row of each is against the first of these alone.
"""

import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import engines, otherhost
from tests.benchmarks.pairs import HEAD, HERE, PYTHON, US, Row, environment, wall, wanted


class Place(NamedTuple):
    runtime: dict[str, object]
    by_hand: Sequence[str]
    programs: Path
    directory: Path


@contextmanager
def container(kind: str, project: Path) -> Iterator[Place]:
    with engines.having(kind) as engine:
        by_hand = [engine.program, "run", "-i", "--rm", "--init", "-v", f"{project}:{project}", "-w", f"{project}"]
        runtime: dict[str, object] = {"container": {"image": engine.image, "engine": kind}}
        yield Place(runtime, [*by_hand, engine.image], Path(engine.program).parent, project)


@contextmanager
def ssh(project: Path) -> Iterator[Place]:
    with otherhost.having() as other:
        directory = shutil.copytree(project, other.there / "bench")
        runtime: dict[str, object] = {"ssh": {"host": "there", "directory": str(directory)}}
        yield Place(runtime, [f"{other.bin}/ssh", "-o", "BatchMode=yes", "there"], Path(other.bin), directory)


def rows(name: str, place: Place, project: Path, pairs: int) -> Iterator[Row]:
    agent = ["python3", "-I", "-S"]
    there = [*agent, str(place.directory / "instant.py")]
    profile = project / "profile.yaml"
    sections = {"agent": {"command": there[0], "args": there[1:]}, "runtime": place.runtime}
    profile.write_text(json.dumps({"version": 1, **sections}))
    ours = ["env", "-C", str(project), *US, "run", "--trust", str(profile), "hi"]
    alone = [PYTHON, str(HERE / "raw.py"), *place.by_hand, *there]
    here = [*US, "run", "--agent", shlex.join([*agent, str(project / "instant.py")]), "hi"]
    both = ["sh", "-c", f"{shlex.join(alone)} && {shlex.join(here)}"]
    yield Row(f"run, {name}, wall", f"{name} alone, then a run here", "1.15x", wall, ours, both, pairs)
    yield Row(f"run, {name}, wall", f"{name} alone", "-", wall, ours, alone, pairs)


def main() -> None:
    pairs = wanted(11)
    print(HEAD)
    for name in (*engines.KINDS, "ssh"):
        with tempfile.TemporaryDirectory(prefix="be") as directory:
            project = Path(directory) / "project"
            project.mkdir()
            shutil.copy(HERE / "instant.py", project)
            env = environment(Path(directory))
            try:
                with ssh(project) if name == "ssh" else container(name, project) as place:
                    env["PATH"] = f"{place.programs}{os.pathsep}{env['PATH']}"
                    for each in rows(name, place, project, pairs):
                        print(each.measured(env), flush=True)
            except pytest.skip.Exception as error:
                print(f"| run, {name} | | | not measured: {error} | | | |")


if __name__ == "__main__":
    main()
