"""The verb `help`: shows a page of docs/, or the sections where words occur."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import shorten
from typing import Annotated, NamedTuple

from acp_launch.cli.verb import Argument, Json
from acp_launch.console.stderr import DIM, say
from acp_launch.errors import MachineError, UsageError
from acp_launch.problem import did_you_mean
from acp_launch.regex import regex

FIRST = ("profiles", "session", "mcp", "secrets", "login", "permissions", "up", "troubleshooting")  # for users
LAST = ("acp", "internals", "contributing")
MAX_PAGE_COLUMNS = 100  # longer lines are hard to read
_FILE = regex(r"(?m)^<!-- file: (\S+) -->$")
_COMMENT = regex(r"(?m)^<!--.*-->\n")
_IMAGE = regex(r"(?m)^<picture>.*<img alt=\"([^\"]*)\".*</picture>$")
_LINK = regex(r"\[([^\]]*)\]\((?:[a-z]+\.md)?(?:#[^)]*)?\)")  # to a heading, or to another page
_ABOUT = regex(r"(?m)^This page is about (.*)\.$")
_MARKS = regex(r"^[-|>\s]+|[`|]|\*\*")  # marks of Markdown that a single line is shown without

Topic = Annotated[tuple[str, ...], Argument("[TOPIC]...", "A page; any other word is searched for.")]


class PageMatch(NamedTuple):
    """A section with all the words of a search, and its first line with all of them, or with the first of them."""

    topic: str
    heading: str
    line: str


def help_(topic: Topic = (), as_json: Json = False) -> None:
    """Show the documentation: the topics, a page, or where a word occurs."""
    words = " ".join(topic).casefold().split()
    name = " ".join(words)
    if not words:
        listed = {each: about(each) for each in topics()}
        answer: dict[str, object] = {"topics": [{"topic": each, "about": text} for each, text in listed.items()]}
        width, hint = max(map(len, listed)) + 2, "acp-launch help TOPIC shows its page; any other word is searched for"
        shown = "".join(f"{each:{width}}{text}\n" for each, text in listed.items())
    elif name in topics():
        answer, shown, hint = {"topic": name, "text": page(name)}, "", ""
    else:
        found = search(words)
        answer, hint = {"matches": [match._asdict() for match in found]}, "acp-launch help TOPIC shows a page"
        shown = "".join(map(_draw_match, found))
    if as_json:
        _put(f"{json.dumps(answer)}\n")
    elif hint:
        if not shown:
            what = f'no topic is named "{name}", and no page has that text{did_you_mean(name, topics())}'
            raise UsageError(what, fix="acp-launch help lists the topics")
        _put(shown)
        say(hint, style=DIM)
    else:
        _show(_draw(page(name)))


# The pages: inside the installed package, or next to it in a checkout.


def _directory() -> Path:
    package = Path(__file__).parents[1]
    installed = package / "docs"
    return installed if installed.is_dir() else package.parent / "docs"


def topics() -> list[str]:
    """List the names of all pages, those that users need most at first."""
    names = sorted(path.stem for path in _directory().glob("*.md"))
    rank = {name: place for place, name in enumerate(FIRST, -len(FIRST))}
    return sorted(names, key=lambda name: (name in LAST, rank.get(name, 0)))


def page(topic: str) -> str:
    """Read the Markdown of a page; links, pictures and marks of files are replaced by their texts."""
    text = (_directory() / f"{topic}.md").read_text(encoding="utf-8")
    text = _COMMENT.sub("", _FILE.sub(r"`\1`:\n", text))
    return _LINK.sub(r"\1", _IMAGE.sub(r"(picture: \1)", text))


def about(topic: str) -> str:
    """Return the purpose of a page: the rest of its sentence "This page is about …"."""
    found = _ABOUT.search(page(topic))
    return found[1] if found else ""


def sections(topic: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the sections of a page, each as its heading and lines; a `#` in a block of code does not begin one."""
    heading, lines, is_code = topic, list[str](), False
    for line in page(topic).splitlines():
        is_code ^= line.lstrip().startswith("```")
        if line.startswith("#") and not is_code:
            yield heading, lines
            heading, lines = line.lstrip("# "), []
        else:
            lines.append(line)
    yield heading, lines


def search(words: Sequence[str]) -> list[PageMatch]:
    """Find the sections with all the words, which are in lower case; those of a page about them come first, then those
    with them in their headings. Pages for contributors come last.
    """
    found: list[PageMatch] = []
    purposes = {topic: about(topic) for topic in topics()}
    for topic in purposes:
        for heading, lines in sections(topic):
            if _has("\n".join((heading, *lines)), words):
                having = [line for wanted in (words, words[:1]) for line in lines if _has(line, wanted)]
                found.append(PageMatch(topic, heading, " ".join(_MARKS.sub("", next(iter(having), "")).split())))
    return sorted(
        found,
        key=lambda match: (
            match.topic in LAST,
            not _has(purposes[match.topic], words),
            not _has(match.heading, words),
        ),
    )


def _has(text: str, words: Sequence[str]) -> bool:
    return all(word in text.casefold() for word in words)


# The terminal.


def _draw_match(match: PageMatch) -> str:
    line = shorten(match.line, _width() - 4, placeholder=" …")
    return f"{match.topic}: {match.heading}\n" + (f"    {line}\n" if line else "")


def _draw(text: str) -> str:
    """Render a page: in colours on a terminal, as plain text elsewhere."""
    from rich.console import Console
    from rich.segment import Segment, Segments

    from acp_launch.console.draw.markdown import Typesetter, parser

    is_terminal = _is_terminal()
    screen = Console(width=_width(), force_terminal=is_terminal, color_system="auto" if is_terminal else None)
    lines = Typesetter(screen, coloured=is_terminal).lines(parser().parse(text), screen.width)
    with screen.capture() as drawn:
        screen.print(Segments(segment for line in lines for segment in (*line, Segment.line())))
    return "".join(f"{line.rstrip()}\n" for line in drawn.get().splitlines())


def _show(text: str) -> None:
    """Show text in the user's pager on a terminal, which replaces this process; on stdout elsewhere, or without one."""
    import tempfile

    from acp_launch.app.execute import replaced_by

    pager = os.environ.get("PAGER", "less -R")
    if _is_terminal() and pager.strip():
        with tempfile.TemporaryFile() as file:
            file.write(text.encode())
            file.seek(0)
            os.dup2(file.fileno(), 0)

        with suppress(MachineError, ValueError):  # the pager is not installed, or $PAGER is not a command line
            less = f"{os.environ.get('LESS', '-FX')} -R"  # shows colours, and quits after short text
            replaced_by(shlex.split(pager), {}, {**os.environ, "LESS": less})
    _put(text)


def _put(text: str) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())  # UTF-8 whatever the locale, like all results on stdout


def _is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _width() -> int:
    return min(shutil.get_terminal_size().columns, MAX_PAGE_COLUMNS)
