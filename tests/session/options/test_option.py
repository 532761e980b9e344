"""Ring 1. What can be set, read from the three ways agents say it (C-49 to C-51)."""

from typing import Any

import pytest

from acp_launch.session.options import (
    CHOICES,
    ID,
    OPTIONS,
    Choosable,
    Option,
    as_set,
    config_options,
    identity,
    in_mode,
    match,
    one_line,
    read_options,
)

MODES = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan", "description": "Only plans"}],
}
MODELS = {"currentModelId": "m1", "availableModels": [{"modelId": "m1", "name": "One"}, {"modelId": "m2"}]}


def select(id: str, current: object, *values: str, **more: object) -> dict[str, Any]:
    """An option as an agent sends it; each value is named in capitals."""
    options = [{"value": value, "name": value.upper()} for value in values]
    return {"id": id, "name": id.title(), "type": "select", "currentValue": current, "options": options, **more}


def test_a_flat_option_is_read_whole() -> None:
    listed = [select("model", "a", "a", "b", category="model", description="Which\nmodel")]
    assert read_options({"sessionId": "s", "configOptions": listed}) == (
        Option(
            id="model",
            name="Model",
            description="Which model",
            category="model",
            current="a",
            choices=(Choosable("a", "A"), Choosable("b", "B")),
        ),
    )


def test_the_choices_of_a_grouped_option_know_their_group() -> None:
    """C-51."""
    groups = [
        {"group": "g1", "name": "Fast", "options": [{"value": "a", "name": "A", "description": "small"}]},
        {"group": "g2", "options": [{"value": "b", "name": "B"}]},
        {"value": "c", "name": "C"},
        {"options": [{"value": "d", "options": []}]},
    ]
    (option,) = config_options([{**select("model", "b"), "options": groups}])
    assert option.choices == (
        Choosable("a", "A", "small", "Fast"),
        Choosable("b", "B", "", "g2"),
        Choosable("c", "C"),
        Choosable("d", "d", "", "-"),
    )


def test_a_boolean_option_is_true_or_false() -> None:
    listed = [{"id": "think", "name": "Think", "type": "boolean", "currentValue": True}]
    (option,) = config_options(listed)
    assert (option.kind, option.current, option.choices, option.shown) == ("boolean", True, (), "on")
    assert as_set((option,), "think", False)[0].shown == "off"


def test_where_there_are_config_options_modes_and_models_are_ignored() -> None:
    """C-49: also a mode that no config option is about."""
    said = {"configOptions": [select("effort", "low", "low")], "modes": MODES, "models": MODELS}
    assert [(option.id, option.source) for option in read_options(said)] == [("effort", "option")]


@pytest.mark.parametrize("absent", [{}, {"configOptions": None}, {"configOptions": []}, {"configOptions": "none"}])
def test_modes_and_models_are_options_where_there_are_no_config_options(absent: dict[str, Any]) -> None:
    assert read_options({**absent, "modes": MODES, "models": MODELS}) == (
        Option(
            id="mode",
            name="Mode",
            category="mode",
            current="ask",
            choices=(Choosable("ask", "Ask"), Choosable("plan", "Plan", "Only plans")),
            source="mode",
        ),
        Option(
            id="model",
            name="Model",
            category="model",
            current="m1",
            choices=(Choosable("m1", "One"), Choosable("m2", "m2")),
            source="model",
        ),
    )


@pytest.mark.parametrize("result", [None, [], "x", {}, {"modes": None, "models": []}, {"modes": {"currentModeId": 1}}])
def test_an_answer_that_offers_nothing_gives_no_options(result: object) -> None:
    assert read_options(result) == ()


def test_a_bad_item_and_an_unknown_type_are_dropped_alone() -> None:
    """C-50."""
    listed = [
        None,
        {"name": "no id", "type": "select", "currentValue": "a", "options": []},
        {**select("slider", 5), "type": "slider"},
        {**select("untyped", "a", "a"), "type": None},
        {"id": "half", "name": "Half", "type": "boolean", "currentValue": "true"},
        {**select("text", "a"), "options": "a, b"},
        {**select("long", "a", "a"), "id": "x" * (ID + 1)},
        {**select("good", 7, "a", "b"), "name": 3, "category": ["x"], "description": None},
        select("good", "a", "a"),
    ]
    assert config_options(listed) == (
        Option(id="good", name="good", current="", choices=(Choosable("a", "A"), Choosable("b", "B"))),
    )


def test_a_bad_choice_is_dropped_alone() -> None:
    choices = [
        {"name": "no value"},
        5,
        {"value": "\ud800"},
        {"value": ""},
        {"value": "", "name": "Default"},
        {"value": "ok"},
    ]
    (option,) = config_options([{**select("x", "ok"), "options": choices}])
    assert option.choices == (Choosable("", "Default"), Choosable("ok", "ok"))


def test_an_endless_list_is_read_to_its_limit() -> None:
    many = [{"value": str(number)} for number in range(CHOICES + 10)]
    flat = config_options([{**select(f"o{number}", "0"), "options": many[:1]} for number in range(OPTIONS + 10)])
    assert len(flat) == OPTIONS
    grouped = [{"group": str(number), "options": many} for number in range(3)]
    for options in (many, grouped):
        (option,) = config_options([{**select("x", "0"), "options": options}])
        assert len(option.choices) == CHOICES


def test_an_option_is_found_by_id_then_category_then_name() -> None:
    """C-50: of one category the first, as the agent orders them by importance."""
    options = config_options(
        [
            select("speed", "a", "a", category="model_config"),
            select("big", "a", "a", category="model"),
            select("small", "a", "a", category="model"),
            select("model_config", "a", "a", name="Tuning"),
        ]
    )
    found = {wanted: match(options, wanted) for wanted in ("model_config", "model", "tuning", "SMALL", "x", "")}
    assert {wanted: option and option.id for wanted, option in found.items()} == {
        "model_config": "model_config",
        "model": "big",
        "tuning": "model_config",
        "SMALL": "small",
        "x": None,
        "": None,
    }


def test_the_current_value_is_shown_by_its_name_or_else_as_it_is() -> None:
    known, unknown = config_options([select("a", "x", "x"), select("b", "not\nlisted", "x")])
    assert (known.shown, unknown.shown) == ("X", "not listed")


def test_a_mode_the_agent_changed_to_is_kept_in_step_where_the_option_knows_it() -> None:
    """Agents with both send `current_mode_update` for the option's sake too, but its values are its own."""
    legacy = read_options({"modes": MODES})
    assert in_mode(legacy, "unheard-of")[0].current == "unheard-of"
    options = config_options([select("m", "a", "a", "b", category="mode")])
    assert in_mode(options, "b")[0].current == "b"
    assert in_mode(options, "c") == options
    assert in_mode((), "c") == ()


def test_an_id_is_text_that_can_be_sent() -> None:
    assert identity("https://x/y#Plan é 🙂") == "https://x/y#Plan é 🙂"
    assert identity("half \udc00") is None
    assert identity(5) is None
    assert identity("x" * ID) == "x" * ID
    assert identity("x" * (ID + 1)) is None


def test_one_line_takes_the_breaks_and_the_length_out_of_a_text() -> None:
    assert one_line(" a\n\tb  c ") == "a b c"
    assert one_line("word " * 100, 7) == "word wo"
    assert one_line({"not": "text"}) == ""
