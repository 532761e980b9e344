"""What is started outside is not ours: not our child, in none of our trees, not ended with us. Our promise."""

import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from acp_launch.process import detached, prepare, table
from acp_launch.process.tree import adopted, descendants
from tests.patience import PATIENCE

from .launches import bury, gone
from .liveness import CHILDREN, Liveness, program


class Visited:
    """A browser and its helper: alive until `end` has told them to end, and then dead."""

    def __init__(self, listener: socket.socket) -> None:
        self._lines = []
        self.said: dict[str, Any] = {}
        for _ in range(2):
            line, _ = listener.accept()
            line.settimeout(PATIENCE)
            self._lines.append(line)
            said = json.loads(line.makefile("r").readline())
            self.said[said["name"]] = said

    def end(self) -> None:
        for line in self._lines:
            line.sendall(b"!")
            assert line.recv(1) == b"", "it said something else than its end"
            line.close()


@contextmanager
def listening() -> Iterator[tuple[socket.socket, dict[str, str]]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        yield listener, {"PATH": os.environ["PATH"], "LIVENESS": str(listener.getsockname()[1])}


def test_it_is_not_our_child_and_has_no_part_in_our_terminal(tmp_path: Path) -> None:
    prepare.prepare()
    with listening() as (listener, env):
        assert detached.start(program("browser", "https://example.com/"), {**env, "COLOUR": "blue"}) == ""
        visited = Visited(listener)
        browser, helper = visited.said["browser"], visited.said["helper"]
        assert browser["parent"] != os.getpid() != helper["parent"]
        assert browser["session"] != os.getsid(0)
        assert browser["arguments"] == ["https://example.com/"]
        assert {**env, "COLOUR": "blue"}.items() <= browser["environment"].items()
        assert browser["streams"] == ["/dev/null"] * 3
        assert not browser["has_terminal"]
        assert [process.pid for process in descendants(prepare.table())] == []
        assert adopted(prepare.table()) == []
        assert is_subreaper() is prepare.IS_LINUX
        visited.end()


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_it_survives_a_launch_that_is(how: str, tmp_path: Path, alive: Liveness) -> None:
    agent = program("deaf", "stubborn")
    with listening() as (listener, env):
        argvs = [json.dumps(argv) for argv in (agent, program("browser"))]
        browser_env = {**os.environ, **env}
        argvs[0] = json.dumps(["/usr/bin/env", f"LIVENESS={alive.env['LIVENESS']}", *agent])
        with subprocess.Popen(
            [sys.executable, str(CHILDREN / "visitor.py"), str(tmp_path), *argvs],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=browser_env,
        ) as launcher:
            assert launcher.stdout is not None
            said = json.loads(launcher.stdout.readline())
            assert said["said"] == ""
            alive.hear("stubborn")
            visited = Visited(listener)
            with gone(said["guard"]):
                if how == "killed":
                    launcher.kill()
                else:
                    launcher.communicate(b"end\n", timeout=PATIENCE)
                launcher.wait(PATIENCE)
        alive.assert_all_dead()
        visited.end()
    bury()


def is_subreaper() -> bool:
    found = ctypes.c_int(0)
    ctypes.CDLL(None).prctl(37, ctypes.byref(found), 0, 0, 0)
    return found.value != 0


def test_what_cannot_be_executed_is_said(tmp_path: Path) -> None:
    assert detached.start([str(tmp_path / "none")], {}) == "it is not there, or not executable"
    assert detached.start(["/bin/true", "\0"], {}) == "embedded null byte"


def test_a_shell_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached, "BACKGROUND", "exec sleep 1000")
    monkeypatch.setattr(detached, "START_TIMEOUT", 0.2)
    assert detached.start(["/bin/true"], {"PATH": os.environ["PATH"]}) == "it did not start in time"


def test_where_there_is_no_subreaper_it_is_started_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS: an orphan goes to launchd by itself. Here it comes to us, since we do have one."""
    monkeypatch.setattr(prepare, "IS_LINUX", False)
    monkeypatch.setattr(table, "IS_LINUX", False)
    with listening() as (listener, env):
        assert detached.start(program("browser"), env) == ""
        Visited(listener).end()
    monkeypatch.undo()
    bury()
