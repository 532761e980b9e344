"""The names of files: short, and with a link where the file is one of the project. No text of an agent is a link."""

import os
import socket
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from rich.style import Style

from acp_launch.console.draw.outside import inline

LINKLESS = ("dumb", "unknown", "linux", "cons25", "eterm", "vt", "screen")  # beginnings of TERM
VTE = 5000  # the version of the library from which its terminals show links; earlier ones may crash
UNLINKED = Style()


def can_link(env: Mapping[str, str]) -> bool:
    """Return whether the terminal is not known for lacking OSC 8."""
    term, version = env.get("TERM", "dumb"), env.get("VTE_VERSION", "")
    is_old = version.isdecimal() and int(version) < VTE
    is_without = env.get("TERM_PROGRAM") == "Apple_Terminal" or "INSIDE_EMACS" in env
    return not (term.startswith(LINKLESS) or is_old or is_without)


class ProjectFiles:
    """The files below the directories of a session."""

    def __init__(
        self, roots: Sequence[Path] = (), env: Mapping[str, str] = os.environ, *, has_links: bool = True
    ) -> None:
        """`has_links` is whether names may be links. NO_COLOR does not forbid them: they have no colour."""
        self._roots = roots
        self._env = env
        self._has_links = has_links

    def short(self, path: str) -> str:
        """Return a path for showing, from the directory of the session if it is below that."""
        for root in self._roots:
            if path.startswith(f"{root}/"):
                return inline(path[len(f"{root}/") :])
        return inline(path)

    def style(self, path: str) -> Style:
        """Return a link to an existing file of the project; a plain style for any other path."""
        if not (self._roots and self._can_link and path.isprintable() and path.startswith("/")):
            return UNLINKED
        try:
            real = Path(path).resolve(strict=True)
            is_file = real.is_file()
        except (OSError, ValueError):
            return UNLINKED
        if not (is_file and any(real.is_relative_to(root) for root in self._real_roots)):
            return UNLINKED
        return Style(link=f"file://{quote(self._host)}{quote(os.fsencode(real))}")

    @cached_property
    def _can_link(self) -> bool:
        return self._has_links and can_link(self._env)

    @cached_property
    def _host(self) -> str:
        return socket.gethostname()

    @cached_property
    def _real_roots(self) -> list[Path]:
        return [root.resolve() for root in self._roots]
