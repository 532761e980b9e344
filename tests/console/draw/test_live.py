"""Ring 2. What a terminal shows: everything once, in order, and nothing of the agent's drives the terminal."""

import asyncio
import json

import pytest
from msgspec import Raw

from acp_launch.console.ask.terminal import StillClock
from acp_launch.console.draw.live import Live
from acp_launch.console.draw.live_region import Region
from acp_launch.console.stderr import TYPED
from acp_launch.errors import AgentError
from acp_launch.process.lifecycle import Change
from acp_launch.protocol.conversation import Updated
from acp_launch.session.events import ResultEvent, describe_error
from tests.console.drawn import Screen
from tests.console.updates import chunk, end, note, opened, tool, update, waiting
from tests.looped import looped

THOUGHT, PROMPT = "agent_thought_chunk", "user_message_chunk"
CHOICES = [{"value": value, "name": value.title()} for value in ("small", "large")]


def options(model: str) -> Updated:
    select = {"id": "m", "name": "Model", "type": "select", "currentValue": model, "options": CHOICES}
    boolean = {"id": "v", "name": "Verbose", "type": "boolean", "currentValue": True}
    return update("config_option_update", configOptions=[select, boolean])


def title(text: str) -> Updated:
    return update("session_info_update", title=text)


STORIES: dict[str, tuple[dict[str, bool], list[Updated], ResultEvent, str]] = {
    "a message is shown once however it was cut": (
        {},
        [chunk(piece) for piece in ("Hel", "lo *wor", "ld*.\n\n- o", "ne\n- two\n\n", "End")],
        end(),
        "Hello world.\n\n • one\n • two\n\nEnd",
    ),
    "another message begins on a line of its own": (
        {},
        [chunk(f"of {message} ", message=message) for message in ("1", "1", "2")],
        end(),
        "of 1 of 1\nof 2",
    ),
    "a tool call is one line when it is over": (
        {},
        [
            *(tool("1", "pending", title="Read a file", kind="read"), tool("1", "in_progress")),
            *(tool("1", "completed"), chunk("Done.")),
        ],
        end(),
        "  ✓ read a file\n\nDone.",
    ),
    "each plan replaces the one before (C-55)": (
        {},
        [
            *(update("plan", entries=[{"content": "Look", "status": each}]) for each in ("pending", "completed")),
            chunk("Seen."),
        ],
        end(),
        "Seen.\n\n  [x] Look",
    ),
    "thoughts come before the words that follow them": (
        {},
        [chunk("I wonder", kind=THOUGHT), chunk("Yes.")],
        end(),
        "  ✻ thought · I wonder\n\nYes.",
    ),
    "an agent may count the tokens of a turn only": (
        {},
        [],
        end(usage={"inputTokens": 10, "outputTokens": 5, "note": "x"}),
        "  input 10 · output 5",
    ),
    "usage is the last line": (
        {},
        [update("usage_update", used=1200, size=200000, cost={"amount": 0.0421, "currency": "USD"})],
        end(usage={"inputTokens": 10, "outputTokens": 5, "note": "x"}),
        "  1,200 of 200,000 tokens · $0.04",
    ),
    "a history is not shown": ({}, [chunk("yesterday", replay=True), chunk("today")], end(), "today"),
    "what is typed is not shown again": ({"history": True}, [chunk("me", kind=PROMPT), chunk("you")], end(), "you"),
    "what is no text is named": (
        {},
        [update("agent_message_chunk", content={"type": "image", "mimeType": "image/png", "data": "AAAA"})],
        end(),
        "[image: image/png, 3 bytes]",
    ),
    "a title is worth a line only in a session": ({}, [title("Fix it")], end(), ""),
    "a new title does not break a sentence": (
        {"history": True},
        [chunk("Half a "), title("Fix it"), chunk("sentence.")],
        end(),
        "Half a sentence.\n\n  session title: Fix it",
    ),
    "a changed option is told and an unchanged one is not": (
        {},
        [options("small"), options("large")],
        end(),
        "  Model: Large",
    ),
}


@pytest.mark.parametrize(("settings", "updates", "over", "shown"), STORIES.values(), ids=STORIES)
def test_a_turn_is_shown(settings: dict[str, bool], updates: list[Updated], over: ResultEvent, shown: str) -> None:
    screen = Screen(**settings)
    screen.hears(*updates)
    screen.live.show(over)
    assert screen.text == shown


def test_what_is_said_while_no_turn_runs_stands_apart_and_dim() -> None:
    screen = Screen(say=None)
    screen.hears(chunk("[MODE] ", outside=True), chunk("auto", outside=True))
    screen.live.tell("hi", TYPED)  # the prompt, in an interactive session
    screen.turn(chunk("It is *fine*."))
    screen.hears(chunk("The build is done.", outside=True))
    screen.live.tell("next", TYPED)
    first = "▐ outside a turn:\n[MODE] auto\n\n\u276f hi\n\nIt is fine.\n\n"
    assert screen.text == f"{first}▐ outside a turn:\nThe build is done.\n\n\u276f next"


def test_words_for_stderr_do_not_end_up_in_the_picture() -> None:
    screen = Screen()
    screen.hears(chunk("Half "))
    screen.live.show(waiting("activity", 3, 60))
    screen.turn(chunk("a line."))
    assert screen.text == "Half a line."
    assert screen.told == ["acp-launch: still waiting for the agent (3 s; timeout 60 s)"]


def test_on_the_bare_terminal_notices_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    live = Live()
    live.show(waiting("activity", 3, 60))
    live.show(end())
    assert capsys.readouterr() == ("", "acp-launch: still waiting for the agent (3 s; timeout 60 s)\n")


def test_on_a_canvas_that_is_not_the_bare_terminal_notices_stand_among_the_rest() -> None:
    screen = Screen(80, say=None)
    screen.hears(chunk("One.\n\nTw"))
    screen.live.show(waiting("activity", 3, 60))
    screen.turn(chunk("o."))
    assert screen.text == "One.\n\n▐ acp-launch: still waiting for the agent (3 s; timeout 60 s)\n\nTwo."


def test_a_server_that_dies_during_a_call_leaves_the_call_on_the_screen() -> None:
    """No update comes for a while: the agent waits for that very server. After the end nothing is drawn again."""
    screen = Screen()
    screen.hears(tool("1", "in_progress", title="Search", kind="search"))
    screen.live.show(Change(server="github", state="resting", exit="was killed by SIGKILL", restarts=1, retry=0.2))
    assert screen.text == "  ● search"
    screen.turn()
    screen.live.show(Change(server="github", state="failed", exit="was killed by SIGKILL"))
    assert screen.text == "  ● search · unfinished"  # as it stood
    assert screen.told == [
        "acp-launch: mcp server github was killed by SIGKILL; restarting in 0.2 s (restart 1)",
        "acp-launch: mcp server github failed: was killed by SIGKILL",
    ]


def test_a_terminal_that_became_narrower_is_counted_anew() -> None:
    """It has wrapped the rows we drew."""
    screen = Screen()
    screen.hears(chunk("one two three four five six seven eight nine ten eleven"))
    screen.console.width = 20
    before = len(screen.file.getvalue())
    screen.hears(chunk(" twelve"))
    assert screen.file.getvalue()[before:].startswith("\x1b[?2026h\r\x1b[3A\x1b[J")


def test_after_a_pause_nothing_above_is_taken_back() -> None:
    screen = Screen()
    screen.hears(tool("1", "pending", title="A long title that wraps on a narrow terminal", kind="edit"))
    screen.live.pause()
    screen.file.write("question\nanswer\n")
    screen.turn(chunk("Done."))
    assert screen.text.splitlines()[:2] == ["question", "answer"]


def test_a_turn_counts_from_its_prompt_and_stands_apart_from_the_next() -> None:
    screen = Screen(say=None)
    for prompt in ("one", "two\n\nlines"):
        screen.seconds += 100
        screen.live.tell(prompt, TYPED)
        screen.hears(tool("1", "completed", title="Read a.py", kind="read"), chunk("Yes.\n\nNo."))
        screen.seconds += 2
        screen.live.show(end())
    turn = "  ✓ read a.py\n\nYes.\n\nNo.\n  2 s"
    assert screen.text == f"\u276f one\n\n{turn}\n\n\u276f two\n\n  lines\n\n{turn}"


def test_the_words_of_the_user_are_marked_and_bold_and_break_at_words_beside_the_mark() -> None:
    screen = Screen(20, say=None, colours="standard")
    screen.live.tell("fix the failing port test", TYPED)
    assert screen.text == "\u276f fix the failing\n  port test"
    assert (screen.file.styled("\u276f").fg, screen.file.styled("fix").bold) == ("cyan", True)


def test_a_long_line_of_ours_has_one_mark_and_goes_on_beside_it() -> None:
    """Words of the agent in its middle never stand where a line of ours begins."""
    screen = Screen(30, say=None)
    screen.live.show(note("the title is acp-launch: type your passphrase"))
    assert screen.text == "▐ acp-launch: the title is\n  acp-launch: type your\n  passphrase"


@pytest.mark.parametrize(
    "odd",
    [
        update("something_new", x=1),
        update("agent_message_chunk"),
        update("agent_message_chunk", content={"type": "image", "data": ""}),
        update("agent_message_chunk", content=7),
        update("tool_call", toolCallId=3),
        update("plan", entries=[None, {"content": 5}, "x"]),
        update("plan"),
        update("usage_update", used="many"),
        update("notice"),
    ],
)
def test_what_is_malformed_or_unknown_shows_nothing_wrong(odd: object) -> None:
    """C-58."""
    screen = Screen()
    screen.live.update(odd)  # type: ignore[arg-type]
    screen.turn(chunk("fine"))
    assert "fine" in screen.text


def test_an_unfinished_message_is_left_whole_when_the_run_fails() -> None:
    screen = Screen()
    screen.hears(chunk("Half a sen"))
    screen.live.show(describe_error(AgentError("the agent was killed by SIGKILL")))
    assert screen.text == "Half a sen"


def said(text: str) -> Updated:
    return chunk(text, kind="user_message_chunk", replay=True)


def test_a_history_is_shown_dimmed_with_what_was_asked() -> None:
    screen = Screen(history=True, colours="standard")
    screen.hears(said("Look\nagain"), chunk("yester", replay=True), chunk("day", replay=True))
    screen.hears(update("tool_call", replay=True, toolCallId="1", title="Read", kind="read", status="completed"))
    screen.seconds += 60
    screen.turn(chunk("today"))
    assert screen.text == "\u276f Look\n  again\n\nyesterday\n\n  ✓ read\n\ntoday\n  60 s"
    written = screen.file.getvalue()
    assert "\x1b[2myesterday" in written
    assert "\x1b[2mtoday" not in written


def test_what_is_told_after_the_history_comes_below_it() -> None:
    screen = Screen(80, history=True, say=None)
    screen.hears(chunk("yesterday", replay=True))
    screen.live.show(opened("s1", "fix", "load", 1, Raw(b"{}")))
    screen.turn(chunk("today"))
    assert screen.text == "yesterday\n\n▐ acp-launch: resumed fix (0 turns)\n\ntoday"


@pytest.mark.whole
def test_a_thought_is_its_last_lines_while_it_lasts_and_one_line_when_it_is_over() -> None:
    screen = Screen(30)
    for number in range(100):
        screen.hears(chunk(f"thought {number}\n", kind="agent_thought_chunk"))
    assert screen.text == "thought 97\nthought 98\nthought 99"
    screen.seconds += 12
    screen.turn(chunk("So."))
    assert screen.text == "✻ thought for 12 s · thought …\n\nSo.\n12 s"


def test_of_a_long_plan_the_entries_around_the_present_one_are_drawn() -> None:
    """A plan is printed once."""
    screen = Screen()
    states = ["completed"] * 30 + ["in_progress"] + ["pending"] * 30
    entries = [{"content": f"Step {number}", "status": state} for number, state in enumerate(states)]
    screen.hears(update("plan", entries=entries))
    *lines, last = screen.text.splitlines()
    assert (lines[:3], last) == (["  … 29 more", "  [x] Step 29", "  [>] Step 30"], "  … 22 more")
    screen.live.show(end())
    whole = screen.text
    screen.turn(chunk("Again."), update("plan", entries=entries))
    assert screen.text == f"{whole}\n\nAgain."


def test_what_changed_in_the_session_is_one_line_each() -> None:
    screen = Screen(history=True)
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
    screen.live.show(opened("s1", "fix", "new", 0, Raw(json.dumps({"modes": modes}).encode())))
    for mode in ("ask", "code", "code"):
        screen.hears(update("current_mode_update", currentModeId=mode))
    for title in ("Fix \x1b[2J it", "Fix \x1b[2J it", None):
        screen.hears(update("session_info_update", title=title))
    screen.live.show(end())
    (mode, title) = screen.text.splitlines()
    assert mode.endswith(": Code")
    assert title == "  session title: Fix \\x1b[2J it"


def test_a_title_that_repeats_the_prompt_is_not_worth_a_line() -> None:
    screen = Screen(history=True, say=None)
    screen.live.tell("fix  the failing\nport test", TYPED)
    for title in ("fix the failing port…", "Port test"):
        screen.hears(update("session_info_update", title=title))
    screen.live.show(end())
    assert screen.text.splitlines()[-1] == "  session title: Port test"
    assert screen.text.count("session title") == 1


def test_a_notice_has_its_severity_and_what_it_describes() -> None:
    screen = Screen(colours="standard", lines=30)
    description = "one\n" * 20
    screen.turn(update("notice", severity="error", title="Out of credit", description=description))
    assert screen.text == "  error: Out of credit" + "\n    one" * 5
    assert screen.file.styled("error").fg == "red"


def test_a_compaction_is_told_while_it_lasts_and_when_it_is_over() -> None:
    screen = Screen(lines=30)
    screen.hears(update("compaction_update", compactionId="1", status="in_progress"))
    assert screen.text == "  … compacting the conversation"
    content = {"type": "text", "text": "We looked.\nWe found."}
    screen.hears(update("compaction_summary_chunk", compactionId="1", content=content))
    screen.hears(update("compaction_update", compactionId="1", status="completed"))
    screen.hears(update("compaction_update", compactionId="2", status="failed", error="no model"))
    screen.turn(update("compaction_update", compactionId="3", status="failed"))
    assert screen.text == (
        "  ✓ conversation compacted · We looked. We found.\n  ✗ compaction failed: no model\n"
        "  ✗ compaction failed: the agent gives no reason"
    )


def test_a_resize_in_the_middle_of_an_answer_leaves_it_whole() -> None:
    screen = Screen(40)
    text = "".join(f"Paragraph {number} of this answer.\n\n" for number in range(20))
    for at in range(0, len(text), 7):
        if at == 210:
            screen.resize(70, 20)
        screen.hears(chunk(text[at : at + 7]))
    screen.live.show(end())
    assert screen.text == text.strip()


@pytest.mark.parametrize("columns", [2, 5, 20])
def test_a_narrow_terminal_shows_everything(columns: int) -> None:
    screen = Screen(columns, 30)
    words = [f"word{number}" for number in range(30)]
    for word in words:
        screen.hears(chunk(f"{word} "), update("usage_update", used=1, size=2))
    screen.hears(tool("1", "completed", title="Call 日本語", kind="read"))
    screen.live.show(describe_error(AgentError("over")))
    assert "".join(screen.text.split()) == "".join(words) + "✓readCall日本語"


def test_wide_characters_and_emoji_leave_no_stale_rows() -> None:
    screen = Screen(21, 8)
    text = "日本語の文章🎉と👩‍💻絵文字 ⚠️ が混ざった長い段落です。" * 6
    for mark in text:
        screen.hears(chunk(mark))
    screen.live.show(end())
    assert "".join(screen.text.split()) == "".join(text.replace("\u200d", "").replace("\ufe0f", "").split())


@looped
async def test_nothing_is_drawn_by_an_update_itself() -> None:
    """All of it is done with a frame, so that an update costs next to nothing."""
    screen = Screen()
    for number in range(1_000):
        screen.hears(chunk(f"Line {number}.\n\n"))
    assert screen.file.getvalue() == ""
    screen.live.show(end())
    assert screen.text.replace("\n\n", "\n") == "\n".join(f"Line {number}." for number in range(1_000))


@pytest.mark.sample(1)
@pytest.mark.parametrize("text", ["word " * 5_000, "```py\n" + "code = 1\n" * 2_000, "- item\n" * 2_000])
@looped
async def test_an_endless_paragraph_is_drawn_as_it_goes_and_a_frame_is_no_more_than_a_screen(text: str) -> None:
    """What was printed for good is not drawn again, however long the paragraph."""
    screen = Screen(lines=10)
    screen.hears(chunk(text))
    await asyncio.sleep(0)  # the first frame
    await asyncio.sleep(0)
    assert len(screen.text.splitlines()) > 200
    before = len(screen.file.getvalue())
    screen.hears(chunk("more"))
    assert len(screen.file.getvalue()) - before < 60 * 10 * 2
    screen.live.show(end())
    assert screen.text.count("\n") >= len(text) // 60


def test_the_time_in_which_a_person_was_asked_counts_for_no_call_and_no_thought() -> None:
    """Two questions at once: the second waits for the floor, and for its answer."""
    screen = Screen()
    clock = StillClock(lambda: screen.seconds)
    screen.live = Live(Region(screen.console), say=lambda text, style: None, clock=clock)
    screen.hears(chunk("Which of the two?", kind="agent_thought_chunk"))
    screen.seconds = 3
    with clock.still():
        screen.seconds = 13
        with clock.still():
            screen.seconds = 23
        screen.seconds = 33
    screen.hears(tool("1", "in_progress", title="Search", kind="search"))
    screen.seconds = 35
    with clock.still():
        screen.seconds = 95
        screen.live.show(waiting("activity", 3, 60))
    screen.seconds = 98
    screen.turn(tool("1", "completed"))
    assert screen.text == "  ✻ thought for 3 s · Which of the two?\n  ✓ search · 5 s\n  8 s"
