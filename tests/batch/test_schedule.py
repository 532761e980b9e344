"""Which item starts when; with moments as numbers."""

from math import inf

from acp_launch.batch.model import Backoff, Item, Limits
from acp_launch.batch.schedule import MAX_PAUSE_SECONDS, Schedule, grow
from acp_launch.document.scalars import Duration
from tests.batch.made import RETRY, account


def make_items(*ids: str) -> list[Item]:
    return [Item(id=id, index=index, task=id, profile=id.partition(".")[2], repo="/") for index, id in enumerate(ids)]


def schedule(*ids: str, jobs: int = 100, jitter: float = 0.0, limits: Limits | None = None) -> Schedule:
    items = make_items(*ids)
    made = Schedule(items, limits or Limits(), RETRY, jobs, lambda: jitter)
    for item in items:
        made.add(item)
    return made


def take(made: Schedule, now: float) -> list[str]:
    """Take all that may start now."""
    return [item.id for item in iter(lambda: made.take(now), None)]


def test_items_start_in_their_order_and_at_most_jobs_at_once() -> None:
    made = schedule("b", "a", "c", jobs=2)
    assert take(made, 0) == ["b", "a"]
    assert made.next_moment() == inf
    made.end(make_items("b")[0])
    assert take(made, 1) == ["c"]


def test_an_account_has_its_own_jobs_and_holds_up_no_others() -> None:
    made = schedule("1.x", "2.x", "3.x", "4.y", limits=Limits(accounts={"one": account("x", jobs=1)}))
    assert take(made, 0) == ["1.x", "4.y"]
    made.end(make_items("1.x")[0])
    assert take(made, 0) == ["2.x"]


def test_profiles_of_one_account_share_it() -> None:
    shared = Limits(accounts={"one": account("x", "y", jobs=1)})
    assert take(schedule("1.x", "2.y", limits=shared), 0) == ["1.x"]


def test_an_account_staggers_its_starts() -> None:
    made = schedule("1.x", "2.x", "3.y", limits=Limits(accounts={"one": account("x", start_every=2)}))
    assert take(made, 10) == ["1.x", "3.y"]
    assert made.next_moment() == 12
    assert take(made, 11.9) == []
    assert take(made, 12) == ["2.x"]


def test_a_rate_limit_pauses_all_items_of_its_account_and_no_others() -> None:
    made = schedule("1.x", "2.x", "3.y", limits=Limits(accounts={"one": account("x", jobs=1)}))
    first = make_items("1.x")[0]
    assert take(made, 0) == ["1.x", "3.y"]
    made.end(first)
    assert made.pause(first, 0, 5, 60) == 60
    assert take(made, 64) == []
    assert made.next_moment() == 65
    assert take(made, 65) == ["2.x"]


def test_without_an_account_a_rate_limit_pauses_the_items_of_its_profile() -> None:
    made = schedule("1.x", "2.x", "3.y", jobs=1)
    assert take(made, 0) == ["1.x"]
    made.end(make_items("1.x")[0])
    made.pause(make_items("1.x")[0], 0, 1, None)
    assert take(made, 1) == ["3.y"]


def test_pauses_grow_but_items_that_ran_together_met_one_limit() -> None:
    made = schedule("1.x", "2.x")
    one, two = make_items("1.x", "2.x")
    take(made, 0)
    assert made.pause(one, 0, 1, None) == 30
    assert made.pause(two, 0, 2, None) == 30
    assert made.pause(one, 40, 41, None) == 60
    assert made.pause(one, 110, 111, None) == 100, "the most"
    made.forget_pauses(one)
    assert made.pause(one, 220, 221, None) == 30


def test_a_shorter_pause_does_not_end_a_longer_one() -> None:
    made = schedule("1.x", "2.x")
    one, two = make_items("1.x", "2.x")
    made.pause(one, 0, 0, 600)
    assert made.pause(two, 0, 10, 60) == 590


def test_an_agent_pauses_its_account_for_a_bounded_time() -> None:
    made = schedule("1.x")
    assert made.pause(make_items("1.x")[0], 0, 0, 1e12) == MAX_PAUSE_SECONDS


def test_an_item_that_failed_starts_again_after_its_backoff() -> None:
    made = schedule("a", jitter=0.5)
    first = make_items("a")[0]
    assert take(made, 0) == ["a"]
    made.end(first)
    assert made.add_again(first, 100, 2) == 60 * 1.05
    assert made.next_moment() == 163
    assert not made.is_empty
    assert take(made, 162) == []
    assert take(made, 163) == ["a"]


def test_a_backoff_doubles_up_to_its_most() -> None:
    backoff = Backoff(initial=Duration(30), max=Duration(900))
    assert [grow(backoff, times) for times in (1, 2, 3, 6, 10_000)] == [30, 60, 120, 900, 900]


def test_a_schedule_is_empty_once_all_have_ended() -> None:
    made = schedule("a")
    assert take(made, 0) == ["a"]
    assert not made.is_empty
    made.end(make_items("a")[0])
    assert made.is_empty
