"""What is kept of a command's output, however it was cut on the way."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_launch.process import terminal
from acp_launch.process.terminal import Scrollback
from acp_launch.secret.redact import StreamRedactor
from tests.secret.canaries import knowing


def fed(pieces: list[bytes], limit: int) -> tuple[Scrollback, str]:
    scrollback = Scrollback(limit)
    told = "".join([*map(scrollback.feed, pieces), scrollback.end()])
    return scrollback, told


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


SIZES = st.lists(st.integers(0, 9), max_size=20)


@given(st.text(), SIZES, st.integers(0, 40))
@example("a€", [], 3)
@example("a€", [], 2)
def test_the_end_is_kept_within_the_limit_and_begins_with_a_whole_character(
    text: str, sizes: list[int], limit: int
) -> None:
    """C-72: as much of the end as fits, and never half a character."""
    scrollback, told = fed(cut(text.encode(), sizes), limit)
    kept = scrollback.text()
    assert told == text
    assert text.endswith(kept)
    assert len(kept.encode()) <= limit
    assert scrollback.is_cut == (kept != text)
    if scrollback.is_cut:
        one_more = text[len(text) - len(kept) - 1 :]
        assert len(one_more.encode()) > limit


@given(st.binary(), SIZES, st.integers(0, 40))
def test_what_is_no_text_is_kept_as_text_within_the_limit_and_the_same_however_it_comes(
    data: bytes, sizes: list[int], limit: int
) -> None:
    scrollback, told = fed(cut(data, sizes), limit)
    assert told == data.decode(errors="replace")
    assert len(scrollback.text().encode()) <= limit


def test_a_character_that_is_not_complete_waits_for_the_rest() -> None:
    scrollback = Scrollback(100)
    assert scrollback.feed(b"a\xe2\x82") == "a"
    assert scrollback.text() == "a"
    assert scrollback.feed(b"\xac") == "€"
    assert scrollback.text() == "a€"


def test_what_is_cut_off_was_redacted_before_so_that_no_end_of_a_secret_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "StreamRedactor", lambda: StreamRedactor(knowing("hunter2hunter2")))
    scrollback = Scrollback(10)
    told = scrollback.feed(b"password: hunter2") + scrollback.feed(b"hunter2 and on") + scrollback.end()
    assert told == "password: *** and on"
    assert scrollback.text() == "*** and on"


def test_a_secret_that_is_half_printed_when_its_writer_died_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "StreamRedactor", lambda: StreamRedactor(knowing("hunter2hunter2")))
    scrollback = Scrollback(100)
    assert scrollback.feed(b"password: hunter2h") == "password: "
    assert scrollback.pause() == "***"
    assert scrollback.text() == "password: ***"
