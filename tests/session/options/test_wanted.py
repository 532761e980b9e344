"""Ring 1. What is wanted, found in what is offered; and the sentences for what is not there."""

from typing import Any

import pytest

from acp_launch.session.options import NotOffered, Options, config_options, find, read_options, value_of
from tests.session.options.test_option import MODES, select

OPTIONS = config_options(
    [
        select("mode", "ask", "ask", "plan", category="mode"),
        select("model", "opus", "opus", "sonnet", category="model"),
        select("thought_level", "low", "low", "high"),
        {"id": "web", "name": "Web search", "type": "boolean", "currentValue": False},
    ]
)
URLS = read_options(
    {
        "modes": {
            "currentModeId": "https://agent.example/protocol/session-modes#agent",
            "availableModes": [
                {"id": "https://agent.example/protocol/session-modes#agent", "name": "Agent"},
                {"id": "https://agent.example/protocol/session-modes#plan", "name": "Plan"},
                {"id": "https://agent.example/protocol/session-modes#p2", "name": "Same"},
                {"id": "https://agent.example/protocol/session-modes#p3", "name": "Same"},
            ],
        }
    }
)


def refused(options: Options, option: str, value: str | bool = "") -> tuple[str, str]:
    """The whole message, and the fix."""
    with pytest.raises(NotOffered) as caught:
        value_of(find(options, option), value)
    assert caught.value.exit_code == 3
    return caught.value.message, caught.value.fix


@pytest.mark.parametrize(
    ("option", "wanted", "sent"),
    [
        ("model", "sonnet", "sonnet"),
        ("Model", "Sonnet", "sonnet"),
        ("Web Search", "on", True),
        ("web", "No", False),
        ("web", True, True),
    ],
)
def test_a_value_is_meant_by_itself_or_by_its_name_in_any_case(
    option: str, wanted: str | bool, sent: str | bool
) -> None:
    assert value_of(find(OPTIONS, option), wanted) is sent or value_of(find(OPTIONS, option), wanted) == sent


def test_a_mode_whose_id_is_a_url_is_meant_by_its_name() -> None:
    assert value_of(find(URLS, "mode"), "plan") == "https://agent.example/protocol/session-modes#plan"


def test_an_exact_value_goes_before_the_same_in_another_case_and_that_before_a_name() -> None:
    choices = [{"value": "x", "name": "b"}, {"value": "B", "name": "?"}, {"value": "b", "name": "?"}]
    (option,) = config_options([{**select("o", "x"), "options": choices}])
    assert value_of(option, "b") == "b"
    (option,) = config_options([{**select("o", "x"), "options": choices[:2]}])
    assert value_of(option, "b") == "B"
    (option,) = config_options([{**select("o", "x"), "options": choices[:1]}])
    assert value_of(option, "B") == "x"


def test_a_plain_true_in_yaml_means_the_word_the_agent_has_for_it() -> None:
    (option,) = config_options([select("o", "auto", "auto", "on", "off")])
    assert (value_of(option, True), value_of(option, False)) == ("on", "off")
    (option,) = config_options([select("o", "auto", "auto")])
    assert refused((option,), "o", True) == ('the agent offers no value "true" for "o"', "use one of auto")


def test_the_beginning_of_a_value_is_not_taken_for_it() -> None:
    """Ours: a shorter name that means one thing today would mean another tomorrow."""
    options = config_options([select("model", "gpt-5.5", "gpt-5.5", "gpt-4", category="model")])
    assert refused(options, "model", "gpt-5") == (
        'the agent offers no model "gpt-5"; did you mean "gpt-5.5"?',
        "use one of gpt-5.5, gpt-4",
    )


@pytest.mark.parametrize(
    ("option", "value", "message", "fix"),
    [
        (
            "tought-level",
            "x",
            'the agent offers no option "tought-level"; did you mean "thought_level"?',
            "use one of mode, model, thought_level, web",
        ),
        ("zzz", "x", 'the agent offers no option "zzz"', "use one of mode, model, thought_level, web"),
        ("mode", "plam", 'the agent offers no mode "plam"; did you mean "plan"?', "use one of ask, plan"),
        (
            "thought_level",
            "hihg",
            'the agent offers no value "hihg" for "thought_level"; did you mean "high"?',
            "use one of low, high",
        ),
        ("model", "", 'the agent offers no model ""', "use one of opus, sonnet"),
        ("web", "maybe", '"web" is either true or false, not "maybe"', "write true or false"),
    ],
)
def test_what_is_not_offered_is_said_with_what_is(option: str, value: str, message: str, fix: str) -> None:
    assert refused(OPTIONS, option, value) == (message, fix)


def test_an_agent_without_options_says_that_it_has_none() -> None:
    assert refused((), "mode") == ("the agent has no options to set", "leave it out")


def test_a_model_is_never_suggested_for_a_missing_mode() -> None:
    assert refused(OPTIONS[1:], "mode") == (
        "the agent offers no modes to choose from",
        "leave it out; it offers model, thought_level, web",
    )
    assert refused(read_options({"modes": MODES}), "model") == (
        "the agent offers no models to choose from",
        "leave it out; it offers mode",
    )


def test_a_name_that_several_values_have_is_refused_with_those_values() -> None:
    assert refused(URLS, "mode", "same") == (
        '"same" is the name of 2 values of "mode"',
        "use one of https://agent.example/protocol/session-modes#p2, https://agent.example/protocol/session-modes#p3",
    )


def test_an_untypeable_value_is_listed_by_its_name_where_that_is_unmistakable() -> None:
    assert refused(URLS, "mode", "agnet") == (
        'the agent offers no mode "agnet"; did you mean "Agent"?',
        "use one of Agent, Plan, https://agent.example/protocol/session-modes#p2, https://agent.example/protocol/session-modes#p3",
    )


def test_of_many_values_ten_are_listed_and_the_rest_counted() -> None:
    (option,) = config_options([select("n", "v0", *(f"v{number}" for number in range(13)))])
    assert refused((option,), "n", "?") == (
        'the agent offers no value "?" for "n"',
        "use one of v0, v1, v2, v3, v4, v5, v6, v7, v8, v9 and 3 more",
    )


def test_a_part_of_a_long_value_suggests_it() -> None:
    choices = [{"value": "", "name": "Default"}, {"value": "vendor/claude-sonnet-4-5-20250929"}, {"value": "other"}]
    options = config_options([{**select("model", "", category="model"), "options": choices}])
    assert refused(options, "model", "Sonnet") == (
        'the agent offers no model "Sonnet"; did you mean "vendor/claude-sonnet-4-5-20250929"?',
        "use one of Default, vendor/claude-sonnet-4-5-20250929, other",
    )
    assert refused(options, "model", "zzz")[0] == 'the agent offers no model "zzz"'


def test_an_option_without_choices_can_only_be_left_alone() -> None:
    assert refused(read_options({"modes": {"currentModeId": "x"}}), "mode", "y") == (
        'the agent offers no mode "y"',
        "leave it out; it offers nothing to choose from",
    )


def test_what_an_agent_calls_things_cannot_break_a_message_into_lines() -> None:
    listed: list[Any] = [
        {**select("a\nb", "x"), "options": [{"value": "x\nacp-launch: all good", "name": "long " * 90}]}
    ]
    assert refused(config_options(listed), "a\nb", "z\ny") == (
        'the agent offers no value "z y" for "a b"',
        "use one of x acp-launch: all good",
    )
