"""The window of events that a reader may have missed: what it gives, once, in order, within bounds. Pure."""

import random
import tracemalloc
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.protocol.window import Missed, Window


def filled(*keys: str | None, count: int = 1000, size: int = 1000) -> Window:
    """Return a window with one event of 10 bytes for each key, all at 0 s."""
    window = Window(count=count, size=size, age=60)
    for number, key in enumerate(keys, 1):
        assert window.append(b"event %4d" % number, key=key, now=0) == number
    return window


@pytest.mark.parametrize("last", [None, -1, 4, 10**30])
def test_an_id_that_was_never_given_to_an_event_is_outside(last: int | None) -> None:
    assert filled(None, None, None).since(last, 0) is None


class Event(NamedTuple):
    """An event as the model has it."""

    id: int
    line: bytes
    key: int | None
    at: float


class Model:
    """The window as it is described: a list, and everything by search."""

    def __init__(self, count: int, size: int, age: float) -> None:
        self.count, self.size, self.age = count, size, age
        self.kept: list[Event] = []
        self.lost = 0

    def append(self, event: Event) -> None:
        self.kept = [one for one in self.kept if event.key is None or one.key != event.key] + [event]
        self.trim(event.at)

    def trim(self, now: float) -> None:
        while self.kept and (
            len(self.kept) > self.count
            or sum(len(one.line) for one in self.kept) > self.size
            or now >= self.kept[0].at + self.age
        ):
            self.lost = self.kept.pop(0).id

    def since(self, last: int, now: float) -> Missed | None:
        self.trim(now)
        return [(one.id, one.line) for one in self.kept if one.id > last] if last >= self.lost else None


EVENTS = st.tuples(st.integers(0, 30), st.none() | st.integers(0, 3), st.integers(0, 4))  # bytes, key, seconds before
LIMITS = st.tuples(st.integers(0, 12), st.integers(0, 120), st.integers(1, 30))


@given(LIMITS, st.lists(EVENTS, max_size=60), st.integers(0, 40))
def test_the_window_gives_what_its_description_says(
    limits: tuple[int, int, int], events: list[tuple[int, int | None, int]], rest: int
) -> None:
    """M-52, M-53, M-54, M-55, M-58: from every id that was ever given, after every event, and after a pause."""
    count, size, age = limits
    window, model, now = Window(count=count, size=size, age=age), Model(count, size, age), 0.0
    for number, (length, key, pause) in enumerate(events, 1):
        now += pause
        line = b"%d:" % number + b"x" * length
        assert window.append(line, key=key, now=now) == number
        model.append(Event(number, line, key, now))
        for last in range(number + 1):
            assert window.since(last, now) == model.since(last, now)
    now += rest
    for last in range(len(events) + 1):
        assert window.since(last, now) == model.since(last, now)


@pytest.mark.sample(1)
@pytest.mark.parametrize("few", [True, False], ids=["one key in ten", "each its own key"])
def test_memory_stays_bounded_under_a_hundred_thousand_events(few: bool) -> None:
    """M-58."""
    window = Window(count=1000, size=1024 * 1024)
    tracemalloc.start()
    try:
        for number in range(100_000):
            window.append(b"%2000d" % number, key=number % 10 or None if few else number, now=number / 1000)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    kept = window.since(window.newest - 100, 100.0)
    assert kept is not None
    assert peak < 1.5 * 1024 * 1024, (held, peak)


def test_readers_that_take_pieces_have_what_others_have_one_by_one() -> None:
    """Also where the window loses what a reader has not taken yet; what is kept for them is little."""
    for seed in range(20):
        chance = random.Random(seed)
        window = Window(count=chance.choice([10, 100, 10_000]))
        places = dict.fromkeys(range(3), 0)
        for number in range(500):
            window.append(b"%d\n" % number, key=None, now=0.0)
            reader = chance.randrange(10)
            if reader not in places:
                continue
            last, size = places[reader], chance.choice([1, 50, 5000])
            piece, missed = window.joined(last, size, 0.0), window.since(last, 0.0)
            if piece is None or missed is None:
                assert (piece, missed) == (None, None)
                places[reader] = window.newest
                continue
            end, lines = piece
            assert lines == b"".join(line for id, line in missed if id <= end)
            assert window.between(last, end) == [each for each in missed if each[0] <= end]
            assert end == window.newest or len(lines) >= size
            places[reader] = end


def test_an_event_that_is_not_spared_yet_stays_beyond_all_limits() -> None:
    window = Window(count=2, size=25, age=60)
    spared = 0
    window.spare = lambda: spared
    for _ in range(4):
        window.append(b"event of ten", key=None, now=0)
    assert (window.lost, window.appended) == (0, 48)
    spared = 3
    window.append(b"one", key=None, now=100)
    assert (window.lost, [id for id, _ in window.since(3, 100) or ()]) == (3, [4, 5])
