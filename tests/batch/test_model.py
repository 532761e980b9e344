"""What its records say of an item."""

import pytest

from acp_launch.batch.model import Outcome, judge
from tests.batch.directories import RETRY, make_record


def standing(*outcomes: Outcome, opened_after: int = 0, retry: bool = True) -> tuple[int, int, int]:
    """The attempt that is due (0: done), the tries, and the rate limits in a row."""
    records = [make_record(attempt=number, outcome=each) for number, each in enumerate(outcomes, 1)]
    found = judge(records, RETRY if retry else None, opened_after)
    return found.attempt, found.tries, found.limited


def test_an_item_without_a_record_is_due() -> None:
    assert standing() == (1, 0, 0)


@pytest.mark.parametrize("outcome", ["passed", "failed", "empty", "refused", "limited", "denied", "setup_failed"])
def test_an_outcome_that_is_not_retried_is_the_last(outcome: Outcome) -> None:
    assert standing(outcome) == (0, 1, 0)


def test_without_retry_nothing_is_retried() -> None:
    assert standing("agent_died", retry=False) == (0, 1, 0)
    assert standing("rate_limited", retry=False) == (0, 0, 1)


def test_a_retried_outcome_is_due_again_until_the_attempts_are_used_up() -> None:
    assert standing("agent_died") == (2, 1, 0)
    assert standing("agent_died", "agent_died") == (0, 2, 0)


def test_a_rate_limit_is_not_counted_as_an_attempt() -> None:
    assert standing("agent_died", "rate_limited") == (3, 1, 1)
    assert standing("rate_limited", "agent_died", "rate_limited") == (4, 1, 1)


def test_rate_limits_in_a_row_end_an_item() -> None:
    assert standing("rate_limited", "rate_limited") == (0, 0, 2)
    assert standing("rate_limited", "cancelled", "rate_limited") == (0, 0, 2)


def test_cancelled_is_never_done() -> None:
    assert standing("cancelled") == (2, 0, 0)
    assert standing("cancelled", retry=False) == (2, 0, 0)
    assert standing("agent_died", "cancelled", "cancelled") == (4, 1, 0)


def test_an_item_that_was_opened_again_begins_to_count_anew() -> None:
    assert standing("agent_died", "agent_died", opened_after=2) == (3, 0, 0)
    assert standing("agent_died", "agent_died", "agent_died", opened_after=2) == (4, 1, 0)
    assert standing("passed", "failed", opened_after=1) == (0, 1, 0)
