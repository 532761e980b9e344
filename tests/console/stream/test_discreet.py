"""Ring 2. What a session tells, without its secrets: every event, and what its chunks say together."""

import asyncio
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from acp_launch.console.stream.ndjson import Ndjson
from acp_launch.console.stream.outlet import Outlet
from acp_launch.console.stream.redacted import MAX_HELD_UPDATES, MAX_SHOWN_CHARS, RedactedOutput, RunOutput
from acp_launch.console.stream.text import Plain
from acp_launch.errors import AgentRefused, LaunchError, MachineError, Stopped
from acp_launch.problem import Problem
from acp_launch.process.lifecycle import Change, Standing
from acp_launch.protocol.conversation import Updated
from acp_launch.secret.forms import forms
from acp_launch.secret.redact import Redactor, joined
from acp_launch.session.events import AnyEvent, InitializedEvent, ResultEvent, describe_error
from tests.console.updates import answered, cancelled, chunk, end, note, opened, standing, tool, update, waiting
from tests.secret.canaries import SECRETS, held, knowing, texts

TOKEN = "ghp_" + "a1B2c3D4e" * 4


class Shown:
    """An output that remembers what it was told, in order."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        """Each event: what it was called with, or its name."""
        return lambda *told: self.told.append(told[0] if len(told) == 1 else told or name)

    async def drain(self) -> None:
        self.told.append("drain")

    def texts(self, kind: str = "agent_message_chunk", session: str = "s1") -> list[str]:
        """The text of each chunk shown so far of one stream."""
        return said(self.told, kind, session)


def said(told: Sequence[Any], kind: str = "agent_message_chunk", session: str = "s1") -> list[str]:
    return [
        json.loads(bytes(update.update))["content"]["text"]
        for update in told
        if isinstance(update, Updated) and (update.kind, update.session_id) == (kind, session)
    ]


def discreet(*values: str) -> tuple[RedactedOutput, Shown]:
    shown = Shown()
    return RedactedOutput(cast(RunOutput, shown), knowing(*values)), shown


def told(*updates: Updated) -> Shown:
    """What is shown of these, and no more of the turn."""
    quiet, shown = discreet(TOKEN)
    for each in updates:
        quiet.update(each)
    return shown


# one event at a time


def test_an_update_that_holds_a_value_is_written_anew_and_any_other_is_the_object_it_was() -> None:
    plain = tool("1", "completed", rawOutput={"a": 1})
    shown = told(plain, tool("1", "completed", rawOutput={TOKEN: [f"x{TOKEN}"]}))
    assert shown.told[0] is plain
    assert json.loads(bytes(shown.told[1].update))["rawOutput"] == {"***": ["x***"]}


def test_with_no_secret_everything_passes_as_it_is() -> None:
    shown = Shown()
    quiet = RedactedOutput(cast(RunOutput, shown), Redactor())
    events = [chunk(TOKEN), chunk(TOKEN[:9])]
    turn, error = end(), describe_error(LaunchError(TOKEN))
    for each in events:
        quiet.update(each)
    quiet.show(turn)
    quiet.show(error)
    assert all(one is other for one, other in zip(shown.told, [*events, turn, error], strict=True))


def test_everything_else_that_is_told_is_redacted() -> None:
    quiet, shown = discreet(TOKEN)
    answer = {"agentInfo": {"name": TOKEN, "title": "t", "version": f"v{TOKEN}"}}
    ended = {"usage": {TOKEN: 1}, "denied": TOKEN, "result": Raw(json.dumps({"m": TOKEN}).encode())}
    quiet.update(update("plan", session=f"s-{TOKEN}"))
    for event in (
        InitializedEvent(result=Raw(json.dumps(answer).encode())),
        opened("s1", "n", "new", 0, Raw(json.dumps({"x": TOKEN}).encode())),
        answered(TOKEN, {"rawInput": TOKEN}, [{"name": TOKEN}], allowed=True, option_id="a", by="you"),
        ResultEvent(stop_reason="end_turn", **ended),  # type: ignore[arg-type]
        *(told_of(TOKEN)),
    ):
        quiet.show(event)
    quiet.pause()
    asyncio.run(quiet.drain())
    plan, negotiated, ready, permission, result, *others = shown.told
    assert plan.session_id == "s-***"
    assert json.loads(bytes(negotiated.result)) == {"agentInfo": {"name": "***", "title": "t", "version": "v***"}}
    assert bytes(ready.result) == b'{"x": "***"}'
    told = (permission.title, permission.tool_call, permission.options)
    assert told == ("***", {"rawInput": "***"}, [{"name": "***"}])
    assert (result.usage, result.denied, bytes(result.result)) == ({"***": 1}, "***", b'{"m": "***"}')
    assert others == [*told_of("***"), "pause", "drain"]


def told_of(text: str) -> list[AnyEvent]:
    servers = [Standing(server="s", state="failed", reason=text), Standing(server="t", state="ready")]
    return [
        cancelled([{"title": text}], 3.0),
        waiting(text, 3.0, 60.0),
        note(f"a {text}"),
        Change(server="s", state="failed", exit=f"a {text}", reason=text, detail=("plain", f"x{text}")),
        standing(servers, "turn"),
    ]


def test_what_holds_no_value_is_the_object_it_was() -> None:
    quiet, shown = discreet(TOKEN)
    events: list[AnyEvent] = [
        answered("t", {"rawInput": ["x"]}, [{}], allowed=True, option_id="a", by="you"),
        end(usage={"totalTokens": 5}),
        Change(server="s", state="ready", detail=("a", "b")),
        standing([Standing(server="s", state="ready")], "opened"),
    ]
    for each in events:
        quiet.show(each)
    assert all(one is other for one, other in zip(shown.told, events, strict=True))


def test_a_failure_is_redacted() -> None:
    quiet, shown = discreet(TOKEN)
    errors: list[LaunchError] = [
        AgentRefused(f"no {TOKEN}", code=-5, fix=f"use {TOKEN}", detail=["a", TOKEN]),
        Stopped(TOKEN, signal_number=15),
        MachineError([Problem("p.yaml", 3, 4, "agent", f"no {TOKEN}", f"set {TOKEN}")]),
    ]
    errors[0].reply = -5, f"no {TOKEN}", {"why": [f"not {TOKEN}"], "wait": 30}
    errors[1].cause = -6, "no", TOKEN
    for error in errors:
        quiet.show(describe_error(error))
    refused, stopped, machine = shown.told
    assert (refused.exit_code, refused.code, refused.data) == (4, -5, {"why": ["not ***"], "wait": 30})
    assert (refused.message, refused.fix, refused.detail) == ("no ***", "use ***", ("a", "***"))
    assert (stopped.message, stopped.exit_code, stopped.code, stopped.data) == ("***", 143, -6, "***")
    (problem,) = machine.problems
    assert (problem.file, problem.line, problem.message, problem.fix) == ("p.yaml", 3, "no ***", "set ***")


# chunks that say it together


def test_a_value_cut_over_chunks_goes_from_all_of_them() -> None:
    pieces = ["It is ghp_", TOKEN[4:20], TOKEN[20:] + " and", " more"]
    assert told(*map(chunk, pieces)).texts() == ["It is ***", "", " and", " more"]


def test_chunks_that_only_begin_like_a_value_come_late_and_untouched() -> None:
    first, second, third = chunk("a ghp_a1B2"), chunk("c3D4"), chunk("x")
    quiet, shown = discreet(TOKEN)
    quiet.update(first)
    quiet.update(second)
    asyncio.run(quiet.drain())
    assert shown.told == ["drain"]
    quiet.update(third)
    assert all(one is other for one, other in zip(shown.told[1:], [first, second, third], strict=True))


def test_one_or_two_characters_are_not_waited_for_and_hide_nothing() -> None:
    pieces = ["a g", "h", "p_" + TOKEN[4:], "g", "h", "x"]
    shown = told(*map(chunk, pieces))
    assert shown.texts() == ["a g", "h", "***", "g", "h", "x"]


@pytest.mark.parametrize(("last", "shown_last"), [("ijklm>", ">"), ("i>", "i>")])
def test_values_that_overlap_across_chunks_are_hidden_together(last: str, shown_last: str) -> None:
    quiet, shown = discreet("abcdefgh", "fghijklm")
    for piece in ("<abcde", "fgh", last):
        quiet.update(chunk(piece))
    assert shown.texts() == ["<***", "", shown_last]


def test_a_chunk_that_is_rewritten_keeps_its_other_members() -> None:
    raw = (
        b'{"sessionUpdate":"agent_message_chunk","_meta":{"n":1.0e3},"content":{"type":"text","text":"%s","x":[1.50]}}'
    )
    pieces = [
        Updated("s1", "agent_message_chunk", Raw(raw % text), True) for text in (b"a ghp_a1B", TOKEN[7:].encode())
    ]
    shown = told(*pieces)
    first, second = shown.told
    assert shown.texts() == ["a ***", ""]
    assert (first.session_id, first.kind, first.replay) == ("s1", "agent_message_chunk", True)
    assert b'"_meta":{"n":1.0e3}' in bytes(first.update)
    assert b'"x":[1.50]' in bytes(second.update)


def test_half_a_character_beside_a_value_stays_what_it_was() -> None:
    raw = b'{"content":{"type":"text","text":"%s\\ud83d"}}'
    shown = told(chunk(TOKEN[:9]), Updated("s1", "agent_message_chunk", Raw(raw % TOKEN[9:].encode()), False))
    assert shown.texts() == ["***", "\ud83d"]


@pytest.mark.parametrize("kind", ["usage_update", "session_info_update"])
def test_an_update_that_leaves_the_message_alone_keeps_its_place(kind: str) -> None:
    beside = update(kind, a=1)
    shown = told(chunk(TOKEN[:9]), beside, chunk(TOKEN[9:] + "."))
    assert shown.texts() == ["***", "."]
    assert shown.told[1] is beside


def events_between(quiet: RedactedOutput) -> dict[str, Any]:
    return {
        "a tool call": lambda: quiet.update(tool("1", "pending", title="t")),
        "a thought": lambda: quiet.update(chunk("hm", kind="agent_thought_chunk")),
        "another session": lambda: quiet.update(other_session()),
        "a question": quiet.pause,
        "the end": lambda: quiet.show(end()),
        "a failure": lambda: quiet.show(describe_error(LaunchError("x"))),
        "an answer": lambda: quiet.show(answered("t", {}, [], allowed=True, option_id="a", by="you")),
        "a stop": lambda: quiet.show(cancelled([], 3.0)),
        "a session": lambda: quiet.show(opened("s1", "n", "load", 1, Raw(b"{}"))),
    }


def other_session() -> Updated:
    return update("agent_message_chunk", session="s2", content={"type": "text", "text": "hm"})


@pytest.mark.parametrize("what", events_between(discreet(TOKEN)[0]))
def test_whatever_comes_between_lets_go_of_what_is_held_and_the_rest_is_hidden(what: str) -> None:
    quiet, shown = discreet(TOKEN)
    quiet.update(chunk("a ghp_a1B2c3"))
    assert shown.told == []
    events_between(quiet)[what]()
    assert len(shown.told) == 2
    quiet.update(chunk(TOKEN[10:] + "!"))
    quiet.update(chunk(" done"))
    assert shown.texts() == ["a ***", "***!", " done"]


@pytest.mark.parametrize("what", events_between(discreet(TOKEN)[0]))
def test_up_to_five_characters_are_let_go_of_as_they_are(what: str) -> None:
    quiet, shown = discreet(TOKEN)
    held = chunk("a ghp_a")
    quiet.update(held)
    events_between(quiet)[what]()
    assert shown.told[0] is held
    for piece in (TOKEN[5:7], TOKEN[7:20]):
        quiet.update(chunk(piece))
        events_between(quiet)[what]()
    quiet.update(chunk(TOKEN[20:] + "!"))
    assert shown.texts() == ["a ghp_a", "***", "***", "***!"]


def test_a_pause_within_a_value_does_not_let_go_of_it() -> None:
    quiet, shown = discreet(TOKEN)
    quiet.update(chunk("a " + TOKEN[:-2]))
    quiet.show(waiting("answer", 3.0, 60.0))
    quiet.show(note("n"))
    change = Change(server="s", state="resting")
    quiet.show(change)
    quiet.show(standing([], "turn"))
    assert shown.told == [waiting("answer", 3.0, 60.0), note("n"), change, standing([], "turn")]
    quiet.update(chunk(TOKEN[-2:] + "."))
    assert shown.texts() == ["a ***", "."]


def test_what_ends_in_most_of_a_value_does_not_show_it() -> None:
    quiet, shown = discreet(TOKEN)
    quiet.update(chunk("a " + TOKEN[:-1]))
    quiet.show(end())
    assert shown.texts() == ["a ***"]


def test_words_of_ours_are_no_secrets() -> None:
    quiet, shown = discreet("end_turn", "resume", "policy", "starting")
    quiet.show(Change(server="s", state="starting"))
    quiet.show(opened("s1", "n", "resume", 0, Raw(b"{}")))
    quiet.show(answered("t", {"status": "pending"}, [], allowed=True, option_id="a", by="policy"))
    quiet.show(end())
    server, ready, permission, ended = shown.told
    words = [server.state, ready.how, permission.by, ended.stop_reason]
    assert words == ["starting", "resume", "policy", "end_turn"]
    assert bytes(ended.result) == b'{"stopReason": "end_turn"}'


def test_what_is_held_back_is_bounded() -> None:
    pieces = [chunk(TOKEN[:20]), *(chunk("") for _ in range(MAX_HELD_UPDATES)), chunk(TOKEN[20:] + "!")]
    shown = told(*pieces)
    assert len(shown.told) == MAX_HELD_UPDATES + 2
    assert "".join(shown.texts()) == "******!"


def test_ndjson_and_text_both_show_it_hidden(tmp_path: Path) -> None:
    """What the two outputs people read really write."""
    for output, expected in ((Ndjson, None), (Plain, b"key *** !\n")):
        file = tmp_path / output.__name__
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
        quiet = RedactedOutput(output(Outlet(descriptor)), knowing(TOKEN))
        for piece in ("key ", TOKEN[:11], TOKEN[11:], " !"):
            quiet.update(chunk(piece))
        quiet.show(end())
        asyncio.run(quiet.drain())
        os.close(descriptor)
        written = file.read_bytes()
        if expected is None:
            said = [json.loads(line) for line in written.splitlines()]
            assert "".join(event["update"]["content"]["text"] for event in said[:-1]) == "key *** !"
        else:
            assert written == expected


@pytest.mark.whole
@given(SECRETS, st.data())
def test_chunks_put_together_never_show_a_form(values: Sequence[str], data: st.DataObject) -> None:
    """Events keep their number and their order, and without a form they are the very objects that came.

    Where something came between, at most five characters of a form can be read.
    """
    known = [form for value in values for form in forms(value)]
    whole = data.draw(texts(known))
    places = data.draw(st.lists(st.integers(0, len(whole)), max_size=8).map(sorted))
    pieces = [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)]
    between = data.draw(st.lists(st.sampled_from(["", "", "usage_update", "plan"]), min_size=9, max_size=9))
    sent: list[Updated] = []
    for piece, kind in zip(pieces, between, strict=False):
        sent.append(chunk(piece))
        if kind:
            sent.append(update(kind))
    quiet, shown = discreet(*values)
    for each in sent:
        quiet.update(each)
    quiet.show(end())
    assert [told.kind for told in shown.told[:-1]] == [each.kind for each in sent]
    together = "".join(shown.texts())
    assert not [form for form in known if form in together]
    redactor = knowing(*values)
    for at, event in enumerate(sent):
        if event.kind == "plan":
            assert held(redactor, "".join(said(shown.told[:at]))) <= MAX_SHOWN_CHARS
    assert held(redactor, together) <= MAX_SHOWN_CHARS
    if redactor.text(whole) == whole and not any(
        held(redactor, whole[:at]) > MAX_SHOWN_CHARS for at in (*places, len(whole))
    ):
        assert all(one is other for one, other in zip(shown.told[:-1], sent, strict=True))
    elif "plan" not in between:
        assert is_nearly(together, values, whole)


def is_nearly(together: str, values: Sequence[str], whole: str) -> bool:
    """Whether `together` is `whole` redacted, but for at most two characters at the beginning of a span.

    Forms that overlap by those two may have a mask each.
    """
    redactor = knowing(*values)
    assert redactor.tables is not None
    spans = redactor.tables.text.spans(whole)
    if (length := held(redactor, whole)) > MAX_SHOWN_CHARS:
        spans = joined([*spans, (len(whole) - length, len(whole))])
    pattern, at = "", 0
    for begin, stop in spans:
        first, second = (re.escape(mark) for mark in whole[begin : begin + 2])
        pattern += f"{re.escape(whole[at:begin])}(?:{first}(?:{second})?)?(?:[*]{{3}})+"
        at = stop
    return re.fullmatch(pattern + re.escape(whole[at:]), together) is not None
