"""
The windows at the bottom of the screen, from above: drawn rows, the question, queued prompts, the completion menu, the
prompt, the status line. On a low screen the first of these is cut first.
"""

from collections.abc import Callable, Iterable, Sequence

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition, has_completions, is_searching
from prompt_toolkit.formatted_text import AnyFormattedText, StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    UIContent,
    UIControl,
    Window,
)
from prompt_toolkit.layout.controls import GetLinePrefixCallable
from prompt_toolkit.layout.processors import AfterInput
from prompt_toolkit.utils import get_cwidth
from prompt_toolkit.widgets import SearchToolbar

from acp_launch.console.stderr import harmless
from acp_launch.interactive.front import Mood, Status
from acp_launch.interactive.questions import Question, ScreenQuestions
from acp_launch.mark import COLUMNS, marked
from acp_launch.session.person import Choice

# The status line: the parts that fit, chosen by importance, in reading order. Pure.


BETWEEN = " · "
WIDEST = 32  # columns of one part, because names of agents and users may be long
FULL = 80  # percent of the context from which it is highlighted
MOODS: dict[Mood, tuple[str, str]] = {
    "starting": ("starting", "dim"),
    "idle": ("ready", "ansigreen"),
    "working": ("working", "ansicyan"),
    "asking": ("asks you", "ansiyellow bold"),
    "cancelling": ("cancelling", "ansiyellow"),
    "down": ("down", "ansired bold"),
}
StatusPart = tuple[int, str, str]  # rank (0 stays longest), style, text


def statusline(status: Status, width: int) -> StyleAndTextTuples:
    """Return one row of at most `width` columns."""
    parts = [part for part in _parts(status) if part[2]]
    while len(parts) > 1 and _line_width(parts) > width:
        parts.remove(max(parts, key=lambda part: part[0]))
    shown: StyleAndTextTuples = []
    for _, style, text in parts:
        shown += [("dim", BETWEEN)] if shown else []
        shown.append((style, cut(text, width)))
    return shown


def cut(text: str, width: int) -> str:
    """Cut `text` to `width` columns, with … at the cut."""
    if get_cwidth(text) <= width:
        return text
    kept = ""
    for mark in text:
        if get_cwidth(kept + mark) > width - 1:
            break
        kept += mark
    return f"{kept}…" if width > 0 else ""


def _parts(status: Status) -> Iterable[StatusPart]:
    mood, style = MOODS[status.mood]
    yield 0, style, mood
    yield 2, "bold", _name(status.agent)
    yield 9, "dim", _name(status.profile)
    yield 3, "", _name(status.session)
    yield 10, "dim", _name(status.title)
    yield 4, "ansimagenta", _name(status.mode)
    yield 6, "", _name(status.model)
    yield 5, *_context(status)
    yield 7, "dim", _name(status.cost)
    yield 8, "dim", _servers(status.servers_up, "up")
    yield 1, "ansired", _servers(status.servers_down, "down")


def _name(text: str) -> str:
    return cut(harmless(text, keep="").strip(), WIDEST)


def _context(status: Status) -> tuple[str, str]:
    if status.used is None or not status.size:
        return "", ""
    percent = round(100 * status.used / status.size)
    return ("ansiyellow" if percent >= FULL else "dim"), f"{percent}% of context"


def _servers(count: int, state: str) -> str:
    return f"{count} {'server' if count == 1 else 'servers'} {state}" if count else ""


def _line_width(parts: list[StatusPart]) -> int:
    return sum(get_cwidth(text) for _, _, text in parts) + len(BETWEEN) * (len(parts) - 1)


# The rows of a question that is answered by a key: the prompt, and its answers below. Pure.
#
# The answers are dim until a key can choose one; then each shows its key. On a screen too small for all answers the
# keys stand first in the row of the prompt, so that the user always sees them.


BETWEEN_WAYS = "  "  # between two answers
FEW = 5  # rows: the prompt, and one answer of each kind of a permission
KEY = "ansicyan bold"
Row = list[tuple[str, str]]  # style and text


def room(rows: int) -> int:
    """Return how many of `rows` a question may take: its subject stands above it, the prompt and the status below."""
    return max(min(rows - 1, 1), min(rows - 2, max(FEW, rows // 2)))


def question_rows(question: Question, width: int, room: int) -> list[Row]:
    """Return at most `room` rows of at most `width` columns. Answers share a row if all fit, else each begins a row."""
    asked: list[Row] = [[("bold", part)] for part in _broken(marked(question.prompt), width)]
    beside = _beside(question, width)
    answers = (
        beside if len(beside) == 1 else [row for choice in question.choices for row in _whole(choice, question, width)]
    )
    if len(asked) + len(answers) <= room:
        return [*asked, *answers]
    return [_head(question, width), *_some(beside, width, room - 1)] if room else []


def _head(question: Question, width: int) -> Row:
    """Return the row with the keys, and as much of the question as fits."""
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
    """Return rows with as many answers as fit, each cut to the width."""
    rows: list[Row] = []
    for choice in question.choices:
        key = _key(choice, question)
        answer = [(KEY, key), ("" if key else "dim", cut(choice.label, width - get_cwidth(key)))]
        if rows and _way_width(rows[-1]) + len(BETWEEN_WAYS) + _way_width(answer) <= width:
            rows[-1] += [("", BETWEEN_WAYS), *answer]
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
    """Split into pieces of at most `width` columns."""
    pieces = [""]
    for mark in text:
        if pieces[-1] and get_cwidth(pieces[-1] + mark) > width:
            pieces.append("")
        pieces[-1] += mark
    return pieces


def _way_width(row: Row) -> int:
    return sum(get_cwidth(text) for _, text in row)


PROMPT = "> "
MENU = 8  # rows
NARROW = 24  # columns; on fewer, names may take the whole width
APART = 2  # columns between a name and its meaning
LEAST = 9  # the fewest columns for a meaning
QUEUED = 3  # queued prompts that are shown
Rows = Callable[[int], list[StyleAndTextTuples]]


class Tail(UIControl):
    """The last of some rows, as many as fit."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def preferred_height(
        self,
        width: int,
        max_available_height: int,
        wrap_lines: bool,
        get_line_prefix: GetLinePrefixCallable | None,
    ) -> int:
        return len(self._rows(width))

    def create_content(self, width: int, height: int) -> UIContent:
        rows = self._rows(width)[-height:]
        return UIContent(rows.__getitem__, line_count=len(rows), show_cursor=False)


class Screen:
    """The windows, and which of them has the keys."""

    def __init__(
        self,
        *,
        rows: Rows,
        prompt: Buffer,
        answer: Buffer,
        asking: ScreenQuestions,
        hint: Callable[[str], str],
        queued: Callable[[], Sequence[str]],
        status: Callable[[int], StyleAndTextTuples],
        choose_keys: KeyBindings,
    ) -> None:
        self._asking = asking
        search = SearchToolbar(ignore_case=True)
        after = AfterInput(lambda: hint(prompt.text), style="dim")
        prompt_control = BufferControl(
            prompt, input_processors=[after], search_buffer_control=search.control, preview_search=True
        )
        self._prompt = _input(prompt_control, lambda: PROMPT)
        self._answer = _input(BufferControl(answer), lambda: asked(asking.open))
        choice = FormattedTextControl(lambda: _joined(_question_rows(asking)), focusable=True, show_cursor=False)
        choice.key_bindings = choose_keys
        self._choice = Window(
            choice, height=lambda: Dimension.exact(len(_question_rows(asking))), dont_extend_height=True
        )
        is_line = Condition(lambda: asking.wants_line)
        self.layout = Layout(
            HSplit(
                [
                    Window(Tail(rows), dont_extend_height=True),
                    ConditionalContainer(self._choice, Condition(lambda: asking.question is not None) & ~is_line),
                    _rows(lambda: _waiting(queued(), _width())),
                    ConditionalContainer(_rows(lambda: _menu(_width())), has_completions & ~is_searching),
                    ConditionalContainer(self._answer, is_line),
                    ConditionalContainer(self._prompt, ~is_line),
                    search,
                    Window(FormattedTextControl(lambda: status(_width())), height=Dimension(min=0, max=1)),
                ],
                window_too_small=Window(),
            ),
            focused_element=self._prompt,
        )

    def refocus(self) -> None:
        """Give the keys to the right window."""
        is_choice = self._asking.open is not None and not self._asking.wants_line
        due = self._choice if is_choice else self._answer if self._asking.wants_line else self._prompt
        if due is not self._prompt:
            self.layout.search_links.clear()  # a question ends a search
        elif self.layout.is_searching:
            return
        self.layout.focus(due)


def room_above(question: Question, typed: str, queued: Sequence[str], size: Size) -> tuple[int, int]:
    """Return the columns next to our mark, and the rows above a question; queue, draft and status stand below it."""
    columns, rows = size.columns, size.rows
    draft = sum(max(1, -(-get_cwidth(PROMPT + line) // columns)) for line in typed.split("\n"))
    waiting = min(len(queued), QUEUED + 1)
    above = rows - len(question_rows(question, columns, room(rows))) - waiting - min(draft, max(1, rows // 3)) - 1
    return columns - COLUMNS, above


def asked(question: Question | None) -> str:
    """Return the text before a line of an answer."""
    if question is None:
        return ""
    return marked(f"{question.prompt} [{question.default}] " if question.default else f"{question.prompt} ")


def _input(control: BufferControl, prefix: Callable[[], str]) -> Window:
    def line_prefix(line: int, wrapped: int) -> AnyFormattedText:
        text = prefix()
        return [("bold", text)] if line == wrapped == 0 else " " * min(get_cwidth(text), get_cwidth(PROMPT))

    return Window(
        control,
        height=lambda: Dimension(min=1, max=max(1, get_app().output.get_size().rows // 3)),
        wrap_lines=True,
        dont_extend_height=True,
        get_line_prefix=line_prefix,
    )


def _rows(text: Callable[[], StyleAndTextTuples]) -> ConditionalContainer:
    window = Window(FormattedTextControl(text), dont_extend_height=True)
    return ConditionalContainer(window, Condition(lambda: bool(text())))


def _question_rows(asking: ScreenQuestions) -> list[Row]:
    return question_rows(asking.question, _width(), room(get_app().output.get_size().rows)) if asking.question else []


def _joined(rows: Sequence[Row]) -> StyleAndTextTuples:
    shown: StyleAndTextTuples = []
    for row in rows:
        shown += [("", "\n"), *row] if shown else row
    return shown


def _waiting(prompts: Sequence[str], width: int) -> StyleAndTextTuples:
    lines = [f"queued: {' '.join(prompt.split())}" for prompt in prompts[:QUEUED]]
    if len(prompts) > QUEUED:
        lines.append(f"and {len(prompts) - QUEUED} more")
    return [("dim", "\n".join(cut(line, width) for line in lines))] if lines else []


def _menu(width: int) -> StyleAndTextTuples:
    """Return the rows around the chosen completion, each with its meaning if there is room."""
    state = get_app().current_buffer.complete_state
    if state is None:
        return []
    index = state.complete_index
    first = max(0, min((index or 0) - MENU // 2, len(state.completions) - MENU))
    visible = state.completions[first : first + MENU]
    shown = meant([(item.text, item.display_text, item.display_meta_text) for item in visible], width)
    rows: StyleAndTextTuples = []
    for number, (name, meaning) in enumerate(shown, first):
        rows += [("", "\n")] if rows else []
        rows.append(("reverse" if number == index else "", name))
        rows.append(("dim", f"  {meaning}"))
    return rows


def meant(items: Sequence[tuple[str, str, str]], width: int) -> list[tuple[str, str]]:
    """
    Return rows of a name with its hint, and its meaning; an item is the name, the name with its hint, the meaning.

    A hint that leaves no room for meanings is cut for its own meaning, and takes no room from the others.
    """
    most = width // 2 if width >= NARROW else width
    column = max((size for _, shown, _ in items if (size := get_cwidth(shown)) <= most), default=0)
    rows = []
    for name, shown, meaning in items:
        room = max(most, get_cwidth(f"{name} …"), width - get_cwidth(meaning) - APART) if meaning else width
        shown = cut(shown, min(room, width))
        shown += " " * (column - get_cwidth(shown))
        left = width - get_cwidth(shown) - APART
        rows.append((shown, cut(meaning, left) if left >= LEAST else ""))
    return rows


def _width() -> int:
    return get_app().output.get_size().columns
