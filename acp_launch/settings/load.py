"""The user's own knobs. For now all of them are environment variables, `ACP_LAUNCH_*`."""

import os
from pathlib import Path

from acp_launch.errors import UsageError
from acp_launch.settings.model import MAX_LINE, Settings


def load() -> Settings:
    """Read the environment.

    Raises:
        UsageError: a variable holds something unusable.
    """
    return Settings(
        config=_directory("CONFIG"), state=_directory("STATE"), cache=_directory("CACHE"), max_line=_max_line()
    )


def _directory(kind: str) -> Path:
    if chosen := os.environ.get(f"ACP_LAUNCH_{kind}_DIR"):
        return Path(chosen).absolute()
    import platformdirs

    found: Path = getattr(platformdirs, f"user_{kind.lower()}_path")("acp-launch", appauthor=False)
    return found


def _max_line() -> int:
    text = os.environ.get("ACP_LAUNCH_MAX_LINE", "")
    if not text:
        return MAX_LINE
    if not (text.isascii() and text.isdigit()) or int(text) < 4096:
        raise UsageError(f"ACP_LAUNCH_MAX_LINE is {text!r}", fix="a number of bytes, 4096 or more")
    return int(text)
