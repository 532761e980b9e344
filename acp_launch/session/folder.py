"""Directories for the user alone, whatever the umask: sessions name projects, prompts become titles."""

from pathlib import Path


def make_private(directory: Path) -> None:
    """Create `directory` and what is missing above it, each with mode 0700; one that exists stays as it is.

    Raises:
        OSError: it cannot be created, or something else has its name.
    """
    if directory.is_dir():
        return
    make_private(directory.parent)
    try:
        directory.mkdir(0o700)
    except FileExistsError:
        if not directory.is_dir():  # else another process was faster
            raise
        return
    directory.chmod(0o700)
