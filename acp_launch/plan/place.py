"""
A place for a process: the part of this machine that the process sees. Pure.

`place` makes a plan of a process one that starts it in its place, `enclose` does the same for a command line. A place
is a box of bubblewrap, a container, or another machine, which sees nothing of this one. What is in it lies where it
lies outside, and other paths are not there. `arrange` makes mounts complete: none can be moved away by renaming a
directory above it.

acp-launch itself asks `shows`, `can_write` and `find_inside` before it reads, writes or runs, outside, what a process
there names.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from acp_launch.plan.model import (
    OURS,
    PROGRAMS,
    STARTER,
    InContainer,
    Mount,
    OverSsh,
    Place,
    ProcessPlan,
    Reason,
    Value,
)
from acp_launch.private import SOCKET, follow_links, read_link

_OPTIONAL: tuple[Reason, ...] = ("agent", "acp-launch", "system")  # not mounted if another mount shows them

# Parts of /proc that root could change this machine with, without any capability.
_KERNEL = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
# Variables that choose what code a program runs before its own: bubblewrap itself must not obey them, as the agent may
# have written that code.
_LOADERS = ("GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH")
BEAT_SECONDS, BEATS = 15, 3  # how often each end of a line is to hear of the other; without so many it is lost
PYTHON_SECONDS = 10  # for the Python there to start
# Reads a program from its input, as long as eight digits before it say, and runs it. One line without a single quote, a
# backslash or an exclamation mark, for any shell there. A line that falls silent before the program comes ends it.
BOOT = (
    f"import os,_signal;_signal.alarm({BEAT_SECONDS * BEATS});"
    'r=lambda n,t=b"":t if len(t)==n else r(n,t+(os.read(0,n-len(t))or os._exit(1)));exec(r(int(r(9))))'
)
# Tries whether $0 is a Python, whose program $1 is; removes the socket $2 that sshd has made, and leaves, if it is not.
_START = (
    f't=$(command -v timeout) && t="$t -s KILL {PYTHON_SECONDS}"; '
    'p=$($t "$0" -I -S -c "import sys;print(sys.version_info >= (3, 8) or sys.version)" </dev/null 2>&1 | head -c 99); '
    'test "$p" = True || { rm -f "$2"; echo "${p:-it says nothing}"; '
    'echo "acp-launch: $0 of runtime.ssh.python cannot be run as Python 3.8 or later"; exit 126; } >&2; '
    'exec "$0" -I -S -c "$@"'
)
# Variables that the engine's client itself obeys, or the agent: their values are in its arguments.
_CLIENTS, _CLIENTS_FAMILIES = ("HOME", "PATH", "TMPDIR"), ("DOCKER_", "CONTAINER", "XDG_", "PODMAN_", "LD_")
_SSH_OPTIONS: tuple[str, ...] = (
    "-o",
    "ExitOnForwardFailure=yes",
    "-o",
    "ClearAllForwardings=no",
    "-o",
    f"ServerAliveInterval={BEAT_SECONDS}",
    "-o",
    f"ServerAliveCountMax={BEATS - 1}",  # ssh ends with the next beat
)


def add_seat(where: Place, seat: Path) -> Place:
    """Return a place that shows the directory for sockets of the launch; another machine does not have it."""
    if isinstance(where.elsewhere, OverSsh):
        return replace(where, seat=seat)
    return replace(where, mounts=arrange((*where.mounts, Mount(seat, "read", "seat"))), seat=seat)


def place(process: ProcessPlan, where: Place) -> ProcessPlan:
    """Return the plan that starts a process in its place. Elsewhere, its own command line follows as input."""
    if where.elsewhere is not None:
        return replace(process, command=where.program, args=_texts(*lead(where, process.cwd)), env={})
    command, args = process.command, process.args
    if where.direct is not None:
        command, args = where.direct.command, args[where.direct.skipped :]
    loaders = [
        part for name, value in process.env.items() if _is_loaders(name) for part in (*_texts("--setenv", name), value)
    ]
    opening = (*_texts(*_options(where)), *loaders, *_texts("--chdir", str(process.cwd), "--", str(command)))
    env = {name: value for name, value in process.env.items() if not _is_loaders(name)}
    return replace(process, command=where.program, args=(*opening, *args), env=env)


def enclose(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    where: Place,
    *,
    has_terminal: bool = False,
    labels: Sequence[str] = (),
    outer: Mapping[str, str] = {},
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the command line and the variables that start a program in a place. `has_terminal`: it leads a session on
    a terminal that no other program uses, and keeps it. Elsewhere, `env` goes there, and the engine or ssh itself has
    the variables `outer`; `labels` are words for the engine."""
    match where.elsewhere:
        case InContainer() as there:
            line = tuple(_enclose_in_container(argv, env, cwd, where, there, labels, has_terminal=has_terminal))
            return line, {**outer, **{name: value for name, value in env.items() if not _is_clients(name)}}
        case OverSsh() as there:
            inner = shlex.join((*(f"{name}={value}" for name, value in env.items()), *argv))
            words = shlex.join(("sh", "-lc", 'exec env "$@"'))
            remote = f"cd {shlex.quote(str(there.directory))} && exec {words} sh {inner}"
            return (str(where.program), "-t" if has_terminal else "-T", "--", there.host, remote), dict(outer)
    loaders = [part for name, value in env.items() if _is_loaders(name) for part in ("--setenv", name, value)]
    line = (str(where.program), *_options(where, has_terminal=has_terminal), *loaders, "--chdir", str(cwd), "--", *argv)
    return line, {name: value for name, value in env.items() if not _is_loaders(name)}


def lead(where: Place, cwd: Path, labels: Sequence[str] = (), socket: str = "", *, asks: bool = False) -> Iterator[str]:
    """Yield the arguments of the engine, or of ssh, that start the program which starts the agent (`bridge.half`).

    `labels` are words for the engine; `socket` is the path there at which ssh offers ours, if there is one. ssh `asks`
    the user if it has a question, or fails.
    """
    match where.elsewhere:
        case InContainer() as there:
            yield from ("run", "-i", "--rm", "--init", *labels, *_container(where, there, cwd))
            yield from ("--entrypoint", "/bin/sh", there.image, str(PROGRAMS / STARTER), "half")
        case OverSsh() as there:
            yield from ("-T", *(() if asks else ("-o", "BatchMode=yes")), *_SSH_OPTIONS)
            if where.seat is not None and socket:
                yield from ("-R", f"{socket}:{where.seat / SOCKET}")
            words = ("sh", "-c", _START, there.python, BOOT, *([socket] if where.seat is not None and socket else []))
            yield from ("--", there.host, shlex.join(words))


def _enclose_in_container(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    where: Place,
    there: InContainer,
    labels: Sequence[str],
    *,
    has_terminal: bool,
) -> Iterator[str]:
    yield from (str(where.program), "run", *(("-it",) if has_terminal else ()), "--rm", "--init", *labels)
    yield from _container(where, there, cwd)
    for name, value in env.items():  # a variable that the client obeys must not be the agent's
        yield from ("--env", f"{name}={value}" if _is_clients(name) else name)
    yield from ("--entrypoint", argv[0], there.image, *argv[1:])


def _container(where: Place, there: InContainer, cwd: Path) -> Iterator[str]:
    yield from (f"--pull={there.pull}", *there.user, "--workdir", str(cwd))
    if there.network != "default":
        yield f"--network={there.network}"
    for mount in where.mounts:
        yield from ("--mount", _bind(mount.path, mount.path, is_writable=mount.access == "write"))
    for link, target in where.links.items():
        yield from ("--mount", _bind(target, link, is_writable=can_write(where, target)))


def _bind(source: Path, target: Path, *, is_writable: bool) -> str:
    """Return the value of an engine's `--mount`, which is a line of CSV."""
    words = ["type=bind", f"source={source}", f"target={target}", *(() if is_writable else ("readonly",))]
    quoted = (f'"{word.replace(chr(34), chr(34) * 2)}"' if set(word) & set(',"\r\n') else word for word in words)
    return ",".join(quoted)


def _is_clients(name: str) -> bool:
    return name in _CLIENTS or name.startswith(_CLIENTS_FAMILIES)


def _is_loaders(name: str) -> bool:
    return name.startswith("LD_") or name in _LOADERS


def _texts(*words: str) -> tuple[Value, ...]:
    return tuple(Value((word,), OURS) for word in words)


def _options(where: Place, *, has_terminal: bool = False) -> Iterator[str]:
    yield "--die-with-parent"
    if not has_terminal:
        yield "--new-session"
    yield from ("--unshare-pid", "--unshare-ipc", "--unshare-uts")
    yield "--unshare-cgroup-try"
    if where.network == "none":
        yield "--unshare-net"
    yield from ("--seccomp", "3")  # process/seccomp.py
    yield from ("--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev")
    yield from ("--ro-bind", "/dev/null", "/proc/1/mem", "--tmpfs", "/proc/1/task")  # nor is it taken over by these
    for name in _KERNEL:
        yield from ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
    kinds = {"read": "--ro-bind", "write": "--bind"}
    for mount in where.mounts:
        path = str(mount.path)
        yield from ("--tmpfs", path) if mount.access == "empty" else (kinds[mount.access], path, path)
    for link, target in where.links.items():
        yield from ("--symlink", str(target), str(link))
    yield from ("--remount-ro", "/")


def arrange(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """Return the mounts in order, those above before those below.

    Of several with one path the first counts. One only for a program is left out if another mount shows it.
    Each directory between one that can be written and a mount below it becomes a mount: otherwise renaming it would put
    other files in the place of those that cannot be written, or a link where the next launch looks for a directory.
    """
    every: dict[Path, Mount] = {}
    for mount in mounts:
        every.setdefault(mount.path, mount)
    found = {path: mount for path, mount in every.items() if not _is_spare(mount, every)}
    for mount in [*found.values()]:
        above = find_mount(mount.path.parent, found)
        if above is not None and above.access == "write":
            for between in mount.path.parents:
                if between == above.path:
                    break
                found[between] = Mount(between, "write", "between")
    return tuple(sorted(found.values(), key=lambda mount: (len(mount.path.parts), mount.path)))


def _is_spare(mount: Mount, every: Mapping[Path, Mount]) -> bool:
    above = find_mount(mount.path.parent, every)
    is_shown = above is not None and above.access != "empty"
    return is_shown and mount.reason in _OPTIONAL and mount.access == "read"


def find_mount(path: Path, mounts: Mapping[Path, Mount]) -> Mount | None:
    """Return the mount through which a path is seen, if any."""
    return next((mounts[each] for each in (path, *path.parents) if each in mounts), None)


def shows(where: Place, path: Path) -> bool:
    """Tell whether a path without links is there as it is outside."""
    mount = find_mount(path, {each.path: each for each in where.mounts})
    return mount is not None and mount.access != "empty"


def can_write(where: Place, path: Path) -> bool:
    """Tell whether a process there can write a path without links, also one that does not exist."""
    mount = find_mount(path, {each.path: each for each in where.mounts})
    return mount is not None and mount.access == "write"


def can_change(path: Path, mounts: Mapping[Path, Mount], written: Iterable[Path]) -> bool:
    """Tell whether a confined agent can change what lies at a path without links: one there, or if the place does not
    show it one of another launch, which could write `written`."""
    mount = find_mount(path, mounts)
    if mount is not None and mount.access != "empty":
        return mount.access == "write"
    return any(each in path.parents for each in written)


def find_inside(where: Place, path: Path) -> Path | None:
    """Return where an absolute path leads for a process there, without links; None if it sees nothing there, whatever
    is outside. A path that is shown may still not exist."""

    def read(link: Path) -> str | None:
        if link in where.links:
            return str(where.links[link])
        return read_link(link) if shows(where, link) else None

    found, _ = follow_links(path, read)
    is_above = any(mount.path.is_relative_to(found) for mount in where.mounts)
    return found if is_above or shows(where, found) else None
