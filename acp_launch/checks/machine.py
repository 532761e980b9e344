"""Which acp-launch runs here, on what."""

import os
import platform
import socket
import sys
from pathlib import Path

from acp_launch import __version__
from acp_launch.checks.check import Check, ok, problem
from acp_launch.errors import LaunchError
from acp_launch.process import cgroup

PATIENCE = 5.0  # seconds
# As the guard of a launch does: whoever enters a group should not be the one who looks.
_ENTER = """
import sys
sys.path.insert(0, sys.argv[1])
from cgroup import of_launch
group = of_launch(sys.argv[2])
if group is not None and group.enter():
    print("entered")
    group.leave()
    group.remove()
"""
IS_WINDOWS = sys.platform == "win32"


def versions() -> Check:
    """Nothing in it names the machine."""
    python = platform.python_version()
    system, release, machine = platform.system(), platform.release(), platform.machine()
    text = f"{__version__} on Python {python} ({platform.python_implementation()}), {system} {release} {machine}"
    facts = {"version": __version__, "python": python, "system": system, "release": release, "machine": machine}
    if IS_WINDOWS:
        return problem("acp-launch", "", f"{text}, where agents cannot be run yet", "run it inside WSL", **facts)
    return ok("acp-launch", "", text, **facts)


def shims() -> Check:
    """How the agent's shims give us what it says to its servers."""
    try:
        _pass_descriptor()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        text = f"copy every byte, which takes more time: no descriptor can be passed here ({why})"
        return ok("shims", "", text, lends=False)
    return ok("shims", "", "lend their pipes to acp-launch", lends=True)


def control_group() -> Check:
    """Whether a launch gets a control group of its own."""
    if _enters():
        return ok("control group", "", "one for each launch: nothing that it starts gets out of it", own=True)
    text = "none (no cgroup v2, or none that this user may use): the guards alone end what a launch has started"
    return ok("control group", "", text, own=False)


def _pass_descriptor() -> None:
    """As a shim does.

    Raises:
        OSError: it is not allowed, or nothing arrived.
    """
    there, here = socket.socketpair()
    with there, here:
        socket.send_fds(there, [b"+"], [there.fileno()])
        _, passed, _, _ = socket.recv_fds(here, 1, 1)
        for descriptor in passed:
            os.close(descriptor)
        if not passed:
            raise OSError("it did not arrive")


def _enters() -> bool:
    from acp_launch.process.capture import capture

    name = f"doctor-{os.getpid()}"
    argv = [sys.executable, "-I", "-S", "-c", _ENTER, str(Path(cgroup.__file__).parent), name]
    try:
        return capture(argv, PATIENCE, env={}, cwd=Path("/")).out == b"entered\n"
    except LaunchError:
        return False
    finally:
        if group := cgroup.of_launch(name):
            group.remove()
