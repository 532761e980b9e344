"""What a program sees of a profile without launching it."""

import os
from pathlib import Path

from acp_launch.profile.discover import find, here
from acp_launch.profile.load import load
from acp_launch.profile.model import Profile
from acp_launch.settings.load import load as load_settings


def load_profile(name: str | os.PathLike[str], *, cwd: str | os.PathLike[str] | None = None) -> Profile:
    """Load and check a profile, by its name as found from `cwd` or by its path.

    Raises:
        ProfileError: with all its problems.
        UsageError: there is no such profile.
    """
    settings = load_settings()
    start = Path(cwd).absolute() if cwd is not None else here()
    return load(find(os.fspath(name), start=start, settings=settings), cache=settings.cache).profile
