"""Where a box can be tried, and who tries it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache

import pytest

REQUIRED = os.environ.get("ACP_LAUNCH_TEST_CONFINED") == "required"  # read now: tests run without ACP_* variables

# Root becomes an ordinary user in a user namespace, where it may read what tests need and has no capability.
ORDINARY = (
    *("bwrap", "--die-with-parent", "--unshare-user", "--uid", "1234", "--gid", "1234"),
    *("--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--"),
)


@cache
def why_not(prefix: Sequence[str] = ()) -> str:
    """Why no box can be made here; empty if one can."""
    if sys.platform != "linux" or not shutil.which("bwrap"):
        return "bubblewrap is not installed"
    box = ("bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true")
    tried = subprocess.run([*prefix, *box], stderr=subprocess.PIPE, text=True, check=False)
    return f"no user namespaces here: {tried.stderr.strip()}" if tried.returncode else ""


def needs_box(prefix: Sequence[str] = ()) -> None:
    """Skip the test where there is no box, unless ACP_LAUNCH_TEST_CONFINED is `required`."""
    why = why_not(tuple(prefix))
    assert not (REQUIRED and why), f"ACP_LAUNCH_TEST_CONFINED=required, and {why}"
    if why:
        pytest.skip(why)


for each in ((), ORDINARY):
    why_not(each)  # now: later an orphan of the trial would be ours
WHO = [pytest.param((), id="as-we-are"), pytest.param(ORDINARY, id="ordinary-user")]
