"""
Policy → which of the agent's options to choose: a pure function (ACP v1 "Requesting permission").

An option is chosen by its kind, never by its position: gemini lists `allow_always` first, qwen lists two
`allow_once` (facts/agents.md). Denying selects a reject option; `cancelled` is not a denial, some agents abort the
whole turn on it (C-64), so it is used only when nothing can be rejected. Allowing prefers `allow_once`: a remembered
choice lives in the agent, beyond any later policy.
"""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from acp_launch.profile.model import Approval

Approve = Literal["all", "reads", "none"]
READS = frozenset({"read", "search"})  # not fetch, think or switch_mode: adapters hide real decisions behind those

ALLOW = ("allow_once", "allow_always")
DENY = ("reject_once", "reject_always")


class Policy(Struct, frozen=True):
    """`default` from the profile, `approve` from the command line, which wins."""

    default: Approval
    approve: Approve | None = None


class Verdict(Struct, frozen=True):
    answer: Approval
    by: str


def judge(policy: Policy, kind: str | None) -> Verdict:
    """Allow, deny or ask, for a tool call of `kind` (None when the agent does not say)."""
    match policy.approve:
        case "all":
            return Verdict("allow", "--approve all")
        case "none":
            return Verdict("deny", "--approve none")
        case "reads" if kind in READS:
            return Verdict("allow", "--approve reads")
        case "reads":
            return Verdict("deny" if policy.default == "deny" else "ask", "--approve reads")
    return Verdict(policy.default, f"permissions.default: {policy.default}")


def choose(allow: bool, options: Sequence[Any]) -> str | None:
    """The id of the option to select, or None when none of that kind was offered."""
    offered: dict[object, object] = {}
    for option in options:
        if isinstance(option, dict):
            offered.setdefault(option.get("kind"), option.get("optionId"))
    for kind in ALLOW if allow else DENY:
        if isinstance(found := offered.get(kind), str):
            return found
    return None
