"""How wide the terminal is, when there is one."""

import shutil
import sys


def terminal_width() -> int | None:
    """Columns of the terminal on stdout; None when stdout is something else, which has no width."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
