"""
How the user's attention is called: the bell, and the window's title.

Each is a fixed sequence; the title's text holds only the profile, the session and our words. It is redacted, made
harmless and cut, so nothing an agent sends can ring or retitle. Sequences are written with the next frame, and the
title is undone by `shutdown`.
"""

from collections.abc import Callable, Mapping

from acp_launch.console.draw.sanitize import one_line
from acp_launch.interactive.terminal import Phase, Status
from acp_launch.settings.model import AttentionSettings

MAX_TITLE_CHARS = 80
ST = "\x1b\\"
BELL = "\x07"
PUSH_TITLE, POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"
NAME = "acp-launch"
STATES: Mapping[Phase, str] = {
    "starting": "starting",
    "idle": "ready",
    "working": "working",
    "asking": "asks you",
    "cancelling": "cancelling",
    "down": "down",
}


def can_retitle(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal has a title and can give the old one back, which screen cannot."""
    term = environ.get("TERM", "")
    is_screen = not environ.get("TMUX") and ("STY" in environ or term.startswith("screen"))
    return not is_screen and term not in ("", "dumb", "unknown", "linux")


def title(text: str) -> str:
    """Return the sequence that sets the window's title. No text can end it, or begin another."""
    return f"\x1b]2;{one_line(text).replace(';', ',')[:MAX_TITLE_CHARS]}{ST}"


class Attention:
    """Decides when the bell rings, and what the title says."""

    def __init__(
        self,
        settings: AttentionSettings,
        profile: str,
        redact: Callable[[str], str],
        clock: Callable[[], float],
        *,
        has_title: bool,
    ) -> None:
        self._settings, self._redact, self._clock = settings, redact, clock
        self._profile = profile or NAME
        self._has_title = has_title and settings.title
        self._phase: Phase = "starting"
        self._began: float | None = None  # when the turn began
        self._title = self._shown_title = ""
        self._rings = self._is_asked = self._is_wanted = self._is_entered = False

    def enter(self) -> None:
        """Take the terminal, with the next frame: only then it echoes nothing."""
        self._is_wanted = True

    def leave(self) -> str:
        """Return what to write to give the terminal back; nothing if it is not taken."""
        was_entered, self._is_entered, self._is_wanted = self._is_entered, False, False
        return POP_TITLE if was_entered and self._has_title else ""

    def forget_title(self) -> None:
        """Set the title again: the shell had the terminal without our knowledge."""
        self._shown_title = ""

    def show(self, status: Status, *, is_asked: bool) -> None:
        """Take a new state: it changes the title, and a question or the end of a long turn rings."""
        before, self._phase = self._phase, status.phase
        self._title = f"{STATES[status.phase]}: {' · '.join(filter(None, (self._profile, status.session)))}"
        if is_asked != self._is_asked:
            self._rings = self._is_asked = is_asked
        if status.phase == "working" and before not in ("working", "asking", "cancelling"):
            self._began, self._rings = self._clock(), False
        elif status.phase == "idle" and self._began is not None:
            if before != "cancelling" and self._clock() - self._began > self._settings.after:
                self._rings = True
            self._began = None

    def take(self) -> str:
        """Return what to write with this frame."""
        if not self._is_wanted:
            return ""
        parts = [BELL] if self._rings and self._settings.bell else []
        self._rings = False
        if self._has_title and not self._is_entered:
            self._shown_title = ""
            parts.append(PUSH_TITLE)
        self._is_entered = True
        if self._has_title and self._title and self._title != self._shown_title:
            self._shown_title = self._title
            parts.append(title(self._redact(self._title)))
        return "".join(parts)
