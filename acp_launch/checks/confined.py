"""
Checks of confinement: whether bubblewrap can confine an agent on this machine, and what the place of one lacks.

`probe` starts nothing but bubblewrap itself. `try_shim` does in the place of an agent what a shim does first.
"""

import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from acp_launch.checks.check import Check, ok, problem, warning
from acp_launch.errors import LaunchError
from acp_launch.plan.model import Place, ProcessPlan
from acp_launch.plan.place import add_seat, enclose
from acp_launch.private import directory
from acp_launch.process.capture import capture
from acp_launch.waits import stretch

PLATFORM: str = sys.platform
NAME = "confinement"
INSTALL = "apt-get install bubblewrap, or dnf install bubblewrap"
PATIENCE = stretch(10.0)  # seconds
KERNEL = Path("/proc/sys")
# Settings of Linux that keep a user from having namespaces: the file, the value that does, and what changes it.
OBSTACLES = (
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor denies it",
        "apt-get install apparmor-profiles; cp /usr/share/apparmor/extra-profiles/bwrap-userns-restrict"
        " /etc/apparmor.d/; apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict (as root)",
    ),
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "the kernel denies it to users",
        "sysctl -w kernel.unprivileged_userns_clone=1 (as root)",
    ),
    (
        "user/max_user_namespaces",
        "0",
        "the kernel allows no user namespace",
        "sysctl -w user.max_user_namespaces=10000 (as root)",
    ),
)
ELSEWHERE = "in a container, start that one so that it may make user namespaces"
_TRIAL = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL", "--ro-bind", "/", "/")
# What a shim does before anything else. Arguments: the shim, the socket.
_SHIM = """
import socket, sys
with open(sys.argv[1], "rb") as file:
    file.read(1)
with socket.socket(socket.AF_UNIX) as line:
    line.connect(sys.argv[2])
print("connected")
"""


def probe(*, is_needed: bool = False) -> Check:
    """Check whether agents can be confined here. It is a problem only if the profile's agent is."""
    program = shutil.which("bwrap")
    if PLATFORM != "linux":
        why, fix = "it needs Linux", "run it on Linux, or without runtime.confined"
    elif program is None:
        why, fix = "bubblewrap is not installed", INSTALL
    elif said := _try_namespaces(program):
        why, fix = f"bubblewrap cannot make namespaces ({said})", ELSEWHERE
        for name, bad, what, cure in OBSTACLES if os.geteuid() else ():
            if _read(KERNEL / name) == bad:
                why, fix = f"bubblewrap cannot make namespaces: {what} ({said})", cure
                break
    else:
        return ok(NAME, "", "possible, by bubblewrap", possible=True, program=program)
    if is_needed:
        return problem(NAME, "agent", f"not possible: {why}", fix, possible=False)
    return ok(NAME, "", f"not possible: {why}", possible=False)


def _try_namespaces(program: str) -> str:
    """Return the words of bubblewrap if it cannot do what it does for an agent; else an empty text."""
    argv = [program, *_TRIAL, "--proc", "/proc", "--dev", "/dev", "--", sys.executable, "-I", "-S", "-c", ""]
    try:
        done = capture(argv, PATIENCE, env={}, cwd=Path("/"))
    except LaunchError as error:
        return error.message
    if done.ending.status == 0 and not done.timed_out:
        return ""
    return done.err[-1].removeprefix("bwrap: ") if done.err else str(done.ending)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def examine(where: Place, agent: ProcessPlan) -> Iterator[Check]:
    """Check the place of an agent: its state, and that it can start a shim."""
    for mount in where.mounts:
        if mount.reason in ("state", "write") and mount.path.is_file():
            what = "one file, so a program that replaces it by renaming another one fails"
            yield warning(NAME, str(mount.path), what, "name its directory instead, unless the agent writes in place")
    yield try_shim(where, agent)


def try_shim(where: Place, agent: ProcessPlan) -> Check:
    """Check that a shim started in this place reaches acp-launch."""
    from acp_launch.bridge import shim

    try:
        with directory() as made, socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(made / "trial"))
            listening.listen()
            line = (sys.executable, "-I", "-S", "-c", _SHIM, str(Path(shim.__file__)), str(made / "trial"))
            argv, env = enclose(line, {}, agent.cwd, add_seat(where, made))
            done = capture(argv, PATIENCE, env=env, cwd=agent.cwd)
    except (LaunchError, OSError) as error:
        why = error.message if isinstance(error, LaunchError) else str(error)
    else:
        if done.out == b"connected\n":
            return ok("shims", "confined", "reach acp-launch from the agent's place")
        why = done.err[-1] if done.err else str(done.ending)
    what = f"a shim does not reach acp-launch from the agent's place: {why}"
    return problem("shims", "confined", what, "name what it lacks under runtime.confined.read")
