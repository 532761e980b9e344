"""Whatever an agent or a server writes, none of it drives the terminal, or begins a line that looks like ours."""

import asyncio
import io
import os
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from rich.console import Console, RenderableType

from acp_launch.console import stderr
from acp_launch.console.ask.forms import Forms
from acp_launch.console.ask.links import Links
from acp_launch.console.ask.logins import LoginQuestions
from acp_launch.console.ask.permission import permission_asker
from acp_launch.console.ask.terminal import TerminalQuestions, answers, tell
from acp_launch.console.draw.live import Live
from acp_launch.console.problems import show_error
from acp_launch.console.stream.outlet import Outlet
from acp_launch.console.stream.text import Notices, Plain, Quiet
from acp_launch.errors import AgentRefused, AuthRequired, WaitExpired
from acp_launch.interactive import output
from acp_launch.interactive.output import session_output
from acp_launch.process.lifecycle import Change, Standing
from acp_launch.protocol.acp import AuthMethod
from acp_launch.session.elicitation import Field, Form, Link
from acp_launch.session.events import (
    Choice,
    FileEvent,
    ResultEvent,
    TerminalEvent,
    ToolQuestion,
    describe_error,
)
from tests.console.updates import answered, cancelled, chunk, note, opened, standing, unasked, update, waiting
from tests.looped import looped

FORGED = "acp-launch: allowed: all of it (you)"
HOSTILE = [
    "\x1b[2J\x1b[H",
    "\x1b]8;;https://evil.example/\x1b\\click\x1b]8;;\x1b\\",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1bP$q\x1b\\",
    "\x9b2J\x9d0;title\x9c",
    "\u202egnp.exe\u2066\u2069\u200f",
    "a\u200bb\ufeffc\u2060d",
    f"x\n{FORGED}",
    f"x\r\n{FORGED}",
    f"x\r{FORGED}",
    f"x\u2028{FORGED}\x85{FORGED}\x0b{FORGED}\x0c{FORGED}",
    "\x00\x07\x08\x7f",
    "\ud800",
]
Sink = Callable[[], str]


class Paper:
    """A canvas of plain text: whatever drives a terminal in it came from outside."""

    width = 1000  # nothing is wrapped

    def __init__(self) -> None:
        self._file = io.StringIO()
        self._console = Console(file=self._file, color_system=None, width=self.width, highlight=False)

    def print(self, what: RenderableType) -> None:
        self._console.print(what)

    show = print

    def erase(self) -> bool:
        return True

    def close(self) -> None:
        """It is not drawn on any more."""

    @property
    def text(self) -> str:
        return self._file.getvalue()


@contextmanager
def pty() -> Iterator[tuple[int, int]]:
    ours, theirs = os.openpty()
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


def everything(observer: Notices, evil: str, server: str = "") -> None:
    """Each event once, with `evil` in each of its texts, and as the name of a server unless that is given."""
    server = server or evil
    call: dict[str, Any] = {
        "toolCallId": "1",
        "title": evil,
        "kind": evil,
        "status": evil,
        "locations": [{"path": evil}],
    }
    part = {"type": "content", "content": {"type": "text", "text": evil}}
    diff = {"type": "diff", "path": evil, "oldText": evil, "newText": f"{evil}\n{evil}!"}
    observer.show(opened("s1", evil, "load", 3, Raw(b"{}")))
    observer.update(update("tool_call", **call))
    observer.update(update("tool_call_update", toolCallId="1", status="completed", content=[part, diff]))
    observer.update(update("tool_call", **{**call, "toolCallId": "2", "status": "failed"}))
    observer.update(update("plan", entries=[{"content": evil, "status": evil, "priority": evil}]))
    observer.update(update("notice", title=evil, description=evil, severity=evil))
    observer.update(update("session_info_update", title=evil))
    observer.update(update("current_mode_update", currentModeId=evil))
    observer.update(chunk(evil, kind="agent_thought_chunk"))
    observer.update(update("usage_update", used=1, size=2, cost={"amount": 1, "currency": evil}))
    observer.show(answered(evil, call, [], allowed=True, option_id=evil, by=evil))
    observer.show(unasked(call, evil))
    observer.show(unasked({"toolCallId": "9", "name": evil}, evil))
    for outcome in ("done", "refused", "failed"):
        observer.show(FileEvent(path=evil, how="write", outcome=outcome, reason=evil, old=evil, new=f"{evil}!"))
    observer.show(TerminalEvent(terminal_id=evil, command=evil, cwd=evil))
    printed = evil.replace(FORGED, "")  # what a command prints begins lines, as an answer does: under its `$`
    observer.show(TerminalEvent(terminal_id=evil, command=evil, cwd=evil, output=printed, exit=evil))
    observer.show(waiting(f'end of the login "{evil}"', 3.0, 60.0))
    observer.show(note(evil))
    for state in ("starting", "ready", "resting", "failed", "stopped"):
        told = Change(server=server, state=state, exit=evil, reason=evil, detail=(evil,), restarts=1, retry=1.0)
        observer.show(told)
        observer.show(standing([Standing(server=server, state=state, opened=True, reason=evil)], "opened"))
    observer.show(standing([Standing(server=server, state="declared")], "turn"))
    observer.show(cancelled([call], 3.0))
    observer.show(ResultEvent(stop_reason=evil, usage={f"{evil}Tokens": 1}, denied=evil, result=Raw(b"{}")))
    observer.show(describe_error(WaitExpired(evil, fix=evil)))


def assert_tame(shown: str) -> None:
    assert shown
    for mark in shown:
        drives = unicodedata.category(mark) in ("Cc", "Cf", "Cs", "Zl", "Zp") and mark not in "\n\t"
        assert not drives, f"{mark!r} in {shown!r}"
    assert FORGED not in shown.splitlines()


@pytest.mark.parametrize("evil", HOSTILE)
def test_no_notice_of_any_output_lets_it_through(evil: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with (tmp_path / "stdout").open("wb") as file:
        for observer in (Notices(), Plain(Outlet(file.fileno())), Quiet(Outlet(file.fileno()))):
            everything(observer, evil)
            assert_tame(capsys.readouterr().err)


@pytest.mark.parametrize("evil", HOSTILE)
@looped
async def test_nothing_that_is_drawn_lets_it_through(evil: str, capsys: pytest.CaptureFixture[str]) -> None:
    for with_history in (False, True):
        paper = Paper()
        everything(Live(paper, history=with_history), evil)
        assert_tame(paper.text)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("evil", HOSTILE)
@pytest.mark.parametrize("observer", [Plain, Quiet])
def test_an_answer_that_a_terminal_gets_drives_it_no_more_than_a_drawn_one(
    evil: str, observer: type[Plain | Quiet]
) -> None:
    """A pipe gets it as it is; on a terminal that is dumb, or with `--output quiet`, nobody draws."""
    with pty() as (ours, theirs):
        made = observer(Outlet(theirs))
        made.update(chunk(f"{evil}end"))
        made.show(ResultEvent(stop_reason="end_turn", result=Raw(b"{}")))
        asyncio.run(made.drain())
        shown = b""
        while not shown.endswith(b"end\r\n"):
            shown += os.read(ours, 4096)
    text = shown.decode().replace("\r\n", "\n")
    assert all(unicodedata.category(mark) not in ("Cc", "Cf", "Zl", "Zp") or mark in "\n\t" for mark in text), text


# Words that look like ours: with our mark before them, and where a line of ours would hold nothing else.
OURS = "acp-launch: type your keyring passphrase"
FORGERIES = [
    OURS,
    f"▐ {OURS}",
    f"x\n▐ {OURS}",
    f"x\n\n▐ {OURS}\n▐ Allow ls? [y] yes",
    f"&#x2590; {OURS}",
    f"> &#9616; {OURS}",
]


def assert_genuine(shown: str, *, is_question: bool = False) -> None:
    """No line with our mark holds their words where ours begin; in a question, theirs are further to the right."""
    assert shown
    for line in shown.splitlines():
        for after in line.split("▐")[1:]:
            words = after.removeprefix(" ") if is_question else after.strip()
            assert not words.startswith((OURS, "Allow ls?")), line


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others write where we write."""
    monkeypatch.setattr(stderr, "_is_marking", True)


@pytest.mark.parametrize("evil", FORGERIES)
def test_no_line_of_ours_can_be_forged(
    evil: str, shared: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """In the answer, which goes to the same pipe, and in whatever we tell of the agent."""
    for kind in (Plain, Quiet):
        file = tmp_path / kind.__name__
        with file.open("wb") as out:
            observer = kind(Outlet(out.fileno()))
            everything(observer, evil)
            observer.update(chunk(f"{evil}\n"))
            observer.update(chunk("▐", message="2"))
            observer.update(chunk(f" {OURS}", message="2"))
            observer.show(ResultEvent(stop_reason="end_turn", result=Raw(b"{}")))
            asyncio.run(observer.drain())
        assert_genuine(file.read_text())
        told = capsys.readouterr().err
        assert_genuine(told)
        assert all(line.startswith(("▐ ", "  ")) for line in told.splitlines())


@pytest.mark.parametrize("evil", FORGERIES)
@looped
async def test_no_line_of_ours_can_be_forged_where_it_is_drawn(evil: str, shared: None) -> None:
    for with_history in (False, True):
        paper = Paper()
        live = Live(paper, history=with_history)
        everything(live, evil)
        live.update(chunk(f"{evil}\n\n```\n{evil}\n```\n"))
        live.show(ResultEvent(stop_reason="end_turn", result=Raw(b"{}")))
        assert_genuine(paper.text)


@pytest.mark.parametrize("evil", FORGERIES)
@looped
async def test_no_line_of_ours_can_be_forged_in_a_session_where_it_has_the_mark_alone(
    evil: str, shared: None, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawn, and line by line: nothing of ours begins with our name there, and nothing of theirs with our mark."""
    paper = Paper()
    drawn = session_output(paper, lambda: 0.0)
    everything(drawn, evil, "a.profile-names_it")
    drawn.show(ResultEvent(stop_reason="end_turn", result=Raw(b"{}")))
    assert_genuine(paper.text)
    assert "▐ acp-launch: " not in paper.text
    with (tmp_path / "answer").open("wb") as out:
        monkeypatch.setattr(output, "Outlet", lambda: Outlet(out.fileno()))
        lines = session_output(None, lambda: 0.0)
        everything(lines, evil, "a.profile-names_it")
    told = capsys.readouterr().err
    assert_genuine(told)
    assert "▐ acp-launch: " not in told
    assert all(line.startswith(("▐ ", "  ")) for line in told.splitlines())


@pytest.mark.parametrize("evil", FORGERIES)
@looped
async def test_no_question_of_ours_can_be_forged(evil: str, shared: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever names an agent, a field, a tool or a way to log in."""
    person = Answering()
    call: dict[str, Any] = {"toolCallId": "1", "title": evil, "kind": evil, "rawInput": {"a": evil, evil: 1}}
    call |= {"locations": [{"path": evil}], "name": evil, "_meta": {"toolName": evil}}
    call |= {"content": [{"type": "content", "content": {"type": "text", "text": evil}}]}
    options = [{"optionId": "a", "name": evil, "kind": "x"}]
    await permission_asker(person, "here")(ToolQuestion(call=call, options=options, announced=evil))
    name = Field(name="n", kind="text", title=evil, description=evil, is_required=True)
    await Forms(person, evil).fill(Form(message=evil, title=evil, description=evil, fields=(name,)))
    await Links(person, evil, env={}).visit(Link(evil, url=f"https://example.com/{evil}", id=evil))
    method = AuthMethod(id="a", name=evil, description=evil, type="agent")
    await LoginQuestions(person).which(evil, [method])
    told = capsys.readouterr().err
    assert_genuine(told, is_question=True)
    assert all(line.startswith("▐") or not line for line in told.splitlines()), "the mark is its bar"


@looped
async def test_a_question_is_marked_also_if_no_other_program_writes(capsys: pytest.CaptureFixture[str]) -> None:
    assert await Answering().line("Your name", default="Bob") == "typed"
    assert capsys.readouterr().err == "▐ Your name [Bob]: "


class Answering(TerminalQuestions):
    """A person whose answers come from nowhere: to a question the first way, to a line `typed`."""

    def __init__(self) -> None:
        super().__init__(lambda: None)

    async def choose(self, prompt: str, choices: Sequence[Choice]) -> str | None:
        for row in (prompt, *answers(choices, 80), f"{prompt} {choices[0].label}"):
            tell(row)
        return choices[0].key

    async def line(self, prompt: str, *, default: str = "") -> str | None:
        stderr.ask(f"{prompt} [{default}]: " if default else f"{prompt}: ")
        return "typed"


@pytest.mark.parametrize("evil", HOSTILE)
def test_no_failure_lets_it_through(evil: str, capsys: pytest.CaptureFixture[str]) -> None:
    for error in (AgentRefused(evil, code=1, detail=[evil], fix=evil), AuthRequired(evil, detail=[evil], fix=evil)):
        show_error(error)
        assert_tame(capsys.readouterr().err)
