"""Lines out of a file, against the obvious definition."""

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_launch.session import files as excerpt
from acp_launch.session.events import Refusal
from acp_launch.session.files import lines, size

CONTENT = st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b"bc", "é".encode(), b"\x0c", b""])).map(b"".join)


def expected(data: bytes, first: int, count: int | None) -> bytes:
    every = data.split(b"\n")
    whole = [line + b"\n" for line in every[:-1]] + ([every[-1]] if every[-1] else [])
    return b"".join(whole[first - 1 :] if count is None else whole[first - 1 : first - 1 + count])


@given(CONTENT, st.integers(1, 9), st.none() | st.integers(0, 9), st.integers(0, 12))
@example(b"a\nb", 2, 1, 1)
def test_lines_are_counted_from_one_and_more_than_may_be_is_an_error(
    data: bytes, first: int, count: int | None, most: int
) -> None:
    """C-70. What is passed over is of no account here."""
    wanted = expected(data, first, count)
    if len(wanted) > most:
        with pytest.raises(Refusal) as raised:
            lines(io.BytesIO(data), first, count, most, "a.txt")
        assert raised.value.message.startswith('"a.txt": the request')
    elif len(data) <= most * excerpt.FAR:
        assert lines(io.BytesIO(data), first, count, most, "a.txt") == wanted


def test_long_lines_are_passed_over_in_pieces_and_given_whole() -> None:
    long = b"x" * (3 * excerpt.CHUNK_BYTES)
    data = long + b"\n" + long + b"\nend"
    assert lines(io.BytesIO(data), 2, 1, 1 << 20, "a.txt") == long + b"\n"
    assert lines(io.BytesIO(data), 3, None, 1 << 20, "a.txt") == b"end"


@pytest.mark.parametrize(
    ("amount", "words"),
    [(0, "0 bytes"), (1, "1 byte"), (1023, "1,023 bytes"), (1024, "1 KiB"), (10 << 20, "10 MiB"), (1 << 40, "1 TiB")],
)
def test_sizes_are_said_as_people_say_them(amount: int, words: str) -> None:
    assert size(amount) == words
