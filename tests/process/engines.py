"""A container engine for tests, tests/children/engine.py."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acp_launch.process import prepare
from acp_launch.process.containers import ContainerEngine, label_arguments
from tests.patience import PATIENCE

from .liveness import CHILDREN, Liveness


class SmallEngine:
    """An engine with a daemon. Its program needs the variable ENGINE_STATE."""

    def __init__(self, state: Path) -> None:
        self.state, self.program = state, state / "podman"
        self.env = {"PATH": os.environ["PATH"], "ENGINE_STATE": str(state)}
        self.engine = ContainerEngine(str(self.program), self.env)

    def answers(self, mode: str = "") -> None:
        """From now on: `down`, `deaf`, `created`, `late`; as engines do, if it is empty."""
        (self.state / "mode").write_text(mode)

    def call(self, *words: str) -> str:
        return subprocess.check_output([self.program, *words], env=self.env, text=True, timeout=PATIENCE)

    def containers(self) -> list[str]:
        return self.call("ps", "-a", "--filter", f"label=acp-launch.launch={prepare.launch_id()}").split()

    def calls(self) -> list[str]:
        """The verbs of its clients."""
        file = self.state / "calls"
        return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []

    def run(self, *argv: str, label: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
        """A client, which is no child of a launch."""
        words = [str(self.program), "run", "-i", "--rm", *(label or label_arguments()), "image", *argv]
        return subprocess.Popen(words, env=self.env, stdin=subprocess.PIPE)


@contextmanager
def small_engine(state: Path, alive: Liveness) -> Iterator[SmallEngine]:
    """What runs in its containers says so to `alive`; the daemon and they end with the block."""
    state.mkdir()
    found = SmallEngine(state)
    argv = [sys.executable, "-I", "-S", str(CHILDREN / "engine.py")]
    found.program.write_text(f'#!/bin/sh\nexec {" ".join(argv)} "$ENGINE_STATE" "$@"\n')
    found.program.chmod(0o755)
    with subprocess.Popen(
        [*argv, str(state), "serve"], stdout=subprocess.PIPE, env={**found.env, **alive.env}
    ) as daemon:
        assert daemon.stdout is not None
        ready, _, _ = select.select([daemon.stdout], [], [], PATIENCE)
        assert ready
        try:
            yield found
        finally:
            found.answers()
            try:
                found.call("end")
            finally:
                daemon.kill()
