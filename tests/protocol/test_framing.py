"""Ring 1. C-5: long lines in linear time, and a clear end to what is too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.protocol.jsonrpc import ENDS, LineFramer, LineTooLong


def fed(data: bytes, size: int, limit: int = 1 << 20) -> list[bytes]:
    framer = LineFramer(limit=limit)
    return [line for start in range(0, len(data), size) for line in framer.feed(data[start : start + size])]


@pytest.mark.parametrize("size", range(1, 12))
def test_lines_survive_any_chunking(size: int) -> None:
    assert fed(b'{"a":1}\n\n{"b":\r\n2}\nrest', size) == [b'{"a":1}', b"", b'{"b":\r', b"2}"]


@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=8), st.integers(1, 50))
def test_what_goes_in_comes_out(lines: list[bytes], size: int) -> None:
    assert fed(b"".join(line + b"\n" for line in lines), size) == lines


@pytest.mark.parametrize("size", [1, 13, 500])
def test_a_line_past_the_limit_is_the_peers_fault(size: int) -> None:
    """The lines before it, and one of exactly the limit, are delivered."""
    framer = LineFramer(limit=100)
    data = b"ok\n" + b"x" * 100 + b"\n" + b"x" * 101 + b"\n"
    lines: list[bytes] = []
    with pytest.raises(LineTooLong) as caught:
        for start in range(0, len(data), size):
            lines.extend(framer.feed(data[start : start + size]))
    assert str(caught.value) == "a line of more than 100 bytes"
    assert lines == [b"ok", b"x" * 100]


@pytest.mark.parametrize("size", [1, 13, 500])
def test_lines_past_the_limit_can_be_skipped(size: int) -> None:
    said: list[LineTooLong] = []
    framer = LineFramer(limit=10, skip=said.append)
    long = b"<" + b"y" * 5000 + b">"
    data = b"one\n" + b"x" * 11 + b"\ntwo\n" + long + b"\n\nthree\n" + b"z" * 11
    lines = [line for start in range(0, len(data), size) for line in framer.feed(data[start : start + size])]
    assert lines == [b"one", b"two", b"", b"three"]
    assert [str(error) for error in said] == [
        "a line of 11 bytes, where 10 are allowed",
        "a line of 5,002 bytes, where 10 are allowed",
    ], "each at its end"
    assert (said[0].head, said[0].tail) == (b"x" * 11, b"x" * 11)
    assert (long.startswith(said[1].head), long.endswith(said[1].tail)) == (True, True)
    assert said[1].head and len(said[1].tail) == ENDS


def test_a_long_line_is_held_once() -> None:
    """Shape instead of time: 48 MB in 64 KiB chunks are joined one time, so the work is linear."""
    framer = LineFramer(limit=64 << 20)
    chunk = b"x" * 65536
    for _ in range(732):
        assert list(framer.feed(chunk)) == []
    (line,) = framer.feed(b"\n")
    assert len(line) == 732 * 65536
