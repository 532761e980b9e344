"""Ring 3. What an interactive session looks like, and what it withstands: the real program, an agent, a real pty."""

import json
import os
import re
import select
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from acp_launch.process.records import read_all
from tests.agents.demo import ATTACKS
from tests.cli.launcher import MARK, Launcher, alive, kill_all
from tests.cli.test_run_interactive import CTRL_C, CTRL_D, ENTER, USED, after, asks, full, leaves, said, sitting
from tests.interactive.screen import Terminal, on_screen
from tests.patience import PATIENCE
from tests.seat.roll import Watched

ESCAPE = "\x1b"
PLAIN = {"NO_COLOR": "", "TERM": "xterm-256color"}
# Every sequence that may be written: modes of the keyboard and of drawing, the cursor, erasing, colours.
TITLE = r"\x1b\]2;(?:starting|ready|working|asks you|cancelling|down): [\w-]+(?: · [\w-]+)?\x1b\\"
OURS = re.compile(r"\x1b\[(?:\?(?:1|7|12|25|1004|2004|2026)[hl]|\d*[ABCDJK]|\d*(;\d*)?H|[\d;]*m|2[23];2t)|" + TITLE)
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2060\u2066-\u2069\ufeff]")


def sends(terminal: Terminal, prompt: str) -> None:
    """Enter a prompt once the session is ready, and wait until it stands above its answer."""
    terminal.until("ready ·")
    before = terminal.all.count(said(prompt))
    terminal.types(prompt + ENTER)
    terminal.until_it(lambda: terminal.all.count(said(prompt)) > before, f"{prompt!r} above its answer")


def finishes(terminal: Terminal, prompt: str) -> list[str]:
    """Wait for the end of the turn; gives what stands between its prompt and the usage line."""
    terminal.until_it(
        lambda: "ready ·" in terminal.shown and any(USED.match(row) for row in after(terminal, prompt)),
        "the turn's end",
    )
    rows = told(terminal, prompt)
    return rows[: next(number for number, row in enumerate(rows) if USED.match(row))]


def told(terminal: Terminal, prompt: str) -> list[str]:
    """What stands below a prompt, without empty lines, what is said of the session's beginning, whenever that comes,
    and the time of a call that took some.
    """
    beginning = ("  session title: ", "▐ notes: ")
    rows = [row for row in after(terminal, prompt) if row and not row.startswith(beginning)]
    return [re.sub(r"^(  [✓–✗] .*) · \d+ s$", r"\1", row) for row in rows]


def is_asked(terminal: Terminal, title: str, key: str = "y") -> None:
    """Wait until the question about `title` can be answered with `key`."""
    terminal.until_it(
        lambda: any(row.endswith(title) for row in terminal.all) and f"[{key}] " in terminal.shown,
        f"a question: {title}",
    )


def fills(terminal: Terminal, label: str, text: str) -> None:
    """Answer a line of a form, once the cursor is behind its label."""
    name, _, default = label.partition(" [")
    shown = f'▐ "{name}"' + (f" [{default}" if default else "")
    terminal.until_it(lambda: terminal.rows[terminal.cursor[1]].startswith(shown), f"the line {label}")
    terminal.types(text + ENTER)


def numbers(rows: list[str]) -> list[int]:
    """Of the rows that hold nothing else."""
    return [int(word) for row in rows if re.fullmatch(r"[\d ]+", row) for word in row.split()]


def owned(profile: Path) -> None:
    """Make it one of the user's own, which needs nobody's trust."""
    profiles = Path(os.environ["ACP_LAUNCH_CONFIG_DIR"]) / "profiles"
    profiles.mkdir(parents=True)
    profile.rename(profiles / profile.name)


def latest(terminal: Terminal) -> int:
    """The highest number on the screen that stands in a row of numbers."""
    return max(numbers(terminal.rows), default=0)


@contextmanager
def hearing(path: Path) -> Iterator[Callable[[], str]]:
    """A FIFO; the function gives the next line that somebody writes to it."""
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR)  # our own writer: no end of file between two lines

    def line() -> str:
        text = b""
        while not text.endswith(b"\n"):
            assert select.select([descriptor], [], [], PATIENCE)[0], f"nobody wrote a line; so far {text!r}"
            text += os.read(descriptor, 4096)
        return text.decode().removesuffix("\n")

    try:
        yield line
    finally:
        os.close(descriptor)


@contextmanager
def watched(launcher: int, mark: str) -> Iterator[Callable[[], list[str]]]:
    """A launch with its guard and all it started; the function returns once they are dead, and gives their commands."""
    (launch,) = read_all(Path(os.environ["ACP_LAUNCH_STATE_DIR"]))
    assert launch.launcher.pid == launcher
    ours = psutil.Process(launcher)
    processes = [ours, *ours.children(recursive=True)]
    with ExitStack() as stack:
        seen = [Watched(process.pid) for process in processes]
        for process in seen:
            stack.callback(process.close)
        stack.callback(kill_all, mark)
        commands = [" ".join(process.cmdline()) for process in processes]

        def all_die() -> list[str]:
            for process in seen:
                process.dies()
            assert alive(mark) == []
            return commands

        yield all_die


def is_clean(terminal: Terminal) -> None:
    """Nothing was written to the terminal but what we write ourselves."""
    text = terminal.raw.decode()
    left = OURS.sub("", text)
    assert ESCAPE not in left, repr(left[left.index(ESCAPE) - 40 : left.index(ESCAPE) + 40])
    assert CONTROL.findall(left) == []


# What is seen of an answer, a question and an end


@pytest.mark.slow
def test_a_part_of_an_answer_can_be_read_while_the_rest_is_to_come(tmp_path: Path) -> None:
    with sitting(cwd=tmp_path) as terminal:
        sends(terminal, "count 10000")
        terminal.until("1 2 3 4 5 6 7 8")
        terminal.until("esc interrupts")
        assert not any(map(USED.match, terminal.rows))
        terminal.types(CTRL_C)
        terminal.until("ready ·")
        leaves(terminal)


def test_what_was_typed_ahead_of_a_question_does_not_answer_it(tmp_path: Path) -> None:
    with sitting(cwd=tmp_path) as terminal:
        terminal.until("ready ·")
        terminal.types(f"note buy milk{ENTER}yyy")
        is_asked(terminal, "Note: buy milk")
        assert "❯ yyy" in terminal.rows, "it went where it was typed"
        terminal.types("n")
        assert "I did not do it: permission was refused." in finishes(terminal, "note buy milk")
        terminal.types(CTRL_C)
        terminal.until_it(lambda: terminal.rows[terminal.cursor[1]] == "❯", "an empty prompt")
        leaves(terminal)


def test_a_question_about_a_change_shows_the_change(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("milk\nbread\n")
    with sitting(cwd=tmp_path, columns=200) as terminal:
        sends(terminal, "edit notes.txt eggs")
        is_asked(terminal, "Edit notes.txt")
        rows = after(terminal, "edit notes.txt eggs")
        assert rows[rows.index(f"▐     changes {tmp_path}/notes.txt  +1 -0") :][1:4] == [
            "▐       1   milk",
            "▐       2   bread",
            "▐       3 + eggs",
        ]
        assert "▐ Allow it?" in rows[rows.index("▐") :]
        good = "[g] Allow for good, listed by acp-launch permission list demo"
        assert f"▐ [y] Allow once  [a] Always allow in this session  [n] Reject  {good}" in terminal.rows
        terminal.types("y")
        assert finishes(terminal, "edit notes.txt eggs")[-5:] == [
            "  ✓ edit notes.txt:3  +1 -0",
            "      1   milk",
            "      2   bread",
            "      3 + eggs",
            "notes.txt is written, through the client.",
        ]
        leaves(terminal)
    assert (tmp_path / "notes.txt").read_text() == "milk\nbread\neggs\n"


def test_no_detail_of_a_question_looks_like_a_line_of_ours(tmp_path: Path) -> None:
    """The demo's plan has two lines; both stand further in than what we say."""
    with sitting(full(), cwd=tmp_path) as terminal:
        sends(terminal, "switch")
        is_asked(terminal, "Leave the plan mode and start to work")
        rows = told(terminal, "switch")
        assert rows[1:4] == ["▐     kind: switch_mode", "▐     plan: 1. work", "▐     | 2. rest"]
        terminal.types("n")
        assert finishes(terminal, "switch")[-1] == "I go on planning."
        leaves(terminal)


@pytest.mark.slow
def test_a_cancelled_call_is_marked_and_its_command_is_over(tmp_path: Path) -> None:
    with sitting(cwd=tmp_path) as terminal, hearing(tmp_path / "hold"):
        sends(terminal, "shell echo one; echo two; exec cat hold")
        is_asked(terminal, "echo one; echo two; exec cat hold")
        terminal.types("y")
        output = ["      $ sh -c 'echo one; echo two; exec cat hold'", "      one", "      two"]
        running = "\n".join(["  ● run echo one; echo two; exec cat hold", *output])
        terminal.until_it(lambda: running in "\n".join(terminal.rows), "its output below it")
        terminal.types(CTRL_C)
        rows = finishes(terminal, "shell echo one; echo two; exec cat hold")
        rows = [row for row in rows if row != "      signal SIGTERM"]  # where it ended before the frame
        assert rows[-4] == "  – run echo one; echo two; exec cat hold · cancelled", rows
        assert rows[-3:] == output
        asks(terminal, "add 20 22")
        assert sum(row.strip() == "two" for row in terminal.all) == 1, "it is not shown again when it ends"
        leaves(terminal)


@pytest.mark.slow
def test_an_answer_that_was_begun_stays_when_the_agent_dies(tmp_path: Path) -> None:
    with sitting("demo", "--session", "work", cwd=tmp_path) as terminal:
        sends(terminal, "crash")
        terminal.until("[y] Restart it and resume this session  [n] Leave")
        framed = [row for row in told(terminal, "crash") if not row.startswith("─")]
        begun, died, *command, last, gone = framed[: framed.index("▐ The agent has ended.") + 1]
        assert (begun, last, gone) == (
            "I am about to",
            "      demo agent: crashing as requested",
            "▐ The agent has ended.",
        )
        assert died == "▐ the agent exited with status 3 before it answered session/prompt"
        assert "".join(command).startswith("      command: /")
        assert "".join(command).endswith("-I -m acp_launch.demo.agent")
        down = re.compile(r"down +Demo agent \(scripted, no model\) · demo · work · 1 server up")
        terminal.until_it(lambda: down.fullmatch(terminal.shown.splitlines()[-1]) is not None, "a server for the next")
        terminal.types("y")
        terminal.until("ready ·")
        terminal.until_it(lambda: terminal.rows[terminal.cursor[1]] == "❯ crash", "the prompt to be edited")
        assert terminal.all.count("I am about to") == 1, "its history is not shown again"
        terminal.types(CTRL_C)
        leaves(terminal)


# Forms and links


def test_a_form_is_filled_in_looked_at_and_then_sent(tmp_path: Path) -> None:
    with sitting(cwd=tmp_path) as terminal:
        sends(terminal, "form")
        fills(terminal, "Name", "Aurora")
        fills(terminal, "Ticket [DEMO-1]", "not a ticket")
        terminal.until('"Ticket" must match')
        fills(terminal, "Ticket [DEMO-1]", "REL-7")
        for label in ("Notify", "Its page", "On which day", "At which moment", "Channel [beta]", "Size"):
            fills(terminal, label, "")
        fills(terminal, "Copies [1]", "10")
        terminal.until('"Copies" must')
        fills(terminal, "Copies [1]", "3")
        for label in ("Share of users", "Urgent", "Platforms", "Reviewers"):
            fills(terminal, label, "")
        terminal.until("[s] send  [e] edit  [d] decline  [c] cancel")
        rows = after(terminal, "form")
        assert "▐     Name: Aurora" in rows
        assert "▐     Ticket: REL-7" in rows
        terminal.types("s")
        assert {"You said:", " • name: 'Aurora'", " • copies: 3"} <= set(finishes(terminal, "form"))
        leaves(terminal)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("way", "key", "action"), [(ESCAPE, "d", "decline"), (CTRL_D, ESCAPE, "cancel")])
def test_a_form_is_left_unsent_as_it_says_and_the_session_goes_on(
    tmp_path: Path, way: str, key: str, action: str
) -> None:
    with sitting(cwd=tmp_path) as terminal:
        sends(terminal, "form")
        terminal.until_it(lambda: terminal.rows[terminal.cursor[1]].startswith('▐ "Name"'), "the first field")
        terminal.until("To leave without sending: Ctrl-D on an empty line, at any field.")
        fills(terminal, "Name", "Aurora")
        terminal.until_it(lambda: terminal.rows[terminal.cursor[1]] == '▐ "Ticket" [DEMO-1]', "the second field")
        terminal.types(way)
        terminal.until("The form is not sent. Decline it?")
        terminal.until("[c] cancel")
        terminal.types(key)
        assert finishes(terminal, "form")[-1] == f"The form was not filled in ({action})."
        leaves(terminal)


def test_a_link_is_opened_in_the_browser_only_with_consent(tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/visited\n')
    browser.chmod(0o700)
    with (
        hearing(tmp_path / "visited") as visited,
        sitting(full(), cwd=tmp_path, env={"BROWSER": str(browser)}) as terminal,
    ):
        sends(terminal, "link")
        is_asked(terminal, "on the host example.com", "o")
        terminal.types("d")
        assert finishes(terminal, "link")[-1] == "The page was not opened (decline)."
        sends(terminal, "link")
        terminal.until_it(lambda: "[o] open in the browser" in terminal.shown, "the second question")
        (address,) = [row[1:].strip() for row in after(terminal, "link") if row.startswith("▐     https://")]
        assert address.startswith("https://example.com/demo?session=")
        terminal.types("o")
        assert visited() == address, "the first page it ever saw"
        assert finishes(terminal, "link")[-1] == "I wait until you are done there. That is done."
        leaves(terminal)


# Agents and servers that are not kind


@pytest.mark.sample(1)
@pytest.mark.parametrize("colours", [{"NO_COLOR": "1"}, PLAIN])
def test_escape_sequences_of_an_agent_never_reach_the_terminal(tmp_path: Path, colours: dict[str, str]) -> None:
    with sitting(full(), cwd=tmp_path, env=colours) as terminal:
        asks(terminal, "hostile")
        shown = "\n".join(terminal.all)
        assert "If you can read this list and your terminal is as it was, the client is careful." in shown
        for visible in (
            r"\x1b]0;owned by the agent\x07",
            r"\x1b]52;c;cm0gLXJmIH4=\x07",
            r"\x1b[?1049h\x1b[?25l",
            "[bold red]",
        ):
            assert visible in shown
        assert r">\u202egnp.exe\u202c \u2066txet\u2069<" in shown
        assert not [row for row in terminal.all if row.startswith(("▐ acp-launch: type", "▐ Allow ls?"))]
        is_clean(terminal)
        for attack in ATTACKS.values():
            assert CONTROL.search(attack) is None or attack.encode() not in terminal.raw
        leaves(terminal)
        is_clean(terminal)


HOSTILE = """
EVIL = "\\x1b]0;owned\\x07\\x9b31m\\u202egpj\\x1b[?1049h\\nready"


def initialize(request):
    about = {"name": EVIL, "title": "Agent " + EVIL, "version": EVIL}
    script.answer(request, {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": about, "authMethods": []})


def new(request):
    mode = {"id": "m", "name": "mode " + EVIL, "description": EVIL}
    script.answer(request, {"sessionId": "s", "modes": {"currentModeId": "m", "availableModes": [mode]}})
    script.update("s", "session_info_update", title="title " + EVIL)
    commands = [{"name": "evil", "description": EVIL, "input": {"hint": EVIL}}]
    script.update("s", "available_commands_update", availableCommands=commands)


script.serve({"initialize": initialize, "session/new": new})
"""


def test_names_from_agents_and_servers_cannot_drive_the_terminal(launch: Launcher) -> None:
    profile = launch.scripted(HOSTILE)
    says = "printf '\\033]0;owned\\007\\033[?1049h evil\\n' >&2; exit 3"
    server = {"command": "sh", "args": ["-c", says], "restart": {"max": 0}, "required": False}
    content: dict[str, Any] = json.loads(profile.read_text())
    owned(launch.write({**content, "mcp_servers": {"bad": server}}))
    with sitting("p", cwd=launch.project, columns=160) as terminal:
        terminal.until(r"Agent \x1b]0;owned\x07")
        asks(terminal, "hi", until=re.compile("You said: hi"))
        terminal.types(f":servers{ENTER}")
        terminal.until_it(lambda: any("bad" in row for row in after(terminal, "hi")), "the servers")
        terminal.types("/")
        terminal.until("/evil")
        terminal.types(CTRL_C)
        is_clean(terminal)
        leaves(terminal)
        is_clean(terminal)


# Much of it, and terminals that change


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_ctrl_c_is_heard_in_a_flood(tmp_path: Path) -> None:
    with sitting(full(), cwd=tmp_path) as terminal:
        sends(terminal, "flood 10000000")
        terminal.until_it(lambda: latest(terminal) > 1000, "a thousand numbers")
        terminal.types(CTRL_C)
        rows = finishes(terminal, "flood 10000000")
        said = numbers(rows)
        assert said == list(range(1, len(said) + 1))
        assert len(said) < 10_000_000
        asks(terminal, "add 20 22")
        assert "42" in after(terminal, "add 20 22")
        leaves(terminal)


@pytest.mark.slow
def test_a_terminal_that_changes_its_size_shows_every_row_once(tmp_path: Path) -> None:
    with sitting(cwd=tmp_path, columns=80) as terminal:
        sends(terminal, "count 10000")
        for columns, number in ((30, 20), (120, 60), (80, 90)):
            terminal.until_it(lambda number=number: latest(terminal) > number, f"{number}")  # type: ignore[misc]
            terminal.resize(columns, 30)
        terminal.until_it(lambda: latest(terminal) > 120, "120")
        assert sum("esc interrupts" in row for row in terminal.rows) == 1
        assert terminal.rows.count("❯") == 1
        terminal.types(CTRL_C)
        rows = finishes(terminal, "count 10000")
        said = numbers(rows)
        assert said == list(range(1, len(said) + 1))
        leaves(terminal)


def test_a_dumb_terminal_is_asked_in_lines(tmp_path: Path) -> None:
    with sitting(cwd=tmp_path, env={"TERM": "dumb"}) as terminal:
        terminal.until("> ")
        terminal.types(f"note buy milk{ENTER}")
        terminal.until("[y] Allow once")
        terminal.types("y")
        terminal.until("Noted: buy milk")
        terminal.types(CTRL_D)
        assert terminal.ends() == 0
        assert b"\x1b" not in terminal.raw


# Ends that nobody can prevent


@contextmanager
def in_a_turn(directory: Path, *prefix: str) -> Iterator[tuple[Terminal, Callable[[], list[str]]]]:
    """A session in the midst of a turn; the function returns once all its processes are dead."""
    mark = uuid.uuid4().hex
    argv = [*prefix, sys.executable, "-m", "acp_launch", "run", "demo"]
    with on_screen(*argv, cwd=directory, env={MARK: mark}) as terminal:
        sends(terminal, "count 10000")
        terminal.until("1 2 3")
        with watched(terminal.process.pid, mark) as all_die:
            yield terminal, all_die


def test_killing_us_in_a_turn_leaves_no_process(tmp_path: Path) -> None:
    with in_a_turn(tmp_path) as (terminal, all_die):
        os.kill(terminal.process.pid, signal.SIGKILL)
        assert terminal.ends() == -signal.SIGKILL
        programs = all_die()
    for program in ("acp_launch run demo", "acp_launch.demo.agent", "acp_launch.demo.server", "shim.py", "guard"):
        assert any(program in name for name in programs), programs


def test_a_terminal_that_hangs_up_leaves_no_process(tmp_path: Path) -> None:
    with in_a_turn(tmp_path) as (terminal, all_die):
        terminal.hang_up()
        assert terminal.process.wait(PATIENCE) == 128 + signal.SIGHUP
        all_die()


@pytest.mark.slow
def test_a_terminal_that_is_gone_is_noticed_without_a_signal(tmp_path: Path) -> None:
    """As under `nohup`: reading it fails with EIO."""
    with in_a_turn(tmp_path, "sh", "-c", 'trap "" HUP; exec "$@"', "sh") as (terminal, all_die):
        terminal.hang_up()
        assert terminal.process.wait(PATIENCE) == 0  # an end of input
        all_die()


# Signs of life


@pytest.mark.slow
def test_a_running_command_is_told_with_its_seconds_and_the_spinner_moves(tmp_path: Path) -> None:
    with sitting("demo", "--approve", "all", cwd=tmp_path, env=PLAIN) as terminal, hearing(tmp_path / "hold"):
        sends(terminal, "shell exec cat hold")
        terminal.until("running exec cat hold 2 s · esc interrupts")
        steps = set(re.findall("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", terminal.raw.decode()))
        assert len(steps) > 1
        terminal.types(CTRL_C)
        terminal.until("ready ·")
        leaves(terminal)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("options", "env"), [(("--plain",), PLAIN), ((), {"NO_COLOR": "1"})])
def test_nothing_moves_and_nothing_is_coloured_for_who_wants_it_plain(
    tmp_path: Path, options: tuple[str, ...], env: dict[str, str]
) -> None:
    with sitting("demo", "--approve", "all", *options, cwd=tmp_path, env=env) as terminal, hearing(tmp_path / "hold"):
        sends(terminal, "shell echo one; exec cat hold; :")
        terminal.until("● running echo one; exec cat hold; : · esc interrupts")
        terminal.types(CTRL_C)
        terminal.until("ready ·")
        leaves(terminal)
        written = terminal.raw.decode()
        assert re.findall("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", written) == []
        assert re.findall(r"\x1b\[(?:\d+;)*[349]\d(?:;\d+)*m", written) == []
