"""
Foreign text made safe for a terminal: it cannot move the cursor, change the reading direction, hide characters, or
begin a line like one of ours.

Control characters, bidirectional overrides, other characters without a glyph, and our mark become visible escapes
(`console.stderr.harmless`). Rare spaces become ordinary ones. In prose, characters that only join or hint (in emoji,
Persian words, hyphenation) are removed: they have no width, and terminals disagree on their effect. In a name or a path
even those are shown, because a name that looks like another may be a trick.
"""

from acp_launch.console.stderr import harmless, is_harmless
from acp_launch.mark import MARK

SPACES = {**dict.fromkeys((0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F), " "), 0x3000: "  "}
JOINERS = dict.fromkeys((0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF), "")
PROSE = {**SPACES, **JOINERS}


def prose(text: str) -> str:
    """Return paragraphs, with their line ends and tabs."""
    if MARK not in text and text.replace("\n", "").replace("\t", "").isprintable():  # the fast path for most texts
        return text
    return harmless(text.translate(PROSE))


def inline(text: str) -> str:
    """Return a name, a title or a path on one line."""
    return text if is_harmless(text) else harmless(text.translate(SPACES), keep="")


def one_line(text: str) -> str:
    """Return a longer text on one line: line ends and runs of spaces become single spaces."""
    return inline(" ".join(text.split()))


def cut(text: str, limit: int) -> str:
    """Cut to `limit` characters, with `…` at the end."""
    return text if len(text) <= limit else f"{text[:limit]}…"
