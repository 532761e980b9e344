"""
Files to mention as `@path`: what begins with what is typed, component by component (`@s/m` finds `src/main.py`).

Nothing outside of the session's directories is ever listed, however links lead there, and no tree is walked: a look
costs at most `LOOKS` directories of `ENTRIES` entries each. It may still take its time on a slow disk, so it is done
in a thread (`completion`).
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from acp_launch.console.stderr import is_harmless

LOOKS = 20  # directories
ENTRIES = 5_000  # of one directory
OFFERED = 100


def found(typed: str, roots: Sequence[Path]) -> list[str]:
    """Paths that `typed` may become, directories with a `/` at the end, the nearest first.

    Those under the first root are relative to it, unless `typed` is absolute; the others are absolute.
    """
    real_roots = [Path(os.path.realpath(root)) for root in roots]
    offered: list[str] = []
    for number, root in enumerate(roots):
        if Path(typed).is_absolute():
            below = _below(typed, str(root))
            prefix = f"{root}/"
        else:
            below, prefix = typed, "" if number == 0 else f"{root}/"
        if below is not None:
            offered += [prefix + path for path in _matches(root, below, real_roots)]
    return list(islice(dict.fromkeys(offered), OFFERED))


def _below(typed: str, root: str) -> str | None:
    """What of `typed` comes after `root/`; None when it leads elsewhere."""
    start = root.rstrip("/") + "/"
    return typed[len(start) :] if typed.startswith(start) else None


def _matches(root: Path, typed: str, roots: Sequence[Path]) -> Iterator[str]:
    *through, last = typed.split("/")
    if ".." in through:
        return
    places = [""]
    for part in through:
        places = [place for place in _deeper(root, places, part, roots) if place.endswith("/")]
    yield from _deeper(root, places, last, roots)


def _deeper(root: Path, places: Iterable[str], part: str, roots: Sequence[Path]) -> list[str]:
    """The entries of `places`, directories below `root`, that `part` is the beginning of."""
    return [place + name for place in islice(places, LOOKS) for name in _names(root / place, part, roots)]


def _names(directory: Path, part: str, roots: Sequence[Path]) -> list[str]:
    """An entry of exactly this name comes first, then those of the same case."""
    if not _is_inside(directory, roots):
        return []
    try:
        with os.scandir(directory) as entries:
            named = [_shown(entry) for entry in islice(entries, ENTRIES) if _fits(entry, part, roots)]
    except OSError:  # not a directory, or not ours to read: nothing to offer
        return []
    return sorted(named, key=lambda name: (name.rstrip("/") != part, not name.startswith(part), name.casefold()))


def _fits(entry: "os.DirEntry[str]", part: str, roots: Sequence[Path]) -> bool:
    name = entry.name
    if not name.casefold().startswith(part.casefold()) or not is_harmless(name) or '"' in name:
        return False
    if name.startswith(".") and not part.startswith("."):
        return False
    return not entry.is_symlink() or _is_inside(Path(entry.path), roots)


def _shown(entry: "os.DirEntry[str]") -> str:
    try:
        is_directory = entry.is_dir()
    except OSError:  # links that lead to each other
        is_directory = False
    return f"{entry.name}/" if is_directory else entry.name


def _is_inside(path: Path, roots: Sequence[Path]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(root) for root in roots)
