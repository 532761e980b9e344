"""The width of the terminal."""

import shutil
import sys


def terminal_width() -> int | None:
    """Return the columns of the terminal on stdout; None if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
