"""The line at the bottom: what fits, the most important first to stay, in the order that people read. Pure."""

from collections.abc import Iterable

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.utils import get_cwidth

from acp_launch.console.stderr import harmless
from acp_launch.interactive.front import Mood, Status

BETWEEN = " · "
WIDEST = 32  # columns of one part: names come from agents and from people
FULL = 80  # percent of the context from which it is said louder
MOODS: dict[Mood, tuple[str, str]] = {
    "starting": ("starting", "dim"),
    "idle": ("ready", "ansigreen"),
    "working": ("working", "ansicyan"),
    "asking": ("asks you", "ansiyellow bold"),
    "cancelling": ("cancelling", "ansiyellow"),
    "down": ("down", "ansired bold"),
}
Part = tuple[int, str, str]  # rank (0 stays longest), style, text


def statusline(status: Status, width: int) -> StyleAndTextTuples:
    """One row of at most `width` columns."""
    parts = [part for part in _parts(status) if part[2]]
    while len(parts) > 1 and _width(parts) > width:
        parts.remove(max(parts, key=lambda part: part[0]))
    shown: StyleAndTextTuples = []
    for _, style, text in parts:
        shown += [("dim", BETWEEN)] if shown else []
        shown.append((style, cut(text, width)))
    return shown


def cut(text: str, width: int) -> str:
    """At most `width` columns of `text`, with … for what is left out."""
    if get_cwidth(text) <= width:
        return text
    kept = ""
    for mark in text:
        if get_cwidth(kept + mark) > width - 1:
            break
        kept += mark
    return f"{kept}…" if width > 0 else ""


def _parts(status: Status) -> Iterable[Part]:
    mood, style = MOODS[status.mood]
    yield 0, style, mood
    yield 2, "bold", _name(status.agent)
    yield 9, "dim", _name(status.profile)
    yield 3, "", _name(status.session)
    yield 10, "dim", _name(status.title)
    yield 4, "ansimagenta", _name(status.mode)
    yield 6, "", _name(status.model)
    yield 5, *_context(status)
    yield 7, "dim", _name(status.cost)
    yield 8, "dim", _servers(status.servers_up, "up")
    yield 1, "ansired", _servers(status.servers_down, "down")


def _name(text: str) -> str:
    return cut(harmless(text, keep="").strip(), WIDEST)


def _context(status: Status) -> tuple[str, str]:
    if status.used is None or not status.size:
        return "", ""
    percent = round(100 * status.used / status.size)
    return ("ansiyellow" if percent >= FULL else "dim"), f"{percent}% of context"


def _servers(count: int, state: str) -> str:
    return f"{count} {'server' if count == 1 else 'servers'} {state}" if count else ""


def _width(parts: list[Part]) -> int:
    return sum(get_cwidth(text) for _, _, text in parts) + len(BETWEEN) * (len(parts) - 1)
