"""The text of a profile's file, or why there is none. Whatever a name leads to, nobody is kept waiting by it."""

import os
from pathlib import Path

from acp_launch.problem import Problem

_SAFELY = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def read(file: Path) -> tuple[str | None, list[Problem]]:
    """The file's text, or why there is none."""
    from acp_launch.document.source import MAX_SIZE, decode

    try:
        if not file.is_file():
            return None, [_not_a_file(file)]
        with open(os.open(file, _SAFELY), "rb") as stream:  # noqa: PTH123 - a pipe put in its place would not block
            content = stream.read(MAX_SIZE + 1) or b""  # one more than allowed, so that `decode` sees it is too long
    except OSError as fault:
        return None, [Problem(shown(file), 0, 0, "", f"cannot be read: {fault.strerror or fault}", "")]
    return decode(content, shown(file))


def _not_a_file(file: Path) -> Problem:
    if file.is_dir():
        return Problem(shown(file), 0, 0, "", "this is a directory, not a profile", "name a .yaml file in it")
    if file.exists():
        return Problem(shown(file), 0, 0, "", "this is not a regular file", "copy it into one")
    return Problem(shown(file), 0, 0, "", "no such file", "acp-launch list shows the profiles there are")


def shown(file: Path) -> str:
    """Relative to the working directory when it is below it, as compilers print it."""
    try:
        relative = os.path.relpath(file)
    except (OSError, ValueError):  # the working directory is gone; another drive on Windows
        return str(file)
    return str(file) if relative.startswith("..") else relative
