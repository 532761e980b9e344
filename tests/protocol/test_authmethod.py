"""Ring 1. `authMethods` of every shape, those of agents that get it wrong included."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.protocol.acp import AuthMethod, Variable, read

TTY = {"id": "tty", "name": "Terminal", "type": "terminal"}
LEGACY = {"command": "/opt/agent", "args": ["auth", "login"], "env": {"A": "b"}, "label": "Log in"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


def test_a_method_without_a_type_or_with_an_unknown_one_is_the_agents() -> None:
    """C-22, C-28: one without a name or an id is dropped alone."""
    items = [
        {"id": "a", "name": "A", "description": "opens a page"},
        {"id": "b", "name": "B", "type": "carrier_pigeon"},
        {"id": "nameless"},
        {"name": "without an id"},
        "text",
    ]
    assert read(items) == (AuthMethod("a", "A", "opens a page"), AuthMethod("b", "B"))


def test_a_terminal_method_has_arguments_and_variables_or_none() -> None:
    whole = {**TTY, "args": ["--login", ""], "env": {"MODE": "login"}}
    (method,) = read([whole])
    assert method == AuthMethod("tty", "Terminal", type="terminal", args=("--login", ""), env={"MODE": "login"})
    assert read([{**TTY, "args": None, "env": None}]) == (AuthMethod("tty", "Terminal", type="terminal"),)


@pytest.mark.parametrize(
    "wrong",
    [
        {"args": "--login"},
        {"args": ["--login", 7]},
        {"args": ["a\0b"]},
        {"env": [{"name": "A", "value": "b"}]},
        {"env": {"A": 1}},
        {"env": {"A=B": "c"}},
        {"env": {"": "c"}},
        {"env": {"A": "b\0"}},
    ],
    ids=str,
)
def test_a_terminal_method_no_process_could_be_started_from_is_dropped_and_never_the_agents(wrong: object) -> None:
    """C-24: without its arguments the program would start as an agent, and `authenticate` is not for it."""
    assert isinstance(wrong, dict)
    assert read([{**TTY, **wrong}, {"id": "a", "name": "A"}]) == (AuthMethod("a", "A"),)


def test_the_variables_of_an_env_var_method_are_kept_and_secret_unless_it_says_otherwise() -> None:
    items = [
        {"name": "KEY", "label": "API key"},
        {"name": "REGION", "secret": False, "optional": True},
        {"name": ""},
        {"name": "A B; rm"},
        {"label": "nameless"},
        "KEY",
    ]
    found = read([{"id": "k", "name": "Key", "type": "env_var", "vars": items, "link": "https://example.com/keys"}])
    variables = (Variable("KEY", "API key"), Variable("REGION", secret=False, optional=True))
    assert found == (AuthMethod("k", "Key", variables=variables, link="https://example.com/keys"),)
    assert read([{"id": "k", "name": "Key", "type": "env_var", "vars": "KEY"}]) == (AuthMethod("k", "Key"),)


def test_a_command_line_of_the_agents_choosing_is_kept_on_a_method_without_a_type_only() -> None:
    untyped = {"id": "old", "name": "Old", "_meta": {"terminal-auth": LEGACY}}
    (method,) = read([untyped])
    assert (method.command, method.command_env) == (("/opt/agent", "auth", "login"), {"A": "b"})
    assert read([{**untyped, "type": "agent"}]) == (AuthMethod("old", "Old"),)
    assert read([{**untyped, "type": "terminal"}]) == (AuthMethod("old", "Old", type="terminal"),)


@pytest.mark.parametrize("wrong", [None, "x", {}, {"command": ""}, {"command": 1}, {"command": "a", "args": [1]}])
def test_a_malformed_command_line_counts_as_omitted(wrong: object) -> None:
    """C-22."""
    assert read([{"id": "old", "name": "Old", "_meta": {"terminal-auth": wrong}}]) == (AuthMethod("old", "Old"),)


def test_of_two_methods_with_one_id_the_first_counts() -> None:
    assert read([{"id": "a", "name": "first"}, {**TTY, "id": "a"}]) == (AuthMethod("a", "first"),)


@given(JSON)
def test_whatever_stands_in_the_answer_is_read_without_complaint(value: object) -> None:
    """C-22."""
    shaped = {"id": "x", "name": "X", "type": "terminal", "args": value, "env": value, "vars": value, "_meta": value}
    for items in (value, [value], [shaped], [{**shaped, "type": value}], [{**shaped, "type": "env_var"}]):
        for method in read(items):
            assert isinstance(method.id, str)
            assert all("\0" not in text for text in (*method.args, *method.command))
