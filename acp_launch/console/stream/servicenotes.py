"""What we did for the agent, as lines on stderr."""

from acp_launch.console.stderr import harmless
from acp_launch.session.client import DENIED
from acp_launch.session.service import FileServed, TerminalServed


def unasked(by: str, status: object) -> str:
    """What to say of a tool call that ran, and should not have; `by` as the observer is told it. One that failed may
    have ended before it did anything."""
    ran = "was tried" if status == "failed" else "ran"
    return f"{ran} although it was denied" if by == DENIED else f"{ran} without asking (policy: {by})"


def line(step: FileServed | TerminalServed) -> str:
    """One line about a step, empty for those that are no news: a file that was read, a command that says something."""
    if isinstance(step, FileServed):
        return _file(step)
    if step.exit is not None:
        return harmless(f"{step.command}: {step.exit}", keep="")
    return "" if step.output else harmless(f"the agent runs: {step.command}", keep="")


def _file(step: FileServed) -> str:
    what = f"{step.how} {step.path}"
    if step.how == "read" and step.outcome == "failed":
        return ""  # agents look whether a file is there before they write it
    if step.outcome != "done":
        return harmless(f"{step.outcome}: {what}: {step.reason}", keep="")
    if step.how == "read":
        return ""
    return harmless(f"the agent {'created' if step.old is None else 'changed'} {step.path}", keep="")
