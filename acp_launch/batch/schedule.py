"""
Which item starts when. Pure: it counts and compares moments that it is given, and never waits.

Items start in their order, at most `jobs` at once. Each is in a lane: its profile's account's, which may have
`jobs` and `start_every`; without an account it is the profile's own, which has no limits. A rate limit closes the lane
for a while. Items of a full or closed lane hold up no others.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf

from acp_launch.batch.model import Account, Backoff, Item, Limits, Retry

JITTER = 0.1  # at most so much longer is a backoff, as a share of it: items that failed together do not return together
MAX_PAUSE_SECONDS = 8 * 86400.0  # of an account; the longest known limit is a week


def grow(backoff: Backoff, times: int) -> float:
    """Return the backoff in seconds after the `times`-th time in a row, from 1."""
    return float(min(backoff.max, backoff.initial * 2.0 ** min(times - 1, 60)))


class Lane:
    """The items of an account, or of a profile without one."""

    def __init__(self, name: str, account: Account | None) -> None:
        self.name = name
        self.account = name if account else None
        self.jobs = account.jobs or inf if account else inf
        self.start_every = float(account.start_every or 0) if account else 0.0
        self.ready: list[int] = []  # a heap of indexes
        self.running = 0
        self.next_start = 0.0  # by `start_every`
        self.paused_at, self.paused_until, self.pauses = -inf, 0.0, 0  # `pauses` counts those in a row

    @property
    def opens(self) -> float:
        """The moment from which an item may start; infinite while it is full."""
        return max(self.next_start, self.paused_until) if self.running < self.jobs else inf


class Schedule:
    """The items that wait and run. `now` is the same clock everywhere, in seconds."""

    def __init__(
        self, items: Sequence[Item], limits: Limits, retry: Retry | None, jobs: int, jitter: Callable[[], float]
    ) -> None:
        """`jitter` returns a number between 0 and 1."""
        self._items = {item.index: item for item in items}
        self._backoff = retry.backoff if retry else Backoff()
        self._jitter = jitter
        of_profile = {profile: name for name, each in limits.accounts.items() for profile in each.profiles}
        by_name = {name: Lane(name, each) for name, each in limits.accounts.items()}
        self._lanes: dict[str, Lane] = {
            name: by_name[of_profile[name]] if name in of_profile else Lane(name, None)
            for name in {item.profile: None for item in items}
        }
        self.lanes = tuple({id(lane): lane for lane in self._lanes.values()}.values())
        self._later: list[tuple[float, int]] = []  # a heap: when, and the index of the item
        self.jobs, self.running = jobs, 0

    def lane_of(self, item: Item) -> Lane:
        return self._lanes[item.profile]

    @property
    def most(self) -> float:
        """How many items can run at once."""
        return min(self.jobs, sum(lane.jobs for lane in self.lanes))

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not (self.running or self._later or any(lane.ready for lane in self.lanes))

    def add(self, item: Item, at: float = 0.0) -> None:
        """Let an item start from this moment on."""
        heappush(self._later, (at, item.index))

    def add_again(self, item: Item, now: float, times: int) -> float:
        """Let an item start again after the backoff of its `times`-th end in a row; return its seconds."""
        seconds = grow(self._backoff, times) * (1 + JITTER * self._jitter())
        self.add(item, now + seconds)
        return seconds

    def take(self, now: float) -> Item | None:
        """Take the first item that may start now."""
        while self._later and self._later[0][0] <= now:
            _, index = heappop(self._later)
            heappush(self.lane_of(self._items[index]).ready, index)
        open_lanes = [lane for lane in self.lanes if lane.ready and lane.opens <= now]
        if self.running >= self.jobs or not open_lanes:
            return None
        lane = min(open_lanes, key=lambda each: each.ready[0])
        lane.running += 1
        lane.next_start = now + lane.start_every
        self.running += 1
        return self._items[heappop(lane.ready)]

    def end(self, item: Item) -> None:
        """Note that an item which was taken has ended."""
        self.running -= 1
        self.lane_of(item).running -= 1

    def next_moment(self) -> float:
        """Return the moment at which `take` may give more without another end; infinite if there is none."""
        if self.running >= self.jobs:
            return inf
        moments = [lane.opens for lane in self.lanes if lane.ready]
        return min([*moments, self._later[0][0] if self._later else inf])

    def pause(self, item: Item, begun: float, now: float, seconds: float | None) -> float:
        """Close the lane of an item that met a rate limit, and return for how many seconds.

        `seconds` are the agent's, None for a backoff. It grows only for a start after the pause before: items that ran
        together meet one limit.
        """
        lane = self.lane_of(item)
        if begun >= lane.paused_at:
            lane.pauses += 1
            lane.paused_at = now
        grown = grow(self._backoff, lane.pauses) * (1 + JITTER * self._jitter())
        lane.paused_until = max(
            lane.paused_until, now + (grown if seconds is None else min(seconds, MAX_PAUSE_SECONDS))
        )
        return lane.paused_until - now

    def forget_pauses(self, item: Item) -> None:
        """Let the next pause of an item's lane be a short one again: the item met no rate limit."""
        self.lane_of(item).pauses = 0
