"""Directories a session works in: absolute, there, and open to us. Agents check none of this reliably themselves."""

import os
from collections.abc import Iterable
from pathlib import Path

from acp_launch.plan.executable import CannotRun


def usable(text: str, *, base: Path) -> Path | CannotRun:
    """`base` is what a relative path is relative to; it is absolute."""
    if text.startswith("~"):
        return CannotRun(f'"{text}": no shell runs here that would expand "~"', f"write ${{home}}{text[1:]}")
    if not text.strip() or "\0" in text:
        return CannotRun("expected a directory, found no path", "write a path, or remove the key")
    directory = Path(os.path.normpath(base / text))
    try:
        return _checked(directory)
    except OSError as fault:  # a name too long, a parent we may not enter
        return CannotRun(f'the directory "{directory}" cannot be used: {fault.strerror}', "choose another directory")


def _checked(directory: Path) -> Path | CannotRun:
    if not directory.exists():
        return CannotRun(f'the directory "{directory}" does not exist', f"mkdir -p {directory}")
    if not directory.is_dir():
        return CannotRun(f'"{directory}" is not a directory', "name a directory")
    if not os.access(directory, os.R_OK | os.X_OK):
        return CannotRun(f'the directory "{directory}" may not be entered', f"chmod u+rx {directory}")
    return directory


def distinct(directories: Iterable[Path], *, besides: Path) -> tuple[Path, ...]:
    """Each real directory once, without `besides` (ACP "additional directories")."""
    seen = {os.path.realpath(besides)}
    kept = []
    for directory in directories:
        if (real := os.path.realpath(directory)) not in seen:
            seen.add(real)
            kept.append(directory)
    return tuple(kept)
