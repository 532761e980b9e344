"""The log files that are there, by launch; the oldest launches go."""

from collections.abc import Iterator
from pathlib import Path

from acp_launch.process.logname import OLDER, LogName, read

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
        launches.setdefault(_launch(file), []).append(file)
    launches.pop(launch, None)
    for old in list(launches)[: max(0, len(launches) - KEPT + 1)]:  # names begin with the time
        for file in launches[old]:
            file.unlink(missing_ok=True)  # another launch may be tidying up too


def _files(directory: Path) -> Iterator[Path]:
    yield from directory.glob("*.log")
    yield from directory.glob(f"*.log{OLDER}")


def _launch(file: Path) -> str:
    """What an earlier version left has a shape of its own, and is a launch of its own."""
    name = read(file.name.removesuffix(OLDER))
    return name.launch if name else file.name
