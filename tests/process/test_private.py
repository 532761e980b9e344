"""Others of the same user cannot look into a process that holds secrets."""

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
