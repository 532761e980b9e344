"""Reading what an agent asks for, and judging what is answered (ACP v1 "Elicitation", schema `Elicitation*`)."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from acp_launch.session.elicitation import (
    MAX_ANSWER_CHARS,
    MAX_FORM_BYTES,
    Field,
    FieldOption,
    Form,
    Link,
    Value,
    check,
    read,
    typed,
    whole,
)
from acp_launch.session.events import Refusal
from tests.oracle import check_agent_message, check_client_message


def asked(schema: Any, **more: Any) -> dict[str, Any]:
    return {"sessionId": "s1", "mode": "form", "message": "Which?", "requestedSchema": schema, **more}


def form_of(schema: Any) -> Form:
    form = read(asked(schema))
    assert isinstance(form, Form)
    return form


def field_of(schema: dict[str, Any], *, required: bool = False) -> Field:
    (field,) = form_of({"properties": {"it": schema}, "required": ["it"] if required else []}).fields
    return field


def test_a_form_says_what_it_wants() -> None:
    form = form_of(
        {
            "type": "object",
            "title": "Deployment",
            "description": "Where to",
            "properties": {
                "name": {"type": "string", "title": "Name", "description": "Yours", "minLength": 2, "maxLength": 9},
                "mail": {"type": "string", "format": "email", "pattern": "@", "default": "me@example.com"},
                "region": {"type": "string", "oneOf": [{"const": "eu", "title": "Europe"}], "default": "eu"},
                "size": {"type": "string", "enum": ["s", "m"]},
                "count": {"type": "integer", "minimum": 1, "maximum": 5, "default": 3},
                "ratio": {"type": "number", "minimum": 0.5, "default": 0.75},
                "fast": {"type": "boolean", "default": False},
                "tags": {
                    "type": "array",
                    "items": {"type": "string", "enum": ["a", "b"]},
                    "minItems": 1,
                    "maxItems": 2,
                },
                "days": {"type": "array", "items": {"anyOf": [{"const": "1", "title": "Monday"}]}, "default": ["1"]},
            },
            "required": ["name", "tags"],
        }
    )
    assert form == Form(
        message="Which?",
        title="Deployment",
        description="Where to",
        fields=(
            Field(name="name", kind="text", title="Name", description="Yours", is_required=True, least=2, most=9),
            Field(name="mail", kind="text", format="email", pattern="@", default="me@example.com"),
            Field(name="region", kind="choice", options=(FieldOption("eu", "Europe"),), default="eu"),
            Field(name="size", kind="choice", options=(FieldOption("s", "s"), FieldOption("m", "m"))),
            Field(name="count", kind="integer", least=1, most=5, default=3),
            Field(name="ratio", kind="number", least=0.5, default=0.75),
            Field(name="fast", kind="boolean", default=False),
            Field(
                name="tags",
                kind="choices",
                is_required=True,
                options=(FieldOption("a", "a"), FieldOption("b", "b")),
                least=1,
                most=2,
            ),
            Field(name="days", kind="choices", options=(FieldOption("1", "Monday"),), default=["1"]),
        ),
    )


def test_a_link_is_read_and_not_looked_at() -> None:
    params = {"requestId": 7, "mode": "url", "message": "Log in", "elicitationId": "e1", "url": "file:///etc/passwd"}
    assert read(params) == Link("Log in", url="file:///etc/passwd", id="e1")


@pytest.mark.parametrize("scope", [{"sessionId": "s1"}, {"requestId": 0}, {"requestId": None}, {"requestId": "x"}])
def test_it_belongs_to_a_session_or_to_a_request(scope: dict[str, Any]) -> None:
    params = {"mode": "form", "message": "Which?", "requestedSchema": {}, **scope}
    assert read(params) == Form(message="Which?")


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"message": None}, "Expected `str`, got `null` - at `$.message`"),
        ({"mode": "_voice"}, "Invalid value '_voice' - at `$.mode`"),
        ({"mode": "url", "url": "https://example.com"}, "Object missing required field `elicitationId`"),
        ({"requestedSchema": None}, "Expected `object`, got `null` - at `$.requestedSchema`"),
        (
            {"requestedSchema": {"properties": {"it": {"type": "_colour"}}}},
            "Invalid enum value '_colour' - at `$.requestedSchema.properties[...].type`",
        ),
        (
            {"requestedSchema": {"properties": {"it": {"type": "integer", "maximum": True}}}},
            "Expected `int | float | null`, got `bool` - at `$.requestedSchema.properties[...].maximum`",
        ),
        (
            {"requestedSchema": {"properties": {"it": {"type": "string", "oneOf": [{"const": "a"}]}}}},
            "Object missing required field `title` - at `$.requestedSchema.properties[...].oneOf[0]`",
        ),
    ],
)
def test_a_malformed_request_is_refused(change: dict[str, Any], wrong: str) -> None:
    with pytest.raises(Refusal) as refused:
        read(asked({}) | change)
    assert (refused.value.code, refused.value.message) == (-32602, f"the request is malformed: {wrong}")


def test_what_only_says_something_may_be_malformed() -> None:
    """Schema: `x-deserialize-default-on-error`."""
    schema = {
        "title": 1,
        "description": [],
        "type": "thing",
        "required": None,
        "properties": {"it": {"type": "string"}},
    }
    form = form_of({**schema, "properties": {"it": {"type": "string", "title": 3, "default": 4, "format": "hostname"}}})
    assert form == Form(message="Which?", fields=(Field(name="it", kind="text"),))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 3, "default": "ab"},
        {"type": "integer", "default": 1.5},
        {"type": "integer", "maximum": 3, "default": 4},
        {"type": "boolean", "default": "yes"},
        {"type": "string", "enum": ["a"], "default": "b"},
        {"type": "array", "items": {"type": "string", "enum": ["a"]}, "default": ["b", 1]},
        {"type": "string", "format": "date", "default": "tomorrow"},
    ],
)
def test_a_default_that_is_no_right_answer_is_none(schema: dict[str, Any]) -> None:
    assert field_of(schema).default is None


TEXT = {"type": "string"}
REGION = {"type": "string", "oneOf": [{"const": "eu", "title": "Europe"}, {"const": "us", "title": "America"}]}
TAGS = {"type": "array", "items": {"type": "string", "enum": ["red", "green, blue", "3"]}}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (TEXT, " a b ", " a b "),
        (TEXT, "yes", "yes"),
        (TEXT, "", None),
        (TEXT, "  ", None),
        (TEXT, "-", None),
        ({"type": "integer"}, " 42 ", 42),
        ({"type": "integer"}, "-7", -7),
        ({"type": "number"}, "42", 42),
        ({"type": "number"}, "4.5", 4.5),
        ({"type": "number"}, "-.5e3", -500.0),
        ({"type": "number"}, "100000000000000000000", 1e20),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "off", False),
        (REGION, "2", "us"),
        (REGION, "Europe", "eu"),
        (REGION, "europe", "eu"),
        (REGION, "us", "us"),
        (TAGS, "1,3", ["red", "3"]),
        (TAGS, "3, 1, 3", ["3", "red"]),
        (TAGS, "green, blue", ["green, blue"]),
        (TAGS, "RED", ["red"]),
        (TAGS, "", None),
    ],
)
def test_what_is_typed_becomes_a_value(schema: dict[str, Any], text: str, value: Value | None) -> None:
    found, problem = typed(field_of(schema), text)
    assert (found, problem, type(found)) == (value, "", type(value))


@pytest.mark.parametrize(
    ("schema", "text", "problem"),
    [
        (TEXT, "", "is required"),
        ({"type": "integer"}, "", "is required"),
        ({"type": "integer"}, "-", "must be a whole number, such as 42"),
        ({"type": "integer"}, "4.5", "must be a whole number, such as 42"),
        ({"type": "integer"}, "9223372036854775808", "has too many digits"),
        ({"type": "integer"}, "9" * 5000, "must be a whole number, such as 42"),
        ({"type": "integer", "minimum": 3}, "2", "must be at least 3"),
        ({"type": "integer", "maximum": 3}, "4", "must be at most 3"),
        ({"type": "number"}, "1,5", "must be a number, such as 4.2"),
        ({"type": "number"}, "nan", "must be a finite number"),
        ({"type": "number"}, "1e999", "must be a finite number"),
        ({"type": "number", "minimum": 0.5}, "0.4", "must be at least 0.5"),
        ({"type": "boolean"}, "perhaps", "must be yes or no"),
        ({**TEXT, "minLength": 3}, "ab", "must have at least 3 characters, not 2"),
        ({**TEXT, "maxLength": 1}, "ab", "must have at most 1 character, not 2"),
        ({**TEXT, "pattern": "(a+)+$"}, "a" * 10_000 + "!", ""),  # shown, and never run (C-76)
        (TEXT, "x" * (MAX_ANSWER_CHARS + 1), "must have at most 100,000 characters, not 100,001"),
        (TEXT, "\ud83d", "holds an incomplete character"),
        ({**TEXT, "format": "email"}, "me", "must be an e-mail address, such as me@example.com"),
        ({**TEXT, "format": "uri"}, "example.com", "must be a whole address, such as https://example.com"),
        ({**TEXT, "format": "uri"}, "http://[x", "must be a whole address, such as https://example.com"),
        ({**TEXT, "format": "date"}, "2026-02-30", "must be a date, such as 2026-12-31"),
        (
            {**TEXT, "format": "date-time"},
            "2026-12-31T23:59:00",
            "must be a date and time with its offset, such as 2026-12-31T23:59:00Z",
        ),
        (REGION, "3", "must be a number from 1 to 2, or a name above"),
        (REGION, "0", "must be a number from 1 to 2, or a name above"),
        (TAGS, "1,x", "must be numbers from 1 to 3, or names above, with commas between"),
        ({**TAGS, "minItems": 2}, "1", "must have at least 2 choices, not 1"),
        ({**TAGS, "maxItems": 1}, "1,2", "must have at most 1 choice, not 2"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said_in_words(schema: dict[str, Any], text: str, problem: str) -> None:
    assert typed(field_of(schema, required=True), text)[1] == problem


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("email", "me+too@example.com"),
        ("uri", "https://example.com/a?b=c#d"),
        ("uri", "urn:isbn:0451450523"),
        ("date", "2024-02-29"),
        ("date-time", "2026-12-31T23:59:00.5+02:00"),
    ],
)
def test_every_format_can_be_given(format: str, text: str) -> None:
    assert typed(field_of({**TEXT, "format": format}), text) == (text, "")


def test_two_choices_that_read_alike_are_told_apart_by_their_number() -> None:
    same = {"type": "string", "oneOf": [{"const": "a", "title": "Same"}, {"const": "b", "title": "Same"}]}
    assert typed(field_of(same), "same")[1] == "must be a number from 1 to 2, or a name above"
    assert typed(field_of(same), "2") == ("b", "")


def test_a_name_in_its_own_letters_goes_before_one_that_only_sounds_alike() -> None:
    assert typed(field_of({"type": "string", "enum": ["A", "a"]}), "a") == ("a", "")


def test_all_the_answers_are_judged_together() -> None:
    form = form_of({"properties": {"n": {"type": "integer", "title": "Number"}, "t": TEXT}, "required": ["n"]})
    assert whole(form, {}) == "Number is required"
    assert whole(form, {"n": "1"}) == "Number must be a whole number"
    assert whole(form, {"n": 1}) == ""
    assert check(form.fields[1], 1) == "must be text"


# Any form the schema of ACP allows, and hostile ones too.
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
COUNTS = st.none() | st.integers(0, 4)
OPTIONS = st.lists(WORDS, min_size=1, max_size=4, unique=True)
FORMATTED = st.none() | st.sampled_from(["email", "uri", "date", "date-time"])


def titled(values: list[str]) -> list[dict[str, str]]:
    return [{"const": value, "title": f"the {value}"} for value in values]


def given_only(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if value is not None}


LABELS = {"title": st.none() | WORDS, "description": st.none() | WORDS}
PROPERTIES = st.one_of(
    st.fixed_dictionaries(
        {
            "type": st.just("string"),
            "minLength": COUNTS,
            "maxLength": COUNTS,
            "format": FORMATTED,
            "default": st.none() | WORDS,
            "enum": st.none() | OPTIONS,
            **LABELS,
        }
    ),
    st.fixed_dictionaries({"type": st.just("string"), "oneOf": OPTIONS.map(titled), "default": st.none() | WORDS}),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["number", "integer"]),
            "minimum": st.none() | st.integers(-9, 9),
            "maximum": st.none() | st.integers(-9, 9),
            "default": st.none() | st.integers(-9, 9),
        }
    ),
    st.fixed_dictionaries({"type": st.just("boolean"), "default": st.none() | st.booleans()}),
    st.fixed_dictionaries(
        {
            "type": st.just("array"),
            "minItems": COUNTS,
            "maxItems": COUNTS,
            "items": OPTIONS.map(lambda values: {"type": "string", "enum": values})
            | OPTIONS.map(lambda values: {"anyOf": titled(values)}),
            "default": st.none() | OPTIONS,
        }
    ),
).map(given_only)
SCHEMAS = st.builds(
    lambda properties, required: {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name in required],
    },
    st.dictionaries(st.sampled_from("abcd"), PROPERTIES, max_size=4),
    st.sets(st.sampled_from("abcd")),
)
TYPED = WORDS | st.sampled_from(["", "-", '""', "1", "2", "1,2", "3, 1", "yes", "no", "-3", "4.5", "1e3", "ab", "aac"])
ANSWERS = TYPED | st.sampled_from(["me@example.com", "https://example.com", "2026-12-31", "2026-12-31T23:59:00Z"])
CHECKED = jsonschema.FormatChecker(["email", "date"])


@pytest.mark.whole
@given(SCHEMAS, st.data())
def test_whatever_is_accepted_is_valid_against_what_was_asked(schema: dict[str, Any], data: st.DataObject) -> None:
    params = asked(schema)
    request = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params}
    assert check_agent_message(json.dumps(request).encode() + b"\n") == []
    form = form_of(schema)
    content: dict[str, Value] = {}
    for field in form.fields:
        value, problem = typed(field, data.draw(ANSWERS))
        if not problem and value is not None:
            content[field.name] = value
        elif field.default is not None and not check(field, field.default):
            content[field.name] = field.default
    assume(not whole(form, content))
    response = {"jsonrpc": "2.0", "id": 1, "result": {"action": "accept", "content": content}}
    line = json.dumps(response).encode() + b"\n"
    assert check_client_message(line, answers="elicitation/create") == []
    jsonschema.Draft202012Validator(schema, format_checker=CHECKED).validate(content)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
MEMBERS = st.sampled_from(
    [
        *("type", "title", "default", "enum", "oneOf", "items", "anyOf", "const", "pattern"),
        *("format", "minLength", "maximum", "minItems", "required", "properties"),
    ]
)
HOSTILE = st.recursive(
    ANYTHING | st.sampled_from(["string", "array", "integer", "object", "form"]),
    lambda inner: st.dictionaries(MEMBERS, inner, max_size=5) | st.lists(inner, max_size=2),
    max_leaves=12,
)


@pytest.mark.whole
@given(st.dictionaries(MEMBERS, HOSTILE, max_size=5), st.text(max_size=10))
def test_any_schema_is_read_or_refused_and_any_text_is_judged(schema: dict[str, Any], text: str) -> None:
    try:
        form = form_of({"properties": {"it": schema}} | ({} if "properties" not in schema else schema))
    except Refusal as refused:
        assert refused.code == -32602
        return
    for field in form.fields:
        _, problem = typed(field, text)
        assert isinstance(problem, str)


@pytest.mark.parametrize(
    "change", [{"message": "x" * MAX_FORM_BYTES}, {"requestedSchema": {"title": "x" * MAX_FORM_BYTES}}]
)
def test_what_no_user_would_read_is_refused_before_it_is_looked_at(change: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as caught:
        read(asked({}) | change)
    assert caught.value.code == -32602
    assert caught.value.message.endswith(" bytes; at most 262,144 are allowed")
