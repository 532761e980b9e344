"""
Directories that are reached through a link, and the two ways to spell what lies in them. Pure.

A session's directories are spelled as the user spelled them; rules about files are about what these really are. Which
lead through links was looked up when the launch began (`links`).
"""

from collections.abc import Iterator

Links = tuple[tuple[str, str], ...]  # a directory as it is spelled, and what it really is


def real(path: str, links: Links) -> str:
    """The path without those links; the longest spelling that it begins with counts."""
    for spelled, truly in sorted(links, key=lambda link: -len(link[0])):
        if (below := within(path, spelled)) is not None:
            return _joined(truly, below)
    return path


def spellings(path: str, links: Links) -> Iterator[str]:
    """A real path, and how else it may be spelled."""
    yield path
    for spelled, truly in links:
        if (below := within(path, truly)) is not None:
            yield _joined(spelled, below)


def within(path: str, directory: str) -> str | None:
    """What follows the directory in the path; None where that is elsewhere, or cannot be told.

    Both are absolute and without `..`.
    """
    root = directory.rstrip("/")
    return path[len(root) + 1 :] if path and f"{path}/".startswith(f"{root}/") else None


def _joined(directory: str, below: str) -> str:
    return f"{directory.rstrip('/')}/{below}" if below else directory
