"""
How the user's attention is called beside the screen: the bell, and the window's title.

Each is a fixed sequence; the title's text holds only the profile, the session and words of ours. It is redacted, made
harmless and cut, so nothing an agent sends can ring or retitle. Sequences are written with the next frame, and undone
by `leave`.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from acp_launch.console.stderr import harmless
from acp_launch.interactive.front import Mood, Status
from acp_launch.settings.model import AttentionSettings

REPORTING = ("iTerm.app", "WezTerm", "ghostty", "WarpTerminal", "vscode", "Apple_Terminal", "rio", "contour")
SIGNS_OF_FOCUS = ("KITTY_WINDOW_ID", "WT_SESSION", "VTE_VERSION", "KONSOLE_VERSION", "ALACRITTY_WINDOW_ID")


class Abilities(Struct, frozen=True, kw_only=True):
    """What a terminal understands, as far as the environment tells."""

    title: bool = False
    reports: bool = False  # it is known to report its focus


def abilities(environ: Mapping[str, str]) -> Abilities:
    """Return what the terminal understands. An unknown one is sent nothing that it might print."""
    term = environ.get("TERM", "")
    if term in ("", "dumb", "unknown", "linux"):
        return Abilities()
    if environ.get("TMUX"):
        return Abilities(title=True)
    if environ.get("STY") or term.startswith("screen"):
        return Abilities()  # it cannot give the old title back
    reports = (
        environ.get("TERM_PROGRAM") in REPORTING
        or term.startswith(("xterm-kitty", "foot"))
        or any(name in environ for name in SIGNS_OF_FOCUS)
    )
    return Abilities(title=True, reports=reports)


LONGEST = 80  # characters of a title
ST = "\x1b\\"
BELL = "\x07"
PUSH_TITLE, POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"
REPORT_FOCUS, REPORT_NO_FOCUS = "\x1b[?1004h", "\x1b[?1004l"
FOCUS_IN, FOCUS_OUT = "\x1b[I", "\x1b[O"
NAME = "acp-launch"
STATES: Mapping[Mood, str] = {
    "starting": "starting",
    "idle": "ready",
    "working": "working",
    "asking": "asks you",
    "cancelling": "cancelling",
    "down": "down",
}


def title(text: str) -> str:
    """Return the sequence that sets the window's title. No text can end it, or begin another."""
    return f"\x1b]2;{harmless(' '.join(text.split()), keep='').replace(';', ',')[:LONGEST]}{ST}"


class Attention:
    """Decides what the terminal is told, and when."""

    def __init__(
        self,
        settings: AttentionSettings,
        able: Abilities,
        profile: str,
        source: Callable[[str], str],
        clock: Callable[[], float],
    ) -> None:
        """`source` redacts a text."""
        self._settings, self._source, self._clock = settings, source, clock
        self._profile = profile or NAME
        self._has_title = settings.title and able.title
        # A terminal that is known to report its focus is in front while a command is typed. Others are only told apart
        # once they have reported something.
        self._is_focused = able.reports
        self._mood: Mood = "starting"
        self._began: float | None = None  # when the turn began
        self._title = self._shown_title = ""
        self._rings = self._is_wanted = self._is_entered = False

    def enter(self) -> None:
        """Take the terminal, with the next frame: only then it echoes nothing."""
        self._is_wanted = True

    def leave(self) -> str:
        """Return what to write to give the terminal back; nothing if it is not taken."""
        was_entered, self._is_entered, self._is_wanted = self._is_entered, False, False
        if not was_entered:
            return ""
        return f"{REPORT_NO_FOCUS}{POP_TITLE if self._has_title else ''}"

    def again(self) -> str:
        """Return what to write after the shell had the terminal without our knowledge."""
        self._shown_title = ""
        return REPORT_FOCUS

    def focus(self, is_in: bool) -> None:
        """Note a report of the terminal."""
        self._is_focused = is_in
        if is_in:
            self._rings = False

    def show(self, status: Status) -> None:
        """Take a new state: it changes the title, and the end of a long turn rings."""
        before, self._mood = self._mood, status.mood
        names = " · ".join(filter(None, (self._profile, status.session)))
        self._title = f"{STATES[status.mood]}: {names}"
        if status.mood == "working" and before not in ("working", "asking", "cancelling"):
            self._began, self._rings = self._clock(), False
        elif status.mood == "idle" and self._began is not None:
            if before != "cancelling" and self._clock() - self._began > self._settings.after:
                self._rings = True
            self._began = None

    def ask(self) -> None:
        """Ring for a question that waits."""
        self._rings = True

    def unask(self) -> None:
        """Note that the question was answered or taken back."""
        self._rings = False

    def take(self) -> str:
        """Return what to write with this frame."""
        if not self._is_wanted:
            return ""
        rings, self._rings = self._rings, False
        parts = []
        if not self._is_entered:
            self._is_entered, self._shown_title = True, ""
            parts.append(f"{PUSH_TITLE if self._has_title else ''}{REPORT_FOCUS}")
        if rings and self._settings.bell and not self._is_focused:
            parts.append(BELL)
        if self._has_title and self._title and self._title != self._shown_title:
            self._shown_title = self._title
            parts.append(title(self._source(self._title)))
        return "".join(parts)
