"""The verb `help`: shows a page of the documentation, or the places where a word occurs."""

from typing import Annotated

import typer

from acp_launch.errors import MachineError, UsageError
from acp_launch.problem import did_you_mean

WIDEST = 100  # columns of a page; longer lines are hard to read
LIST = "acp-launch help lists the topics"

Topic = Annotated[
    list[str] | None, typer.Argument(metavar="[TOPIC]...", help="A page; any other word is searched for.")
]


Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


def help_(topic: Topic = None, as_json: Json = False) -> None:
    """Show the documentation: the topics, a page, or where a word occurs."""
    from acp_launch.cli.manual import page, search, topics

    words = " ".join(topic or []).split()
    name = " ".join(words).casefold()
    if as_json:
        _put_json(name, words)
    elif not words:
        _show_topics()
    elif name in topics():
        _show(_drawn(page(name)))
    elif found := search(words):
        _put("".join(f"{match.topic}: {match.heading}\n{_shortened(match.line)}" for match in found))
        _note(f"acp-launch help TOPIC shows a page{_options(name)}")
    else:
        raise _nothing(name)


def _put_json(name: str, words: list[str]) -> None:
    import json

    from acp_launch.cli.manual import about, page, search, topics

    if not words:
        answer: dict[str, object] = {"topics": [{"topic": topic, "about": about(topic)} for topic in topics()]}
    elif name in topics():
        answer = {"topic": name, "text": page(name)}
    else:
        answer = {"matches": [match._asdict() for match in search(words)]}
    _put(f"{json.dumps(answer)}\n")


def _show_topics() -> None:
    from acp_launch.cli.manual import about, topics

    width = max(map(len, topics())) + 2
    _put("".join(f"{topic:{width}}{about(topic)}\n" for topic in topics()))
    _note("acp-launch help TOPIC shows one; any other word is searched for")


def _nothing(name: str) -> UsageError:
    from acp_launch.cli.manual import known_words

    near = did_you_mean(name, known_words())
    return UsageError(f'no topic is named "{name}", and no page has that text{near}', fix=LIST)


def _options(name: str) -> str:
    """How to list the options of a command, if `name` is one."""
    from acp_launch.cli.verb import VERBS

    return f'; --help after "{name}" lists its options' if name in VERBS else ""


def _shortened(line: str) -> str:
    import textwrap

    return f"    {textwrap.shorten(line, _width() - 4, placeholder=' …')}\n" if line else ""


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
