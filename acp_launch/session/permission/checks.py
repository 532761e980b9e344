"""What was decided about the tool calls of a session, to tell those that ran although they should not have."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from acp_launch.session.permission.gate import Gate
from acp_launch.session.permission.subject import Subject
from acp_launch.session.state import call_id

DENIED = "it was denied"
Call = dict[str, Any]


class Settled(Struct, frozen=True):
    """A tool call that was asked about, or reported."""

    allowed: bool
    about: Subject


class Checks:
    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._settled: dict[str, Settled] = {}  # by tool call: the question, and the report
        self._excused: set[str] = set()  # calls that may fail: asked about, whatever the answer, or cancelled

    def excuse(self, calls: Iterable[Call]) -> None:
        """Note calls that may fail without a report."""
        self._excused.update(map(call_id, calls))

    def settle(self, call: Call, *, allowed: bool) -> None:
        """Note the answer to a question about a call."""
        self._settled[call_id(call)] = Settled(allowed, self._gate.about(call))

    def passed_over(self, call: Call) -> str:
        """Return why a call that has ended should not have run as it did; empty if it is fine, or was reported."""
        if call.get("status") not in ("completed", "failed") or not (by := self._reason(call)):
            return ""
        self.settle(call, allowed=True)
        return by

    def _reason(self, call: Call) -> str:
        settled = self._settled.get(call_id(call))
        if settled is None:
            was_asked = call_id(call) in self._excused  # and withdrawn, or cancelled with its turn
            return "" if was_asked and call.get("status") == "failed" else self._gate.passed(call)
        if not settled.allowed:  # a failure is the right result of a denial
            return self._gate.passed(call, by=DENIED) if call.get("status") == "completed" else ""
        return "" if settled.about.includes(self._gate.about(call)) else self._gate.passed(call)
