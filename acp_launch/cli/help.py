"""The verb `help`: shows a page of docs/, or the sections where words occur. Completion uses its topics."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from acp_launch.errors import MachineError, UsageError
from acp_launch.problem import did_you_mean
from acp_launch.regex import regex

WIDEST = 100  # columns of a page; longer lines are hard to read
_FILE = regex(r"(?m)^<!-- file: (\S+) -->$")
_COMMENT = regex(r"(?m)^<!--.*-->\n")
_IMAGE = regex(r"(?m)^<picture>.*<img alt=\"([^\"]*)\".*</picture>$")
_LINK = regex(r"\[([^\]]*)\]\((?:[a-z]+\.md)?(?:#[^)]*)?\)")  # to a heading, or to another page
_ABOUT = regex(r"(?m)^This page is about (.*)\.$")
_MARKS = regex(r"^[-|>\s]+|[`|]|\*\*")  # marks of Markdown that a single line is shown without

Topic = Annotated[
    list[str] | None, typer.Argument(metavar="[TOPIC]...", help="A page; any other word is searched for.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


def help_(topic: Topic = None, as_json: Json = False) -> None:
    """Show the documentation: the topics, a page, or where a word occurs."""
    words = " ".join(topic or []).split()
    name = " ".join(words).casefold()
    if as_json:
        _put_json(name, words)
    elif not words:
        width = max(map(len, topics())) + 2
        _put("".join(f"{topic:{width}}{about(topic)}\n" for topic in topics()))
        _note("acp-launch help TOPIC shows one; any other word is searched for")
    elif name in topics():
        _show(_drawn(page(name)))
    else:
        _show_matches(name, words)


def _put_json(name: str, words: list[str]) -> None:
    import json

    if not words:
        answer: dict[str, object] = {"topics": [{"topic": topic, "about": about(topic)} for topic in topics()]}
    elif name in topics():
        answer = {"topic": name, "text": page(name)}
    else:
        answer = {"matches": [match._asdict() for match in search(words)]}
    _put(f"{json.dumps(answer)}\n")


def _show_matches(name: str, words: list[str]) -> None:
    from textwrap import shorten

    from acp_launch.cli.verb import VERBS

    found = search(words)
    if not found:
        headings = " ".join(section.heading for topic in topics() for section in sections(topic))
        near = did_you_mean(name, sorted({*topics(), *re.findall(r"[a-z]{3,}", headings.casefold())}))
        what = f'no topic is named "{name}", and no page has that text{near}'
        raise UsageError(what, fix="acp-launch help lists the topics")
    for match in found:
        line = shorten(match.line, _width() - 4, placeholder=" …")
        _put(f"{match.topic}: {match.heading}\n" + (f"    {line}\n" if line else ""))
    options = f'; --help after "{name}" lists its options' if name in VERBS else ""
    _note(f"acp-launch help TOPIC shows a page{options}")


# The pages: inside the installed package, or beside it in a checkout.


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


def _directory() -> Path:
    package = Path(__file__).parents[1]
    installed = package / "docs"
    return installed if installed.is_dir() else package.parent / "docs"


def topics() -> list[str]:
    """List the names of all pages in alphabetical order."""
    return sorted(path.stem for path in _directory().glob("*.md"))


def page(topic: str) -> str:
    """Read the Markdown of a page; links, pictures and marks of files are replaced by their texts."""
    text = (_directory() / f"{topic}.md").read_text(encoding="utf-8")
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
    having = [
        section
        for topic in topics()
        for section in sections(topic)
        if _has("\n".join((section.heading, *section.lines)), wanted)
    ]
    having.sort(key=lambda section: not _has(section.heading, wanted))
    return [Match(section.topic, section.heading, _line_with(section, wanted)) for section in having]


def _line_with(section: Section, wanted: Sequence[str]) -> str:
    ways = (" ".join(wanted),), wanted, wanted[:1]
    lines = (line for way in ways for line in section.lines if _has(line, way))
    return " ".join(_MARKS.sub("", next(lines, "")).split())


def _has(text: str, wanted: Sequence[str]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in wanted)


# The terminal.


def _drawn(text: str) -> str:
    """Render a page: in colours on a terminal, as plain text elsewhere."""
    import io

    from rich.console import Console
    from rich.segment import Segment, Segments

    from acp_launch.console.draw.markdown import Typesetter, parser

    is_terminal = _is_terminal()
    screen = Console(
        file=io.StringIO(),
        width=_width(),
        force_terminal=is_terminal,
        color_system="auto" if is_terminal else None,
    )
    lines = Typesetter(screen, coloured=is_terminal).lines(parser().parse(text), screen.width)
    with screen.capture() as drawn:
        screen.print(Segments(segment for line in lines for segment in (*line, Segment.line())))
    return "".join(f"{line.rstrip()}\n" for line in drawn.get().splitlines())


def _show(text: str) -> None:
    """Show text in the user's pager on a terminal; on stdout elsewhere, or if the pager is not installed."""
    import os
    import shlex
    import sys

    pager = os.environ.get("PAGER", "less -R")
    if _is_terminal() and pager.strip() and sys.platform != "win32":
        try:
            _become(shlex.split(pager), text)
        except (MachineError, ValueError):  # the pager is not installed, or $PAGER is not a command line
            _put(text)
    else:
        _put(text)


def _become(pager: list[str], text: str) -> None:
    """Replace this process by the pager, with the text on stdin; `less` shows colours, and quits after short text."""
    import os
    import tempfile

    from acp_launch.cli.execute import replaced_by

    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        os.dup2(file.fileno(), 0)
    replaced_by(pager, {}, {**os.environ, "LESS": f"{os.environ.get('LESS', '-FX')} -R"})


def _put(text: str) -> None:
    import sys

    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())  # UTF-8 whatever the locale, like all results on stdout


def _note(text: str) -> None:
    from acp_launch.console.stderr import DIM, say

    say(text, style=DIM)


def _is_terminal() -> bool:
    import os
    import sys

    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _width() -> int:
    import shutil

    return min(shutil.get_terminal_size().columns, WIDEST)
