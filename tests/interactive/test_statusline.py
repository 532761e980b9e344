"""The status line fits, and what it leaves out is what matters least."""

from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from acp_launch.interactive.front import Status
from acp_launch.interactive.layout import cut, statusline

FULL = Status(
    agent="claude",
    profile="reviewer",
    session="fix-42",
    title="Fix the parser",
    mode="plan",
    model="opus",
    used=41_000,
    size=200_000,
    cost="0.42 USD",
    servers_up=2,
    servers_down=1,
    mood="working",
)


def text(status: Status, width: int) -> str:
    return "".join(part for _, part, *_ in statusline(status, width))


def test_everything_is_told_where_there_is_room() -> None:
    assert text(FULL, 200) == (
        "working · claude · reviewer · fix-42 · Fix the parser · plan · opus · 20% of context · 0.42 USD · "
        "2 servers up · 1 server down"
    )


def test_the_least_important_goes_first() -> None:
    assert [text(FULL, width) for width in (100, 80, 60, 40, 20, 7, 3)] == [
        "working · claude · fix-42 · plan · opus · 20% of context · 0.42 USD · 2 servers up · 1 server down",
        "working · claude · fix-42 · plan · opus · 20% of context · 1 server down",
        "working · claude · fix-42 · plan · 1 server down",
        "working · claude · 1 server down",
        "working",
        "working",
        "wo…",
    ]


def test_what_is_not_known_is_not_told() -> None:
    assert text(Status(mood="idle", used=5), 80) == "ready"


def test_a_context_that_is_nearly_full_is_said_louder() -> None:
    assert statusline(Status(mood="idle", used=80, size=100), 80)[-1] == ("ansiyellow", "80% of context")
    assert statusline(Status(mood="idle", used=79, size=100), 80)[-1] == ("dim", "79% of context")


def test_what_an_agent_calls_itself_cannot_drive_the_terminal() -> None:
    assert text(Status(agent="a\x1b[2J\nb", mood="idle"), 80) == "ready · a\\x1b[2J\\nb"


@given(st.text(max_size=60), st.integers(0, 60))
def test_a_cut_text_fits(whole: str, width: int) -> None:
    kept = cut(whole, width)
    assert get_cwidth(kept) <= width
    assert kept == whole or (kept.endswith("…") and whole.startswith(kept[:-1])) or not kept


@given(st.builds(Status, agent=st.text(), session=st.text(), title=st.text(), cost=st.text()), st.integers(1, 120))
def test_a_line_fits_whatever_is_told(status: Status, width: int) -> None:
    assert get_cwidth(text(status, width)) <= width
