"""A command line's words as a shell reads them, quoted as a person has begun to. Pure."""

import re
from typing import NamedTuple

_PIECE = re.compile(
    r"""\\(?P<escaped>.?)|'(?P<single>[^']*)(?P<closed>'?)|"(?P<double>(?:[^"\\]|\\.?)*)(?P<shut>"?)|(?P<plain>[^\\'"\s]+)""",
    re.DOTALL,
)
_IN_DOUBLE = re.compile(r'\\([$`"\\\n])')
_PLAIN = re.compile(r"[^\w@%+=:,./-]", re.ASCII)


class Word(NamedTuple):
    """`raw` is how it is written; `quote` the mark that is still open at its end."""

    text: str
    raw: str
    quote: str


def split(line: str) -> list[Word]:
    """The words of a line that may end anywhere; the last one is being typed, and is empty after a space."""
    words: list[Word] = []
    at = len(line) - len(line.lstrip())
    while at < len(line):
        words.append(_word(line, at))
        at += len(words[-1].raw)
        space = len(line) - at - len(line[at:].lstrip())
        if space and at + space == len(line):
            words.append(Word("", "", ""))
        at += space
    return words or [Word("", "", "")]


def unquoted(raw: str) -> str:
    """One word without its quotes; spaces in it are its own."""
    text, at = "", 0
    while at < len(raw):
        if piece := _PIECE.match(raw, at):
            text, at = text + _text(piece), piece.end()
        else:
            text, at = text + raw[at], at + 1
    return text


def quoted(text: str, quote: str) -> str:
    """`text` as a shell of the Bourne family takes it after the open mark `quote`; the mark stays open."""
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote:
        return re.sub(r'([$`"\\])', r"\\\1", text)
    return _PLAIN.sub(lambda mark: mark.group() if mark.group() > "\x7f" else f"\\{mark.group()}", text)


def _word(line: str, start: int) -> Word:
    text, at, quote = "", start, ""
    while piece := _PIECE.match(line, at):
        text, at, quote = text + _text(piece), piece.end(), _open(piece)
    return Word(text, line[start:at], quote)


def _text(piece: "re.Match[str]") -> str:
    """What a piece stands for; a line break after a backslash stands for nothing."""
    if (double := piece["double"]) is not None:
        return _IN_DOUBLE.sub(lambda mark: mark[1].strip("\n"), double)
    return (piece["escaped"] or "").strip("\n") + (piece["single"] or "") + (piece["plain"] or "")


def _open(piece: "re.Match[str]") -> str:
    if piece["single"] is not None and not piece["closed"]:
        return "'"
    return '"' if piece["double"] is not None and not piece["shut"] else ""
