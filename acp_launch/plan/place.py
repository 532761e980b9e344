"""
A place for a process: the part of this machine that the process sees. Pure.

`place` makes a plan of a process one that starts it in its place, `enclose` does the same for a command line. A place
is a box of bubblewrap. Everything in it lies where it lies outside, and other paths are not there. `arrange`
makes mounts complete: none can be moved away by renaming a directory above it.

acp-launch itself asks `shows`, `can_write` and `find_inside` before it reads, writes or runs, outside, what a process
there names.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from acp_launch.plan.model import OURS, Mount, Place, ProcessPlan, Reason, Value
from acp_launch.private import follow_links, read_link

_OPTIONAL: tuple[Reason, ...] = ("agent", "acp-launch", "system")  # not mounted if another mount shows them

# Parts of /proc that root could change this machine with, without any capability.
_KERNEL = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
# Variables that choose what code a program runs before its own: bubblewrap itself must not obey them, as the agent may
# have written that code.
_LOADERS = ("GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH")


def add_seat(where: Place, seat: Path) -> Place:
    """Return a place that shows the directory for sockets of the launch."""
    return replace(where, mounts=arrange((*where.mounts, Mount(seat, "read", "seat"))), seat=seat)


def place(process: ProcessPlan, where: Place) -> ProcessPlan:
    """Return the plan that starts a process in its place."""
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
    argv: Sequence[str], env: Mapping[str, str], cwd: Path, where: Place, *, has_terminal: bool = False
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the command line and the variables that start a program in a place. `has_terminal`: it leads a session on
    a terminal that no other program uses, and keeps it."""
    loaders = [part for name, value in env.items() if _is_loaders(name) for part in ("--setenv", name, value)]
    line = (str(where.program), *_options(where, has_terminal=has_terminal), *loaders, "--chdir", str(cwd), "--", *argv)
    return line, {name: value for name, value in env.items() if not _is_loaders(name)}


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
