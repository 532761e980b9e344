"""Ring 2. Tool calls, the commands and the files that we serve, as a person sees them."""

from typing import Any

import pytest

from acp_launch.protocol.conversation import Updated
from acp_launch.session.events import FileEvent, TerminalEvent
from tests.console.drawn import Screen
from tests.console.updates import answered, cancelled, chunk, end, tool, unasked, update


def text(value: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": value}}


def terminal(output: str = "", ended: str | None = None, id: str = "t1") -> TerminalEvent:
    return TerminalEvent(terminal_id=id, command="make all", cwd="/p", output=output, exit=ended)


def shown(screen: Screen) -> str:
    screen.live.show(end())
    return screen.text


def test_a_call_tells_its_places_and_how_long_it_took() -> None:
    screen = Screen(80)
    places = [{"path": "/p/a.py", "line": 3}, {"path": "/p/b.py"}, {"path": 7}, {"path": "/p/c"}, {"path": "/p/d"}]
    screen.hears(tool("1", "in_progress", title="Read /p/b.py", kind="read", locations=places))
    screen.seconds += 12.3
    screen.hears(tool("1", "completed"))
    assert shown(screen).splitlines()[0] == "  ✓ read /p/b.py  /p/a.py:3  /p/c  /p/d · 12 s"


def test_a_change_is_shown_with_its_call_while_it_waits_and_when_it_is_done() -> None:
    screen = Screen()
    change = {"type": "diff", "path": "a.py", "oldText": "one\n", "newText": "two\n"}
    screen.hears(tool("1", "pending", title="Edit a.py", kind="edit", content=[change]))
    picture = "edit a.py  +1 -1\n      1 - one\n      1 + two"
    assert screen.text == f"  ● {picture}"
    screen.hears(tool("1", "completed"))
    assert shown(screen) == f"  ✓ {picture}"


def test_a_long_change_takes_no_more_than_a_few_rows_until_it_is_done() -> None:
    screen = Screen(lines=60)
    change = {"type": "diff", "path": "a.py", "newText": "x\n" * 100}
    screen.hears(tool("1", "pending", title="Edit", kind="edit", content=[change]))
    assert screen.text.splitlines()[-1] == "      … 88 more lines"
    screen.hears(tool("1", "completed"))
    assert shown(screen).splitlines()[-1] == "      … 60 more lines"


def test_a_result_is_folded() -> None:
    screen = Screen()
    result = "```\n" + "".join(f"line {number}\n" for number in range(10)) + "```"
    screen.hears(tool("1", "completed", title="Read", kind="read", content=[text(result)]))
    screen.hears(tool("2", "completed", title="Run make", kind="execute", content=[text(result)]))
    screen.hears(tool("3", "completed", title="search_issues", kind="other", content=[text(result)]))
    assert shown(screen) == (
        "  ✓ read\n"
        "  ✓ run make\n      … 6 lines above\n      line 6\n      line 7\n      line 8\n      line 9\n"
        "  ✓ use search_issues\n      line 0\n      line 1\n      line 2\n      line 3\n      … 6 more lines"
    )


RM = {"toolCallId": "1", "title": "rm x", "kind": "execute"}
CHANGE = {"type": "diff", "path": "/p/a", "oldText": "one\n", "newText": "two\n"}
WROTE = FileEvent(path="/p/a", how="write", outcome="done", old="one\n", new="two\n")
IMAGE = {"type": "content", "content": {"type": "image", "mimeType": "image/png", "data": "AAAA"}}
LINK = {"type": "content", "content": {"type": "resource_link", "name": "log", "uri": "file:///l"}}
EDITING = tool("1", "in_progress", title="Edit", kind="edit", content=[CHANGE])
LOOKED = tool("1", "completed", title="Look", kind="read")
ODD: list[Any] = [7, {"terminal_output": 7}, {"terminal_exit": {"terminal_id": ["x"]}}, {"terminal_output": {}}]
STORIES: dict[str, tuple[list[Any], str]] = {
    "more places than a few are counted": (
        [tool("1", "failed", title="Look", kind="search", locations=[{"path": f"/{name}"} for name in "abcde"])],
        "  ✗ search Look  /a  /b  /c  and 2 more · failed",
    ),
    "a result that is no text is named": (
        [tool("1", "completed", title="Look", content=[IMAGE, LINK, 7, {"type": "new"}])],
        "  ✓ use Look\n      [image: image/png, 3 bytes]\n      [log: file:///l]",
    ),
    "an update after the end shows the call once": (
        [LOOKED, tool("1", "completed", rawOutput="x"), tool("1", "completed", content=[text("late")])],
        "  ✓ read Look",
    ),
    "a call that begins again is shown again": (
        [LOOKED, tool("1", "completed", title="Look again", kind="read")],
        "  ✓ read Look\n  ✓ read Look again",
    ),
    "that it ran without a question is said after its end too": (
        [tool("1", "completed", title="rm x", kind="execute"), unasked(RM, "permissions.default: deny")],
        "  ✓ run rm x\n▐ ran without asking (policy: permissions.default: deny): rm x",
    ),
    "a call that was under way is marked when the turn is cancelled (C-63)": (
        [
            tool("1", "in_progress", title="Build", kind="execute"),
            cancelled([{"toolCallId": "1", "title": "Build", "kind": "execute", "status": "cancelled"}], 3.0),
        ],
        "  – run Build · cancelled",
    ),
    "a command that was quicker than its call belongs to it": (
        [
            terminal("ok\n", "exit status 0"),
            tool("1", "completed", title="Build", kind="execute", content=[{"type": "terminal", "terminalId": "t1"}]),
        ],
        "  ✓ run Build\n      $ make all\n      ok",
    ),
    "odd meta is ignored": (
        [tool(f"{number}", "completed", title="ls", kind="execute", _meta=meta) for number, meta in enumerate(ODD)],
        "  ✓ run ls\n" * 3 + "  ✓ run ls",
    ),
    "a file that we wrote": ([WROTE], "  ✓ edit /p/a  +1 -1\n      1 - one\n      1 + two"),
    "a file whose change a call shows": (
        [EDITING, WROTE, tool("1", "completed")],
        "  ✓ edit\n      /p/a  +1 -1\n      1 - one\n      1 + two",
    ),
    "a file that differs from what its call shows": (
        [EDITING, FileEvent(path="/p/a", how="write", outcome="done", old="one\n", new="three\n")],
        "▐ wrote /p/a\n  ● edit · unfinished\n      /p/a  +1 -1\n      1 - one\n      1 + two",
    ),
    "a file that was read or refused": (
        [
            FileEvent(path="/p/a", how="read", outcome="done"),
            FileEvent(path="/b\x1b[2J", how="write", outcome="refused", reason="outside of the session"),
            FileEvent(path="/p/b", how="read", outcome="failed", reason="no such file"),
        ],
        "  ✓ read /p/a\n▐ refused: write /b\\x1b[2J: outside of the session\n  ✗ read /p/b · no such file",
    ),
    "a file that a call says it reads": (
        [
            tool("1", "in_progress", title="Read a", kind="read", locations=[{"path": "/p/a", "line": 12}]),
            FileEvent(path="/p/a", how="read", outcome="done"),
            tool("1", "completed"),
        ],
        "  ✓ read /p/a:12",
    ),
}


@pytest.mark.parametrize(("events", "picture"), STORIES.values(), ids=STORIES)
def test_calls_commands_and_files_are_told_once(events: list[Any], picture: str) -> None:
    screen = Screen(80)
    for event in events:
        (screen.hears if isinstance(event, Updated) else screen.live.show)(event)
    assert shown(screen) == picture


def test_a_call_that_ran_without_being_asked_about_says_so_loudly() -> None:
    screen = Screen(90, colours="standard")
    screen.hears(tool("1", "in_progress", title="rm x", kind="execute"))
    screen.live.show(unasked(RM, "permissions.default: ask"))
    screen.hears(tool("1", "completed"))
    assert shown(screen) == "  ✓ run rm x\n▐ ran without asking (policy: permissions.default: ask)"
    assert screen.file.styled("ran without").fg == "brown", "which is what the emulation calls yellow"


@pytest.mark.parametrize(
    ("by", "kind", "more", "is_said"),
    [
        ("permissions.default: ask", "read", {}, False),
        ("permissions.default: ask", "search", {}, False),
        ("permissions.default: ask", "other", {}, False),
        ("permissions.default: ask", "delete", {}, True),
        ("permissions.default: ask", "move", {}, True),
        ("permissions.default: ask", "edit", {}, True),
        ("permissions.default: ask", "read", {"rawInput": {"command": "rm -rf x"}}, True),
        ("permissions.rules[1]", "read", {}, True),
        ("it was denied", "read", {}, True),
    ],
)
def test_of_reads_only_those_that_a_rule_would_have_asked_about_are_said(
    by: str, kind: str, more: dict[str, object], is_said: bool
) -> None:
    screen = Screen(90)
    call = {"title": "Look", "kind": kind, **more}
    screen.hears(tool("1", "in_progress", **call))
    screen.live.show(unasked({"toolCallId": "1", **call}, by))
    screen.hears(tool("1", "completed"))
    assert ("▐ ran " in shown(screen)) is is_said


def test_what_a_permission_question_tells_of_a_call_is_known_of_it() -> None:
    """Gemini tells a call's title nowhere else."""
    screen = Screen()
    asked = answered(
        "rm x", {"toolCallId": "1", "title": "rm x", "kind": "execute"}, [], allowed=True, option_id="o", by="you"
    )
    screen.live.show(asked)
    screen.hears(update("tool_call_update", toolCallId="1", status="completed"))
    assert shown(screen) == "  ✓ run rm x"
    assert not screen.told, "the answer stands below its question"


@pytest.mark.parametrize("by", ["--approve all", "policy: permissions.default: allow", "your earlier answer: always"])
def test_an_answer_that_the_user_was_not_asked_for_is_told(by: str) -> None:
    screen = Screen()
    screen.live.show(answered("rm x", {"toolCallId": "1", "title": "rm x"}, [], allowed=True, option_id="o", by=by))
    assert screen.told == [f"acp-launch: allowed: rm x ({by})"]


def test_a_command_shows_its_last_lines_while_it_runs_and_folded_at_its_end() -> None:
    screen = Screen()
    embedded = [{"type": "terminal", "terminalId": "t1"}]
    screen.live.show(terminal())
    screen.hears(tool("1", "in_progress", title="Build", kind="execute", content=embedded))
    screen.live.show(terminal("".join(f"step {number}\n" for number in range(20)) + "half a"))
    assert (
        screen.text
        == "  ● run Build\n      $ make all\n      … 13 lines above\n"
        + "".join(f"      step {number}\n" for number in range(13, 20))
        + "      half a"
    )
    screen.live.show(terminal(" line\n", "exit status 2"))
    screen.hears(tool("1", "failed"))
    assert (
        shown(screen)
        == "  ✗ run Build · exit status 2\n      $ make all\n      … 13 lines above\n"
        + "".join(f"      step {number}\n" for number in range(13, 20))
        + "      half a line"
    )


def test_a_command_of_no_call_is_shown_when_the_agent_goes_on() -> None:
    screen = Screen()
    screen.live.show(terminal("ok\n"))
    assert screen.text == "  ● run make all\n      ok"
    screen.live.show(terminal("", "exit status 0"))
    screen.hears(chunk("Built."))
    assert shown(screen) == "  ✓ run make all\n      ok\n\nBuilt."


def test_colours_progress_bars_and_titles_of_a_command_are_left_out_and_nothing_else_acts() -> None:
    screen = Screen()
    screen.live.show(terminal("\x1b[1;32mgreen\x1b[0m \x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n"))
    screen.live.show(terminal("10 %\r50 %\r100 %\r\n\x9b2J\x1bc\u202ex"))
    assert screen.text == "  ● run make all\n      green link\n      100 %\n      \\x9b2J\\x1bc\\u202ex"


def test_an_escape_that_comes_in_two_pieces_is_left_out_too() -> None:
    screen = Screen()
    screen.live.show(terminal("a\x1b[3"))
    screen.live.show(terminal("1mb\n"))
    assert screen.text == "  ● run make all\n      ab"


@pytest.mark.whole
def test_a_line_without_end_costs_no_more_than_its_end() -> None:
    screen = Screen(40)
    for _ in range(200):
        screen.live.show(terminal("x" * 1_000))
    assert screen.text == "  ● run make all\n      " + "x" * 33 + "…"


def test_output_that_the_agent_tells_of_in_meta_is_shown_with_its_call() -> None:
    """Facts: a de-facto extension of the claude and codex adapters."""
    screen = Screen()
    screen.hears(tool("1", "in_progress", title="ls", kind="execute"))
    for data in ("a\n", "b\n"):
        meta = {"terminal_output_delta": {"terminal_id": "x", "data": data}}
        screen.hears(update("tool_call_update", toolCallId="1", _meta=meta))
    assert screen.text == "  ● run ls\n      a\n      b"
    screen.hears(tool("1", "completed", _meta={"terminal_exit": {"terminal_id": "x", "exit_code": 0}}))
    assert shown(screen) == "  ✓ run ls\n      a\n      b"


def test_calls_that_are_left_running_are_shown_as_they_stand() -> None:
    screen = Screen()
    screen.turn(tool("1", "in_progress", title="Watch", kind="execute"))
    screen.hears(chunk("Next turn."))
    assert shown(screen) == "  ● run Watch · unfinished\n\nNext turn."


def test_many_calls_at_once_leave_room_for_the_answer() -> None:
    screen = Screen()
    for number in range(50):
        screen.hears(tool(str(number), "in_progress", title=f"Call {number}", kind="read"))
    assert screen.text.splitlines() == [
        "  … 44 more tool calls",
        *(f"  ● read Call {number}" for number in range(44, 50)),
    ]


@pytest.mark.parametrize("kind", ["read", "search", "fetch", "think"])
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_what_is_routine_is_one_dim_line_whatever_came_of_it(kind: str, status: str) -> None:
    screen = Screen(colours="standard")
    screen.hears(tool("1", status, title="a", kind=kind, content=[text("no such file\nsecond line")]))
    (line,) = shown(screen).splitlines()
    assert line.endswith({"completed": " a", "failed": " a · no such file", "cancelled": " a · cancelled"}[status])
    written = screen.file.getvalue()
    assert "\x1b[2m" in written
    assert not any(f"\x1b[{colour}m" in written for colour in range(30, 38))


def test_what_changes_something_stands_out_and_its_failure_is_red() -> None:
    screen = Screen(colours="standard")
    for number, kind in enumerate(("edit", "delete", "move", "execute", "other")):
        screen.hears(tool(f"{number}", "completed", title=f"good{number}", kind=kind))
        screen.hears(tool(f"1{number}", "failed", title=f"bad{number}", kind=kind))
    shown(screen)
    assert (screen.file.styled("✓").fg, screen.file.styled("✗").fg) == ("green", "red")
    assert all(screen.file.styled(f"{name}{number}").bold for name in ("good", "bad") for number in range(5))


def test_a_call_has_a_verb_and_a_name_without_it() -> None:
    for kind, title, expected in [
        ("execute", "`npm test`", "run npm test"),
        ("execute", "Run npm test", "run npm test"),
        ("execute", "Execute: npm test", "run npm test"),
        ("edit", "Edit a.py", "edit a.py"),
        ("edit", "Updating a.py", "edit a.py"),
        ("edit", "Modify a.py", "edit a.py"),
        ("edit", "Write a.py", "write a.py"),
        ("edit", "Create notes.txt", "create notes.txt"),
        ("edit", "Add tests to a.py", "add tests to a.py"),
        ("edit", "Address the review", "edit Address the review"),
        ("edit", "create", "create"),
        ("read", "Create a.py", "read Create a.py"),
        ("delete", "Remove a.py", "delete a.py"),
        ("move", "Rename a.py to b.py", "rename a.py to b.py"),
        ("switch_mode", "Plan", "switch mode Plan"),
        ("other", "io_echo (tiny MCP Server)", "use io_echo (tiny MCP Server)"),
        ("read", "Delete everything", "read Delete everything"),
        ("search", "searchlight", "search searchlight"),
        ("fetch", "a\nb", "fetch a b"),
        (7, "odd", "use odd"),
    ]:
        screen = Screen()
        screen.hears(tool("1", "completed", title=title, kind=kind))
        assert shown(screen) == f"  ✓ {expected}"


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_long_name_is_cut_in_its_middle_and_takes_one_row(columns: int) -> None:
    screen = Screen(columns)
    command = f"first {'x' * 300} last".replace("xx", "x ")
    screen.hears(tool("1", "failed", title=command, kind="execute", content=[text("a reason " * 40)]))
    screen.hears(tool("2", "completed", title=command, kind="read"))
    failed, read = shown(screen).splitlines()
    assert failed.startswith("  ✗ run first x")
    assert " · a reason a " in failed
    assert read.startswith("  ✓ read first x")
    assert read.count("…") == 1
    assert len(read) == columns


def test_without_utf_8_the_symbols_are_plain() -> None:
    screen = Screen()
    screen.file.encoding = "ascii"
    screen.hears(tool("1", "completed", title="a", kind="edit"), tool("2", "failed", title="b", kind="read"))
    screen.hears(tool("3", "cancelled", title="c", kind="read"), tool("4", "in_progress", title="d", kind="read"))
    assert [line[:4] for line in screen.text.splitlines()] == ["  + ", "  x ", "  - ", "  * "]
