"""
A control group of the launch's own (cgroup v2, Linux 5.14 or newer), where the user may create one below their own.

No process leaves it without the kernel's permission, whatever it removes, forks or renames, so it also holds processes
that no listing showed; `cgroup.kill` ends all of them at once. The lower guard enters it before it starts anything.
Containers, and logins without a user manager of systemd, often do not allow it: then only the guards protect a launch.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from acp_launch.process.table import read_text

_MOUNT = "/sys/fs/cgroup"
_KILL, _MEMBERS = "cgroup.kill", "cgroup.procs"
_PREFIX = "acp-launch-"  # of its name, before the launch's id


class Cgroup:
    """A control group, which may not exist, or vanish at any moment: every method tolerates that."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def enter(self) -> bool:
        """Create it and move this process into it; False if that is not allowed or the kernel is too old."""
        try:
            self.path.mkdir(exist_ok=True)  # by guards that were killed
            if not (self.path / _KILL).exists():
                raise FileNotFoundError(_KILL)
            _write(self.path / _MEMBERS, str(os.getpid()))
        except OSError:
            self.remove()
            return False
        return True

    def leave(self) -> None:
        """Move this process back to the group above."""
        try:
            _write(self.path.parent / _MEMBERS, str(os.getpid()))
        except OSError:
            return  # it stays, and with it the group

    def members(self) -> list[int]:
        """Return the pids in it and in the groups below it."""
        return [int(pid) for group in self._groups() for pid in read_text(group / _MEMBERS).split()]

    def kill(self) -> None:
        """Kill every process in it, unless this process is one of them."""
        if os.getpid() in self.members():
            return  # a process left of the launch runs `acp-launch reap`; the others are killed one by one
        try:
            _write(self.path / _KILL, "1")
        except OSError:
            return  # the group does not exist, or is not ours to kill

    def remove(self) -> None:
        """Remove it, if it is empty, and the groups that programs have created below it."""
        for group in self._groups():
            try:
                group.rmdir()
            except OSError:
                return  # a process is still in it; `reap` and the next start try again

    def _groups(self) -> Iterator[Path]:
        """Yield it and those below it, the innermost first."""
        for directory, _, _ in os.walk(self.path, topdown=False):
            yield Path(directory)


def of_launch(launch: str) -> Cgroup | None:
    """Return the group that a launch of this process would have below ours; None without cgroup v2."""
    inside = next(
        (line[len("0::") :] for line in read_text("/proc/self/cgroup").splitlines() if line.startswith("0::/")), None
    )
    if inside is None or ".." in inside:  # our own group is outside of what we can see
        return None
    is_mounted = os.path.exists(f"{_MOUNT}/cgroup.controllers")  # noqa: PTH110
    return Cgroup(Path(_MOUNT + inside.rstrip("/"), _PREFIX + launch)) if is_mounted else None


def recorded(path: str, launch: str) -> Cgroup | None:
    """Return the group at `path`, if that can be the one of this launch."""
    group = Path(path)
    is_one = group.name == _PREFIX + launch and ".." not in group.parts and path.startswith(_MOUNT + "/")
    return Cgroup(group) if is_one else None


def _write(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
