"""Ring 1. What the agent told about a session, whatever it tells (C-52 to C-59)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.protocol import acp
from acp_launch.session.state import (
    COMMANDS,
    STEPS,
    SUMMARY,
    Compaction,
    Cost,
    Notice,
    PlanStep,
    SessionState,
    SlashCommand,
    Usage,
)
from acp_launch.session.state import OPTION_KINDS as KINDS
from tests.session.options.test_option import MODELS, MODES, select


def told(kind: str, state: SessionState | None = None, **body: object) -> SessionState:
    state = state or SessionState()
    state.apply(kind, {"sessionUpdate": kind, **body})
    return state


def test_a_new_state_knows_nothing() -> None:
    state = SessionState()
    assert (state.commands, state.options, state.plan, state.usage) == ((), (), (), Usage())
    assert (state.title, state.mode, state.model) == ("", "", "")
    assert (state.compaction, state.notice) == (None, None)


def test_commands_are_replaced_whole_and_bad_ones_dropped_alone() -> None:
    listed = [
        {"name": "plan", "description": "Make\na plan", "input": {"hint": "what"}},
        {"name": "go (MCP)", "input": None},
        {"description": "no name"},
        {"name": "two\nlines"},
        {"name": ""},
        7,
    ]
    state = told("available_commands_update", availableCommands=listed)
    assert state.commands == (SlashCommand("plan", "Make a plan", "what"), SlashCommand("go (MCP)"))
    assert told("available_commands_update", state, availableCommands="none").commands == state.commands
    assert told("available_commands_update", state, availableCommands=[]).commands == ()


def test_a_plan_replaces_the_one_before_it_completely() -> None:
    """C-55."""
    first = [{"content": "a", "priority": "high", "status": "completed"}, {"content": "b"}, {"priority": "low"}, None]
    state = told("plan", entries=first)
    assert state.plan == (PlanStep("a", "high", "completed"), PlanStep("b", "medium", "pending"))
    assert told("plan", state, entries={"content": "no list"}).plan == state.plan
    assert told("plan", state, entries=[{"content": "c", "status": "odd"}]).plan == (PlanStep("c", "medium", "odd"),)
    assert told("plan", state, entries=[]).plan == ()


def test_what_a_usage_update_leaves_out_is_still_what_it_was() -> None:
    state = told("usage_update", used=10, size=200, cost={"amount": 0.5, "currency": "USD"})
    assert state.usage == Usage(10, 200, Cost(0.5, "USD"))
    assert told("usage_update", state, used=20, cost=None).usage == Usage(20, 200, Cost(0.5, "USD"))
    told("usage_update", state, used=True, size=-1, cost={"amount": True, "currency": "USD"})
    assert state.usage == Usage(20, 200, Cost(0.5, "USD"))
    assert told("usage_update", state, used=0, cost={"amount": 0, "currency": "USD"}).usage.cost == Cost(0.0, "USD")


@pytest.mark.parametrize("odd", ["1e999", "-1e999", "NaN", "1" * 400, '"5"', "[]"])
def test_a_number_out_of_this_world_is_no_number(odd: str) -> None:
    """A line that msgspec refuses is read by `json`, which knows NaN and integers of any length."""
    body = json.loads(f'{{"used": {odd}, "size": {odd}, "cost": {{"amount": {odd}, "currency": "USD"}}}}')
    assert told("usage_update", **body).usage == Usage()


@pytest.mark.parametrize(
    ("cost", "shown"),
    [
        (Cost(1.5, "USD"), "1.50 USD"),
        (Cost(0.0, "EUR"), "0.00 EUR"),
        (Cost(0.0042, "USD"), "0.0042 USD"),
        (Cost(12.0, "credits"), "12 credits"),
        (Cost(3.0, ""), "3"),
    ],
)
def test_a_cost_is_shown_with_its_currency(cost: Cost, shown: str) -> None:
    assert str(cost) == shown


def test_a_title_left_out_stays_and_null_clears_it() -> None:
    """C-57."""
    state = told("session_info_update", title="Fix\nit", updatedAt="2026-11-20T10:00:00Z")
    assert told("session_info_update", state, updatedAt=None).title == "Fix it"
    assert told("session_info_update", state, title=5).title == "Fix it"
    assert told("session_info_update", state, title=None).title == ""


def test_config_options_are_replaced_whole_by_an_update() -> None:
    """C-52."""
    state = SessionState()
    state.opened({"configOptions": [select("model", "a", "a", "b", category="model"), select("effort", "low", "low")]})
    assert (state.model, state.mode, state.lists) == ("A", "", 0)
    told("config_option_update", state, configOptions=[select("model", "b", "a", "b", category="model")])
    assert ([option.id for option in state.options], state.model, state.lists) == (["model"], "B", 1)
    assert told("config_option_update", state, configOptions=None).model == "B"
    assert told("config_option_update", state, configOptions=[]).options == ()


def test_the_mode_is_read_from_current_mode_id_and_mode_id_is_tolerated() -> None:
    """C-53: the example in the documentation says modeId."""
    state = SessionState()
    state.opened({"modes": MODES, "models": MODELS})
    assert (state.mode, state.model) == ("Ask", "One")
    assert told("current_mode_update", state, currentModeId="plan", modeId="ask").mode == "Plan"
    assert told("current_mode_update", state, modeId="ask").mode == "Ask"
    assert told("current_mode_update", state, currentModeId=None).mode == "Ask"
    assert told("current_mode_update", state, currentModeId="new").mode == "new"


def test_a_mode_is_known_even_where_no_option_is_about_it() -> None:
    state = told("current_mode_update", currentModeId="https://x#plan")
    assert (state.mode, state.options) == ("https://x#plan", ())


def test_the_answer_that_opens_a_session_takes_nothing_back_that_it_does_not_speak_of() -> None:
    """A loaded session replays its updates before its answer, which may be null (C-44)."""
    state = told("config_option_update", configOptions=[select("effort", "low", "low")])
    for result in (None, {}, {"modes": MODES}):
        state.opened(result)
        assert [option.id for option in state.options] == ["effort"]
    state.opened({"configOptions": [select("model", "a", "a")]})
    assert [option.id for option in state.options] == ["model"]


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ({"configOptions": [select("model", "b", "a", "b")]}, [("model", "b")]),
        ({}, [("model", "b"), ("effort", "low")]),
    ],
)
def test_an_answer_to_a_change_replaces_the_list_and_without_one_the_value_is_set(
    answer: dict[str, Any], left: list[tuple[str, str]]
) -> None:
    """C-52: an option may be gone with it."""
    state = SessionState()
    state.opened({"configOptions": [select("model", "a", "a", "b"), select("effort", "low", "low")]})
    state.answered(state.options[0], "b", answer, lists=0)
    assert [(option.id, option.current) for option in state.options] == left


def test_a_list_that_came_with_the_answer_and_has_the_value_is_not_replaced_by_it() -> None:
    """Both may be handled before the caller wakes up, so the list of the update may be the newer one."""
    state = SessionState()
    state.opened({"configOptions": [select("model", "a", "a", "b")]})
    option = state.options[0]
    newer = [select("model", "b", "a", "b"), select("effort", "low", "low")]
    told("config_option_update", state, configOptions=newer)
    state.answered(option, "b", {"configOptions": [select("model", "b", "a", "b")]}, lists=0)
    assert [option.id for option in state.options] == ["model", "effort"]


def test_a_list_from_before_the_change_is_replaced_by_the_answer() -> None:
    state = SessionState()
    state.opened({"configOptions": [select("model", "a", "a", "b")]})
    option = state.options[0]
    told("config_option_update", state, configOptions=[select("model", "a", "a", "b")])
    state.answered(option, "b", {"configOptions": [select("model", "b", "a", "b")]}, lists=0)
    assert state.options[0].current == "b"


def test_the_last_notice_is_kept_if_it_has_text() -> None:
    state = told("notice", severity="warning", title="Slow\ntoday", description="Two\nlines")
    assert state.notice == Notice("warning", "Slow today", "Two\nlines")
    assert told("notice", state, title="", description="only this").notice == Notice("info", "", "only this")
    assert told("notice", state, severity="error", title="").notice is None


def test_a_compaction_is_patched_by_its_id() -> None:
    """Left out is unchanged, null clears, a value replaces; of a wrong type is as if left out."""
    state = told("compaction_update", compactionId="c", status="in_progress")
    told("compaction_summary_chunk", state, compactionId="c", content={"type": "text", "text": "so "})
    told("compaction_summary_chunk", state, compactionId="c", content={"type": "text", "text": "far"})
    told("compaction_summary_chunk", state, compactionId="c", content={"type": "image", "data": "…"})
    assert state.compaction == Compaction("c", "in_progress", "so far")
    told("compaction_update", state, compactionId="c", status="failed", summary="no list", error="too long")
    assert state.compaction == Compaction("c", "failed", "so far", "too long")
    blocks = [{"type": "text", "text": "all"}, 5]
    told("compaction_update", state, compactionId="c", status="completed", summary=blocks, error=None)
    assert state.compaction == Compaction("c", "completed", "all")
    told("compaction_update", state, compactionId="c", status="completed", summary=None)
    assert state.compaction == Compaction("c", "completed")


def test_a_piece_of_an_unseen_compaction_begins_it() -> None:
    state = told("compaction_summary_chunk", compactionId="c", content={"type": "text", "text": "x"})
    assert state.compaction == Compaction("c", "in_progress", "x")


def test_whatever_goes_on_without_end_is_kept_within_bounds() -> None:
    state = SessionState()
    for _ in range(70):
        told("compaction_summary_chunk", state, compactionId="9", content={"text": "x" * 1000})
    assert state.compaction is not None
    assert len(state.compaction.summary) == SUMMARY
    told("plan", state, entries=[{"content": "x" * 100_000}] * (STEPS + 5))
    assert (len(state.plan), len(state.plan[0].content)) == (STEPS, 2_000)
    told("available_commands_update", state, availableCommands=[{"name": "x", "description": "y" * 9_000}] * 3_000)
    assert (len(state.commands), len(state.commands[0].description)) == (COMMANDS, 1_000)


def test_other_kinds_change_nothing() -> None:
    """C-58."""
    state = SessionState()
    before = dict(vars(state))
    for kind in ("agent_message_chunk", "tool_call", "plan_update", "odd", ""):
        assert kind not in KINDS
        told(kind, state, title="x", entries=[{"content": "x"}])
    assert vars(state) == before


WORDS = """
    configOptions modes models currentModeId availableModes availableModels currentModelId modeId id modelId name type
    value options group category currentValue entries content status priority used size cost amount currency title
    updatedAt compactionId summary error text severity description availableCommands input hint select boolean
"""
MEMBERS = st.sampled_from(WORDS.split())
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | MEMBERS | st.just("\ud800")
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(MEMBERS | st.text(max_size=2), inner, max_size=6),
    max_leaves=30,
)


@pytest.mark.whole
@given(st.lists(st.tuples(st.sampled_from([*sorted(KINDS), "opened", "odd"]), JSON), max_size=6))
def test_no_json_makes_it_raise(story: list[tuple[str, Any]]) -> None:
    state = SessionState()
    for kind, body in story:
        if kind == "opened":
            state.opened(body)
        else:
            state.apply(kind, body)
        for option in state.options:
            state.answered(option, option.current, body, lists=0)
        assert state.mode.splitlines() in ([], [state.mode])
        assert state.model.splitlines() in ([], [state.model])
        assert f"{state.usage.cost} {state.usage.used}"
        assert acp.text(state.title) == state.title
