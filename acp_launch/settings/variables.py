"""
Environment variables that are settings: `ACP_LAUNCH_MAX_LINE`, `ACP_LAUNCH_SECRETS__KEY` for that section, and those of
the directories.
"""

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX, DELIMITER = "ACP_LAUNCH_", "__"
_SECTION = f"{PREFIX}SECRETS{DELIMITER}"
NEARLY = f"{PREFIX}SECRETS_"  # one underscore too few, or a secret with one letter too many
_KEYS = ("STORE", "TIMEOUT", "KEYRING__BACKEND", "FILE__PATH", "FILE__KEY_FILE", "COMMAND")
NAMES = (f"{PREFIX}MAX_LINE", f"{PREFIX}REGISTRY", *(_SECTION + key for key in _KEYS))
COMMAND = f"{_SECTION}COMMAND"


def present() -> dict[str, str]:
    """
    Return the variables that are set, including misspelt ones of the section; an empty one counts as not set.

    A secret's value (`ACP_LAUNCH_SECRET_NAME`) and the passphrase are never among them.
    """
    return {name: text for name, text in os.environ.items() if text and (name in NAMES or name.startswith(NEARLY))}


# The places of the XDG base directory specification, below the home directory.
_PLACES = {"CONFIG": ".config", "STATE": ".local/state", "CACHE": ".cache"}


def place(kind: str) -> str:
    """Return the directory for CONFIG, STATE or CACHE; on Linux without platformdirs, whose import takes 7 ms."""
    if chosen := os.environ.get(f"{PREFIX}{kind}_DIR"):
        return chosen if os.path.isabs(chosen) else os.path.join(os.getcwd(), chosen)  # noqa: PTH109, PTH117, PTH118
    home, base = os.environ.get("HOME", ""), os.environ.get(f"XDG_{kind}_HOME", "")
    if sys.platform == "linux" and home.startswith("/") and (not base or base.startswith("/")):
        return os.path.join(base or os.path.join(home, _PLACES[kind]), "acp-launch")  # noqa: PTH118
    import platformdirs

    return str(getattr(platformdirs, f"user_{kind.lower()}_path")("acp-launch", appauthor=False))


def path(name: str) -> tuple[str, ...]:
    """Convert a variable's name to its path: `ACP_LAUNCH_SECRETS__STORE` → `secrets`, `store`."""
    return tuple(name.removeprefix(PREFIX).lower().split(DELIMITER))


def setter(where: tuple[str | int, ...], variables: "Mapping[str, str]") -> str | None:
    """Return the variable that set the value at this path; None if none did."""
    return next((name for name in NAMES if name in variables and where[: len(path(name))] == path(name)), None)
