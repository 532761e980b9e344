"""
Text from outside on a terminal: nothing of it moves the cursor, reorders what is read, takes no room unseen, or begins
a line like one of ours.

Control characters, bidirectional overrides, everything else that has no glyph, and our mark become visible escapes
(`console.stderr.harmless`). Rare spaces become ordinary ones. In prose, what only joins or hints (within emoji,
Persian words, hyphenation) is left out: it has no width, and terminals do not agree on what it does to its
neighbours'. In a name or a path even that is shown, since a name that looks like another may be a lie.
"""

from acp_launch.console.stderr import harmless, is_harmless
from acp_launch.mark import MARK

SPACES = {**dict.fromkeys((0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F), " "), 0x3000: "  "}
JOINERS = dict.fromkeys((0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF), "")
PROSE = {**SPACES, **JOINERS}


def prose(text: str) -> str:
    """For paragraphs: lines and tabs stay."""
    if MARK not in text and text.replace("\n", "").replace("\t", "").isprintable():  # much the quickest way to see it
        return text
    return harmless(text.translate(PROSE))


def inline(text: str) -> str:
    """For a name, a title, a path: one line."""
    return text if is_harmless(text) else harmless(text.translate(SPACES), keep="")


def one_line(text: str) -> str:
    """For the first words of a longer text: its line ends and rows of spaces become single spaces."""
    return inline(" ".join(text.split()))


def cut(text: str, limit: int) -> str:
    """No more than `limit` characters, and a sign that there are more."""
    return text if len(text) <= limit else f"{text[:limit]}…"
