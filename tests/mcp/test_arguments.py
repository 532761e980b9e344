"""`key=value` words become what the tool's schema says they are."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from acp_launch.errors import UsageError
from acp_launch.mcp.arguments import fit_arguments, read_object, read_words, types_of
from acp_launch.mcp.message import Tool

EXAMPLE = 'give them as key=value, or as one JSON object: \'{"key": "value"}\''
PROPERTIES = {
    "text": {"type": "string"},
    "count": {"type": "integer"},
    "size": {"type": "number"},
    "deep": {"type": "boolean"},
    "tags": {"anyOf": [{"type": "array"}, {"type": "null"}]},
    "filter": {"$ref": "#/$defs/filter"},
    "level": {"enum": [1, 2]},
    "either": {"type": ["string", "integer"]},
    "anything": {},
}
SCHEMA = {"properties": PROPERTIES, "$defs": {"filter": {"type": "object"}}}


def tool(**schema: Any) -> Tool:
    return Tool("search", "", {**SCHEMA, **schema}, {})


def sent(*words: str, **schema: Any) -> str:
    return bytes(fit_arguments(read_words(words), tool(**schema))).decode()


def refused(*words: str, **schema: Any) -> tuple[str, str]:
    with pytest.raises(UsageError) as caught:
        sent(*words, **schema)
    return caught.value.message, caught.value.fix


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("text=5", '"5"'),
        ("text=", '""'),
        ("text=a=b", '"a=b"'),
        ('text="quoted"', '"\\"quoted\\""'),
        ("count=5", "5"),
        ("count=12345678901234567890123", "12345678901234567890123"),
        ("count=5.0", "5.0"),
        ("size=1e2", "1e2"),
        ("size=5", "5"),
        ("deep=true", "true"),
        ('tags=["a"]', '["a"]'),
        ("tags=null", "null"),
        ('filter={"a": 1}', '{"a": 1}'),
        ("level=2", "2"),
        ("either=5", "5"),
        ("either=five", '"five"'),
        ("anything=5", '"5"'),
        ("unlisted=5", '"5"'),
        ("anything:=5.10", "5.10"),
        ("text:=[1,\n2]", "[1, 2]"),
    ],
)
def test_a_word_is_what_the_schema_says(word: str, expected: str) -> None:
    key = word.partition("=")[0].removesuffix(":")
    assert sent(word) == f'{{"{key}":{expected}}}'


def test_no_words_are_an_empty_object() -> None:
    assert sent() == "{}"


@pytest.mark.parametrize(
    ("word", "message", "fix"),
    [
        ("count=x", '"count" of "search" must be an integer, not "x"', "for example count=1"),
        ("count=5.5", '"count" of "search" must be an integer, not "5.5"', "for example count=1"),
        ("size=NaN", '"size" of "search" must be a number, not "NaN"', "for example size=1"),
        ("deep=yes", '"deep" of "search" must be a boolean, not "yes"', "for example deep=true"),
        ("tags=a", '"tags" of "search" must be an array or null, not "a"', "for example tags='[1, 2]'"),
        ("filter=[]", '"filter" of "search" must be an object, not "[]"', "for example filter='{\"key\": 1}'"),
        ("five", '"five" is not a tool argument', EXAMPLE),
        ("=5", '"=5" is not a tool argument', EXAMPLE),
        ("size:=x", '"size:=x" cannot be read as JSON: Expecting value: line 1 column 1 (char 0)', "as text: size=x"),
        ("size:=NaN", '"size:=NaN" cannot be read as JSON: NaN is not JSON', "as text: size=NaN"),
        (
            "{x",
            "the arguments cannot be read as JSON: Expecting property name enclosed in double quotes: line 1 column 2"
            " (char 1)",
            EXAMPLE,
        ),
    ],
)
def test_a_word_that_does_not_fit_is_refused_with_an_example(word: str, message: str, fix: str) -> None:
    assert refused(word) == (message, fix)


def test_missing_and_unknown_arguments_are_told_together_with_the_nearest_name() -> None:
    message, fix = refused("txet=a", "zzz=1", required=["text", "size"], additionalProperties=False)
    assert message == ('"search" needs text, size, and has no argument "txet" (did you mean "text"?) or "zzz"')
    assert fix == "it takes text, count, size, deep, tags, filter, level, either, anything"


def test_an_argument_the_schema_does_not_name_passes_where_it_forbids_none() -> None:
    assert sent("other=1", required=[]) == '{"other":"1"}'


def test_a_key_twice_is_refused() -> None:
    assert refused("text=a", "text=b") == ('"text" is given twice', "a list is JSON: text:='[1, 2]'")


def test_an_object_is_sent_as_it_was_written_on_one_line() -> None:
    assert sent('{"b": 1.50,\r\n "a": 12345678901234567890123}') == '{"b": 1.50,   "a": 12345678901234567890123}'
    assert sent('{"count": "the server judges"}', required=["text"]) == '{"count": "the server judges"}'


@pytest.mark.parametrize(
    ("written", "kind"), [("[]", "an array"), ("5", "an integer"), ("5.5", "a number"), ('"a"', "a string")]
)
def test_only_an_object_can_be_the_arguments(written: str, kind: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_object(written, "the arguments in a.json")
    assert caught.value.message == f"the arguments in a.json must be a JSON object, not {kind}"


def test_what_is_nested_too_deep_or_no_utf8_is_refused_without_a_traceback() -> None:
    with pytest.raises(UsageError, match="cannot be read as JSON: it is nested too deep"):
        read_object('{"a":' + "[" * 200_000 + "]" * 200_000 + "}", "the arguments")
    assert refused("text=\udcff") == ("the arguments are not UTF-8", "convert them: iconv -t UTF-8")


def test_a_schema_that_refers_to_itself_says_nothing_and_ends() -> None:
    assert types_of({"$ref": "#"}, {"$ref": "#"}) == frozenset()
    assert types_of({"$ref": "https://example.com/schema"}, SCHEMA) == frozenset()
    assert types_of({"$ref": "#/$defs/a~1b"}, {"$defs": {"a/b": {"const": None}}}) == {"null"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(value=JSON, schema=JSON)
def test_any_json_arrives_whatever_the_schema(value: Any, schema: Any) -> None:
    words = read_words(["key:=" + json.dumps(value)])
    listing = Tool("t", "", {"properties": {"key": schema}}, {})
    assert json.loads(bytes(fit_arguments(words, listing))) == {"key": value}
    assert isinstance(fit_arguments(words, listing), Raw)
