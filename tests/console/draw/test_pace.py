"""Ring 1. Frames: the first at once, no more than twelve a second, none that nobody asked for."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from acp_launch.console.draw.live_region import FRAMES, Pace


class Due:
    def __init__(self, act: Callable[[], None]) -> None:
        self.act = act
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Clock:
    """An event loop whose time is ours."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waiting: list[tuple[float, Due]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, act: Callable[..., None], *arguments: Any) -> Due:
        due = Due(lambda: act(*arguments))
        self.waiting.append((when, due))
        return due

    def until(self, now: float) -> None:
        self.now = now
        ready = [due for when, due in self.waiting if when <= now]
        self.waiting = [(when, due) for when, due in self.waiting if when > now]
        for due in ready:
            if not due.is_cancelled:
                due.act()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: clock)
    return clock


@pytest.fixture
def frames() -> list[float]:
    """When each was drawn."""
    return []


@pytest.fixture
def pace(clock: Clock, frames: list[float]) -> Pace:
    return Pace(lambda: frames.append(clock.now))


def test_two_hundred_wakes_a_second_are_twelve_frames(clock: Clock, pace: Pace, frames: list[float]) -> None:
    for number in range(400):
        pace.wake()
        clock.until(100 + number / 200)
    assert frames[0] == 100.0
    assert 2 * FRAMES - 2 <= len(frames) <= 2 * FRAMES
    assert min(later - earlier for earlier, later in pairwise(frames)) >= 1 / FRAMES - 1e-9


def test_after_a_rest_the_next_frame_is_drawn_at_once(clock: Clock, pace: Pace, frames: list[float]) -> None:
    for now in (100.0, 105.0):
        clock.now = now
        pace.wake()
        clock.until(now)
    assert frames == [100.0, 105.0]


def test_a_frame_that_is_due_can_be_forgotten(clock: Clock, pace: Pace, frames: list[float]) -> None:
    pace.wake()
    pace.rest()
    clock.until(101)
    assert frames == []
    pace.wake()
    clock.until(102)
    assert frames == [102]


def test_slow_drawing_leaves_time_for_other_things(clock: Clock) -> None:
    frames: list[float] = []

    def draw() -> None:
        frames.append(clock.now)
        clock.now += 0.5

    pace = Pace(draw)
    pace.wake()
    clock.until(100)
    pace.wake()
    assert [when for when, _ in clock.waiting] == [100.5 + 1 / FRAMES]


def test_without_an_event_loop_every_frame_is_drawn_when_it_is_asked_for() -> None:
    frames: list[int] = []
    pace = Pace(lambda: frames.append(1))
    pace.wake()
    pace.wake()
    assert frames == [1, 1]
