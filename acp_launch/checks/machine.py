"""
Checks of this machine: versions, directories, disks, limits, and processes that crashed launches left behind.

Each function returns a `Check`, or yields several. Nothing on the machine is changed but for trial files and a trial
control group, which are removed again.
"""

import errno
import os
import platform
import resource
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Literal

from acp_launch import __version__, private
from acp_launch.checks import confined, node
from acp_launch.checks.check import Check, ok, problem, warning
from acp_launch.errors import LaunchError
from acp_launch.process import cgroup, prepare
from acp_launch.process.capture import capture
from acp_launch.process.containers import describe_left, shorten
from acp_launch.process.leftovers import find_containers, launch_processes, launch_state, names
from acp_launch.process.records import RecordedLaunch, read_all
from acp_launch.settings.model import Settings
from acp_launch.waits import stretch

STORE_TIMEOUT = stretch(5.0)
# As the guard of a launch does: the process that enters the group is not this one.
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


def check_machine(settings: Settings) -> Iterator[Check]:
    """Check all that does not depend on a profile."""
    yield directory("config", settings.config)
    yield directory("state", settings.state)
    yield directory("cache", settings.cache)
    yield disk("state", settings.state)
    yield disk("cache", settings.cache)
    yield runtime(settings.state)
    yield descriptors()
    yield shims()
    yield control_group()
    yield confined.probe()
    yield node.check()
    yield from leftovers(settings.state)


def versions() -> Check:
    """Report the versions of acp-launch, Python and the system. Nothing in them identifies the machine."""
    python = platform.python_version()
    system, release, machine = platform.system(), platform.release(), platform.machine()
    text = f"{__version__} on Python {python} ({platform.python_implementation()}), {system} {release} {machine}"
    facts = {"version": __version__, "python": python, "system": system, "release": release, "machine": machine}
    return ok("acp-launch", "", text, **facts)


def shims() -> Check:
    """Report whether the agent's shims can pass their pipes to acp-launch, or must copy every byte."""
    try:
        _pass_descriptor()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        text = f"copy every byte, which is slower: file descriptors cannot be passed here ({why})"
        return ok("shims", "", text, lends=False)
    return ok("shims", "", "pass their pipes to acp-launch", lends=True)


def control_group() -> Check:
    """Report whether a launch gets a control group of its own."""
    if _enters():
        return ok("control group", "", "one for each launch; its processes cannot leave it", own=True)
    text = "none (cgroup v2 is missing, or this user may not use it); only the guards stop what a launch started"
    return ok("control group", "", text, own=False)


def _pass_descriptor() -> None:
    """Pass a file descriptor as a shim does.

    Raises:
        OSError: it is not allowed, or it did not arrive.
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
    name = f"doctor-{os.getpid()}"
    argv = [sys.executable, "-I", "-S", "-c", _ENTER, str(Path(cgroup.__file__).parent), name]
    try:
        return capture(argv, STORE_TIMEOUT, env={}, cwd=Path("/")).out == b"entered\n"
    except LaunchError:
        return False
    finally:
        if group := cgroup.of_launch(name):
            group.remove()


# The directories of acp-launch must belong to the user, be writable, and be protected. A missing one is created when it
# is needed. A trial write of a nameless file is the only way to find a full disk, a quota or a read-only file system.
Kind = Literal["config", "state", "cache"]
ROOM = bytes(4096)  # content of the trial write
FULL = (errno.ENOSPC, errno.EDQUOT)


def directory(kind: Kind, path: Path) -> Check:
    """Check one directory. Only `state` is required: a cache only saves time, and a configuration may be read-only."""
    try:
        status = path.stat()
    except FileNotFoundError:
        parent = nearest(path)
        if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
            return ok("directory", kind, f"{path} (does not exist yet; created when needed)", path=str(path))
        return _bad(kind, path, f"cannot be created in {parent}", _elsewhere(kind))
    except OSError as error:
        return _bad(kind, path, f"cannot be checked: {_reason(error)}", _elsewhere(kind))
    if not stat.S_ISDIR(status.st_mode):
        return _bad(kind, path, "is not a directory", f"move it away, or {_elsewhere(kind)}")
    if status.st_uid != os.geteuid():
        return _bad(kind, path, "belongs to another user", f"sudo chown -R $(id -u) {quote(str(path))}")
    return _unwritable(kind, path) or _check_mode(kind, path, stat.S_IMODE(status.st_mode))


def runtime(state: Path) -> Check:
    """Check the directory for the sockets between agents and servers, by creating and removing one."""
    try:
        with private.directory(state) as made:
            return ok("directory", "runtime", str(made.parent), path=str(made.parent))
    except LaunchError as error:
        return problem("directory", "runtime", f"{error.message} ({'; '.join(error.detail)})", error.fix)


def nearest(path: Path) -> Path:
    """Return `path`, or its nearest parent that exists."""
    return next((each for each in (path, *path.parents) if os.path.lexists(each)), path)


def _unwritable(kind: Kind, path: Path) -> Check | None:
    if kind == "config":
        return None
    try:
        with tempfile.TemporaryFile(dir=path, buffering=0) as file:
            file.write(ROOM)
    except OSError as error:
        room = "make room on its file system" if error.errno in FULL else f"chmod u+rwx {quote(str(path))}"
        return _bad(kind, path, f"cannot be written: {_reason(error)}", f"{room}, or {_elsewhere(kind)}")
    return None


def _check_mode(kind: Kind, path: Path, mode: int) -> Check:
    facts = {"path": str(path), "mode": f"{mode:04o}"}
    text = f"{path} ({mode:04o})"
    if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
        fix = f"chmod go-w {quote(str(path))}"
        return warning("directory", kind, f"{text}: other users can change what is in it", fix, **facts)
    if kind == "state" and mode & (stat.S_IRGRP | stat.S_IROTH):
        fix = f"chmod 700 {quote(str(path))}"
        return warning("directory", kind, f"{text}: other users can read the logs of agents", fix, **facts)
    return ok("directory", kind, text, **facts)


def _bad(kind: Kind, path: Path, why: str, fix: str) -> Check:
    make = problem if kind == "state" else warning
    return make("directory", kind, f"{path} {why}", fix, path=str(path))


def _elsewhere(kind: Kind) -> str:
    return f"export ACP_LAUNCH_{kind.upper()}_DIR=DIRECTORY"


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


# Limits of this machine: disk space and file descriptors.
MIB = 1024**2
LEAST, LITTLE = 5 * MIB, 100 * MIB  # free bytes: what one launch may write; what a few days of logs take
FEW_DESCRIPTORS = 256  # three for each child, and as many for agents that open files
OF_A_LAUNCH = 64  # descriptors of a launch without servers, including commands that it runs for the agent
OF_A_SERVER = 6  # its three pipes, two pipes that the agent's shim lends, and the connection to the shim
FEW_SERVERS = 1000  # the report names the room for servers if it is less than this


def disk(kind: str, directory: Path) -> Check:
    """Check the file system of `directory`, which may not exist yet."""
    there = nearest(directory)
    try:
        return room(kind, shutil.disk_usage(there).free)
    except OSError as error:
        return warning("disk", kind, f"cannot be checked: {error.strerror}", f"check {there}")


def room(kind: str, free: int) -> Check:
    """Report free space. A file system without room for another file shows when the directory is written to."""
    fix = f"make room there, or choose another directory: export ACP_LAUNCH_{kind.upper()}_DIR=DIRECTORY"
    text = f"{size(free)} free"
    if free < LEAST:
        return problem("disk", kind, text, fix, free=free)
    if free < LITTLE:
        return warning("disk", kind, text, fix, free=free)
    return ok("disk", kind, text, free=free)


def size(amount: int) -> str:
    """Write a number of bytes for a reader: `812 KiB`, `1.2 GiB`."""
    value, unit = amount / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"


def descriptors() -> Check:
    """Check the limit of open files. Call it before the first child is started, since that raises the limit."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    return open_files(*(None if limit == resource.RLIM_INFINITY else limit for limit in limits))


def open_files(soft: int | None, hard: int | None) -> Check:
    """Report the limits of open files; None means unlimited. A launch raises its own soft limit."""
    room = None if hard is None else max(0, hard - OF_A_LAUNCH) // OF_A_SERVER
    facts = {"soft": soft, "hard": hard, "servers": room}
    text = f"{_limit_text(soft)}, up to {_limit_text(hard)} for acp-launch itself"
    if room is not None and room < FEW_SERVERS:
        text += f": room for about {room:,} MCP servers"
    if hard is not None and hard < prepare.FEW_DESCRIPTORS:
        return problem("limit", "open files", text, f"raise the hard limit to {FEW_DESCRIPTORS} or more", **facts)
    if hard is not None and hard < FEW_DESCRIPTORS:
        return warning("limit", "open files", text, f"raise the hard limit to {FEW_DESCRIPTORS} or more", **facts)
    return ok("limit", "open files", text, **facts)


def _limit_text(limit: int | None) -> str:
    return "no limit" if limit is None else f"{limit:,}"


def leftovers(state: Path) -> Iterator[Check]:
    """Report the processes and containers that each crashed launch left behind, or that there are none.

    Nothing is stopped here.
    """
    launches = read_all(state)
    left = [check for launch in launches if (check := _check_launch(launch))]
    running = sum(launch_state(launch) == "running" for launch in launches)
    yield from left
    if not left:
        yield ok("leftovers", "", f"none; {running} launch{'es' if running != 1 else ''} running", running=running)


def _check_launch(launch: RecordedLaunch) -> Check | None:
    state = launch_state(launch)
    alive = names(launch, launch_processes(launch).alive()) if state == "dead" else ()
    containers = find_containers(launch, state)
    if not alive and containers.is_over:
        return None
    found = [f"{each.name} ({each.pid})" if each.name else str(each.pid) for each in alive]
    found += [f"container {shorten([each])}" for each in containers.left]
    told = f"a {launch.verb} of {launch.profile}"
    texts = [f"{told} left behind {', '.join(found)}"] if found else []
    if containers.why:
        texts.append(f"after {told}: {describe_left(containers, launch.engine, launch.id)}")
    pids = [each.pid for each in alive]
    return warning("leftovers", "", "; ".join(texts), "acp-launch reap; the next start stops them too", pids=pids)
