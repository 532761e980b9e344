"""The status line fits, tells what happens and at most four things more, and leaves out what matters least."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.console.stdout import cells, fit
from acp_launch.interactive.layout import POOR, statusline
from acp_launch.interactive.terminal import Activity, Status

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
    phase="working",
)
TESTS = Activity("running npm test", 12.7)


def text(status: Status, width: int, activity: Activity | None = None, sign: str = "") -> str:
    return "".join(part for _, part, *_ in statusline(status, width, activity, sign=sign))


def sides(status: Status, width: int, activity: Activity | None = None) -> tuple[str, str]:
    left, _, right = text(status, width, activity).partition("  ")
    return left, right.lstrip()


def test_at_most_four_things_stand_beside_what_happens() -> None:
    assert sides(FULL, 200) == ("working · esc interrupts", "claude · fix-42 · plan · 1 server down")


def test_what_happens_stands_on_the_left_and_the_rest_ends_on_the_right() -> None:
    status = Status(agent="Claude Code", session="fix-42", mode="ask", used=9412, size=200_000, phase="idle")
    line = text(status, 80)
    assert line == "ready · ? shows the keys" + "Claude Code · fix-42 · ask · 5 %".rjust(56)


def test_a_turn_tells_what_is_done_for_how_long_and_how_to_stop_it_with_tokens_and_cost_as_they_come() -> None:
    status = Status(agent="claude", mode="ask", used=9412, size=200_000, cost="0.04 USD", phase="working")
    assert sides(status, 100, TESTS) == (
        "running npm test 12 s · esc interrupts",
        "claude · ask · 5 %, 9,412 tokens, 0.04 USD",
    )
    assert sides(status, 72, TESTS) == ("running npm test 12 s · esc interrupts", "claude · ask · 5 %")


def test_a_server_that_has_not_answered_yet_is_told() -> None:
    status = Status(agent="claude", profile="reviewer", servers_up=1, servers_silent=2, phase="idle")
    assert sides(status, 100) == ("ready · ? shows the keys", "claude · reviewer · 1 server up · 2 servers starting")


def test_a_sign_and_the_remark_stand_beside_what_is_done() -> None:
    silent = Activity("thinking", 45.0, "silent for 40 s, timeout 30 min")
    assert text(Status(phase="working"), 80, silent, "⠹") == (
        "⠹ thinking 45 s · silent for 40 s, timeout 30 min · esc interrupts"
    )


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(None, "x"), (0.9, "x"), (1.0, "x 1 s"), (61.0, "x 1 min 1 s"), (3725.0, "x 1 h 2 min")],
)
def test_seconds_are_told_from_one_on(seconds: float | None, told: str) -> None:
    assert text(Status(phase="starting"), 80, Activity("x", seconds)) == told


def test_a_long_command_leaves_room_for_the_rest_and_its_seconds() -> None:
    line = text(FULL, 80, Activity("running " + "x" * 200, 12.0))
    assert "… 12 s" in line
    assert "fix-42" in line
    assert cells(line) == 80


def test_the_least_important_goes_first() -> None:
    assert [text(FULL, width, TESTS) for width in (72, 60, 50, 36, 21, 7, 3)] == [
        "running npm test 12 s · esc interrupts" + "claude · fix-42 · 1 server down".rjust(34),
        "running npm test 12 s" + "claude · fix-42 · 1 server down".rjust(39),
        "running npm test 12 s" + "claude · 1 server down".rjust(29),
        "running npm test 12 s" + "1 server down".rjust(15),
        "running npm test 12 s",
        "runnin…",
        "ru…",
    ]


def test_what_is_not_known_is_not_told() -> None:
    assert text(Status(phase="down", used=5), 80) == "down"


def test_a_context_that_is_nearly_full_is_said_louder_and_in_words() -> None:
    assert statusline(Status(phase="down", used=80, size=100), 80)[-1] == ("ansiyellow", "80 % full")
    assert statusline(Status(phase="down", used=79, size=100), 80)[-1] == ("dim", "79 %")


def test_a_poor_terminal_gets_ascii() -> None:
    line = "".join(part for _, part, *_ in statusline(FULL, 80, TESTS, sign=POOR.still, signs=POOR))
    assert line.startswith("* running npm test 12 s - esc interrupts")
    assert line.isascii()
    assert "".join((POOR.prompt, POOR.rule, POOR.steps, POOR.still, POOR.between)).isascii()


def test_what_an_agent_calls_itself_cannot_drive_the_terminal() -> None:
    assert sides(Status(agent="a\x1b[2J\nb", phase="idle"), 80)[1] == "a\\x1b[2J\\nb"


@given(st.text(max_size=60), st.integers(0, 60))
def test_a_cut_text_fits(whole: str, width: int) -> None:
    kept = fit(whole, width)
    assert cells(kept) <= width
    assert kept == whole or (kept.endswith("…") and whole.startswith(kept[:-1])) or not kept


@given(
    st.builds(Status, agent=st.text(), session=st.text(), title=st.text(), cost=st.text()),
    st.integers(1, 120),
    st.none() | st.builds(Activity, st.text(max_size=99), st.none() | st.floats(0, 1e6), st.text(max_size=40)),
)
def test_a_line_fits_whatever_is_told(status: Status, width: int, activity: Activity | None) -> None:
    assert cells(text(status, width, activity, "⠹")) <= width
