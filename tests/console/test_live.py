"""Ring 2. What a terminal shows: everything once, in order, and nothing of the agent's drives the terminal."""

import io

import pytest
from rich.console import Console

from acp_launch.console.live import Live
from acp_launch.errors import AgentError
from acp_launch.process.change import Change
from tests.console.updates import chunk, end, tool, update


class Screen:
    """A Live on a terminal that is a string; `text` is what is left when the drawing is undone."""

    def __init__(self) -> None:
        self.file = io.StringIO()
        self.console = Console(file=self.file, force_terminal=True, width=60, height=20, color_system=None)
        self.live = Live(self.console)

    @property
    def text(self) -> str:
        """The lines that were printed for good: a region that is redrawn begins with a cursor movement."""
        rows: list[str] = [""]
        at = 0
        for part in self.file.getvalue().replace("\r", "\x00").split("\x1b"):
            command, body = _cut(part) if part and part[0] == "[" else ("", part)
            if command.endswith("A"):
                at = max(0, at - int(command[:-1] or 1))
            elif command == "J":
                rows[at:] = [""]
            for mark in body:
                if mark == "\n":
                    at += 1
                    rows += [""] * (at + 1 - len(rows))
                elif mark != "\x00":
                    rows[at] += mark
        return "\n".join(row.rstrip() for row in rows).strip("\n")


def _cut(part: str) -> tuple[str, str]:
    for index, mark in enumerate(part[1:], 1):
        if mark.isalpha():
            return part[1 : index + 1], part[index + 1 :]
    return part[1:], ""


def test_a_message_is_shown_once_however_it_was_cut() -> None:
    screen = Screen()
    for piece in ("Hel", "lo *wor", "ld*.\n\n- o", "ne\n- two\n\n", "End"):
        screen.live.update(chunk(piece))
    screen.live.ended(end())
    assert screen.text == "Hello world.\n\n • one\n • two\n\nEnd"


def test_words_for_stderr_do_not_end_up_in_the_picture(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.live.update(chunk("Half "))
    screen.live.waiting("sign of life", 3, 60)
    screen.live.update(chunk("a line."))
    screen.live.ended(end())
    assert screen.text == "Half a line."
    assert capsys.readouterr().err == "acp-launch: no sign of life for 3 s; giving up at 60 s\n"


def test_a_server_that_dies_during_a_call_leaves_the_call_on_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """No update comes for a while: the agent waits for that very server."""
    screen = Screen()
    screen.live.update(tool("1", "in_progress", title="Search", kind="search"))
    screen.live.server(Change(server="github", state="resting", exit="was killed by SIGKILL", restarts=1, retry=0.2))
    assert screen.text == "… Search  search in_progress"
    assert capsys.readouterr().err == (
        "acp-launch: mcp server github was killed by SIGKILL; starting again in 0.2 s (restart 1)\n"
    )


def test_what_is_told_after_the_end_draws_nothing_again(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.live.update(tool("1", "in_progress", title="Search", kind="search"))
    screen.live.ended(end())
    screen.live.server(Change(server="github", state="failed", exit="was killed by SIGKILL"))
    assert screen.text == ""
    assert capsys.readouterr().err == "acp-launch: mcp server github failed: was killed by SIGKILL\n"


def test_a_terminal_that_became_narrower_is_counted_anew() -> None:
    """It has wrapped the rows we drew."""
    screen = Screen()
    screen.live.update(chunk("one two three four five six seven eight nine ten eleven"))
    screen.console.width = 20
    before = len(screen.file.getvalue())
    screen.live.update(chunk(" twelve"))
    assert screen.file.getvalue()[before:].startswith("\r\x1b[3A\x1b[J")


def test_after_a_pause_nothing_above_is_taken_back() -> None:
    screen = Screen()
    screen.live.update(tool("1", "pending", title="A long title that wraps on a narrow terminal", kind="edit"))
    screen.live.pause()
    screen.file.write("question\nanswer\n")
    screen.live.update(chunk("Done."))
    screen.live.ended(end())
    assert screen.text.splitlines()[:2] == ["question", "answer"]


def test_a_tool_call_is_one_line_when_it_is_over() -> None:
    screen = Screen()
    screen.live.update(tool("1", "pending", title="Read a file", kind="read"))
    screen.live.update(tool("1", "in_progress"))
    screen.live.update(tool("1", "completed"))
    screen.live.update(chunk("Done."))
    screen.live.ended(end())
    assert screen.text == "✓ Read a file  read completed\nDone."


def test_a_tool_call_that_was_under_way_is_marked_when_the_turn_is_cancelled() -> None:
    """C-63."""
    screen = Screen()
    screen.live.update(tool("1", "in_progress", title="Build", kind="execute"))
    screen.live.cancelled([{"toolCallId": "1", "title": "Build", "kind": "execute", "status": "cancelled"}])
    screen.live.ended(end())
    assert screen.text == "– Build  execute cancelled"


def test_a_plan_is_shown_as_it_is_at_the_end() -> None:
    """C-55: each plan replaces the one before."""
    screen = Screen()
    for status in ("pending", "in_progress", "completed"):
        entries = [{"content": "Look", "priority": "high", "status": status}]
        screen.live.update(update("plan", entries=entries))
    screen.live.update(chunk("Seen."))
    screen.live.ended(end())
    assert screen.text == "Seen.\n[x] Look"


def test_thoughts_come_before_the_words_that_follow_them() -> None:
    screen = Screen()
    screen.live.update(chunk("I wonder", kind="agent_thought_chunk"))
    screen.live.update(chunk("Yes."))
    screen.live.ended(end())
    assert screen.text == "I wonder\nYes."


def test_usage_is_the_last_line() -> None:
    screen = Screen()
    screen.live.update(update("usage_update", used=1200, size=200000, cost={"amount": 0.0421, "currency": "USD"}))
    screen.live.ended(end(usage={"inputTokens": 10, "outputTokens": 5, "note": "x"}))
    assert screen.text == "context 1,200 of 200,000 tokens · cost 0.0421 USD · input 10\n· output 5"


def test_a_history_is_not_shown() -> None:
    screen = Screen()
    screen.live.update(chunk("yesterday", replay=True))
    screen.live.update(chunk("today"))
    screen.live.ended(end())
    assert screen.text == "today"


@pytest.mark.parametrize("hostile", ["\x1b]0;owned\x07", "\x1b[2J", "\x9b2J", "\x07", "a\rb"])
def test_the_agent_cannot_drive_the_terminal(hostile: str) -> None:
    screen = Screen()
    screen.live.update(chunk(f"x {hostile} y"))
    screen.live.update(chunk(f"x {hostile} y", kind="agent_thought_chunk"))
    screen.live.update(tool("1", "completed", title=f"x {hostile} y", kind="read"))
    screen.live.update(update("plan", entries=[{"content": f"x {hostile} y", "status": "pending"}]))
    screen.live.update(update("notice", severity="info", title=f"x {hostile} y"))
    screen.live.ended(end())
    written = screen.file.getvalue()
    assert hostile.replace("\r", "") not in written or hostile == "a\rb"
    assert "\x1b]" not in written
    assert "\x07" not in written
    assert "[2J" not in written.replace("\\x1b[2J", "").replace("\\x9b2J", "")


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
    screen.live.update(chunk("fine"))
    screen.live.ended(end())
    assert "fine" in screen.text


def test_an_unfinished_message_is_left_whole_when_the_run_fails() -> None:
    screen = Screen()
    screen.live.update(chunk("Half a sen"))
    screen.live.failed(AgentError("the agent was killed by SIGKILL"))
    assert screen.text == "Half a sen"


def test_a_long_unfinished_block_never_fills_more_than_the_screen() -> None:
    screen = Screen()
    screen.live.update(chunk("```\n"))
    for number in range(200):
        screen.live.update(chunk(f"line {number}\n"))
    screen.live.update(chunk("```\n"))
    screen.live.ended(end())
    lines = [line for line in screen.text.splitlines() if "line " in line]
    assert [line.strip() for line in lines] == [f"line {number}" for number in range(200)]
