"""The pages of docs/: topics, their sections and a search for words. It imports little, as completion uses it."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from acp_launch.regex import regex

_FILE = regex(r"^<!-- file: (\S+) -->$", re.MULTILINE)
_COMMENT = regex(r"^<!--.*-->\n", re.MULTILINE)
_IMAGE = regex(r"^<picture>.*<img alt=\"([^\"]*)\".*</picture>$", re.MULTILINE)
_LINK = regex(r"\[([^\]]*)\]\((?:[a-z]+\.md)?(?:#[^)]*)?\)")  # to a heading, or to another page
_ABOUT = regex(r"^This page is about (.*)\.$", re.MULTILINE)
_MARKS = regex(r"^[-|>\s]+|[`|]|\*\*")  # marks of Markdown that a single line is shown without


class Section(NamedTuple):
    """A part of a page, from its heading to the next."""

    topic: str
    heading: str
    lines: tuple[str, ...]


class Match(NamedTuple):
    """A section with all the words of a search, and its first line with all of them, or with the first of them."""

    topic: str
    heading: str
    line: str


def directory() -> Path:
    """Return the directory of the pages: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "docs"
    return installed if installed.is_dir() else package.parent / "docs"


def topics() -> list[str]:
    """List the names of all pages in alphabetical order."""
    return sorted(path.stem for path in directory().glob("*.md"))


def page(topic: str) -> str:
    """Read the Markdown of a page; links, pictures and marks of files are replaced by their texts."""
    text = (directory() / f"{topic}.md").read_text(encoding="utf-8")
    text = _COMMENT.sub("", _FILE.sub(r"`\1`:\n", text))
    return _LINK.sub(r"\1", _IMAGE.sub(r"(picture: \1)", text))


def about(topic: str) -> str:
    """Return the purpose of a page: the rest of its sentence "This page is about …"."""
    found = _ABOUT.search(page(topic))
    return found[1] if found else ""


def sections(topic: str) -> Iterator[Section]:
    """Yield the sections of a page in order; a `#` inside a block of code is not a heading."""
    heading, lines, is_code = topic, list[str](), False
    for line in page(topic).splitlines():
        is_code ^= line.lstrip().startswith("```")
        if line.startswith("#") and not is_code:
            yield Section(topic, heading, tuple(lines))
            heading, lines = line.lstrip("# "), []
        else:
            lines.append(line)
    yield Section(topic, heading, tuple(lines))


def search(words: Sequence[str]) -> list[Match]:
    """Find the sections with all the words, in any case; matches in headings come first."""
    wanted = [word.casefold() for word in words]
    found = [match for topic in topics() for section in sections(topic) if (match := _match(section, wanted))]
    return sorted(found, key=lambda match: not _has(match.heading, wanted))


def known_words() -> list[str]:
    """List the candidates for a mistyped word: topics, and the words of headings."""
    headings = " ".join(section.heading for topic in topics() for section in sections(topic))
    return sorted({*topics(), *re.findall(r"[a-z]{3,}", headings.casefold())})


def _match(section: Section, wanted: Sequence[str]) -> Match | None:
    if not _has("\n".join([section.heading, *section.lines]), wanted):
        return None
    ways = (" ".join(wanted),), wanted, wanted[:1]
    lines = (line for way in ways for line in section.lines if _has(line, way))
    return Match(section.topic, section.heading, " ".join(_MARKS.sub("", next(lines, "")).split()))


def _has(text: str, wanted: Sequence[str]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in wanted)
