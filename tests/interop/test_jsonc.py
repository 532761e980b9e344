"""JSON with comments: what it says, where it is wrong, and one member of it changed without touching the rest."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.interop.formats import MAX_DEPTH, BadJson, Misfit, blank_comments, parse, put

SETTINGS = """\
// settings of an editor
{
  "theme": "One", // a comment with "quotes" and { braces
  /* "mcpServers": {}, */
  "mcpServers": {
    // the first
    "a": {"command": "x"}, // stays with a
  },
  "list": [1, 2],
}
"""


def test_comments_and_commas_too_many_are_no_part_of_it() -> None:
    assert parse(SETTINGS)[0] == {"theme": "One", "mcpServers": {"a": {"command": "x"}}, "list": [1, 2]}


def test_what_looks_like_a_comment_in_a_string_is_text() -> None:
    assert parse(r'{"url": "https://x/*y*/", "b": "a\"//", "c": ",]"}')[0] == {
        "url": "https://x/*y*/",
        "b": 'a"//',
        "c": ",]",
    }


def test_a_byte_order_mark_is_no_part_of_it() -> None:
    assert parse("\ufeff{}")[0] == {}
    assert put("\ufeff{}", ("a",), 1) == '\ufeff{\n  "a": 1\n}'


@pytest.mark.parametrize(
    ("text", "said", "place"),
    [
        ('{"a": 1\n "b": 2}', "not valid JSON: expecting ',' delimiter", (2, 2)),
        ('{\n "a": }', "not valid JSON: expecting value", (2, 7)),
        ('{"a": "b', "not valid JSON: unterminated string starting at", (1, 7)),
        ("[" * 100_000, "not valid JSON: nested too deep, or a number too long", (0, 0)),
        ("1" * 10_000, "not valid JSON: nested too deep, or a number too long", (0, 0)),
        ("[" * 70 + "]" * 70, f"nested deeper than {MAX_DEPTH} levels", (0, 0)),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_without_its_content(
    text: str, said: str, place: tuple[int, int]
) -> None:
    with pytest.raises(BadJson) as bad:
        parse(text)
    assert (str(bad.value), (bad.value.line, bad.value.column)) == (said, place)


def test_keys_that_come_twice_are_known_and_the_last_counts() -> None:
    assert parse('{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}') == ({"a": 3, "b": {"c": 2}}, ("c", "a"))


@pytest.mark.parametrize("text", ['"\\' * 400_000, "/*" * 400_000, '"' * 400_001, "," * 400_000 + "]", "//" * 400_000])
def test_untrusted_text_costs_linear_time(text: str) -> None:
    begin = time.process_time()
    with pytest.raises(BadJson):
        parse(text)
    assert time.process_time() - begin < 5  # seconds; what is quadratic here takes hours


def test_a_member_is_added_and_every_comment_stays() -> None:
    assert put(SETTINGS, ("mcpServers", "b"), {"command": "y"}) == SETTINGS.replace(
        '"a": {"command": "x"}, // stays with a\n',
        '"a": {"command": "x"}, // stays with a\n    "b": {\n      "command": "y"\n    }\n',
    )


def test_a_comma_is_put_before_the_comment_behind_what_was_last() -> None:
    text = '{\n\t"a": 1 // one\n}'
    assert put(text, ("b",), 2) == '{\n\t"a": 1, // one\n\t"b": 2\n}'


def test_a_member_is_replaced_in_its_place() -> None:
    made = put(SETTINGS, ("mcpServers", "a"), {"url": "z"})
    assert made == SETTINGS.replace('{"command": "x"}', '{\n      "url": "z"\n    }')


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("{}", '{\n  "s": {\n    "a": 1\n  }\n}'),
        ('{"x": 1}', '{"x": 1,\n  "s": {\n    "a": 1\n  }\n}'),
        ('{"s": {}}', '{"s": {\n  "a": 1\n}}'),
        ("{ // nothing\n}", '{ // nothing\n  "s": {\n    "a": 1\n  }\n}'),
        ('{\r\n    "x": 1\r\n}\r\n', '{\r\n    "x": 1,\r\n    "s": {\r\n        "a": 1\r\n    }\r\n}\r\n'),
    ],
)
def test_what_is_missing_on_the_way_is_made_in_the_texts_own_manner(text: str, made: str) -> None:
    assert put(text, ("s", "a"), 1) == made


def test_an_item_is_added_to_a_list_or_takes_the_place_of_another() -> None:
    assert put('{"l": [1, 2]}', ("l", 2), 3) == '{"l": [1, 2,\n  3\n]}'
    assert put('{"l": [1, 2]}', ("l", 0), 3) == '{"l": [3, 2]}'
    assert parse(put("{}", ("l", 0), 3))[0] == {"l": [3]}


@pytest.mark.parametrize("text", ["[]", '{"s": 1}', '{"s": [1]}', '{"s": null}'])
def test_something_else_in_the_way_is_left_alone(text: str) -> None:
    with pytest.raises(Misfit):
        put(text, ("s", "a"), 1)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)


@st.composite
def texts(draw: st.DrawFn, value: Any) -> str:
    """JSON with comments, blanks and trailing commas anywhere they may stand."""
    gap = draw(st.sampled_from(["", " ", "\n  ", " // c, } ]\n", '/* { " */', "\n\t"]))
    if isinstance(value, dict):
        inner = [f"{gap}{json.dumps(key)}{gap}:{gap}{draw(texts(entry))}" for key, entry in value.items()]
        return "{" + ",".join(inner) + (draw(st.sampled_from(["", ","])) if inner else "") + gap + "}"
    if isinstance(value, list):
        inner = [f"{gap}{draw(texts(item))}" for item in value]
        return "[" + ",".join(inner) + (draw(st.sampled_from(["", ","])) if inner else "") + gap + "]"
    return json.dumps(value)


@pytest.mark.whole
@given(st.data(), OBJECTS, st.text(max_size=3), VALUES)
def test_a_member_that_is_put_is_the_only_change_there_is(
    data: st.DataObject, before: dict[str, Any], key: str, value: Any
) -> None:
    """Ours: whatever the notation, nothing else means anything else, and no comment is lost."""
    text = data.draw(texts(before))
    made = put(text, (key,), value)
    assert parse(text)[0] == before
    assert parse(made)[0] == {**before, key: value}
    if key not in before:
        remaining = iter(made)
        assert all(mark in remaining for mark in text), "something was taken away"


@given(st.data(), st.lists(VALUES, max_size=4), VALUES)
def test_an_item_that_is_added_is_the_only_change_there_is(data: st.DataObject, before: list[Any], value: Any) -> None:
    text = data.draw(texts({"l": before, "other": 1}))
    assert parse(put(text, ("l", len(before)), value))[0] == {"l": [*before, value], "other": 1}


@given(st.data(), OBJECTS)
def test_blanking_comments_moves_nothing(data: st.DataObject, value: dict[str, Any]) -> None:
    text = data.draw(texts(value))
    bare = blank_comments(text)
    assert len(bare) == len(text)
    assert [at for at, mark in enumerate(bare) if mark == "\n"] == [at for at, mark in enumerate(text) if mark == "\n"]
