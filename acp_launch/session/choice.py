"""Which session a run opens: the one named, the latest, or a new one (DESIGN §7)."""

from msgspec import Struct

from acp_launch.errors import SessionError
from acp_launch.plan.model import LaunchPlan
from acp_launch.session.registry import Record, Registry


class Choice(Struct, frozen=True):
    """The session's name, and its record when it is to be continued."""

    name: str
    record: Record | None


def named(registry: Registry, plan: LaunchPlan, name: str) -> Choice:
    """The session of that name, or a new one that will have it.

    Raises:
        SessionError: it belongs to another directory.
    """
    record = registry.find(str(plan.project), plan.profile, name)
    return _checked(record, plan) if record else Choice(name, None)


def latest(registry: Registry, plan: LaunchPlan) -> Choice:
    """The session of this project and profile that was used last.

    Raises:
        SessionError: there is none, or it belongs to another directory.
    """
    record = registry.latest(str(plan.project), plan.profile)
    if record is None:
        raise SessionError(
            f'there is no session of profile "{plan.profile}" in {plan.project} to continue',
            fix="run it once without --continue; acp-launch session list --all shows every session",
        )
    return _checked(record, plan)


def _checked(record: Record, plan: LaunchPlan) -> Choice:
    """A session lives in its directory: ACP wants the same cwd every time it is loaded."""
    if record.cwd != str(plan.cwd):
        raise SessionError(
            f'the session "{record.name}" works in {record.cwd}, this run in {plan.cwd}',
            fix=f"--cwd {record.cwd}, or --new to start afresh here",
        )
    return Choice(record.name, record)
