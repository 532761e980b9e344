"""The last lines of a child: pure, any chunking, bounded."""

import pytest

from acp_launch.process.child import MAX_LINE_BYTES, STDERR_LINES, Tail


def tail_of(*chunks: bytes) -> list[str]:
    tail = Tail()
    for chunk in chunks:
        tail.feed(chunk)
    return tail.lines()


@pytest.mark.parametrize("size", range(1, 9))
def test_lines_survive_any_chunking(size: int) -> None:
    text = "one\ntwo\r\n\nthrée\nlast".encode()
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    assert tail_of(*chunks) == ["one", "two", "thrée", "last"]


def test_only_the_last_fifty_lines_are_kept() -> None:
    assert tail_of(b"".join(b"%d\n" % number for number in range(1000))) == [
        str(number) for number in range(1000 - STDERR_LINES, 1000)
    ]


def test_the_open_line_counts_among_the_fifty() -> None:
    lines = tail_of(b"x\n" * STDERR_LINES, b"open")
    assert (len(lines), lines[-1]) == (STDERR_LINES, "open")


def test_a_line_without_end_is_cut_and_costs_no_more_memory_than_its_beginning() -> None:
    assert tail_of(*[b"y" * 70_000] * 5, b"\nnext") == ["y" * MAX_LINE_BYTES, "next"]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert tail_of(b"caf\xe9\n") == ["caf\ufffd"]


def test_of_a_progress_bar_every_state_is_a_line() -> None:
    assert tail_of(b"10%\r50%\r100%\n") == ["10%", "50%", "100%"]
