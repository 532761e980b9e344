"""Yes-or-no questions to the user at the terminal."""

from acp_launch.console.stderr import can_ask_user
from acp_launch.errors import UsageError


def agrees(question: str) -> bool:
    """Ask a yes-or-no question; without a terminal the answer is no."""
    if not can_ask_user():
        return False
    from acp_launch.console.ask.terminal import ask_yes_or_no

    return ask_yes_or_no(question) is True


def require_agreement(question: str, undone: str, fix: str) -> None:
    """Ask a yes-or-no question; refuse anything but a yes, as well as to go on without a terminal.

    Raises:
        UsageError: `undone` says what was not done; `fix` agrees without a terminal.
    """
    if not can_ask_user():
        raise UsageError(f"there is no terminal to ask on; {undone}", fix=fix)
    if not agrees(question):
        raise UsageError(undone)
