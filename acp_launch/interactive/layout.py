"""
What stands at the bottom of the screen, from above: what is drawn again and again, the question, what is queued, the
completion menu, the prompt, the status line. On a screen too low for all of it the first of these gives way.
"""

from collections.abc import Callable, Sequence

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

from acp_launch.interactive.asking import Asking, Question
from acp_launch.interactive.statusline import cut
from acp_launch.interactive.ways import Row, room, ways
from acp_launch.mark import COLUMNS, marked

PROMPT = "> "
MENU = 8  # rows
NARROW = 24  # columns; on fewer, names have the room that there is
APART = 2  # columns between a name and its meaning
LEAST = 9  # columns that a meaning is shown in
QUEUED = 3  # prompts that are shown of those that wait
Rows = Callable[[int], list[StyleAndTextTuples]]


class Tail(UIControl):
    """The last of some rows, as many as there is room for."""

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
        asking: Asking,
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
        choice = FormattedTextControl(lambda: _joined(_ways(asking)), focusable=True, show_cursor=False)
        choice.key_bindings = choose_keys
        self._choice = Window(choice, height=lambda: Dimension.exact(len(_ways(asking))), dont_extend_height=True)
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
        """Give the keys to whoever is due now."""
        is_choice = self._asking.open is not None and not self._asking.wants_line
        due = self._choice if is_choice else self._answer if self._asking.wants_line else self._prompt
        if due is not self._prompt:
            self.layout.search_links.clear()  # a search ends where something else is asked
        elif self.layout.is_searching:
            return
        self.layout.focus(due)


def room_above(question: Question, typed: str, queued: Sequence[str], size: Size) -> tuple[int, int]:
    """The columns beside our mark, and the rows above a question: queue, draft and status stand below it."""
    columns, rows = size.columns, size.rows
    draft = sum(max(1, -(-get_cwidth(PROMPT + line) // columns)) for line in typed.split("\n"))
    waiting = min(len(queued), QUEUED + 1)
    above = rows - len(ways(question, columns, room(rows))) - waiting - min(draft, max(1, rows // 3)) - 1
    return columns - COLUMNS, above


def asked(question: Question | None) -> str:
    """What stands before a line that is asked for."""
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


def _ways(asking: Asking) -> list[Row]:
    return ways(asking.question, _width(), room(get_app().output.get_size().rows)) if asking.question else []


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
    """Around the chosen one; what it means stands beside each where there is room."""
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
    Rows of a name with its hint, and its meaning beside it: each item is the name, the name with its hint, the meaning.

    A hint that leaves meanings no room is cut for its own, and takes none from the others.
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
