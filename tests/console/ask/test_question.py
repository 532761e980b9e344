"""What a person reads before they allow something, and how a bare terminal is answered at."""

import asyncio
from typing import Any

import pytest
from rich.cells import cell_len

from acp_launch.console.ask import permission
from acp_launch.console.ask.terminal import answers, ask_for_key
from acp_launch.console.ask.viewport import break_lines
from acp_launch.interactive.layout import question_rows, room
from acp_launch.interactive.questions import REDIRECT, Question
from acp_launch.session.events import Answer, Choice, ToolQuestion
from tests.console.person import Scripted
from tests.secret.canaries import knowing

TOKEN = "ghp_" + "a1B2c3D4e" * 4
ONCE = {"optionId": "o", "name": "Once", "kind": "allow_once"}
ALWAYS = {"optionId": "a", "name": "Always", "kind": "allow_always"}
NO = {"optionId": "n", "name": "No", "kind": "reject_once"}
WHERE = "acp-launch permission list p"


def ask(person: Scripted, call: dict[str, Any], options: list[Any], cwd: str = "", **more: Any) -> Answer:
    question = ToolQuestion(call=call, options=options, **more)
    return asyncio.run(permission.permission_asker(person, WHERE, cwd)(question))


def reader(
    call: dict[str, Any], *options: dict[str, Any], screen: tuple[int, int] = (500, 10_000), **more: Any
) -> Scripted:
    """A person who was asked about a call, and has said no."""
    person = Scripted("n", screen=screen)
    ask(person, call, [*(options or (ONCE, NO))], **more)
    return person


@pytest.mark.parametrize("before", [0, 1990, 2100])
def test_what_is_too_long_to_be_shown_is_cut_when_it_is_redacted(before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that the cut goes through would be found by nobody any more."""
    monkeypatch.setattr(permission, "redactor", knowing(TOKEN))
    call = {"title": f"use {TOKEN}", "kind": "read", "rawInput": {"text": "x" * before + TOKEN + "y" * 5_000}}
    person = Scripted(None)
    ask(person, call, [{"optionId": TOKEN, "name": f"with {TOKEN}", "kind": "allow_once"}])
    shown = "\n".join(person.told)
    assert shown.splitlines()[0] == "The agent asks for permission: use ***"
    assert "with ***" in shown
    assert "ghp_" not in shown
    assert "characters are not shown" in shown


@pytest.mark.parametrize(
    ("key", "options", "answer"),
    [
        ("y", [ALWAYS, ONCE, NO], Answer("o")),
        ("g", [ALWAYS, ONCE, NO], Answer("a", "always")),
        ("a", [{**ALWAYS, "name": "For this session"}, ONCE, NO], Answer("a", "session")),
        ("n", [ALWAYS, ONCE, NO], Answer("n")),
        ("g", [ONCE, NO], Answer("o", "always")),
        ("2", [ONCE, {**ONCE, "optionId": "again"}], Answer("again")),
        (None, [ONCE, ALWAYS, NO], Answer("n")),
        (None, [ONCE], Answer(None)),
    ],
)
def test_each_way_to_answer_has_a_key_and_no_answer_is_a_no(
    key: str | None, options: list[Any], answer: Answer
) -> None:
    """C-60, C-64: an option that was offered, chosen by its kind; nothing but what was offered."""
    assert ask(Scripted(key), {"title": "Do it"}, options) == answer


ALWAYS = {"optionId": "always", "kind": "allow_always", "name": "Allow for this session"}


@pytest.mark.parametrize(
    ("scope", "options", "is_keepable", "columns", "line"),
    [
        ("execute `npm test` in /w", [ONCE, NO], True, 100, "g will also apply to: execute `npm test` in /w"),
        (
            *("execute `npm test` in /w", [ONCE, ALWAYS, NO], True, 100),
            "a, g will also apply to: execute `npm test` in /w (the agent may apply it more widely)",
        ),
        ("edit `/w/a`", [ONCE, ALWAYS, NO], True, 40, "a, g will also apply to: edit `/w/a`"),
        ("execute `npm test` in /w", [ONCE, NO], True, 15, "g will also apply to: execute…"),
        ("", [ONCE, ALWAYS, NO], False, 100, "a will also apply to: calls that only the agent knows"),
        ("", [ONCE, NO], False, 100, ""),
    ],
)
def test_what_a_lasting_answer_would_hold_for_is_said_above_the_question(
    scope: str, options: list[Any], is_keepable: bool, columns: int, line: str
) -> None:
    person = reader({"title": "Do it"}, *options, screen=(columns, 11), is_keepable=is_keepable, scope=scope)
    assert [told for told in person.told[:-1] if "will also apply to: " in told] == ([line] if line else [])


def test_the_call_that_is_remembered_is_quoted_without_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permission, "redactor", knowing("hunter2-hunter2"))
    person = reader({"title": "x"}, scope="execute `login hunter2-hunter2\x1b[2J`")
    assert "g will also apply to: execute `login ***\\x1b[2J`" in person.told


def test_what_is_too_much_to_be_read_is_cut_with_a_word_about_the_rest() -> None:
    """Nothing an agent writes pushes out what it wants to do."""
    call = {
        "title": "t" * 5_000,
        "kind": "k" * 600,
        "locations": [{"path": f"/w/{number}"} for number in range(3_000)],
        "rawInput": {f"key{number}": "x" for number in range(30)},
        "content": [{"type": "diff", "path": f"/d/{number}", "newText": ""} for number in range(21)],
    }
    person = reader(call)
    assert person.told == [
        f"The agent asks for permission: {'t' * 500}… [4,500 more characters]",
        f"    in full: {'t' * 1991}\n    | [... 1,009 characters are not shown ...]\n    | {'t' * 2000}",
        f"    kind: {'k' * 500}… [100 more characters]",
        *(f"    /w/{number}" for number in range(20)),
        "    [... 2,980 more places are not shown ...]",
        *(f"    key{number}: x" for number in range(20)),
        "    [... 10 more arguments are not shown ...]",
        *(f"    changes /d/{number}  +0 -0" for number in range(20)),
        "    [... 1 more changes are not shown ...]",
        f'Allow it? y Allow once ("Once") / n No / g Allow for good, listed by {WHERE}',
    ]


QWEN = {
    "toolCallId": "c",
    "title": '{"text":"hi"}',
    "kind": "other",
    "rawInput": {"text": "hi"},
    "_meta": {"toolName": "mcp__tiny__io_echo"},
}
GEMINI = {
    "toolCallId": "mcp_tiny_io_echo-1",
    "title": "io_echo (tiny MCP Server)",
    "kind": "other",
    "content": [{"type": "content", "content": {"type": "text", "text": '{\n  "text": "hi"\n}'}}],
}
CLAUDE = {"toolCallId": "c", "name": "Bash", "title": "`ls`", "kind": "execute", "rawInput": {"command": "ls"}}


@pytest.mark.parametrize(
    ("call", "announced", "told"),
    [
        (
            QWEN,
            'io_echo (tiny MCP Server): {"text":"hi"}',
            [
                'The agent asks for permission: {"text":"hi"}',
                "    tool: mcp__tiny__io_echo, of the MCP server tiny, kind: other",
                '    announced as: io_echo (tiny MCP Server): {"text":"hi"}',
                "    text: hi",
            ],
        ),
        (
            GEMINI,
            "",
            [
                "The agent asks for permission: io_echo (tiny MCP Server)",
                "    kind: other",
                '    the agent says: {\n    |   "text": "hi"\n    | }',
            ],
        ),
        (CLAUDE, "", ["The agent asks for permission: `ls`", "    tool: Bash, kind: execute", "    command: ls"]),
        (
            {"title": "Run it", "rawInput": ["rm", "-rf", "/"]},
            "",
            ["The agent asks for permission: Run it", "    kind: not said", '    input: ["rm", "-rf", "/"]'],
        ),
    ],
    ids=["qwen", "gemini", "claude", "a list"],
)
def test_the_tool_its_server_and_its_arguments_are_shown_wherever_the_agent_tells_them(
    call: dict[str, Any], announced: str, told: list[str]
) -> None:
    person = reader(call, announced=announced)
    assert person.told[:-1] == told


def test_a_text_that_repeats_an_argument_or_the_title_is_not_shown_again() -> None:
    texts = [{"type": "content", "content": {"type": "text", "text": text}} for text in ("ls", "List\n", "List files")]
    person = reader({"title": "List files", "rawInput": {"command": "ls", "why": "List"}, "content": texts})
    assert [line for line in person.told if "says" in line] == []


def test_of_too_many_arguments_the_command_is_never_the_one_that_is_left_out() -> None:
    given = {**{f"key{number}": "x" for number in range(30)}, "command": "rm -rf /", "description": "harmless"}
    person = reader({"title": "Run", "rawInput": given})
    assert "    command: rm -rf /" in person.told
    assert "    [... 12 more arguments are not shown ...]" in person.told


LONG = {
    "toolCallId": "c",
    "name": "mcp__shell__run",
    "title": "Tidy up",
    "kind": "execute",
    "rawInput": {"description": "It only tidies up. " * 160, "command": "rm -rf ~", "cwd": "/w"},
}


@pytest.mark.parametrize(("columns", "rows"), [(80, 20), (80, 8), (40, 8), (80, 5), (40, 5), (20, 5), (200, 50)])
def test_what_is_decided_about_stands_above_the_question_however_much_is_said_of_it(columns: int, rows: int) -> None:
    person = reader(LONG, screen=(columns, rows))
    lines = [line for text in person.told[:-1] for line in text.split("\n")]
    drawn = [line[at : at + columns] for line in lines for at in range(0, max(1, len(line)), columns)]
    seen = drawn[-rows:]
    assert seen[0] in ("The agent asks for permission: Tidy up", "Asked for: Tidy up")
    assert any(row.startswith("    tool: mcp__") for row in seen)
    assert any(row.startswith("    command: rm -rf ~"[: columns - 1]) for row in seen)
    assert "It only tidies up. " * 160 in "".join(person.told)


def test_all_of_it_is_said_first_where_it_is_too_much_for_the_screen() -> None:
    person = reader(LONG, screen=(80, 9))
    told = person.told[:-1]
    description = f"    description: {LONG['rawInput']['description']}"  # type: ignore[index]
    assert told[:5] == [
        "Everything the agent sent, and below it the main points:",
        "    tool: mcp__shell__run, of the MCP server shell, kind: execute",
        description,
        "    command: rm -rf ~",
        "    cwd: /w",
    ]
    assert told[5:] == [
        "The agent asks for permission: Tidy up",
        "    tool: mcp__shell__run, of the MCP server shell, kind: execute",
        "    command: rm -rf ~",
        "    cwd: /w",
        *break_lines(description, 80)[:2],
        "      [... more lines, above ...]",
        *break_lines(description, 80)[-2:],
    ]
    person = reader({**LONG, "rawInput": {"description": "It tidies up", "command": "rm -rf ~"}}, screen=(80, 5))
    assert len(person.told) == 5, "what fits is said once"


@pytest.mark.parametrize("columns", [4, 20, 40, 80, 200])
def test_a_line_of_a_question_breaks_between_words_and_what_goes_on_is_barred(columns: int) -> None:
    text = "    command: rm -rf /some/where --and more words of it " + "x" * 300 + " 日本語 " * 20
    first, *rest = break_lines(text, columns)
    assert all(cell_len(row) <= columns for row in (first, *rest))
    assert all(row.lstrip().startswith("| ") for row in rest)
    assert "".join([first, *(row.partition("| ")[2] for row in rest)]).replace(" ", "") == text.replace(" ", "")
    if columns >= 40:
        assert first.endswith(("--and", "it", "x"))


def test_the_lines_of_a_change_are_coloured_and_the_others_are_dim() -> None:
    diff = {"type": "diff", "path": "/w/a.py", "oldText": "one\ntwo\nthree\n", "newText": "one\n2\nthree\n"}
    person = reader({"title": "Edit", "content": [diff]})
    assert person.of_tone("removed") == ["      2 - two"]
    assert person.of_tone("added") == ["      2 + 2"]
    assert person.of_tone("faint") == ["    kind: not said", "      1   one", "      3   three"]


def test_a_long_change_is_folded_to_what_changed() -> None:
    old = "".join(f"line {number}\n" for number in range(100))
    new = "".join(f"line {number}{'!' if number % 9 == 0 else ''}\n" for number in range(100))
    diff = {"type": "diff", "path": "/w/a.py", "oldText": old, "newText": new}
    person = reader({"title": "Edit", "content": [diff]})
    assert [len(person.of_tone(tone)) for tone in ("added", "removed")] == [12, 12]
    assert any("… 8 lines" in line for line in person.told)


def test_a_title_that_is_the_command_is_shown_whole() -> None:
    """gemini has no other place for it."""
    command = f"echo {'x ' * 400}; rm -rf ~"
    for screen in ((500, 10_000), (80, 10)):
        person = reader({"title": command, "kind": "execute"}, screen=screen)
        assert any(command.strip() in text for text in person.told)
        assert "rm -rf ~" in "".join(person.told[-11:-1])


def test_of_a_command_that_is_too_long_its_beginning_and_its_end_are_shown() -> None:
    command = f"echo {'x ' * 1000}; rm -rf ~"
    last = reader({"title": "Run", "rawInput": {"command": command}}, screen=(80, 8)).told[-9:-1]
    assert last[0] == "The agent asks for permission: Run"
    assert last[1].startswith("    command: echo x x x") and last[-2].endswith("; rm -rf ~")
    assert any("more lines, above" in line for line in last)


def test_paths_below_the_sessions_directory_are_shown_from_there_but_not_in_a_command() -> None:
    diff = {"type": "diff", "path": "/w/src/a.py", "newText": "x"}
    call = {
        "title": "Edit `/w/src/a.py`",
        "kind": "edit",
        "rawInput": {"file_path": "/w/src/a.py", "path": "/w/b", "url": "/tmp/w/c", "command": "rm /w/d", "cwd": "/w"},
        "locations": [{"path": "/w/e"}, {"path": "/w//etc/passwd"}, {"path": "/w/../f"}],
        "content": [diff],
    }
    assert reader(call, cwd="/w", scope="edit `/w/src/a.py`").told[:-1] == [
        "The agent asks for permission: Edit `src/a.py`",
        *("    kind: edit", "    e", "    /w//etc/passwd", "    ../f"),
        *("    path: b", "    url: /tmp/w/c", "    command: rm /w/d", "    cwd: /w"),
        *("    changes src/a.py  +1 -0", "      1 + x"),
        "g will also apply to: edit `src/a.py`",
    ]
    assert reader({"title": "rm /w/d", "kind": "execute"}, cwd="/w").told[0] == "The agent asks for permission: rm /w/d"


def test_a_common_question_fits_in_eight_rows() -> None:
    """With what stands below the details: the prompt and its answers."""
    given = {"command": "npm test", "description": "Run the tests"}
    call = {"name": "Bash", "kind": "execute", "title": "`npm test`", "rawInput": given}
    options = [ONCE, {**ALWAYS, "name": "Always allow in this session"}, NO]
    person = reader(call, *options, screen=(98, 30), scope="execute `npm test` in /w")
    offered = permission.answers(options, WHERE).offered

    async def below() -> Question:
        return Question(permission.PROMPT, [*(way.choice for way in offered), REDIRECT], is_open=True)

    rows = ["".join(text for _, text in row) for row in question_rows(asyncio.run(below()), 100, room(30))]
    assert [*person.told[:-1], *rows] == [
        "The agent asks for permission: `npm test`",
        "    tool: Bash, kind: execute",
        "    command: npm test",
        "    description: Run the tests",
        "a, g will also apply to: execute `npm test` in /w (the agent may apply it more widely)",
        "▐ Allow it?",
        '▐ [y] Allow once ("Once")  [a] Always allow in this session  [n] No',
        f"▐ [g] Allow for good, listed by {WHERE}  [N] No, and type what to do instead",
    ]


EDIT: dict[str, Any] = {  # a one-line edit, as claude sends it
    "title": "Edit notes.txt",
    "kind": "edit",
    "rawInput": {"file_path": "/w/notes.txt", "old_string": "milk", "new_string": "oat milk", "replace_all": False},
    "content": [{"type": "diff", "path": "/w/notes.txt", "oldText": "milk", "newText": "oat milk"}],
    "locations": [{"path": "/w/notes.txt", "line": 1}],
    "_meta": {"claudeCode": {"toolName": "Edit"}},
}


def told(call: dict[str, Any], announced: str = "") -> list[str]:
    options = [{**ALWAYS, "name": "Always Allow"}, {**ONCE, "name": "Allow"}, {**NO, "name": "Reject"}]
    scope = "edit `/w/notes.txt`"
    return reader(call, *options, screen=(98, 30), cwd="/w", announced=announced, scope=scope).told[:-1]


def test_an_edit_of_one_line_fits_in_eight_rows_with_the_prompt_and_its_answers() -> None:
    """What the arguments and the change both say is said once."""
    shown = told(EDIT, announced="Edit")
    assert shown == [
        "The agent asks for permission: Edit notes.txt",
        "    changes notes.txt  +1 -1",
        "      1 - milk",
        "      1 + oat milk",
        "g will also apply to: edit `notes.txt` (the agent may apply it more widely)",
    ]
    assert len(shown) + 3 <= 8


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"old_string": "milk", "new_string": "rm -rf"}, "    new_string: rm -rf"),
        ({"old_string": "milk", "new_string": "oat milk", "replace_all": True}, "    replace_all: true"),
        ({"edits": [{"old_string": "milk", "new_string": "oat milk"}, {"old_string": "x", "new_string": "milk"}]}, "x"),
        ({"command": "milk"}, "    command: milk"),
    ],
)
def test_what_the_change_does_not_show_stays(given: dict[str, Any], line: str) -> None:
    assert line in "\n".join(told({**EDIT, "rawInput": {"file_path": "/w/notes.txt", **given}}))


def test_the_arguments_of_a_change_that_is_not_drawn_whole_stay() -> None:
    text = "".join(f"line {number}\n" for number in range(200))
    call = {**EDIT, "rawInput": {"content": text}, "content": [{"type": "diff", "path": "/w/a", "newText": text}]}
    assert "    content: line 0" in told(call)


def test_a_tool_whose_name_the_title_does_not_tell_is_named() -> None:
    assert "    tool: Edit, kind: edit" in told({**EDIT, "title": "Tidy notes.txt"})
    server = {**EDIT, "title": "edit notes", "_meta": {"claudeCode": {"toolName": "mcp__x__edit"}}}
    assert any("of the MCP server x" in line for line in told(server))


def asked(monkeypatch: pytest.MonkeyPatch, *typed: str | None, quiet: float = 0.0) -> str | None:
    """Answer with these keys, each as it is read; None is a silence that is long enough."""
    waiting = list(typed)

    async def read() -> str:
        if (piece := waiting.pop(0)) is None:
            await asyncio.Event().wait()  # the wait for it has an end
        return piece or ""

    for name, seconds in (("QUIET_SECONDS", quiet), ("PAUSE_SECONDS", 0.01), ("ESCAPE_TIMEOUT", 0.01)):
        monkeypatch.setattr(f"acp_launch.console.ask.terminal.{name}", seconds)
    choices = [Choice("y", "Yes"), Choice("2", "The same again"), Choice("n", "No")]
    answer = asyncio.run(ask_for_key("Well?", choices, read))
    assert not waiting, "every key was read"
    return answer


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        (["y"], "y"),
        (["Y"], "y"),
        (["2"], "2"),
        (["y\n"], "y"),  # as on a terminal that gives whole lines
        (["YES\n"], "y"),
        (["no\n"], "n"),
        ([""], None),
        (["\x04"], None),
        (["\x1b", None], None),
        (["\x1b", "[A", "y"], "y"),
        (["\x1b[A", None, "y"], "y"),
        (["\n", "1", "\t", "y"], "y"),
        (["why not", None, "y"], "y"),
        (["yes", "y", None, "n"], "n"),
    ],
)
def test_one_key_answers_and_no_other_and_several_at_once_do_not(
    monkeypatch: pytest.MonkeyPatch, typed: list[str | None], key: str | None
) -> None:
    assert asked(monkeypatch, *typed) == key


def test_a_key_before_the_question_could_be_read_does_not_answer_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(monkeypatch, "y", None, "n", quiet=60) == "n"
    assert capsys.readouterr().err.splitlines() == ["▐ Well?", "▐ [y] Yes  [2] The same again  [n] No"]


def test_a_row_has_as_many_answers_as_fit() -> None:
    choices = [Choice("y", "Yes"), Choice("n", "No"), Choice("d", "Don't ask")]
    assert answers(choices, 80) == ["[y] Yes  [n] No  [d] Don't ask"]
    assert answers(choices, 20) == ["[y] Yes  [n] No", "[d] Don't ask"]
    assert answers(choices, 15) == ["[y] Yes", "[n] No", "[d] Don't ask"]


def test_enter_says_which_keys_answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(monkeypatch, "\n", "y") == "y"
    said = "▐ Enter does not answer; press y, 2, n, or Escape to dismiss the question"
    assert capsys.readouterr().err.splitlines()[-1] == said
