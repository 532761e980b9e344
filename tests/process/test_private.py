"""Others of the same user cannot look into a process that holds secrets."""

import os
import subprocess
import sys

import pytest

from tests.patience import PATIENCE

CODE = """
import ctypes, subprocess, sys
from acp_launch.process.spawn import hide
GET = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
exec(GET)
hide()
exec(GET)
sys.stdout.flush()
subprocess.run([sys.executable, "-c", GET], check=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_it_is_closed_to_others_and_its_children_are_not() -> None:
    ended = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ended.stdout.split() == ["1", "0", "1"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_forked_process_that_forgets_its_environment_holds_none_of_it() -> None:
    code = """
import os
from pathlib import Path
from acp_launch.process.spawn import forget_environment
if pid := os.fork():
    raise SystemExit(os.waitpid(pid, 0)[1])
before = Path("/proc/self/environ").read_bytes()
forget_environment()
print(b"hunter2" in before, Path("/proc/self/environ").read_bytes().strip(bytes(1)), dict(os.environ))
"""
    env = {**os.environ, "ACP_LAUNCH_SECRET_X": "hunter2"}
    argv = [sys.executable, "-c", code]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=True, env=env)
    assert ended.stdout == "True b'' {}\n"
