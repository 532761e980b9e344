"""
The gate for tool calls of the agent, and for files and commands that we serve to it.

The policy answers at once if it can, else the user; if the user cannot be asked, the answer is no. Every answer is
recorded (`audit`). An answer for this session lives here, as long as this launch: a session that is continued later
asks again, as its agent does. A permanent answer is stored for the profile (`audit`).
"""

import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.protocol import acp
from acp_launch.session.events import DENIED, USER, Ask, Decision, Holds, ToolQuestion, Way
from acp_launch.session.permission.globs import Links, real
from acp_launch.session.permission.policy import (
    Policy,
    Remembered,
    Verdict,
    choose,
    covers_service,
    is_choice,
    judge,
    remember,
)
from acp_launch.session.permission.subject import Subject
from acp_launch.session.state import call_id

# What was allowed in this turn, and whether a file or a command that we are asked to serve is exactly that. Pure.
#
# A permission is for a kind of act: allowing to read a file does not allow to write it. A command is the same if it
# runs in the same directory; a change is the same if it is the one that was shown, if one was shown.


Change = tuple[str, str]  # the text that goes, the text that comes
KINDS = frozenset({"edit", "execute"})


class TurnGrant(Struct, frozen=True):
    """A call that was allowed.

    `changes` are those that were shown, by path; `cwd` is where its command runs, if known.
    """

    kind: str
    about: Subject
    changes: Mapping[str, tuple[Change, ...]]
    cwd: str

    def covers(self, call: Mapping[str, Any], about: Subject, *, cwd: str, links: Links = ()) -> bool:
        """Whether `call` is what was allowed; `cwd` is the session's directory, `links` as in the policy."""
        if self.kind not in KINDS or call.get("kind") != self.kind:
            return False
        if self.kind == "execute":
            return self._covers_command(about) and _directory(call, links) in (real(cwd, links), self.cwd)
        changed = _changes(call, links)
        if not about.paths or not all(path and path in self.about.paths for path in about.paths):
            return False
        return all(self._is_shown(path, change) for path, changes in changed.items() for change in changes)

    def _covers_command(self, about: Subject) -> bool:
        allowed = {reading for readings in self.about.commands for reading in readings}
        is_same = all(any(reading in allowed for reading in readings) for readings in about.commands)
        return bool(about.commands) and is_same

    def _is_shown(self, path: str, change: Change) -> bool:
        """Whether the change was shown. Agents show a whole file, or only the changed places, one after the other."""
        shown = self.changes.get(path)
        if shown is None:
            return True  # the file itself was allowed
        before, after = change
        if any(new == after for _, new in shown):
            return True
        for old, new in shown:
            if not old or old not in before:
                return False
            before = before.replace(old, new, 1)
        return before == after


def _changes(call: Mapping[str, Any], links: Links) -> dict[str, tuple[Change, ...]]:
    """Return the changes by real path."""
    found: dict[str, tuple[Change, ...]] = {}
    for content in map(acp.mapping, acp.sequence(call.get("content"))):
        if content.get("type") == "diff":
            change = (acp.text(content.get("oldText")), acp.text(content.get("newText")))
            path = real(acp.text(content.get("path")), links)
            found[path] = (*found.get(path, ()), change)
    return found


def _directory(call: Mapping[str, Any], links: Links) -> str:
    return real(acp.text(acp.mapping(call.get("rawInput")).get("cwd")), links)


Call = dict[str, Any]
NO_TERMINAL = "and no terminal to ask on"
WHICH = "which does not say which of the agent's choices"
READ = "read"
GRANTS = 1_000  # grants known at a time; older ones are asked about again
SERVICE_OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "session", "name": "Allow for this session", "kind": "allow_always"},
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "no", "name": "Deny", "kind": "reject_once"},
    {"optionId": "never", "name": "Always deny", "kind": "reject_always"},
]


class DecisionLog(Protocol):
    """Stores and records decisions."""

    def keep(self, answer: Remembered | None, *, holds: Holds, session: str) -> Remembered | None:
        """Store an answer, None for one to a call that does not say enough. Returns the remembered answer, if any."""

    def record(self, how: Way, call: Call, options: list[Any], decision: Decision, session: str) -> None:
        """Record a decision. `session` is our name for it."""


class Gate:
    def __init__(self, policy: Policy, ask: Ask | None = None, log: DecisionLog | None = None) -> None:
        """Set the policy; `ask` is None if the user cannot be asked."""
        self.policy = policy
        self.ask = ask
        self._log = log
        self._granted: deque[TurnGrant] = deque(maxlen=GRANTS)  # in this turn
        self._latest: tuple[Call, Subject] | None = None  # the call judged last

    def enter(self, session: str) -> None:
        """Serve the session `session`, by our name for it, from now on."""
        self.policy = replace(self.policy, session=session)

    def begin(self) -> None:
        """Begin a new session: answers for another session of this name do not hold."""
        others = (answer for answer in self.policy.remembered if answer.session != self.policy.session)
        self.policy = replace(self.policy, remembered=tuple(others))

    def decide_by_policy(self, call: Call, options: list[Any]) -> Decision | None:
        """Return the policy's answer to a question of the agent; None if the user must be asked."""
        verdict = self._judge(call)
        if verdict.answer == "allow" and is_choice(options):
            verdict = replace(verdict, answer="ask", by=f"{verdict.by}, {WHICH}")
        if verdict.answer == "ask" and self.ask is not None:
            return None
        return self._conclude(call, options, verdict)

    async def ask_user(self, call: Call, options: list[Any], how: Way = "asked", announced: str = "") -> Decision:
        """Ask the user. `announced` is the call's title before the question changed it."""
        assert self.ask is not None, "decide_by_policy returns None only if there is a user to ask"
        log = None if is_choice(options) else self._log  # no answer to a choice is kept
        would_keep = self._storable(call, True) if log is not None else None
        scope = would_keep.scope if would_keep else ""
        question = ToolQuestion(
            call=call, options=options, announced=announced, is_keepable=would_keep is not None, scope=scope
        )
        session = self.policy.session  # the user may leave it while being asked
        answer = await self.ask(question)
        kinds: dict[str, object] = {}
        for option in map(acp.mapping, options):
            kinds.setdefault(acp.text(option.get("optionId")), option.get("kind"))  # the first one was shown
        allowed = answer.option_id is not None and str(kinds.get(answer.option_id, "")).startswith("allow")
        kept = None
        if answer.holds != "once" and log is not None:
            kept = log.keep(self._storable(call, allowed), holds=answer.holds, session=session)
        by = answer.by
        if kept is not None:
            self.policy = replace(self.policy, remembered=(*self.policy.remembered, kept))
            by = f"{answer.by}, {'for good' if kept.session is None else 'in this session'}"
        is_unasked = answer.by != USER and not allowed
        return self._note(how, call, options, Decision(allowed, answer.option_id, by, is_unasked))

    def _storable(self, call: Call, allowed: bool) -> Remembered | None:
        """Return the answer that allowing or denying this call stores."""
        return remember(call, allowed, self.about(call), since=time.time())

    async def serve(self, call: Call) -> str:
        """Decide whether we may do this for the agent. Returns an empty text, or why not.

        What was allowed in this turn needs no second question. Reading is governed by the profile's `client.fs`: here
        only a rule refuses it.
        """
        verdict = self._judge(call)
        if verdict.answer == "ask" and verdict.is_default and (by := self._is_granted(call)):
            if call.get("kind") != READ:  # agents read so often that the record would be useless
                self._note("service", call, [], Decision(True, None, by), is_grant=False)
            return ""
        if verdict.answer == "ask" and self.ask is not None:
            decision = await self.ask_user(call, SERVICE_OPTIONS, "service")
        else:
            decision = self._conclude(call, SERVICE_OPTIONS, verdict, "service")
        return "" if decision.allowed else f"denied: {decision.by}"

    def deny_reason(self, call: Call) -> str:
        """Return why nothing may do this for the agent, an editor neither; empty if the policy does not deny it."""
        verdict = self._judge(call)
        if verdict.answer != "deny":
            return ""
        self._note("service", call, [], Decision(False, None, verdict.by))
        return f"denied: {verdict.by}"

    def audit_unasked(self, call: Call, *, by: str = "") -> str:
        """Return the rule by which a call that ran without a question should have been asked about; empty if it was
        fine.

        `by` says why it should not have run at all.
        """
        verdict = judge(self.policy, call)
        if verdict.answer == "allow" and not by:
            return ""
        self._note("unasked", call, [], Decision(True, None, by or verdict.by), is_grant=False)
        return by or verdict.by

    def new_turn(self) -> None:
        """Forget what was allowed in the last turn."""
        self._granted.clear()

    def _conclude(self, call: Call, options: list[Any], verdict: Verdict, how: Way = "asked") -> Decision:
        allowed, is_unasked = verdict.answer == "allow", verdict.answer == "ask"
        by = f"{verdict.by}, {NO_TERMINAL}" if is_unasked else verdict.by
        option_id = choose(allowed, options)
        return self._note(how, call, options, Decision(allowed and option_id is not None, option_id, by, is_unasked))

    def _note(self, how: Way, call: Call, options: list[Any], decision: Decision, *, is_grant: bool = True) -> Decision:
        if self._log:
            self._log.record(how, call, options, decision, self.policy.session)
        if decision.allowed and is_grant:
            changes, cwd = _changes(call, self.policy.links), _directory(call, self.policy.links)
            self._granted.append(TurnGrant(acp.text(call.get("kind")), self.about(call), changes, cwd))
        return decision

    def _is_granted(self, call: Call) -> str:
        """Return what allows it, or an empty text."""
        if call.get("kind") == READ:
            return "client.fs"
        about = self.about(call)
        cwd, links = self.policy.cwd, self.policy.links
        is_known = any(known.covers(call, about, cwd=cwd, links=links) for known in self._granted)
        if is_known:
            return "allowed in this turn"
        kept = next((kept for kept in self.policy.kept if covers_service(kept, about, cwd=cwd)), None)
        return f"your earlier answer: {kept}" if kept else ""

    def _judge(self, call: Call) -> Verdict:
        """Judge a question whose call has no other user and does not change."""
        self._latest = (call, self.about(call))
        return judge(self.policy, *self._latest)

    def checks(self) -> "Checks":
        """Return checks of the calls of a session."""
        return Checks(self)

    def about(self, call: Call) -> Subject:
        if self._latest is not None and self._latest[0] is call:
            return self._latest[1]
        return self.policy.about(call)


# What was decided about the tool calls of a session, to tell those that ran although they should not have.


class Settled(Struct, frozen=True):
    """A tool call that was asked about, or reported."""

    allowed: bool
    about: Subject


class Checks:
    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._settled: dict[str, Settled] = {}  # by tool call: the question, and the report
        self._excused: set[str] = set()  # calls that may fail: asked about, whatever the answer, or cancelled

    def allow_failure(self, calls: Iterable[dict[str, Any]]) -> None:
        """Note calls that may fail without a report."""
        self._excused.update(map(call_id, calls))

    def record_answer(self, call: dict[str, Any], *, allowed: bool) -> None:
        """Note the answer to a question about a call."""
        self._settled[call_id(call)] = Settled(allowed, self._gate.about(call))

    def passed_over(self, call: dict[str, Any]) -> str:
        """Return why a call that has ended should not have run as it did; empty if it is fine, or was reported."""
        if call.get("status") not in ("completed", "failed") or not (by := self._reason(call)):
            return ""
        self.record_answer(call, allowed=True)
        return by

    def _reason(self, call: dict[str, Any]) -> str:
        settled = self._settled.get(call_id(call))
        if settled is None:
            was_asked = call_id(call) in self._excused  # and withdrawn, or cancelled with its turn
            return "" if was_asked and call.get("status") == "failed" else self._gate.audit_unasked(call)
        if not settled.allowed:  # a failure is the right result of a denial
            return self._gate.audit_unasked(call, by=DENIED) if call.get("status") == "completed" else ""
        return "" if settled.about.includes(self._gate.about(call)) else self._gate.audit_unasked(call)
