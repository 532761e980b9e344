"""
What the terminal is told besides the screen: bell, notifications, the window's title, progress in the taskbar.

Everything here is one of a few fixed sequences around a short text. That text holds only the profile, the session and
words of ours; it is redacted, made harmless and cut, so nothing an agent sends can ring, notify or retitle. A terminal
is told only what it is known to understand (`abilities`), because an unknown one might print it. Sequences are written
with the next frame, and undone by `leave`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

from acp_launch.console.stderr import harmless
from acp_launch.interactive.front import Mood, Status
from acp_launch.regex import regex
from acp_launch.settings.model import AttentionSettings

# The terminal, as its environment names it. Pure.


Protocol = Literal["osc9", "osc777", "osc99", ""]
OSC_9 = ("iTerm.app", "WezTerm", "ghostty", "WarpTerminal")  # TERM_PROGRAM
REPORTING = (*OSC_9, "vscode", "Apple_Terminal", "rio", "contour")  # that report the focus
SIGNS_OF_FOCUS = ("KITTY_WINDOW_ID", "WT_SESSION", "VTE_VERSION", "KONSOLE_VERSION", "ALACRITTY_WINDOW_ID")
VTE_PROGRESS = 8000  # 0.80
ITERM_PROGRESS, GHOSTTY_PROGRESS = (3, 6, 6), (1, 2)


class Abilities(Struct, frozen=True, kw_only=True):
    """What a terminal understands."""

    protocol: Protocol = ""  # of notifications
    may_answer: bool = False  # it may speak OSC 99, and is asked
    progress: bool = False
    title: bool = False
    reports: bool = False  # it is known to report its focus
    carrier: Literal["tmux", "screen", ""] = ""  # the program between us and it


def abilities(environ: Mapping[str, str]) -> Abilities:
    """Return what the terminal understands, as far as the environment tells."""
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if term in ("", "dumb", "unknown", "linux"):
        return Abilities()
    if environ.get("TMUX"):
        return Abilities(protocol="osc9" if _was(environ) else "osc777", title=True, carrier="tmux")
    if environ.get("STY") or term.startswith("screen"):
        return Abilities(protocol="osc777", carrier="screen")
    is_kitty = term == "xterm-kitty" or "KITTY_WINDOW_ID" in environ
    is_asked = is_kitty or term.startswith("foot")
    is_known = program in REPORTING or is_asked or any(name in environ for name in SIGNS_OF_FOCUS)
    return Abilities(
        protocol="osc9" if program in OSC_9 or is_kitty else "osc777",
        may_answer=is_asked,
        progress=_has_progress(environ),
        title=True,
        reports=is_known,
    )


def _was(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal around tmux speaks OSC 9, by what it left in the environment."""
    return any(name in environ for name in ("ITERM_SESSION_ID", "WEZTERM_PANE", "GHOSTTY_RESOURCES_DIR"))


def _has_progress(environ: Mapping[str, str]) -> bool:
    """Return whether it shows OSC 9;4 as progress; others would show it as a notification."""
    if environ.get("WT_SESSION") or environ.get("ConEmuANSI") == "ON":
        return True
    least = {"iTerm.app": ITERM_PROGRESS, "ghostty": GHOSTTY_PROGRESS}.get(environ.get("TERM_PROGRAM", ""))
    if least is not None:
        return _version(environ.get("TERM_PROGRAM_VERSION", "")) >= least
    vte = environ.get("VTE_VERSION", "")
    return vte.isdecimal() and int(vte) >= VTE_PROGRESS


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("-")[0])[:3])


# The sequences. A text in one of them has no control characters and no semicolons, and is short.


LONGEST = 80  # characters of a text
ST = "\x1b\\"
BELL = "\x07"
PUSH_TITLE, POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"
REPORT_FOCUS, REPORT_NO_FOCUS = "\x1b[?1004h", "\x1b[?1004l"
FOCUS_IN, FOCUS_OUT = "\x1b[I", "\x1b[O"
ASK_OSC_99 = f"\x1b]99;i=acp-launch:p=?;{ST}"
NAME = "acp-launch"
PROGRESS: Mapping[Mood, str] = {
    "starting": "3;0",
    "working": "3;0",
    "asking": "4;100",
    "cancelling": "3;0",
    "down": "2;100",
    "idle": "0;0",
}
STATES: Mapping[Mood, str] = {
    "starting": "starting",
    "idle": "ready",
    "working": "working",
    "asking": "asks you",
    "cancelling": "cancelling",
    "down": "down",
}


def plain(text: str) -> str:
    """Return a text that can stand in a sequence."""
    return harmless(" ".join(text.split()), keep="").replace(";", ",")[:LONGEST]


def title(text: str) -> str:
    return f"\x1b]2;{plain(text)}{ST}"


def progress(state: str) -> str:
    return f"\x1b]9;4;{state}{ST}"


def notification(text: str, protocol: Protocol, carrier: str) -> str:
    text = plain(text)
    match protocol:
        case "osc9":
            told = f"\x1b]9;{text}{ST}"
        case "osc777":
            told = f"\x1b]777;notify;{NAME};{text}{ST}"
        case "osc99":
            told = f"\x1b]99;i=acp-launch:d=0:o=unfocused;{NAME}{ST}\x1b]99;i=acp-launch:p=body;{text}{ST}"
        case _:
            return ""
    return carried(told, carrier)


def carried(sequence: str, carrier: str) -> str:
    """Wrap a sequence, so that tmux or screen passes it on to the terminal."""
    if carrier == "tmux":
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + ST
    if carrier == "screen":  # whose strings end at the first ST
        return "\x1bP" + sequence.replace(ST, BELL) + ST
    return sequence


# The terminal's answer to `ASK_OSC_99`, which comes among the keys.


OPENING = "\x1b]99;"
ANSWER = regex(r"\x1b\]99;[^\x07\x1b]*(?:\x07|\x1b\\)")
LONGEST_ANSWER = 512  # characters
ANSWERED = 5.0  # seconds within which it comes


class Answers:
    """Takes the answer out of what is read, also if it comes in pieces. Once it is there, nothing is looked at."""

    def __init__(self, answered: Callable[[], None], clock: Callable[[], float]) -> None:
        self._answered, self._clock = answered, clock
        self._until: float | None = None  # when an answer is not awaited any more
        self._begun = ""

    @property
    def is_awaited(self) -> bool:
        return self._until is not None and self._clock() < self._until

    def wait(self) -> None:
        """Await an answer from now on, for a while."""
        self._until = self._clock() + ANSWERED

    def without(self, text: str) -> str:
        """Return `text` without the answer."""
        text, self._begun = self._begun + text, ""
        if not self.is_awaited:
            return text
        if found := ANSWER.search(text):
            self._until = None
            self._answered()
            return text[: found.start()] + text[found.end() :]
        at = text.rfind("\x1b]")
        rest = text[at:] if at >= 0 else ""
        if rest and len(rest) < LONGEST_ANSWER and (OPENING.startswith(rest) or rest.startswith(OPENING)):
            self._begun = rest
            return text[:at]
        return text


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
        self._settings, self._able, self._source, self._clock = settings, able, source, clock
        self._profile = profile or NAME
        self._protocol: Protocol = "" if settings.notify == "never" else able.protocol
        if settings.notify in ("osc9", "osc777", "osc99"):
            self._protocol = settings.notify
        self._has_progress = able.progress if settings.progress == "auto" else settings.progress == "always"
        self._has_title = settings.title and able.title
        # A terminal that is known to report its focus is in front while a command is typed. Others are only told apart
        # once they have reported something.
        self._is_focused: bool | None = True if able.reports else None
        self._mood: Mood = "starting"
        self._began: float | None = None  # when the turn began
        self._title, self._progress = "", PROGRESS["idle"]
        self._shown_title = self._shown_progress = ""
        self._news = ""
        self._is_wanted = self._is_entered = False
        self._has_asked = False
        self.answers = Answers(self._answered, clock)

    def enter(self) -> None:
        """Take the terminal, with the next frame: only then it echoes nothing, as its answer should not be."""
        self._is_wanted = True

    def _entered(self) -> str:
        self._is_entered = True
        self._shown_title = self._shown_progress = ""
        return f"{PUSH_TITLE if self._has_title else ''}{REPORT_FOCUS}{self._question()}"

    def _question(self) -> str:
        """Return the question whether the terminal speaks OSC 99, the first time, if it may."""
        if self._has_asked or not self._able.may_answer or self._settings.notify != "auto":
            return ""
        self._has_asked = True
        self.answers.wait()
        return ASK_OSC_99

    def leave(self) -> str:
        """Return what to write to give the terminal back; nothing if it is not taken."""
        was_entered, self._is_entered, self._is_wanted = self._is_entered, False, False
        if not was_entered:
            return ""
        ended = progress(PROGRESS["idle"]) if self._shown_progress not in ("", PROGRESS["idle"]) else ""
        popped = POP_TITLE if self._has_title else ""
        return f"{ended}{REPORT_NO_FOCUS}{popped}"

    def again(self) -> str:
        """Return what to write after the shell had the terminal without our knowledge."""
        self._shown_title = self._shown_progress = ""
        return REPORT_FOCUS

    def focus(self, is_in: bool) -> None:
        """Note a report of the terminal."""
        self._is_focused = is_in
        if is_in:
            self._news = ""

    def show(self, status: Status) -> None:
        """Take a new state: it changes title and progress, and the end of a long turn is told."""
        before, self._mood = self._mood, status.mood
        names = " · ".join(filter(None, (self._profile, status.session)))
        self._title = f"{STATES[status.mood]}: {names}"
        self._progress = PROGRESS[status.mood]
        if status.mood == "working" and before not in ("working", "asking", "cancelling"):
            self._began, self._news = self._clock(), ""
        elif status.mood == "idle" and self._began is not None:
            if before != "cancelling" and self._clock() - self._began > self._settings.after:
                self._news = f"{self._profile} has answered"
            self._began = None

    def ask(self, about: str) -> None:
        """Tell that a question waits; `about` is worded like `asks for permission: run`."""
        self._news = f"{self._profile} {about}"

    def unask(self) -> None:
        """Note that the question was answered or taken back."""
        self._news = ""

    def take(self) -> str:
        """Return what to write with this frame."""
        if not self._is_wanted:
            return ""
        news, self._news = self._news, ""
        parts = [] if self._is_entered else [self._entered()]
        if news and not self._is_focused:
            told = notification(self._source(news), self._protocol, self._able.carrier)
            parts.append(told + (BELL if self._settings.bell else ""))
        if self._has_title and self._title and self._title != self._shown_title:
            self._shown_title = self._title
            parts.append(title(self._source(self._title)))
        if self._has_progress and self._progress != (self._shown_progress or PROGRESS["idle"]):
            self._shown_progress = self._progress
            parts.append(progress(self._progress))
        return "".join(parts)

    def _answered(self) -> None:
        self._protocol = "osc99"
