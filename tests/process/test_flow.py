"""Ring 3. Pushed bytes over real pipes and sockets: order, back-pressure, ends, and who may do what from a callback."""

import asyncio
import os
import random
import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from acp_launch.process.flow import CHUNK_BYTES, HIGH_BYTES, LOW_BYTES, Inflow, Outflow
from tests.looped import bounded

FULL = 4 * HIGH_BYTES  # bytes; more than any pipe or socket takes by itself


class Ends:
    """A pipe or a pair of sockets: what `writer` gets, `reader` reads."""

    def __init__(self, kind: str) -> None:
        self._sockets: list[socket.socket] = []
        if kind == "pipe":
            self.reader, self.writer = os.pipe()
        else:
            self._sockets = list(socket.socketpair())
            self.reader, self.writer = (end.fileno() for end in self._sockets)
        os.set_blocking(self.reader, False)
        os.set_blocking(self.writer, False)

    def close(self, end: str) -> None:
        descriptor = getattr(self, end)
        if descriptor >= 0:
            setattr(self, end, -1)
            if self._sockets:
                self._sockets[end == "writer"].close()
            else:
                os.close(descriptor)


@contextmanager
def ends(kind: str = "pipe") -> Iterator[Ends]:
    made = Ends(kind)
    try:
        yield made
    finally:
        made.close("reader")
        made.close("writer")


@pytest.fixture(params=["pipe", "socket"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def never_called() -> None:
    pytest.fail("this was not to be called")


async def a_turn_of_the_loop() -> None:
    """Everything that was ready has had its turn, twice: a byte came through the selector in the same rounds."""
    await _a_byte_through_the_loop()
    await _a_byte_through_the_loop()


async def _a_byte_through_the_loop() -> None:
    with ends() as witness:
        came = asyncio.Event()
        os.write(witness.writer, b".")
        inflow = Inflow(witness.reader, lambda _: came.set(), never_called)
        await came.wait()
        inflow.close()


def fill(descriptor: int) -> int:
    """Write until nothing more goes in; how much did."""
    taken = 0
    try:
        while True:
            taken += os.write(descriptor, b"x" * 65536)
    except BlockingIOError:
        return taken


# Inflow


@bounded
async def test_what_comes_is_taken_and_the_end_is_told_once(kind: str) -> None:
    with ends(kind) as pair:
        taken: list[bytes] = []
        over = asyncio.Event()

        def ended() -> None:
            assert not over.is_set()
            over.set()

        Inflow(pair.reader, taken.append, ended)
        os.write(pair.writer, b"one\n")
        await a_turn_of_the_loop()
        assert taken == [b"one\n"]
        os.write(pair.writer, b"two\n")
        pair.close("writer")
        await over.wait()
        await a_turn_of_the_loop()
        assert taken == [b"one\n", b"two\n"]


@bounded
async def test_a_peer_that_dies_with_something_unread_is_an_end() -> None:
    """ECONNRESET."""
    with ends("socket") as pair:
        os.write(pair.reader, b"never read")
        pair.close("writer")
        over = asyncio.Event()
        Inflow(pair.reader, lambda _: never_called(), over.set)
        await over.wait()


@bounded
async def test_while_paused_nothing_is_read_and_the_writer_has_to_wait(kind: str) -> None:
    with ends(kind) as pair:
        taken = bytearray()
        over = asyncio.Event()
        inflow = Inflow(pair.reader, taken.extend, over.set)
        inflow.pause()
        inflow.pause()
        written = fill(pair.writer)
        await a_turn_of_the_loop()
        assert taken == b""
        with pytest.raises(BlockingIOError):
            os.write(pair.writer, b"x")
        inflow.resume()
        inflow.resume()
        pair.close("writer")
        await over.wait()
        assert len(taken) == written


@bounded
async def test_who_takes_a_chunk_may_pause_and_gets_no_further_one(kind: str) -> None:
    with ends(kind) as pair:
        fill(pair.writer)
        taken: list[int] = []

        def took(chunk: bytes) -> None:
            taken.append(len(chunk))
            inflow.pause()

        inflow = Inflow(pair.reader, took, never_called)
        await a_turn_of_the_loop()
        fill(pair.writer)
        await a_turn_of_the_loop()
        assert len(taken) == 1
        inflow.resume()
        await a_turn_of_the_loop()
        assert len(taken) == 2
        inflow.close()


@bounded
async def test_who_takes_a_chunk_may_close_flow_and_descriptor(kind: str) -> None:
    with ends(kind) as pair:
        taken: list[bytes] = []

        def took(chunk: bytes) -> None:
            taken.append(chunk)
            inflow.close()
            pair.close("reader")

        fill(pair.writer)
        inflow = Inflow(pair.reader, took, never_called)
        await a_turn_of_the_loop()
        assert len(taken) == 1
        inflow.resume()
        inflow.drain()
        inflow.close()
        await a_turn_of_the_loop()
        assert len(taken) == 1


@bounded
async def test_a_flood_leaves_a_turn_to_everybody_else() -> None:
    """The flood is endless: each chunk that is taken is there again."""
    with ends() as pair:

        def took(chunk: bytes) -> None:
            fill(pair.writer)

        fill(pair.writer)
        inflow = Inflow(pair.reader, took, never_called)
        await a_turn_of_the_loop()
        inflow.close()


@pytest.mark.parametrize("is_paused", [False, True])
@bounded
async def test_what_a_dead_writer_left_is_taken_at_once_and_its_end_not_told(kind: str, is_paused: bool) -> None:
    with ends(kind) as pair:
        taken = bytearray()
        inflow = Inflow(pair.reader, taken.extend, never_called)
        if is_paused:
            inflow.pause()
        written = fill(pair.writer)
        pair.close("writer")
        inflow.drain()
        assert len(taken) == written
        await a_turn_of_the_loop()


@bounded
async def test_what_others_still_hold_open_is_not_waited_for_and_read_no_further() -> None:
    with ends() as pair:
        taken: list[bytes] = []
        inflow = Inflow(pair.reader, taken.append, never_called)
        os.write(pair.writer, b"last words")
        inflow.drain()
        os.write(pair.writer, b"a grandchild's")
        inflow.resume()
        await a_turn_of_the_loop()
        assert taken == [b"last words"]


@bounded
async def test_what_floods_after_its_writers_death_is_taken_up_to_the_limit() -> None:
    with ends() as pair:
        taken: list[int] = []

        def took(chunk: bytes) -> None:
            taken.append(len(chunk))
            fill(pair.writer)

        written = fill(pair.writer)
        inflow = Inflow(pair.reader, took, never_called)
        inflow.drain(3 * written)
        assert taken == [written] * 3


# Outflow


@bounded
async def test_what_the_reader_takes_is_written_before_send_returns(kind: str) -> None:
    with ends(kind) as pair:
        outflow = Outflow(pair.writer, never_called, never_called)
        outflow.send(b"one\n")
        outflow.send(b"")
        assert (os.read(pair.reader, CHUNK_BYTES), outflow.held, outflow.is_full) == (b"one\n", 0, False)
        outflow.close()


@bounded
async def test_what_it_does_not_take_is_kept_and_goes_in_order(kind: str) -> None:
    """Pieces of all sizes, sent before, while and after it is slow."""
    with ends(kind) as pair:
        rolled = random.Random(1)
        pieces = [rolled.randbytes(rolled.choice([1, 100, 5000, 300_000])) for _ in range(300)]
        taken = bytearray()
        over = asyncio.Event()
        empty = asyncio.Event()
        outflow = Outflow(pair.writer, lambda: None if outflow.held else empty.set(), never_called)
        for piece in pieces[:200]:
            outflow.send(piece)
        Inflow(pair.reader, taken.extend, over.set)
        for piece in pieces[200:]:
            outflow.send(piece)
            await asyncio.sleep(0)  # the loop's turn in between, not a wait
        await empty.wait()
        outflow.close()
        pair.close("writer")
        await over.wait()
        assert taken == b"".join(pieces)


@bounded
async def test_room_is_told_when_little_is_left_and_again_when_nothing_is(kind: str) -> None:
    with ends(kind) as pair:
        told: list[int] = []
        empty = asyncio.Event()

        def drained() -> None:
            told.append(outflow.held)
            if not outflow.held:
                empty.set()

        outflow = Outflow(pair.writer, drained, never_called)
        outflow.send(bytes(FULL))
        assert HIGH_BYTES < outflow.held < FULL
        inflow = Inflow(pair.reader, lambda _: None, never_called)
        await empty.wait()
        low, none = told
        assert 0 < low <= LOW_BYTES
        assert none == 0
        inflow.close()
        outflow.close()


@bounded
async def test_a_line_of_50_mb_is_kept_without_a_copy(kind: str) -> None:
    """The flows at both ends hold a few chunks; the line itself is the sender's."""
    with ends(kind) as pair:
        line = bytes(50_000_000)
        taken = 0
        empty = asyncio.Event()

        def took(chunk: bytes) -> None:
            nonlocal taken
            taken += len(chunk)

        tracemalloc.start()
        outflow = Outflow(pair.writer, lambda: None if outflow.held else empty.set(), never_called)
        outflow.send(line)
        inflow = Inflow(pair.reader, took, never_called)
        await empty.wait()
        inflow.drain()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert taken == len(line)
        assert peak < 2_000_000
        outflow.close()


@bounded
async def test_a_reader_that_has_gone_is_told_once_and_not_from_within_send(kind: str) -> None:
    with ends(kind) as pair:
        pair.close("reader")
        told: list[str] = []
        outflow = Outflow(pair.writer, never_called, lambda: told.append("broken"))
        outflow.send(b"one")
        outflow.send(b"two")
        assert told == []
        await a_turn_of_the_loop()
        outflow.send(b"three")
        await a_turn_of_the_loop()
        assert told == ["broken"]


@bounded
async def test_a_reader_that_goes_while_something_is_kept_is_told_and_it_is_dropped(kind: str) -> None:
    with ends(kind) as pair:
        gone = asyncio.Event()

        def broken() -> None:
            assert not gone.is_set() and outflow.held == 0
            gone.set()
            outflow.close()
            pair.close("writer")

        outflow = Outflow(pair.writer, never_called, broken)
        outflow.send(bytes(FULL))
        assert outflow.is_full
        pair.close("reader")
        await gone.wait()
        outflow.send(b"late")
        await a_turn_of_the_loop()
        assert (outflow.held, outflow.is_full) == (0, False)


@bounded
async def test_after_a_close_nothing_is_written_kept_or_told(kind: str) -> None:
    with ends(kind) as pair:
        outflow = Outflow(pair.writer, never_called, never_called)
        outflow.send(bytes(FULL))
        outflow.close()
        outflow.close()
        outflow.send(b"late")
        assert outflow.held == 0
        Inflow(pair.reader, lambda _: None, never_called).drain()
        await a_turn_of_the_loop()
        with pytest.raises(BlockingIOError):
            os.read(pair.reader, 1)


@bounded
async def test_what_is_gathered_leaves_in_one_piece_when_it_is_released() -> None:
    """A pair that keeps writes apart shows them."""
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        outflow = Outflow(writer.fileno(), never_called, never_called)
        outflow.cork()
        outflow.send(b"one\n")
        outflow.send(b"two\n")
        assert outflow.held == 8
        with pytest.raises(BlockingIOError):
            reader.recv(100)
        outflow.uncork()
        outflow.send(b"three\n")
        assert [reader.recv(100), reader.recv(100), outflow.held] == [b"one\ntwo\n", b"three\n", 0]
        outflow.close()


@bounded
async def test_of_what_is_gathered_the_rest_goes_when_it_is_taken_and_room_is_told(kind: str) -> None:
    with ends(kind) as pair:
        taken = bytearray()
        empty = asyncio.Event()
        outflow = Outflow(pair.writer, lambda: None if outflow.held else empty.set(), never_called)
        pieces = [bytes([number % 251]) * 6000 for number in range(500)]
        for half in (pieces[:250], pieces[250:]):  # the second meets what is kept of the first
            outflow.cork()
            for piece in half:
                outflow.send(piece)
            outflow.uncork()
        assert outflow.is_full
        inflow = Inflow(pair.reader, taken.extend, never_called)
        await empty.wait()
        inflow.drain()
        assert taken == b"".join(pieces)
        outflow.close()
