"""Which acp-launch runs here, on what."""

import platform
import sys

from acp_launch import __version__
from acp_launch.checks.check import Check, ok, problem

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
