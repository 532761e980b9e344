"""JSON that a person may look at: nothing in it is hidden, and it says the same."""

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.protocol import splice
from acp_launch.protocol.splice import visible, visible_bytes

HIDING = ("Cc", "Cf", "Cs", "Zl", "Zp")


def test_every_character_that_cannot_be_seen_is_an_escape() -> None:
    for code in range(0x20, sys.maxunicode + 1):
        mark = chr(code)
        shown = visible(mark)
        if unicodedata.category(mark) in HIDING:
            assert shown.startswith("\\u"), hex(code)
            assert json.loads(f'"{shown}"') == mark
    assert visible("é中😀 \u00a0\u3000") == "é中😀 \u00a0\u3000"


@given(st.recursive(st.text() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_it_says_the_same(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert json.loads(visible(text)) == value
    said = b"".join(visible_bytes(text.encode(errors="surrogatepass")))
    assert "�" in said.decode() or json.loads(said) == value


def test_what_is_not_utf_8_and_what_only_divides_drives_no_terminal() -> None:
    assert b"".join(visible_bytes(b'{"a":\r"\x9b2J\xc2\x9b"}')) == b'{"a": "\xef\xbf\xbd2J\\u009b"}'


@pytest.mark.parametrize("mark", ["a", "é", "中", "😀", "\u202e"])
def test_a_long_text_goes_in_pieces_and_no_character_is_cut(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splice, "PIECE_BYTES", 10)
    for before in range(12):
        text = "x" * before + mark * 20
        pieces = list(visible_bytes(text.encode()))
        assert len(pieces) > 1
        assert b"".join(pieces).decode() == visible(text)


def test_where_all_can_be_seen_nothing_is_copied() -> None:
    data = b'{"text": "plain"}'
    (piece,) = visible_bytes(data)
    assert piece is data
    (piece,) = visible_bytes("é".encode())
    assert piece == "é".encode()
