"""What `:sessions`, `:permissions` and `:usage` say."""

import time
from collections.abc import Iterator, Sequence

from acp_launch.console.permissions import about
from acp_launch.console.sessions import ago
from acp_launch.interactive.state import CurrentSession
from acp_launch.session.permission.policy import Policy
from acp_launch.session.store.registry import Record


def sessions(records: Sequence[Record], here: str) -> Iterator[str]:
    """A line for each; the one we are in is marked."""
    for record in records:
        mark = "*" if record.name == here else " "
        yield f"{mark} {record.name}  {ago(record.last_used, now=time.time())}  {record.title}"


def permissions(policy: Policy) -> Iterator[str]:
    """The policy in the order in which it is asked."""
    if policy.approve:
        yield f"  --approve {policy.approve}"
    for number, rule in enumerate(policy.rules, 1):
        yield f"  {number}. {rule}"
    for kept in policy.kept:
        yield f"  {kept}: {about(kept)}"
    yield f"  default: {policy.default}"


def usage(current: CurrentSession) -> Iterator[str]:
    """What the agent told of this session, and of its last turn."""
    told = current.client.state.usage
    if told.used is not None and told.size:
        yield f"  context: {told.used:,} of {told.size:,} tokens ({told.used / told.size:.0%})"
    if told.cost:
        yield f"  cost: {told.cost.amount:.4g} {told.cost.currency}"
    for name, count in ((current.last.usage if current.last else None) or {}).items():
        yield f"  last turn, {name}: {count}"
    yield f"  turns here: {current.turns}"
