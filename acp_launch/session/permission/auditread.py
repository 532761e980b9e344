"""What the permission logs say (`audit`), read leniently: a line that is none of ours is counted, not shown."""

import json
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from acp_launch.errors import StateError
from acp_launch.session.permission.audit import LONGEST, OLDER, SUFFIX
from acp_launch.session.permission.filename import of_profile


def files(state: Path, profile: str | None = None) -> list[Path]:
    """The files that there are of a profile's permission log, or of every one; the older one of each first."""
    if profile is None:
        found = [*(state / "log").glob(f"*{SUFFIX}{OLDER}"), *sorted((state / "log").glob(f"*{SUFFIX}"))]
    else:
        file = state / "log" / f"{of_profile(profile)}{SUFFIX}"
        found = [file.with_name(f"{file.name}{OLDER}"), file]
    return [file for file in found if file.is_file()]


def entries(files: list[Path], last: int | None = None) -> tuple[list[dict[str, Any]], int]:
    """The entries in the order of time, at most the `last` ones, and how many lines are damaged.

    Raises:
        StateError: a file cannot be read.
    """
    kept: deque[dict[str, Any]] = deque()
    damaged = 0
    for file in files:
        of_one: deque[dict[str, Any]] = deque(maxlen=last)
        for entry in _lines(file):
            if entry is None:
                damaged += 1
            else:
                of_one.append(entry)
        kept += of_one
    found = sorted(kept, key=lambda entry: str(entry.get("time", "")))
    return (found if last is None else found[max(0, len(found) - last) :]), damaged


def _lines(file: Path) -> Iterator[dict[str, Any] | None]:
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as stream:
            while line := stream.readline(LONGEST + 1):
                if line.strip():
                    yield _entry(line)
    except OSError as fault:
        reason = (fault.strerror or str(fault)).lower()
        raise StateError(f"the permission log {file} cannot be read: {reason}", fix=f"check its mode: {file}") from None


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None
