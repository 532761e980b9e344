"""The redactor: no text, bytes or JSON that went through it shows a registered value."""

import json
import threading
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_launch.secret.forms import forms
from acp_launch.secret.redact import Redactor
from acp_launch.secret.value import Secret
from tests.secret.canaries import SECRETS, TEXTS, knowing, texts

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
    assert redactor.held(TOKEN[:9]) == 0


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
    assert redactor.held(text) == longest


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
    return [str(value)]


def escaped_at_random(text: str, data: st.DataObject) -> str:
    """A JSON string in which characters are escaped that need not be."""
    chosen = data.draw(st.sets(st.integers(0, max(0, len(text) - 1))))
    return "".join(f"\\u{ord(mark):04x}" if at in chosen else json.dumps(mark)[1:-1] for at, mark in enumerate(text))


@settings(deadline=None)
@given(SECRETS, st.data())
def test_no_json_shows_a_form_however_it_is_written(values: Sequence[str], data: st.DataObject) -> None:
    redactor = knowing(*values)
    known = [form for value in values for form in forms(value)]
    document = data.draw(documents(texts(known)))
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
