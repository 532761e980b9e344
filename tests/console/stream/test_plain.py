"""Ring 2. stdout in a pipe: the agent's text and nothing else; the final message alone; and events."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from acp_launch.console.problems import show_error
from acp_launch.console.stream.ndjson import Ndjson
from acp_launch.console.stream.outlet import Outlet, OutputClosed
from acp_launch.console.stream.text import Messages, Plain, Quiet
from acp_launch.errors import AgentRefused, LaunchError, MachineError, ProfileError, SessionError, SettingsError
from acp_launch.problem import Problem
from acp_launch.protocol.conversation import Updated
from acp_launch.session.events import AnyEvent, PermissionEvent, describe_error
from tests.console.updates import answered, cancelled, chunk, end, note, tool, update, waiting

NOON = 1_795_780_800.25  # 2026-11-27T12:00:00.250Z


def written(tmp_path: Path, story: Callable[[Outlet], Plain | Quiet | Ndjson]) -> bytes:
    """What the observer that `story` gives has written when it is drained."""
    file = tmp_path / "stdout"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        asyncio.run(story(Outlet(descriptor)).drain())
    finally:
        os.close(descriptor)
    return file.read_bytes()


def told(observer: type[Messages], *updates: Updated) -> Callable[[Outlet], Plain | Quiet]:
    def story(outlet: Outlet) -> Plain | Quiet:
        made = observer(outlet)
        assert isinstance(made, Plain | Quiet)
        for each in updates:
            made.update(each)
        made.show(end())
        return made

    return story


def events(tmp_path: Path, *what: Updated | AnyEvent, clock: Callable[[], float] = lambda: NOON) -> list[Any]:
    """What Ndjson writes of these, as JSON."""

    def story(outlet: Outlet) -> Ndjson:
        observer = Ndjson(outlet, clock=clock)
        for each in what:
            observer.update(each) if isinstance(each, Updated) else observer.show(each)
        return observer

    return [json.loads(line) for line in written(tmp_path, story).splitlines()]


TWO = (
    chunk("Let me look."),
    tool("1", "pending", title="Look"),
    tool("1", "completed"),
    chunk("It is "),
    chunk("fine."),
)


@pytest.mark.parametrize("observer", [Plain, Quiet])
def test_what_is_said_while_no_turn_runs_goes_to_stderr_in_lines_that_say_so(
    observer: type[Messages], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (chunk("[MODE] ", outside=True), chunk("auto\n\nacp-launch: \x1b[2J", outside=True))
    after = chunk("And then ", outside=True), chunk("some", outside=True)
    assert written(tmp_path, told(observer, *before, chunk("It is "), chunk("fine."), *after)) == b"It is fine.\n"
    assert capsys.readouterr().err == (
        "outside a turn: [MODE] auto\noutside a turn: acp-launch: \\x1b[2J\noutside a turn: And then some\n"
    )


def test_what_is_said_while_no_turn_runs_is_told_when_it_came(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not with the next answer, which may be far."""

    def story(outlet: Outlet) -> Plain:
        plain = Plain(outlet)
        plain.update(chunk("The build is done.", outside=True))
        return plain

    assert written(tmp_path, story) == b""
    assert capsys.readouterr().err == "outside a turn: The build is done.\n"


def test_messages_are_lines_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert written(tmp_path, told(Plain, *TWO)) == b"Let me look.\nIt is fine.\n"
    assert capsys.readouterr().err == "tool: Look: pending\ntool: Look: completed\n"


def test_quiet_keeps_the_last_message_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert written(tmp_path, told(Quiet, *TWO)) == b"It is fine.\n"
    assert capsys.readouterr().err == ""


def test_another_message_id_is_another_message(tmp_path: Path) -> None:
    ids = (chunk("a", message="1"), chunk("b", message="1"), chunk("c", message="2"))
    assert written(tmp_path, told(Plain, *ids)) == b"ab\nc\n"
    assert written(tmp_path, told(Quiet, *ids)) == b"c\n"


@pytest.mark.parametrize("kind", ["usage_update", "available_commands_update", "session_info_update"])
def test_what_is_no_act_of_the_agent_does_not_cut_its_message(tmp_path: Path, kind: str) -> None:
    assert written(tmp_path, told(Plain, chunk("one "), update(kind), chunk("word"))) == b"one word\n"


def test_text_goes_through_unchanged(tmp_path: Path) -> None:
    """A pipe is not a terminal: nothing is neutralised there."""
    text = "tab\t \x1b[31mred\x1b[0m ünï\n\n"
    assert written(tmp_path, told(Plain, chunk(text))) == text.encode()


@pytest.mark.parametrize("observer", [Plain, Quiet])
def test_an_emoji_cut_in_two_by_a_javascript_agent_arrives_whole(tmp_path: Path, observer: type[Messages]) -> None:
    halves = [
        Updated("s1", "agent_message_chunk", Raw(raw), False)
        for raw in (
            b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\\ud83d"}}',
            b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\\ude00b"}}',
        )
    ]
    assert written(tmp_path, told(observer, *halves)) == "a\U0001f600b\n".encode()


def test_thoughts_go_to_stderr_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thoughts = [chunk(text, kind="agent_thought_chunk") for text in ("Let me ", "see.\nYes", ", so.")]
    assert written(tmp_path, told(Plain, *thoughts, chunk("Done."))) == b"Done.\n"
    assert capsys.readouterr().err == "thought: Let me see.\nthought: Yes, so.\n"


def test_an_event_holds_the_update_byte_for_byte(tmp_path: Path) -> None:
    raw = b'{ "b":1.0e3,"sessionUpdate":"x","a" :"\\u00e9 \xc3\xa9" }'

    def story(outlet: Outlet) -> Ndjson:
        observer = Ndjson(outlet, clock=lambda: NOON)
        for session, replay in (("s1", False), ("s1", True), ('s"2', False)):
            observer.update(Updated(session, "x", Raw(raw), replay))
        return observer

    lines = written(tmp_path, story).splitlines()
    assert lines == [
        b'{"type":"update","time":"2026-11-27T12:00:00.250Z","sessionId":"s1","update":' + raw + b"}",
        b'{"type":"replay","time":"2026-11-27T12:00:00.250Z","sessionId":"s1","update":' + raw + b"}",
        b'{"type":"update","time":"2026-11-27T12:00:00.250Z","sessionId":"s\\"2","update":' + raw + b"}",
    ]


def test_events_have_the_time_at_which_their_batch_was_read(tmp_path: Path) -> None:
    """One for all updates of a batch, since there may be 100,000; never before that of the line above."""
    moments = iter(NOON + 0.1 * number for number in range(9))
    file = tmp_path / "stdout"

    async def story(outlet: Outlet) -> None:
        observer = Ndjson(outlet, clock=lambda: next(moments))
        for _ in range(2):
            for each in (chunk("a"), chunk("b", replay=True), chunk("c", outside=True)):
                observer.update(each)
            await observer.drain()
        observer.update(chunk("d"))
        observer.show(note("e"))
        observer.update(chunk("f"))
        await observer.drain()

    with file.open("wb") as stdout:
        asyncio.run(story(Outlet(stdout.fileno())))
    times = [json.loads(line)["time"] for line in file.read_bytes().splitlines()]
    assert times == [
        *["2026-11-27T12:00:00.250Z"] * 3,
        *["2026-11-27T12:00:00.350Z"] * 3,
        *(f"2026-11-27T12:00:00.{part}Z" for part in (450, 550, 650)),
    ]


def test_an_error_of_the_agent_has_its_code_and_its_data(tmp_path: Path) -> None:
    """Also if it says something of its own, as that of a session which cannot be continued."""
    data = {"errorKind": "rate_limit", "retryAfter": 30}
    refused, unknown = AgentRefused("busy", code=429), SessionError("gone")
    refused.reply = unknown.cause = 429, "busy", data
    said = events(tmp_path, *map(describe_error, (refused, unknown, SessionError("gone"))))
    assert [(each["code"], each["data"]) for each in said] == [(429, data), (429, data), (None, None)]


def test_every_event_is_a_line_of_json_with_a_type_and_a_time(tmp_path: Path) -> None:
    permission, *others, result, error = events(
        tmp_path,
        answered("T", {"toolCallId": "1"}, [], allowed=False, option_id=None, by="policy"),
        waiting("answer", 3.0, 60.0),
        note("a\nb"),
        end("refusal", usage={"totalTokens": 1}),
        describe_error(SessionError("gone", fix="--new", detail=["x"])),
    )
    assert [permission["type"], permission["optionId"], *(each["type"] for each in others)] == [
        *("permission", None, "waiting", "note")
    ]
    time = {"time": "2026-11-27T12:00:00.250Z"}
    assert result == {
        **time,
        "type": "result",
        "stopReason": "refusal",
        "text": "",
        "usage": {"totalTokens": 1},
        "denied": "T",
        "deniedBy": "policy",
        "result": {"stopReason": "refusal", "usage": {"totalTokens": 1}},
    }
    gone = {"message": "gone", "fix": "--new", "detail": ["x"], "problems": [], "code": None, "data": None}
    assert error == {**time, "type": "error", "exitCode": 3, **gone}


@pytest.mark.parametrize(
    ("kind", "count", "message"),
    [
        (ProfileError, 1, "1 problem; nothing was started"),
        (MachineError, 2, "2 problems; nothing was started"),
        (SettingsError, 2, "2 problems; nothing was done"),
    ],
)
def test_an_error_of_problems_has_them_and_the_closing_line_of_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: Any, count: int, message: str
) -> None:
    problem = Problem("p.yaml", 3, 4, "agent.command", "gone", "install it")
    failure = kind([problem] * count)
    show_error(failure)
    assert capsys.readouterr().err.splitlines()[-1] == message
    (event,) = events(tmp_path, describe_error(failure))
    said = (event["exitCode"], event["message"], event["fix"], event["problems"])
    assert said == (failure.exit_code, message, "", [problem.as_json()] * count)


def test_a_result_has_the_final_message_and_the_denial_after_which_no_work_was_done(tmp_path: Path) -> None:
    """The message of each turn alone, as the agent sent it; not what it said outside of a turn, or before."""
    first = (chunk("old", replay=True), chunk("between", outside=True), *TWO, update("usage_update"), denied(), end())
    second = (denied(), tool("2", "completed"), chunk("\x1b[2Jdone\n"), end())
    said = events(tmp_path, *first, *second, end())
    assert [(each["text"], each["denied"], each["deniedBy"]) for each in said if each["type"] == "result"] == [
        ("It is fine.", "Remove \x1b[2Ja", "policy"),
        ("\x1b[2Jdone\n", None, None),
        ("", None, None),
    ]


def denied(*, allowed: bool = False, option: str | None = "no") -> PermissionEvent:
    return answered("Remove \x1b[2Ja", {"toolCallId": "1"}, [], allowed=allowed, option_id=option, by="policy")


@pytest.mark.parametrize(
    ("permission", "said"),
    [
        (denied(), "acp-launch: denied: Remove \\x1b[2Ja (policy)\n"),
        (denied(option=None), "acp-launch: cancelled: Remove \\x1b[2Ja (policy)\n"),
        (denied(allowed=True, option="yes"), ""),
    ],
)
def test_a_denial_is_an_event_for_scripts_and_a_line_for_a_person(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], permission: PermissionEvent, said: str
) -> None:
    (event,) = events(tmp_path, permission)
    told = (event["type"], event["allowed"], event["optionId"])
    assert told == ("permission", permission.allowed, permission.option_id)
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("observer", [Plain, Quiet])
def test_a_turn_we_cancel_is_said_once_and_one_the_agent_cancels_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], observer: type[Messages]
) -> None:
    def story(outlet: Outlet, *, by_us: bool) -> Plain | Quiet:
        made = observer(outlet)
        assert isinstance(made, Plain | Quiet)
        if by_us:
            made.show(cancelled([{"toolCallId": "1", "title": "Count"}], 3.0))
        made.show(end("cancelled"))
        return made

    assert written(tmp_path, partial(story, by_us=True)) == b""
    assert capsys.readouterr().err == (
        "acp-launch: cancelling the turn (timeout 3 s); Ctrl-C stops at once\nacp-launch: cancelled: Count\n"
    )
    assert written(tmp_path, partial(story, by_us=False)) == b""
    assert capsys.readouterr().err == "acp-launch: the turn was cancelled\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue  # the test closed it


def test_a_long_text_is_cut_between_characters_and_a_cancelled_drain_loses_none(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    text = "a" + "ö€𝄞" * (1 << 20)

    async def story() -> bytes:
        outlet = Outlet(writing)
        outlet.write_text(text)
        draining = asyncio.create_task(outlet.drain())
        got = b""
        while len(got) < 5 << 20:  # it is within a later piece
            got += await asyncio.to_thread(os.read, reading, 1 << 16)
        draining.cancel()
        await asyncio.wait({draining})
        outlet.write(b"end")
        rest = asyncio.create_task(outlet.drain())
        while not got.endswith(b"end"):
            got += await asyncio.to_thread(os.read, reading, 1 << 16)
        await rest
        return got

    assert asyncio.run(story()).decode() == f"{text}end"


@pytest.mark.parametrize("long", ["x" * (1 << 21), "é" * (1 << 21)])
@pytest.mark.parametrize("observer", [Plain, Quiet])
def test_long_and_short_pieces_are_one_message_in_their_order(
    tmp_path: Path, observer: type[Messages], long: str
) -> None:
    pieces = ["first ", "second ", long, " then", long]
    out = written(tmp_path, told(observer, *map(chunk, pieces)))
    assert out.decode() == "".join(pieces) + "\n"


@pytest.mark.parametrize("long", ["x\x7f" * (1 << 17), 'é"' * (1 << 17)], ids=["deletes", "quotes"])
def test_a_result_holds_a_long_message_whole(tmp_path: Path, long: str) -> None:
    """It is written piece by piece; the halves of a character may come in two chunks."""
    pieces = map(chunk, ("first ", long, "cut \ud83d", "\ude00 and ", "a half \ud83d", long))
    *_, first, _, second = events(tmp_path, *pieces, end(), chunk("next"), end())
    assert first["text"] == f"first {long}cut \U0001f600 and a half \ufffd{long}"
    assert second["text"] == "next"
    assert b"\x7f" not in (tmp_path / "stdout").read_bytes().splitlines()[-3]


def test_two_who_drain_at_once_do_not_mix(pipe: tuple[int, int]) -> None:
    reading, writing = pipe

    async def story() -> bytes:
        outlet = Outlet(writing)
        outlet.write(b"a" * 100_000)
        first = asyncio.create_task(outlet.drain())
        await asyncio.wait({first}, timeout=0.02)
        outlet.write(b"b" * 100_000)
        second = asyncio.create_task(outlet.drain())
        got = b""
        while len(got) < 200_000:
            got += await asyncio.to_thread(os.read, reading, 1 << 16)
        await first
        await second
        return got

    assert asyncio.run(story()) == b"a" * 100_000 + b"b" * 100_000


def test_a_reader_that_is_gone_ends_it_with_the_code_of_sigpipe(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.close(reading)
    outlet = Outlet(writing)
    outlet.write(b"x")
    with pytest.raises(OutputClosed) as caught:
        asyncio.run(outlet.drain())
    assert caught.value.exit_code == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said() -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    outlet = Outlet(descriptor)
    outlet.write(b"x")
    with pytest.raises(LaunchError, match=r"^cannot write to stdout: No space left on device$"):
        asyncio.run(outlet.drain())
    os.close(descriptor)
