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


def ids(missed: Missed | None) -> list[int] | None:
    return None if missed is None else [id for id, _ in missed]


def test_a_reader_gets_what_came_after_its_last_event_in_order() -> None:
    window = filled(None, None, None, None)
    assert window.since(2, 0) == [(3, b"event    3"), (4, b"event    4")]
    assert window.since(0, 0) == window.since(0, 0)
    assert window.newest == 4
    assert window.since(4, 0) == []


@pytest.mark.parametrize("last", [None, -1, 4, 10**30])
def test_an_id_that_was_never_given_to_an_event_is_outside(last: int | None) -> None:
    assert filled(None, None, None).since(last, 0) is None


def test_of_events_with_one_key_the_last_is_kept_under_its_own_id() -> None:
    window = filled("a", "b", None, "a", "list", "list", "b", "a", "list", "a", "b")
    assert ids(window.since(0, 0)) == [3, 9, 10, 11]
    assert ids(window.since(9, 0)) == [10, 11]
    assert ids(window.since(1, 0)) == [3, 9, 10, 11], "an event that is superseded was an id of a reader, too"


def test_events_without_a_key_are_all_kept() -> None:
    assert ids(filled(None, "a", None, "a", None).since(0, 0)) == [1, 3, 4, 5]


def test_what_exceeds_the_count_leaves_and_those_who_miss_it_are_outside() -> None:
    window = filled(None, None, None, None, count=2)
    assert window.since(1, 0) is None
    assert ids(window.since(2, 0)) == [3, 4]


def test_what_exceeds_the_bytes_leaves() -> None:
    assert filled(*[None] * 5, size=30).since(1, 0) is None
    assert ids(filled(*[None] * 5, size=30).since(2, 0)) == [3, 4, 5]


def test_an_event_that_is_superseded_takes_no_room() -> None:
    window = filled(None, *["usage"] * 5000, size=20, count=2)
    assert ids(window.since(0, 0)) == [1, 5001]


def test_an_event_as_large_as_the_window_fits_and_a_larger_one_leaves_only_a_gap() -> None:
    window = filled(None, None, size=20)
    window.append(b"x" * 20, key=None, now=0)
    assert ids(window.since(2, 0)) == [3]
    window.append(b"x" * 21, key="a", now=0)
    assert window.since(3, 0) is None
    assert window.since(4, 0) == []
    window.append(b"x", key="a", now=0)
    assert ids(window.since(4, 0)) == [5]
    assert window.since(3, 0) is None


def test_what_is_too_old_leaves_whether_or_not_more_comes() -> None:
    window = filled(None, "a")
    window.append(b"young", key=None, now=30)
    assert ids(window.since(0, 59.9)) == [1, 2, 3]
    assert window.since(1, 60) is None
    assert ids(window.since(2, 60)) == [3]
    window.append(b"younger", key="a", now=90)
    assert window.since(2, 90) is None
    assert window.since(4, 1000) == [], "a reader that has everything misses nothing, however late it asks"


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


class Reader:
    """A reader that loses its connection now and then, and checks what it gets."""

    def __init__(self) -> None:
        self.last = 0
        self.is_connected = True
        self.state: dict[int, int] = {}  # the latest event of each key
        self.unkeyed: list[int] = []

    def take(self, id: int, key: int | None) -> None:
        if not self.is_connected:
            return
        assert id > self.last, "nothing comes twice, or out of order"
        self.last = id
        if key is None:
            self.unkeyed.append(id)
        else:
            self.state[key] = id


class House:
    """A window with readers; `always` is one that is never away."""

    def __init__(self, chance: random.Random) -> None:
        self.window, self.now = Window(count=80, size=12_000, age=60.0), 0.0
        self.always, self.readers = Reader(), [Reader() for _ in range(8)]
        self.returns = {"within": 0, "outside": 0}
        self._keys = dict[int, int | None]()
        self._chance = chance

    def event(self) -> None:
        self.now += self._chance.choice((0.0, 0.01, 0.1))
        key = self._chance.choice((None, *range(10)))
        line = b"%d:" % (self.window.newest + 1) + b"x" * self._chance.randrange(300)
        id = self.window.append(line, key=key, now=self.now)
        self._keys[id] = key
        for reader in (self.always, *self.readers):
            reader.take(id, key)

    def connect(self, reader: Reader) -> None:
        reader.is_connected = True
        missed = self.window.since(reader.last, self.now)
        self.returns["outside" if missed is None else "within"] += 1
        if missed is None:  # it takes the whole state, as one that is new
            reader.last, reader.unkeyed = self.always.last, list(self.always.unkeyed)
            reader.state = dict(self.always.state)
        for id, line in missed or ():
            assert line.startswith(b"%d:" % id)
            reader.take(id, self._keys[id])


@pytest.mark.parametrize("seed", [1, 2])
def test_readers_that_come_and_go_have_it_all_after_a_hundred_thousand_events(seed: int) -> None:
    """M-53, M-54, M-55, M-58: each has what a reader has that was never away."""
    chance = random.Random(seed)
    house = House(chance)
    for _ in range(100_000):
        house.event()
        for reader in house.readers:
            if reader.is_connected:
                reader.is_connected = chance.random() > 0.003
            elif chance.random() < 0.003:
                house.connect(reader)
    for reader in house.readers:
        if not reader.is_connected:
            house.connect(reader)
        assert (reader.state, reader.unkeyed) == (house.always.state, house.always.unkeyed)
    assert min(house.returns.values()) > 10, house.returns


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
