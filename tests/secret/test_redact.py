"""The redactor: no text, bytes or JSON that went through it shows a registered value."""

import base64
import json
import random
import threading
import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_launch.protocol.acp import NAMES
from acp_launch.secret.forms import PIECE_CHARS, forms
from acp_launch.secret.redact import MultiPattern, Redactor, joined
from acp_launch.secret.value import Secret
from tests.secret.canaries import SECRETS, TEXTS, held, knowing, texts

TOKEN = "ghp_" + "a1B2c3D4e" * 4
NUMBER = "48151623"


def test_a_value_is_replaced_wherever_it_stands() -> None:
    redactor = knowing(TOKEN)
    assert redactor.text(f"a {TOKEN} and {TOKEN}{TOKEN}.") == "a *** and ******."
    assert redactor.data(f"\xff é {TOKEN}".encode("latin-1")) == b"\xff \xe9 ***"


def test_an_empty_redactor_gives_back_what_it_is_given() -> None:
    redactor = Redactor()
    value = {TOKEN: [TOKEN]}
    data = TOKEN.encode()
    assert redactor.is_empty
    assert redactor.tree(value) is value
    assert redactor.text(TOKEN) is TOKEN
    assert redactor.data(data) is data
    assert redactor.raw_json(data) is data
    assert held(redactor, TOKEN[:9]) == 0


def test_a_value_too_short_to_be_told_from_words_is_not_hidden() -> None:
    redactor = knowing("12345")
    assert redactor.is_empty
    assert redactor.text("12345") == "12345"


def test_values_that_overlap_are_hidden_together() -> None:
    assert knowing("abcdefgh", "fghijklm").text("<abcdefghijklm>") == "<***>"
    assert knowing("abcabc").text("<abcabcabcab>") == "<***ab>"


def test_a_value_within_another_does_not_cut_it() -> None:
    assert knowing("secret", "my-secret-word").text("my-secret-word, secret") == "***, ***"


def test_what_a_mask_and_its_neighbours_make_up_is_hidden_too() -> None:
    redactor = knowing("abcdef", "x***yz")
    assert redactor.text("xabcdefyz") == "***"
    assert knowing("******").text("*" * 13) == "***"


def test_a_value_that_comes_later_is_hidden_from_then_on() -> None:
    redactor = knowing("first-value")
    assert redactor.text("second-value") == "second-value"
    redactor.register(Secret("second-value"))
    assert redactor.text("first-value second-value") == "*** ***"


def test_a_redactor_shows_nothing_of_what_it_knows() -> None:
    redactor = knowing(TOKEN)
    assert redactor.tables is not None
    assert TOKEN not in f"{redactor!r} {redactor.tables!r} {redactor.tables.text!r}"


def test_many_threads_register_and_none_is_lost() -> None:
    redactor = Redactor()
    together = threading.Barrier(8)

    def register(number: int) -> None:
        together.wait()
        redactor.register(Secret(f"value-number-{number}"))

    threads = [threading.Thread(target=register, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert redactor.text(" ".join(f"value-number-{number}" for number in range(8))) == " ".join(["***"] * 8)


@settings(deadline=None)
@given(SECRETS, st.data())
def test_no_text_shows_a_form_and_nothing_else_is_touched(values: Sequence[str], data: st.DataObject) -> None:
    redactor = knowing(*values)
    known = [form for value in values for form in forms(value)]
    text = data.draw(texts(known))
    redacted = redactor.text(text)
    assert not [form for form in known if form in redacted]
    assert redactor.text(redacted) is redacted
    assert redactor.data(text.encode()) == redacted.encode()
    if not [form for form in known if form in text]:
        assert redacted is text


@settings(deadline=None)
@given(SECRETS, st.data())
def test_what_is_held_is_the_longest_end_that_begins_a_form(values: Sequence[str], data: st.DataObject) -> None:
    redactor = knowing(*values)
    known = [form for value in values for form in forms(value)]
    text = data.draw(texts(known))
    beginnings = {form[:length] for form in known for length in range(1, len(form))}
    longest = max((length for length in range(1, len(text) + 1) if text[-length:] in beginnings), default=0)
    assert held(redactor, text) == longest


# JSON

SEVERAL = {"a": [TOKEN, {TOKEN: f"x{TOKEN}"}, 1, None, True, 1.5], "b": "untouched"}
HIDDEN = {"a": ["***", {"***": "x***"}, 1, None, True, 1.5], "b": "untouched"}


def test_decoded_json_is_redacted_keys_included() -> None:
    assert knowing(TOKEN).tree(SEVERAL) == HIDDEN


def test_decoded_json_without_a_value_stays_the_object_it_was() -> None:
    value = {"a": [{"b": 1}, "text"], "c": {"d": []}}
    redacted = knowing(TOKEN).tree(value)
    assert redacted is value


def test_parts_without_a_value_stay_the_objects_they_were() -> None:
    value: dict[str, Any] = {"a": [1, 2], "b": TOKEN}
    assert knowing(TOKEN).tree(value)["a"] is value["a"]


def test_json_that_is_nested_too_deep_to_look_through_is_hidden_whole() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    assert knowing(TOKEN).tree(value) == "***"


def test_what_the_protocol_says_itself_stays() -> None:
    """Members of ACP and the values it fixes; a value that is such a word would make the answer vanish."""
    redactor = knowing("content", "session", "update", "status", "in_progress", "text/plain", "123456")
    said = {
        "sessionUpdate": "usage_update",
        "content": {"type": "content", "mimeType": "text/plain", "status": "in_progress"},
        "used": 123456,
        "_meta": {"used": [123456]},
    }
    assert redactor.tree(said) is said
    raw = json.dumps(said).encode()
    assert redactor.raw_json(raw) is raw


def test_words_of_the_protocol_are_hidden_where_they_are_not_its_own() -> None:
    redactor = knowing("content", "in_progress", "123456")
    said = {"title": "in_progress", "my-content": [{"status": "now in_progress"}, "content"], "n": [123456, -123456]}
    hidden = {"title": "***", "my-***": [{"status": "now ***"}, "***"], "n": ["***", "***"]}
    assert redactor.tree(said) == hidden
    assert json.loads(redactor.raw_json(json.dumps(said).encode())) == hidden
    assert json.loads(
        redactor.raw_json(b'{"status":[{}, "in_progress"],"used":{"a":1},"\\u0063ontents":"content"}')
    ) == {"status": [{}, "***"], "used": {"a": 1}, "***s": "***"}


def test_a_number_that_only_holds_a_value_among_its_digits_stays() -> None:
    redactor = knowing(NUMBER)
    assert redactor.tree({"at": int(f"1{NUMBER}")}) == {"at": int(f"1{NUMBER}")}
    assert redactor.raw_json(b'{"at":1%s}' % NUMBER.encode()) == b'{"at":1%s}' % NUMBER.encode()


def test_a_number_is_hidden_as_a_text() -> None:
    redactor = knowing(NUMBER)
    assert redactor.tree({"pin": int(NUMBER), "other": 4}) == {"pin": "***", "other": 4}
    assert redactor.raw_json(b'{"pin": %s, "n": -1.0e3}' % NUMBER.encode()) == b'{"pin": "***", "n": -1.0e3}'


def test_json_bytes_keep_everything_that_needs_no_redaction() -> None:
    raw = b'{ "n":1.0e3,"n":12345678901234567890 , "t":"a%s\\u00e9","u":"\\ud83d \\/" }'
    redacted = knowing(TOKEN).raw_json(raw % TOKEN.encode())
    assert redacted == b'{ "n":1.0e3,"n":12345678901234567890 , "t":"a***\\u00e9","u":"\\ud83d \\/" }'


@pytest.mark.parametrize("raw", [b'{"a":"\\u00e9 \\/ \\n"}', b'"plain"', b"[]", b"not json \\u0061", b'"open \\u0061'])
def test_json_bytes_without_a_value_stay_the_bytes_they_were(raw: bytes) -> None:
    assert knowing(TOKEN).raw_json(raw) is raw


def test_a_value_is_seen_through_any_escape_of_json() -> None:
    value = 'p/a"s\\s\nw\u00e9\U0001f600d'
    every = "".join(f"\\u{unit:04X}" for unit in memoryview(value.encode("utf-16-le")).cast("H"))
    php = json.dumps(value).replace("/", "\\/")
    for written in (f'"{every}"', php, json.dumps(value, ensure_ascii=False), json.dumps(value)):
        assert knowing(value).raw_json(f'{{"a":[{written},1]}}'.encode()) == b'{"a":["***",1]}'


def test_what_is_no_json_is_redacted_by_its_bytes() -> None:
    raw = b'{"a":"\\q%s"' % TOKEN.encode()
    assert knowing(TOKEN).raw_json(raw) == b'{"a":"\\q***"'


def test_half_a_surrogate_pair_beside_a_value_stays() -> None:
    raw = b'"\\ud83d%s\\u002d"' % TOKEN.encode()
    assert json.loads(knowing(TOKEN + "-").raw_json(raw)) == "\ud83d***"


@st.composite
def documents(draw: st.DrawFn, strings: st.SearchStrategy[str]) -> Any:
    scalars = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | strings
    return draw(
        st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3))
    )


def strings_of(value: Any) -> list[str]:
    """Every text in decoded JSON, keys included."""
    if isinstance(value, dict):
        return [text for item in value.items() for part in item for text in strings_of(part)]
    if isinstance(value, list):
        return [text for item in value for text in strings_of(item)]
    return [value] if isinstance(value, str) else []


def escaped_at_random(text: str, data: st.DataObject) -> str:
    """A JSON string in which characters are escaped that need not be."""
    chosen = data.draw(st.sets(st.integers(0, max(0, len(text) - 1))))
    return "".join(f"\\u{ord(mark):04x}" if at in chosen else json.dumps(mark)[1:-1] for at, mark in enumerate(text))


@pytest.mark.whole
@settings(deadline=None)
@given(SECRETS, st.data())
def test_no_json_shows_a_form_however_it_is_written(values: Sequence[str], data: st.DataObject) -> None:
    redactor = knowing(*values)
    known = [form for value in values for form in forms(value)]
    protocol_free = texts(known).filter(lambda text: text not in NAMES)  # the protocol's own names are shown
    document = data.draw(documents(protocol_free))
    raw = data.draw(st.sampled_from([json.dumps(document).encode(), msgspec.json.encode(document)]))
    redacted = redactor.raw_json(raw)
    shown = strings_of(json.loads(redacted))
    assert not [form for form in known for text in shown if form in text]
    assert redactor.raw_json(redacted) is redacted
    assert (redacted is raw) == (redacted == raw)
    tree = redactor.tree(json.loads(raw))
    assert not [form for form in known for text in strings_of(tree) if form in text]


@settings(deadline=None)
@given(SECRETS, TEXTS, st.data())
def test_a_value_is_seen_through_needless_escapes(values: Sequence[str], around: str, data: st.DataObject) -> None:
    value = values[0]
    written = f'"{around.encode("ascii", "ignore").decode().translate(PLAIN)}{escaped_at_random(value, data)}"'
    assert value not in json.loads(knowing(*values).raw_json(written.encode()))


PLAIN = {ord(mark): None for mark in '"\\'} | dict.fromkeys(range(32))


def test_a_large_text_is_searched_whole() -> None:
    """At every place relative to the samples and to the blocks they are taken in."""
    redactor = knowing(*(f"canary-number-{number}-of-the-long-kind" for number in range(10)))
    for at in range(40_900, 41_100, 7):
        text = "x" * at + "canary-number-7-of-the-long-kind" + "y" * 50_000
        assert redactor.text(text) == "x" * at + "***" + "y" * 50_000


# large values, and those that repeat themselves

LARGE = "".join(f"{number:05d}-Zq" for number in range(9_000))  # 72,000 characters


def test_a_large_value_is_hidden_whole_as_it_is_in_json_and_in_base64() -> None:
    redactor = knowing(LARGE)
    for written in (LARGE, json.dumps(LARGE)[1:-1], base64.b64encode(LARGE.encode()).decode()):
        assert set(redactor.text(f"<{written}>")) == set("<*>")
    assert set(knowing(LARGE + '"\n').text(json.dumps(LARGE + '"\n'))) == set('"*\\n')


@pytest.mark.parametrize(("begin", "end"), [(0, 5_000), (777, 9_999), (60_000, 63_000), (1, 71_999)])
def test_a_part_of_a_large_value_shows_less_than_a_piece_at_either_end(begin: int, end: int) -> None:
    left, *_, right = knowing(LARGE).text(LARGE[begin:end]).split("***")
    assert len(left) < PIECE_CHARS
    assert len(right) < PIECE_CHARS


def test_the_lines_of_a_large_value_are_hidden_one_by_one() -> None:
    lines = [f'a line that holds {number} and a "quoted" word' for number in range(200)]
    redactor = knowing("\n".join(lines))
    assert redactor.text("\n".join(f"log: {line}" for line in lines)) == "\n".join(["log: ***"] * 200)
    assert redactor.text(f"log: {json.dumps(lines[7])}") == 'log: "***"'


def test_what_is_held_of_a_large_value_is_less_than_a_piece() -> None:
    assert held(knowing(LARGE), LARGE[: PIECE_CHARS - 1]) == PIECE_CHARS - 1
    assert held(knowing(LARGE), LARGE[: PIECE_CHARS + 9]) == 9


def test_forms_that_overlap_themselves_are_found_as_a_plain_search_would() -> None:
    """With few forms, which are searched for one by one, and with many, which are sampled."""
    others = [f"other-number-{number}" for number in range(12)]
    for known in (["ab" * 6, "ba" * 9], ["ab" * 6, "ba" * 9, *others]):
        needles = MultiPattern(known, str)
        for text in ("ab" * 300, "x" + "ba" * 40 + "bab" * 7 + "a" * 3, "ab" * 6 + others[3] + "ba" * 100):
            places = [(at, at + len(form)) for form in known for at in range(len(text)) if text.startswith(form, at)]
            assert needles.spans(text) == joined(places)


@pytest.mark.whole
@given(data=st.data())
@settings(max_examples=100)
def test_a_form_is_found_wherever_it_stands_in_a_message_of_any_size(data: st.DataObject) -> None:
    """By a look at the samples alone, or by the search beyond that: in text and in bytes."""
    length = data.draw(st.integers(10, 70))
    known = [f"{number:02}{'abcdefghij'[number % 10] * (length - 2)}" for number in range(12)]
    before, after = data.draw(st.integers(0, 5_000)), data.draw(st.integers(0, 200))
    form = data.draw(st.sampled_from(known))
    text = "-" * before + form + "-" * after
    span = [(before, before + len(form))]
    assert MultiPattern(known, str).spans(text) == span
    assert MultiPattern(known, str.encode).spans(text.encode()) == span
    for most in (text[: before + len(form) - 1], text[before + 1 :]):  # all of it but one character
        assert MultiPattern(known, str).spans(most) == MultiPattern(known, str.encode).spans(most.encode()) == []


def test_a_form_is_found_at_every_place_where_one_look_at_the_samples_ends_and_the_next_begins() -> None:
    known = [f"{number:02}{'abcdefghij'[number % 10] * 66}" for number in range(12)]
    needles = MultiPattern(known, str.encode)
    border = needles._most
    for before in range(border - 70, border + 70):
        text = b"-" * before + known[3].encode() + b"-" * border
        assert needles.spans(text) == [(before, before + 68)]


PATIENCE = 30  # processor seconds; it took minutes where every place was followed by itself, and takes a tenth of one


@pytest.mark.whole
@pytest.mark.parametrize("others", [0, 20])
def test_a_megabyte_of_one_character_is_hidden_in_no_time(others: int) -> None:
    before = time.process_time()
    for length in (40, 3_000, 60_000):
        redactor = knowing("a" * length, *(f"other-number-{number}" for number in range(others)))
        assert redactor.data(b"a" * 1_000_000) == b"***"
    assert time.process_time() - before < PATIENCE


@pytest.mark.whole
def test_many_large_values_are_known_in_no_time_and_in_little_memory() -> None:
    generator = random.Random(3)
    values = [generator.randbytes(24_576).hex() for _ in range(80)]  # 48 KiB each
    before = time.process_time()
    tracemalloc.start()
    try:
        redactor = knowing(*values)
        assert held(redactor, "hello") == 0
        assert redactor.text(values[7]).strip("*") == ""
        assert redactor.raw_json(json.dumps([values[8]]).encode()).strip(b'[]"*') == b""
        assert tracemalloc.get_traced_memory()[1] < 32 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert time.process_time() - before < PATIENCE
