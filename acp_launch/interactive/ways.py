"""
A question that is answered by a key, in rows: what is asked, and below it the answers. Pure.

The answers are dim until a key can choose one; then each shows its key. On a screen too small for all of them the keys
stand first in the row of the question, so that whoever can be asked sees what can be pressed.
"""

from prompt_toolkit.utils import get_cwidth

from acp_launch.interactive.asking import Question
from acp_launch.interactive.statusline import cut
from acp_launch.mark import marked
from acp_launch.session.person import Choice

APART = "  "  # between two answers
FEW = 5  # rows: the question, and an answer of each kind that a permission has
KEY = "ansicyan bold"
Row = list[tuple[str, str]]  # style and text


def room(rows: int) -> int:
    """Of a screen with so many rows, how many a question may have: above it stands what it is about, below it the
    prompt and the status."""
    return max(min(rows - 1, 1), min(rows - 2, max(FEW, rows // 2)))


def ways(question: Question, width: int, room: int) -> list[Row]:
    """At most `room` rows of at most `width` columns. Answers stand side by side if all fit, else each begins a row."""
    asked: list[Row] = [[("bold", part)] for part in _broken(marked(question.prompt), width)]
    beside = _beside(question, width)
    answers = (
        beside if len(beside) == 1 else [row for choice in question.choices for row in _whole(choice, question, width)]
    )
    if len(asked) + len(answers) <= room:
        return [*asked, *answers]
    return [_head(question, width), *_some(beside, width, room - 1)] if room else []


def _head(question: Question, width: int) -> Row:
    """The keys, and as much of the question as there is room for."""
    keys = f"[{'/'.join(choice.key for choice in question.choices)}] " if question.is_open else ""
    keys = cut(keys.rstrip(), width) if get_cwidth(keys) > width else keys
    prompt = question.prompt if keys else marked(question.prompt)
    row = [(KEY, keys), ("bold", cut(prompt, width - get_cwidth(keys)))]
    return [(style, text) for style, text in row if text]


def _some(answers: list[Row], width: int, room: int) -> list[Row]:
    if len(answers) <= room or room < 2:
        return answers[:room]
    more = len(answers) - room + 1
    return [*answers[: room - 1], [("dim", cut(f"… {more} more rows; a larger window shows them", width))]]


def _beside(question: Question, width: int) -> list[Row]:
    """As many in a row as fit, each cut to the width."""
    rows: list[Row] = []
    for choice in question.choices:
        key = _key(choice, question)
        answer = [(KEY, key), ("" if key else "dim", cut(choice.label, width - get_cwidth(key)))]
        if rows and _width(rows[-1]) + len(APART) + _width(answer) <= width:
            rows[-1] += [("", APART), *answer]
        else:
            rows.append(answer)
    return rows


def _whole(choice: Choice, question: Question, width: int) -> list[Row]:
    key = _key(choice, question)
    first, *rest = _broken(key + choice.label, width)
    style = "" if key else "dim"
    return [[(KEY, key), (style, first.removeprefix(key))], *([(style, part)] for part in rest)]


def _key(choice: Choice, question: Question) -> str:
    return f"[{choice.key}] " if question.is_open else ""


def _broken(text: str, width: int) -> list[str]:
    """In pieces of at most `width` columns."""
    pieces = [""]
    for mark in text:
        if pieces[-1] and get_cwidth(pieces[-1] + mark) > width:
            pieces.append("")
        pieces[-1] += mark
    return pieces


def _width(row: Row) -> int:
    return sum(get_cwidth(text) for _, text in row)
