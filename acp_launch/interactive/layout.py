"""
The windows at the bottom of the screen, from above: drawn rows, the question, queued prompts, the completion menu, the
prompt between two rules, the status line. On a low screen the rules are left out, and the first of the rest is cut
first.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition, has_completions, is_searching
from prompt_toolkit.formatted_text import AnyFormattedText, StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Container,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.processors import AfterInput
from prompt_toolkit.layout.screen import Char, Screen, WritePosition
from prompt_toolkit.utils import get_cwidth
from prompt_toolkit.widgets import SearchToolbar

from acp_launch.console.ask.viewport import break_lines
from acp_launch.console.stderr import harmless_line
from acp_launch.console.stdout import cells, fit
from acp_launch.interactive.questions import Question, ScreenQuestions
from acp_launch.interactive.terminal import Activity, Phase, Status, elapsed
from acp_launch.problem import COLUMNS, MARK, count, marked
from acp_launch.session.events import Choice

# The characters that draw the lower part of the screen.


class Signs(Struct, frozen=True):
    """The prompt, the rule above and below it, the steps of the spinner, a standing one, and the mark between parts."""

    prompt: str
    rule: str
    steps: str
    still: str
    between: str


FINE = Signs("❯ ", "─", "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "●", " · ")
# For a terminal without UTF-8, and for the Linux console, whose fonts lack some of the others.
POOR = Signs("> ", "-", "|/-\\", "*", " - ")


# The status line: on the left what happens, on the right at most four parts, chosen by importance, in reading order.
# Pure.


MAX_PART_COLUMNS = 32  # names of agents and users may be long
MIN_ACTIVITY_COLUMNS = 24
MAX_RIGHT_PARTS = 4
APART_SIDES = 2  # columns between the left and the right
FULL_PERCENT = 80  # of the context, from which it is highlighted
PHASES: dict[Phase, tuple[str, str]] = {
    "starting": ("starting", "ansicyan"),
    "idle": ("ready", "ansigreen"),
    "working": ("working", "ansicyan"),
    "asking": ("waiting for you", "ansiyellow bold"),
    "cancelling": ("cancelling", "ansiyellow"),
    "down": ("down", "ansired bold"),
}
HINTS: dict[Phase, str] = {
    "idle": "? shows the keys",
    "working": "esc interrupts",
    "cancelling": "Ctrl-C stops at once",
}
ABBREVIATED = 20  # columns of the agent's name where not all fits
StatusPart = tuple[int, str, str]  # rank (0 stays longest), style, text


def statusline(
    status: Status, width: int, activity: Activity | None = None, *, sign: str = "", signs: Signs = FINE
) -> StyleAndTextTuples:
    """Return one row of at most `width` columns. `sign` begins it while something is done."""
    left = list(_happens(status, activity, width, sign))
    right = _right(status, is_long=True)
    if _line_width(left, signs) + _right_width(right, signs) > width:
        right = _right(status, is_long=False)
    while len(left) + len(right) > 1 and _line_width(left, signs) + _right_width(right, signs) > width:
        least = max([*left[1:], *right], key=lambda part: part[0])
        (right if least in right else left).remove(least)
    shown = _joined_parts(left, signs, width)
    if right:
        gap = width - _line_width(left, signs) - _line_width(right, signs)
        shown += [("", " " * gap), *_joined_parts(right, signs, width)]
    return shown


def _happens(status: Status, activity: Activity | None, width: int, sign: str) -> Iterator[StatusPart]:
    phase, style = PHASES[status.phase]
    if activity is None:
        yield 0, style, f"{sign} {phase}".lstrip()
    else:
        time = f" {elapsed(activity.seconds)}" if activity.seconds is not None and activity.seconds >= 1 else ""
        room = max(MIN_ACTIVITY_COLUMNS, width * 2 // 3 if activity.remark else width // 2) - cells(time)
        yield 0, style, f"{sign} {fit(activity.what, room)}{time}".lstrip()
        if activity.remark:
            yield 0, "dim", activity.remark
    if status.phase in HINTS:
        yield 4 if status.phase == "working" else 8, "dim", HINTS[status.phase]


def _right(status: Status, *, is_long: bool) -> list[StatusPart]:
    known = [part for part in _parts(status, is_long) if part[2]]
    chosen = sorted(known, key=lambda part: part[0])[:MAX_RIGHT_PARTS]
    return [part for part in known if part in chosen]


def _parts(status: Status, is_long: bool) -> Iterable[StatusPart]:
    agent = _name(status.agent)
    yield 2, "", agent if is_long else fit(agent, ABBREVIATED)
    yield 9, "dim", _name(status.profile)
    yield 3, "", _name(status.session)
    yield 10, "dim", _name(status.title)
    yield 5, "ansimagenta", _name(status.mode)
    yield 7, "", _name(status.model)
    yield 6, *_usage(status, is_long)
    for rank, style, number, state in (
        (11, "dim", status.servers_up, "up"),
        (8, "ansiyellow", status.servers_silent, "starting"),
        (1, "ansired", status.servers_down, "down"),
    ):
        yield rank, style, f"{count(number, 'server')} {state}" if number else ""


def _name(text: str) -> str:
    return fit(harmless_line(text).strip(), MAX_PART_COLUMNS)


def _usage(status: Status, is_long: bool) -> tuple[str, str]:
    """Return how full the context is and, if long, what the session costs, with the tokens during a turn."""
    percent = None if status.used is None or not status.size else round(100 * status.used / status.size)
    is_full = percent is not None and percent >= FULL_PERCENT
    parts = [f"{percent} %{' full' if is_full else ''}"] if percent is not None else []
    if is_long and status.used is not None and status.phase not in ("idle", "down"):
        parts.append(f"{status.used:,} tokens")
    if status.cost and (is_long or not parts):
        parts.append(_name(status.cost))
    return "ansiyellow" if is_full else "dim", ", ".join(parts)


def _joined_parts(parts: Sequence[StatusPart], signs: Signs, width: int) -> StyleAndTextTuples:
    shown: StyleAndTextTuples = []
    for _, style, text in parts:
        shown += [("dim", signs.between)] if shown else []
        shown.append((style, fit(text, width)))
    return shown


def _line_width(parts: Sequence[StatusPart], signs: Signs) -> int:
    return sum(cells(text) for _, _, text in parts) + len(signs.between) * max(0, len(parts) - 1)


def _right_width(parts: Sequence[StatusPart], signs: Signs) -> int:
    return _line_width(parts, signs) + APART_SIDES if parts else 0


# The rows of a question that is answered by a key: the prompt, and its answers below. Pure.
#
# The answers are dim until a key can choose one; then each shows its key. On a screen too small for all answers the
# keys stand first in the row of the prompt, so that the user always sees them.


BETWEEN_WAYS = "  "  # between two answers
MIN_PROMPT_ROWS = 5  # for the prompt and its answers, on a small screen too
KEY = "ansicyan bold"
BAR = "ansiyellow"
Row = list[tuple[str, str]]  # style and text


def room(rows: int) -> int:
    """Return how many of `rows` a question may take: its subject stands above it, the prompt and the status below."""
    return max(min(rows - 1, 1), min(rows - 2, max(MIN_PROMPT_ROWS, rows // 2)))


def question_rows(question: Question, width: int, room: int) -> list[Row]:
    """Return at most `room` rows of at most `width` columns. Answers share rows, unless one is wider than a row."""
    inner = width - COLUMNS
    line_prompt: list[Row] = [[("bold", part)] for part in break_lines(question.prompt, inner)]
    fits = all(cells(_key(choice, question) + choice.label) <= inner for choice in question.choices)
    whole = (row for choice in question.choices for row in _whole(choice, question, inner))
    rows = [*line_prompt, *(_beside(question, inner) if fits else whole)]
    if len(rows) <= room and inner > 0:
        return [[(BAR, f"{MARK} " if row else MARK), *row] for row in rows]
    return [_head(question, width), *_beside(question, width)][: max(0, room)]


def _head(question: Question, width: int) -> Row:
    """Return the row with the keys, and as much of the question as fits."""
    keys = f"[{'/'.join(choice.key for choice in question.choices)}] " if question.is_open else ""
    keys = fit(keys.rstrip(), width) if cells(keys) > width else keys
    prompt = question.prompt if keys else marked(question.prompt)
    row = [(KEY, keys), ("bold", fit(prompt, width - cells(keys)))]
    return [(style, text) for style, text in row if text]


def _beside(question: Question, width: int) -> list[Row]:
    """Return rows with as many answers as fit, each cut to the width."""
    rows: list[Row] = []
    for choice in question.choices:
        key = _key(choice, question)
        answer = [(KEY, key), ("" if key else "dim", fit(choice.label, width - cells(key)))]
        if rows and _way_width(rows[-1]) + len(BETWEEN_WAYS) + _way_width(answer) <= width:
            rows[-1] += [("", BETWEEN_WAYS), *answer]
        else:
            rows.append(answer)
    return rows


def _whole(choice: Choice, question: Question, width: int) -> list[Row]:
    key = _key(choice, question)
    first, *rest = break_lines(key + choice.label, width)
    style = "" if key else "dim"
    return [[(KEY, key), (style, first.removeprefix(key))], *([(style, part)] for part in rest)]


def _key(choice: Choice, question: Question) -> str:
    return f"[{choice.key}] " if question.is_open else ""


def _way_width(row: Row) -> int:
    return sum(cells(text) for _, text in row)


FRAMED = 16  # rows from which the line to type on stands between two rules
MENU = 8  # rows
NARROW = 24  # columns; on fewer, names may take the whole width
APART = 2  # columns between a name and its meaning
MIN_MEANING_COLUMNS = 9
QUEUED = 3  # queued prompts that are shown
Rows = Callable[[int], list[StyleAndTextTuples]]


class LastRows(Container):
    """The last of some rows, as many as fit.

    A whole fragment is one cell, as wide as its text: a flood of text redraws all rows in each frame, and a cell for
    each character takes most of the time of the frame.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def reset(self) -> None:
        """Do nothing: there is no state."""

    def preferred_width(self, max_available_width: int) -> Dimension:
        return Dimension()

    def preferred_height(self, width: int, max_available_height: int) -> Dimension:
        count = len(self._rows(width))
        return Dimension(preferred=count, max=count)

    def get_children(self) -> list[Container]:
        return []

    def write_to_screen(
        self,
        screen: Screen,
        mouse_handlers: MouseHandlers,
        write_position: WritePosition,
        parent_style: str,
        erase_bg: bool,
        z_index: int | None,
    ) -> None:
        width, height, top = write_position.width, write_position.height, write_position.ypos
        rows = self._rows(width)[-height:] if height > 0 else []
        for y, row in enumerate(rows, top):
            _put(screen.data_buffer[y], row, width)
        screen.width, screen.height = max(screen.width, width), max(screen.height, top + height)


HIDDEN = Char("")  # a column that the cell before it covers; it differs from all that may stand there


def _put(taken: dict[int, Char], row: StyleAndTextTuples, width: int) -> None:
    """Write a row from the first column on, without spaces at its end."""
    pieces = [(style, text if text.isprintable() else harmless_line(text)) for style, text, *_ in row]
    while pieces and not pieces[-1][0] and not pieces[-1][1].strip(" "):
        pieces.pop()
    x = 0
    for number, (style, text) in enumerate(pieces, 1):
        shown = text.rstrip(" ") if number == len(pieces) and not style else text
        while get_cwidth(shown) > width - x:  # rich may find a character narrower than prompt_toolkit does
            shown = shown[:-1]
        taken[x] = Char(shown, style)
        end = x + taken[x].width
        taken.update(dict.fromkeys(range(x + 1, end), HIDDEN))
        x = end


class Windows:
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
        signs: Signs = FINE,
    ) -> None:
        self._asking = asking
        search = SearchToolbar(ignore_case=True)
        after = AfterInput(lambda: hint(prompt.text), style="dim")
        prompt_control = BufferControl(
            prompt, input_processors=[after], search_buffer_control=search.control, preview_search=True
        )
        self._prompt = _input(prompt_control, lambda: signs.prompt, "ansicyan bold")
        self._answer = _input(BufferControl(answer), lambda: line_prompt(asking.open))
        choice = FormattedTextControl(lambda: _join_rows(_question_rows(asking)), focusable=True, show_cursor=False)
        choice.key_bindings = choose_keys
        self._choice = Window(
            choice, height=lambda: Dimension.exact(len(_question_rows(asking))), dont_extend_height=True
        )
        is_line = Condition(lambda: asking.wants_line)
        self.layout = Layout(
            HSplit(
                [
                    LastRows(rows),
                    ConditionalContainer(self._choice, Condition(lambda: asking.question is not None) & ~is_line),
                    _rows(lambda: _queue_rows(queued(), _width())),
                    ConditionalContainer(_rows(lambda: _menu(_width())), has_completions & ~is_searching),
                    _rule(signs),
                    ConditionalContainer(self._answer, is_line),
                    ConditionalContainer(self._prompt, ~is_line),
                    search,
                    _rule(signs),
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
    draft = sum(max(1, -(-cells(FINE.prompt + line) // columns)) for line in typed.split("\n"))
    below = min(len(queued), QUEUED + 1) + min(draft, max(1, rows // 3)) + _rules(rows) + 1
    return columns - COLUMNS, rows - len(question_rows(question, columns, room(rows))) - below


def line_prompt(question: Question | None) -> str:
    """Return the text before a line of an answer."""
    if question is None:
        return ""
    return marked(f"{question.prompt} [{question.default}] " if question.default else f"{question.prompt} ")


def _input(control: BufferControl, prefix: Callable[[], str], style: str = "bold") -> Window:
    def line_prefix(line: int, wrapped: int) -> AnyFormattedText:
        text = prefix()
        return [(style, text)] if line == wrapped == 0 else " " * min(cells(text), cells(FINE.prompt))

    return Window(
        control,
        height=lambda: Dimension(min=1, max=max(1, get_app().output.get_size().rows // 3)),
        wrap_lines=True,
        dont_extend_height=True,
        get_line_prefix=line_prefix,
    )


def _rules(rows: int) -> int:
    return 2 if rows >= FRAMED else 0


def _rule(signs: Signs) -> ConditionalContainer:
    """Return a line across the screen, left out on a low one."""
    window = Window(FormattedTextControl(lambda: [("dim", signs.rule * _width())]), height=1)
    return ConditionalContainer(window, Condition(lambda: _rules(get_app().output.get_size().rows) > 0))


def _rows(text: Callable[[], StyleAndTextTuples]) -> ConditionalContainer:
    window = Window(FormattedTextControl(text), dont_extend_height=True)
    return ConditionalContainer(window, Condition(lambda: bool(text())))


def _question_rows(asking: ScreenQuestions) -> list[Row]:
    return question_rows(asking.question, _width(), room(get_app().output.get_size().rows)) if asking.question else []


def _join_rows(rows: Sequence[Row]) -> StyleAndTextTuples:
    shown: StyleAndTextTuples = []
    for row in rows:
        shown += [("", "\n"), *row] if shown else row
    return shown


def _queue_rows(prompts: Sequence[str], width: int) -> StyleAndTextTuples:
    lines = [f"queued: {' '.join(prompt.split())}" for prompt in prompts[:QUEUED]]
    if len(prompts) > QUEUED:
        lines.append(f"and {len(prompts) - QUEUED} more")
    return [("dim", "\n".join(fit(line, width) for line in lines))] if lines else []


def _menu(width: int) -> StyleAndTextTuples:
    """Return the rows around the chosen completion, each with its meaning if there is room."""
    state = get_app().current_buffer.complete_state
    if state is None:
        return []
    index = state.complete_index
    first = max(0, min((index or 0) - MENU // 2, len(state.completions) - MENU))
    visible = state.completions[first : first + MENU]
    shown = menu_rows([(item.text, item.display_text, item.display_meta_text) for item in visible], width)
    rows: StyleAndTextTuples = []
    for number, (name, meaning) in enumerate(shown, first):
        rows += [("", "\n")] if rows else []
        rows.append(("reverse" if number == index else "", name))
        rows.append(("dim", f"  {meaning}"))
    return rows


def menu_rows(items: Sequence[tuple[str, str, str]], width: int) -> list[tuple[str, str]]:
    """
    Return rows of a name with its hint, and its meaning; an item is the name, the name with its hint, the meaning.

    A hint that leaves no room for meanings is cut for its own meaning, and takes no room from the others.
    """
    most = width // 2 if width >= NARROW else width
    column = max((size for _, shown, _ in items if (size := cells(shown)) <= most), default=0)
    rows = []
    for name, shown, meaning in items:
        room = max(most, cells(f"{name} …"), width - cells(meaning) - APART) if meaning else width
        shown = fit(shown, min(room, width))
        shown += " " * (column - cells(shown))
        left = width - cells(shown) - APART
        rows.append((shown, fit(meaning, left) if left >= MIN_MEANING_COLUMNS else ""))
    return rows


def _width() -> int:
    return get_app().output.get_size().columns
