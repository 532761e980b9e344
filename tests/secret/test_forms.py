"""Every form a value may appear in, judged by the programs that write them."""

import base64
import json
import re
import shlex
import subprocess
import traceback
from collections.abc import Callable
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_launch.secret.forms import MIN_FORM_CHARS, PIECE_CHARS, forms, is_maskable
from tests.patience import PATIENCE

TOKEN = "ghp_" + "a1B2c3D4e" * 4
AWKWARD = "p'a\"s$s\\w/o+r<d>&é☃`\U0001f600~"


def lower_hex(text: str) -> str:
    return re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), text)


def raised(text: str) -> str:
    try:
        raise KeyError(text)
    except KeyError:
        return traceback.format_exc()


WRITERS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: f"token={text};",
    "JSON": lambda text: json.dumps({"token": text}),
    "JSON in UTF-8": lambda text: json.dumps([text], ensure_ascii=False),
    "JSON with upper hex": lambda text: re.sub(r"\\u\w{4}", lambda it: "\\u" + it[0][2:].upper(), json.dumps(text)),
    "JSON of PHP": lambda text: json.dumps(text).replace("/", "\\/"),
    "JSON of Go": lambda text: (
        json.dumps(text, ensure_ascii=False).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    ),
    "a query": lambda text: urlencode({"key": text, "page": "1"}),
    "a path": lambda text: f"https://x.example/{quote(text)}/y",
    "a URL's user": lambda text: f"https://{quote(text, safe='')}@x.example/",
    "a URL with lower hex": lambda text: lower_hex(quote_plus(text)),
    "encodeURIComponent": lambda text: quote(text, safe="!'()*-._~"),
    "a shell's word": shlex.quote,
    "a shell's word with the other escape": lambda text: "'" + text.replace("'", r"'\''") + "'",
    "a shell's double quotes": lambda text: '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"',
    "repr": lambda text: repr({"a": text}),
    "repr of bytes": lambda text: repr(text.encode()),
    "ascii": ascii,
    "repr with both quotes": lambda text: repr(f"'\"{text}"),
    "a traceback": raised,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 without padding": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "basic authorization": lambda text: "Basic " + base64.b64encode(f"user:{text}".encode()).decode(),
    "base64 one byte in": lambda text: base64.b64encode(f"u{text} and more".encode()).decode(),
    "base64 two bytes in, for URLs": lambda text: base64.urlsafe_b64encode(f"uv{text}".encode()).decode(),
}


def hidden(written: str, value: str) -> str:
    for form in sorted(forms(value), key=len, reverse=True):
        written = written.replace(form, "***")
    return written


def test_a_value_is_found_in_what_programs_write() -> None:
    for value in [TOKEN, AWKWARD, "x/y+z==" * 6, "hunter2"]:
        for writer in WRITERS:
            assert "***" in hidden(WRITERS[writer](value), value)


@settings(deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=MIN_FORM_CHARS),
    st.sampled_from(sorted(WRITERS)),
)
def test_any_value_is_found_in_what_programs_write(value: str, writer: str) -> None:
    assert "***" in hidden(WRITERS[writer](value), value)


@settings(deadline=None)
@given(st.binary(max_size=9), st.binary(max_size=9))
def test_base64_around_a_value_keeps_at_most_the_characters_that_hold_bits_of_its_neighbours(
    before: bytes, after: bytes
) -> None:
    rest = hidden(base64.b64encode(before + TOKEN.encode() + after).decode(), TOKEN)
    left, found, right = rest.partition("***")
    assert found
    assert len(left) == -(-8 * len(before) // 6)
    assert len(right.rstrip("=")) <= -(-8 * len(after) // 6) + 1


def test_bash_itself_writes_nothing_we_do_not_know() -> None:
    value = 'it\'s a "dollar" $5 \\ & more'
    script = f"set -x; printf '%q\\n' {shlex.quote(value)}"
    written = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert hidden(written.stdout, value) == "***\n"
    assert hidden(written.stderr, value) == "+ printf '%q\\n' '***'\n"


def test_an_ordinary_token_has_few_forms() -> None:
    assert sorted(forms("ghp_" + "a1B2" * 9)) == sorted(
        {
            "ghp_" + "a1B2" * 9,
            base64.b64encode(b"ghp_" + b"a1B2" * 9).decode().rstrip("="),
            base64.b64encode(b"ghp_" + b"a1B2" * 9).decode()[:53],
            base64.b64encode(b"uu" + b"ghp_" + b"a1B2" * 9).decode()[3:],
            base64.b64encode(b"u" + b"ghp_" + b"a1B2" * 9).decode()[2:54],
        }
    )


@pytest.mark.parametrize("value", ["", "12345", " abcde \n", "é" * 5, "abcd    ", "     \n", " abcde "])
def test_a_value_of_less_than_six_characters_has_none_and_spaces_do_not_count(value: str) -> None:
    assert forms(value) == frozenset()
    assert not is_maskable(value)


def test_no_form_is_shorter_than_a_value_must_be() -> None:
    assert min(map(len, forms("123456"))) == MIN_FORM_CHARS


KEY = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIPux\nshort\nqu/te+long+enough==\n-----END PRIVATE KEY-----\n"


def test_a_value_of_several_lines_is_found_line_by_line_too() -> None:
    found = forms(KEY)
    assert {KEY, KEY.strip(), KEY.replace("\n", "\r\n")} < found
    assert {"MC4CAQAwBQYDK2VwBCIEIPux", "qu/te+long+enough==", "qu\\/te+long+enough=="} < found


def test_what_everybody_may_know_of_a_key_is_no_form() -> None:
    assert not {"short", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"} & forms(KEY)


def test_a_value_the_environment_held_as_no_utf_8_has_its_forms() -> None:
    value = b"p\xffssword".decode("utf-8", "surrogateescape")
    assert value in forms(value)
    assert "p%FFssword" in forms(value)


def test_a_value_of_six_characters_can_be_hidden() -> None:
    assert is_maskable(" abcdef ")


def test_a_large_value_has_a_bounded_number_of_forms_none_longer_than_a_piece() -> None:
    found = forms("".join(f"{number:05d}-Zq" for number in range(9_000)))
    assert len(found) == -(-72_000 // PIECE_CHARS) + -(-96_000 // PIECE_CHARS)
    assert max(map(len, found)) == PIECE_CHARS
