"""Ring 1. Which option is chosen: by kind, never by position (C-60, C-64)."""

import itertools
from typing import Any

import pytest

from acp_launch.session.permission import Approve, Policy, choose, judge

KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")


def options(*kinds: str) -> list[dict[str, str]]:
    return [{"optionId": f"id-{kind}-{place}", "name": kind, "kind": kind} for place, kind in enumerate(kinds)]


@pytest.mark.parametrize("order", list(itertools.permutations(KINDS)))
def test_allowing_prefers_once_and_denying_prefers_once_in_any_order(order: tuple[str, ...]) -> None:
    assert choose(True, options(*order)) == f"id-allow_once-{order.index('allow_once')}"
    assert choose(False, options(*order)) == f"id-reject_once-{order.index('reject_once')}"


def test_of_several_of_one_kind_the_first_is_chosen() -> None:
    """qwen lists two allow_once, codex two allow_always."""
    assert choose(True, options("allow_always", "allow_once", "allow_once")) == "id-allow_once-1"


def test_always_is_chosen_only_where_once_is_not_offered() -> None:
    assert choose(True, options("reject_once", "allow_always")) == "id-allow_always-1"
    assert choose(False, options("allow_once", "reject_always")) == "id-reject_always-1"


@pytest.mark.parametrize(
    "offered",
    [
        [],
        options("allow_once"),
        ["x", None, 3, {}],
        [{"kind": "reject_once"}],
        [{"kind": "reject_once", "optionId": 7}],
    ],
)
def test_nothing_is_invented_where_nothing_can_be_rejected(offered: list[Any]) -> None:
    assert choose(False, offered) is None


@pytest.mark.parametrize(
    ("approve", "default", "kind", "answer"),
    [
        (None, "ask", "edit", "ask"),
        (None, "allow", "execute", "allow"),
        (None, "deny", "read", "deny"),
        ("all", "deny", "execute", "allow"),
        ("none", "allow", "read", "deny"),
        ("reads", "ask", "read", "allow"),
        ("reads", "ask", "search", "allow"),
        ("reads", "ask", "edit", "ask"),
        ("reads", "allow", "edit", "ask"),
        ("reads", "deny", "edit", "deny"),
        ("reads", "ask", "fetch", "ask"),
        ("reads", "ask", "switch_mode", "ask"),
        ("reads", "ask", "think", "ask"),
        ("reads", "ask", "other", "ask"),
        ("reads", "ask", None, "ask"),
    ],
)
def test_the_command_line_wins_over_the_profile_and_harmless_names_are_not_believed(
    approve: Approve | None, default: Any, kind: str | None, answer: str
) -> None:
    assert judge(Policy(default, approve), kind).answer == answer


def test_the_verdict_says_who_decided() -> None:
    assert judge(Policy("deny"), "edit").by == "permissions.default: deny"
    assert judge(Policy("deny", "all"), "edit").by == "--approve all"
