"""The log files that are there, by launch; the oldest launches go. What is not ours stays, and is not looked at."""

import os
from collections.abc import Iterator
from pathlib import Path

from acp_launch.process.logname import OLDER, SUFFIX, LogName, launch_of, read

KEPT = 50  # launches; an agent writes some 10 lines a session


def logs(directory: Path) -> dict[Path, LogName]:
    """Every log, the oldest launch first, in each the agent's first and then its servers' by name.

    A path may not exist for a moment: what was full has just been renamed.
    """
    found = {file.with_name(file.name.removesuffix(OLDER)) for file in _files(directory)}
    names = {file: name for file in found if (name := read(file.name))}
    return dict(sorted(names.items(), key=lambda item: (item[1].launch, item[1].profile, item[1].server)))


def forget_the_oldest(directory: Path, launch: str) -> None:
    """Make room for `launch`: all files of those beyond the newest `KEPT` are removed."""
    launches: dict[str, list[Path]] = {}
    for file in sorted(_files(directory)):
        if (of := launch_of(file.name.removesuffix(OLDER))) is not None:
            launches.setdefault(of, []).append(file)
    launches.pop(launch, None)
    for old in list(launches)[: max(0, len(launches) - KEPT + 1)]:  # names begin with the time
        for file in launches[old]:
            file.unlink(missing_ok=True)  # another launch may be tidying up too


def _files(directory: Path) -> Iterator[Path]:
    """Whatever is called a log: files, and neither pipes, which would make us wait, nor links."""
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.endswith((SUFFIX, SUFFIX + OLDER)) and entry.is_file(follow_symlinks=False):
                    yield directory / entry.name
    except OSError:
        return  # nothing was logged yet, or nobody can know
