"""Record of permission decisions: the audit log, and the answers remembered for the profile."""

import time
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from acp_launch.errors import LaunchError
from acp_launch.plan.model import LaunchPlan
from acp_launch.session.permission.audit import Audit
from acp_launch.session.permission.gate import Decision, How
from acp_launch.session.permission.links import of_launch
from acp_launch.session.permission.policy import Remembered, remember
from acp_launch.session.permission.remembered import AnswerStore, keep
from acp_launch.session.person import Holds


class Ledger:
    """Records the permission decisions of one launch; implements `session.permission.gate.DecisionLog`."""

    def __init__(self, plan: LaunchPlan, shelf: AnswerStore, home: str, note: Callable[[str], None]) -> None:
        """`note` receives a message when an answer or a record cannot be saved."""
        self._cwd, self._home, self._links = str(plan.cwd), home, of_launch(plan, home)
        self._shelf = shelf
        self._note = note
        self._audit = Audit(shelf.state, plan.profile, project=str(plan.project), note=note)

    def keep(self, call: dict[str, Any], *, allowed: bool, holds: Holds, session: str) -> Remembered | None:
        answer = remember(call, allowed, cwd=self._cwd, home=self._home, since=time.time(), links=self._links)
        if answer is None:
            self._note("this answer applies only once: the call does not say enough to be recognized again")
            return None
        here = replace(answer, session=session)
        if holds != "always":
            return here
        try:
            keep(self._shelf, answer)
        except LaunchError as error:
            self._note(f"the answer applies only to this session and could not be saved: {error.message}")
            return here
        return answer

    def record(self, how: How, call: dict[str, Any], options: list[Any], decision: Decision, session: str) -> None:
        self._audit.record(
            how,
            call,
            options,
            allowed=decision.allowed,
            by=decision.by,
            option_id=decision.option_id,
            session=session,
            cwd=self._cwd,
        )

    def close(self) -> None:
        self._audit.close()
