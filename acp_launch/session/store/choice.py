"""Which session a run opens: the one named, the latest, or a new one under a name of its own (DESIGN §7)."""

import os
import re
import time

from acp_launch.errors import SessionError
from acp_launch.plan.model import LaunchPlan
from acp_launch.session.store.registry import Record, Registry


def fresh_name() -> str:
    """A name for a session that nobody named: sorts by time, and two runs in one second differ."""
    return time.strftime("%Y%m%d-%H%M%S-") + os.urandom(2).hex()


def is_fresh(name: str) -> bool:
    """Whether it looks like one of those."""
    return re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", name) is not None


def latest_name(registry: Registry, plan: LaunchPlan) -> str:
    """The session of this project and profile that was used last.

    Raises:
        SessionError: there is none.
    """
    record = registry.latest(str(plan.project), plan.profile)
    if record is None:
        raise SessionError(
            f'there is no session of profile "{plan.profile}" in {plan.project} to continue',
            fix="run it once without --continue; acp-launch session list --all shows every session",
        )
    return record.name


def continued(registry: Registry, plan: LaunchPlan, name: str, *, latest: bool) -> Record | None:
    """The session of that name, or None when there is none yet. Ask while holding it: others may be using it.

    `latest` is whether `--continue` chose it, which takes no `--new`.

    Raises:
        SessionError: it belongs to another directory; ACP wants the same cwd every time a session is loaded.
    """
    record = registry.find(str(plan.project), plan.profile, name)
    if record is not None and record.cwd != str(plan.cwd):
        import shlex

        raise SessionError(
            f'the session "{name}" works in {record.cwd}, this run in {plan.cwd}',
            fix=f"--cwd {shlex.quote(record.cwd)}, or {'no --continue' if latest else '--new'} to start afresh here",
        )
    return record
