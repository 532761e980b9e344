"""What a command names, found from here: the settings, a profile, a directory, a session."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from acp_launch.errors import UsageError
from acp_launch.profile.discover import discover, find, here
from acp_launch.profile.values import SESSION_NAME_FIX, session_name_fault
from acp_launch.settings.load import load

if TYPE_CHECKING:
    from acp_launch.profile.discover import Found
    from acp_launch.settings.model import Settings


def silence(*descriptors: int) -> None:
    """Let these descriptors lead nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for each in descriptors:
        os.dup2(null, each)
    os.close(null)


def check_session_name(session: str | None) -> str | None:
    """Check a session's name from the command line.

    Raises:
        UsageError: it is not a valid name.
    """
    if session is not None and (fault := session_name_fault(session)):
        raise UsageError(fault, fix=SESSION_NAME_FIX)
    return session


def at_home(directory: Path | None) -> Path | None:
    """Expand `~` in a directory, because shells leave it in `--cwd=~/x`: they expand it only at a word's beginning."""
    try:
        return directory.expanduser() if directory else None
    except RuntimeError:
        raise UsageError(f"--cwd: no home directory is known for {directory}", fix="give an absolute path") from None


def load_settings() -> "Settings":
    """Load the user's settings; `--help` imports none of that."""
    return load()


def find_profile(name: str, settings: "Settings | None" = None) -> "Found":
    """Find a profile by its name or path from here; raise UsageError if there is none."""
    return find(name, start=here(), settings=settings or load_settings())


def usable_profiles(settings: "Settings") -> "list[Found]":
    """List the profiles that can be named from here."""
    return [found for found in discover(start=here(), settings=settings) if not found.shadowed_by]
