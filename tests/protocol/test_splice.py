"""Ring 1. Byte spans in JSON text (ours); `json` is the judge of what they hold."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.protocol.splice import Malformed, elements, is_text, members, without_spans

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
LAYOUTS = st.sampled_from([None, 0, 2, "\t", "\r\n "])
TOKENS = ['"', "\\", "{", "}", "[", "]", ",", ":", " ", "\n", "1", "-", "true", '"a"', '{"a":', "é"]
TEXTS = st.lists(st.sampled_from(TOKENS)).map("".join) | st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.whole
@given(st.dictionaries(st.text(), VALUES), LAYOUTS, st.booleans())
def test_every_member_is_where_it_says(value: dict[str, Any], layout: Any, is_ascii: bool) -> None:
    data = json.dumps(value, indent=layout, ensure_ascii=is_ascii).encode("utf-8", "replace")
    pairs = json.loads(data, object_pairs_hook=list) if value else []
    found = members(b" \n" + data + b" ", 2)
    assert [member.key for member in found] == [key for key, _ in pairs]
    for member, (_, held) in zip(found, pairs, strict=True):
        written = (b" \n" + data)[member.start : member.end]
        assert json.loads(written, object_pairs_hook=list) == held
        assert written == written.strip()


@given(st.lists(VALUES), LAYOUTS, st.data())
def test_cut_elements_are_gone_and_every_other_byte_stays(items: list[Any], layout: Any, data: st.DataObject) -> None:
    line = b'{"before": [1, 2] , "tools":' + json.dumps(items, indent=layout).encode() + b',"after":"a, b]"}'
    tools = members(line)[1]
    spans = elements(line, tools.start)
    assert [json.loads(line[start:end]) for start, end in spans] == items
    removed = data.draw(st.sets(st.integers(0, len(items) - 1))) if items else set()
    left = without_spans(line, [spans[index] for index in removed])
    kept = [item for index, item in enumerate(items) if index not in removed]
    assert json.loads(left) == {"before": [1, 2], "tools": kept, "after": "a, b]"}
    for index, (start, end) in enumerate(spans):
        assert index in removed or line[start:end] in left
    assert left.startswith(line[: tools.start + 1]) and left.endswith(line[tools.end - 1 :])
    assert removed or left == line


@pytest.mark.parametrize(
    ("array", "removed", "left"),
    [
        ("[1, 2, 3]", [0], "[2, 3]"),
        ("[1, 2, 3]", [1], "[1, 3]"),
        ("[1, 2, 3]", [2], "[1, 2]"),
        ("[1, 2, 3]", [1, 2], "[1]"),
        ("[1 , 2 ,\n3 ]", [2, 1], "[1  ]"),
        ("[ 1, 2 ]", [0, 1], "[  ]"),
        ("[1]", [0], "[]"),
        ('["a,", "]"]', [1], '["a,"]'),
    ],
)
def test_an_element_goes_with_one_comma(array: str, removed: list[int], left: str) -> None:
    spans = elements(array.encode())
    assert without_spans(array.encode(), [spans[index] for index in removed]).decode() == left


def no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


@given(TEXTS)
def test_any_text_is_read_as_json_reads_it_or_refused(source: str) -> None:
    """Never anything but `Malformed`; and what JSON accepts is not refused."""
    try:
        value = json.loads(source, parse_constant=no_number)
    except ValueError:
        value = None
    for read, kind in ((members, dict), (elements, list)):
        try:
            count = len(read(source.encode()))
        except Malformed:
            assert not isinstance(value, kind)
        else:
            assert not isinstance(value, kind) or count >= len(value)  # a key may come twice


def test_a_key_is_what_its_escapes_say_and_may_come_twice() -> None:
    found = members(rb'{"\u006dethod":1,"a\"b\\":2,"\ud83d\ude00":3,"method":4}')
    assert [member.key for member in found] == ["method", 'a"b\\', "😀", "method"]


def test_an_object_within_is_found_where_it_begins() -> None:
    line = b'\xef\xbb\xbf {"a": {"b": [true]} }'
    (outer,) = members(line)
    (inner,) = members(line, outer.start)
    assert (inner.key, line[inner.start : inner.end], is_text(line, inner.start)) == ("b", b"[true]", False)
    assert is_text(line, inner.key_start)


def test_broken_text_is_refused_with_its_place() -> None:
    for data, message in [
        (b"", "expected an object at byte 0"),
        (b"[]", "expected an object at byte 0"),
        (b'{"a" 1}', "expected a colon at byte 5"),
        (b'{"a":1 "b":2}', "expected a comma at byte 7"),
        (b'{"a":1,}', "expected a string at byte 7"),
        (b"{a:1}", "expected a string at byte 1"),
        (b'{"a":01}', "expected a value at byte 5"),
        (b'{"a":nul}', "expected a value at byte 5"),
        (b'{"a":}', "expected a value at byte 5"),
        (b'{"a":[1}', "expected another bracket at byte 7"),
        (b'{"a":[1', "expected a closing bracket at byte 7"),
        (b'{"a":["x]}', "expected the end of a string at byte 10"),
        (b'{"a":"x}', "expected a string at byte 5"),
        (b'{"a":"\\x"}', "expected a string at byte 5"),
        (b'{"a":"\n"}', "expected a string at byte 5"),
        (b'{"\xff":1}', "expected a string at byte 1"),
        (b'{"a":1', "expected a comma at byte 6"),
    ]:
        with pytest.raises(Malformed) as caught:
            members(data)
        assert str(caught.value) == message
    with pytest.raises(Malformed, match="expected an array at byte 0"):
        elements(b"{}")


@pytest.mark.parametrize("brackets", [b"[]", b"{}"])
def test_deep_nesting_does_not_nest_us(brackets: bytes) -> None:
    depth = 100_000
    opening = b'{"a":' if brackets == b"{}" else b"["
    line = b'{"a":' + opening * depth + b"1" + brackets[1:] * depth + b"}"
    (member,) = members(line)
    assert member.end == len(line) - 1
    with pytest.raises(Malformed):
        members(line[:-2])


def test_escapes_cost_no_memory_of_their_own() -> None:
    """A pattern that remembered each of them would need hundreds of bytes for two."""
    line = b'{"a":"' + b"\\n" * 1_000_000 + b'"}'
    tracemalloc.start()
    (member,) = members(line)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert member.end == len(line) - 1
    assert peak < 1_000_000
