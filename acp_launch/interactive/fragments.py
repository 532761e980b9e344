"""What rich has rendered, as prompt_toolkit draws it."""

from collections.abc import Iterable
from functools import lru_cache

from prompt_toolkit.formatted_text import StyleAndTextTuples
from rich.color import Color, ColorType
from rich.segment import Segment
from rich.style import Style

ANSI = (
    *("ansiblack", "ansired", "ansigreen", "ansiyellow", "ansiblue", "ansimagenta", "ansicyan", "ansigray"),
    *("ansibrightblack", "ansibrightred", "ansibrightgreen", "ansibrightyellow"),
    *("ansibrightblue", "ansibrightmagenta", "ansibrightcyan", "ansiwhite"),
)
ATTRIBUTES = ("bold", "dim", "italic", "underline", "blink", "reverse", "strike")


def fragments(segments: Iterable[Segment]) -> StyleAndTextTuples:
    """One row. Control codes are left out: they would move the cursor that somebody else counts from."""
    return [(_style(segment.style), segment.text) for segment in segments if not segment.control]


@lru_cache(maxsize=1024)
def _style(style: Style | None) -> str:
    if style is None:
        return ""
    words = [name for name in ATTRIBUTES if getattr(style, name)]
    words += [f"fg:{_color(style.color)}"] if style.color else []
    words += [f"bg:{_color(style.bgcolor)}"] if style.bgcolor else []
    return " ".join(words)


def _color(color: Color) -> str:
    if color.type is ColorType.DEFAULT:
        return "default"
    if color.number is not None and color.number < len(ANSI):
        return ANSI[color.number]
    return color.get_truecolor().hex
