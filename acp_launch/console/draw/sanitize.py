"""
Foreign text made safe for a terminal: it cannot move the cursor, change the reading direction, hide characters, or
begin a line like ours.

Control characters, bidirectional overrides, other characters without a glyph, and our mark become visible escapes
(`console.stderr.harmless`). Rare spaces become ordinary ones. In prose, characters that only join or hint (in emoji,
Persian words, hyphenation) are removed: they have no width, and terminals disagree on their effect. In a name or a path
even those are shown, because a name that looks like another may be a trick.
"""

from typing import Any

from acp_launch.console.stderr import harmless, harmless_line, is_harmless
from acp_launch.problem import MARK
from acp_launch.protocol import acp
from acp_launch.secret.redact import redactor
from acp_launch.session.events import Person

MAX_QUESTION_CHARS = 4000  # of one text in a question
MAX_NAME_CHARS = 200  # of a name in it

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
    return text if is_harmless(text) else harmless_line(text.translate(SPACES))


def one_line(text: str) -> str:
    """Return a longer text on one line: line ends and runs of spaces become single spaces."""
    return inline(" ".join(text.split()))


def cut(text: str, limit: int) -> str:
    """Cut to `limit` characters, with `…` at the end."""
    return text if len(text) <= limit else f"{text[:limit]}…"


# Text of agents in a question: without secrets, and never mistaken for our text.


def quote_line(text: str, *, longest: int = MAX_NAME_CHARS) -> str:
    """Return `text` on one line; a cut says how much is missing."""
    return cut_telling(one_line(redactor.text(text)), longest)


def cut_telling(text: str, longest: int) -> str:
    """Cut to `longest` characters; the user must know how many are missing."""
    return text if len(text) <= longest else f"{text[:longest]}… [{len(text) - longest:,} more characters]"


def quote(person: Person, text: str) -> None:
    """Print the text line by line, each marked; nothing for an empty text."""
    for line in cut_telling(harmless(redactor.text(text)).strip(), MAX_QUESTION_CHARS).splitlines():
        person.say(f"  | {line}", "quote")


# What agents send: content blocks (ACP v1 "content"), in chunks.


def content_text(block: dict[str, Any]) -> str:
    """Return the text of a content block, or a description of it, as the agent sent it: not made harmless."""
    kind = acp.text(block.get("type"))
    if kind == "text":
        return acp.text(block.get("text"))
    if kind in ("image", "audio"):
        size = len(acp.text(block.get("data"))) * 3 // 4  # base64
        return f"[{kind}: {acp.text(block.get('mimeType')) or 'of an unknown type'}, {size:,} bytes]"
    if kind == "resource_link":
        name = acp.text(block.get("title")) or acp.text(block.get("name"))
        return f"[{name}: {acp.text(block.get('uri'))}]"
    if kind == "resource":
        resource = acp.mapping(block.get("resource"))
        return acp.text(resource.get("text")) or f"[{acp.text(resource.get('uri'))}]"
    return ""


def diff_texts(part: dict[str, Any]) -> tuple[str, str | None, str]:
    """Return the path of a diff, the old text, which is None for a new file, and the new one."""
    old = part.get("oldText")
    return acp.text(part.get("path")), old if isinstance(old, str) else None, acp.text(part.get("newText"))
