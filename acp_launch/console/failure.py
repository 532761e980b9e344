"""How a failure looks: what, its details, what to do."""

from acp_launch.console.problems import show as show_problems
from acp_launch.console.stderr import DIM, RED, harmless, say
from acp_launch.errors import LaunchError, ProblemsError, SettingsError

STDOUT_CLOSED = 141


def show(error: LaunchError) -> None:
    """Say on stderr what went wrong and what to do about it."""
    if error.exit_code == STDOUT_CLOSED:
        return  # whoever closed it, head(1) for instance, had enough: no words, as with cat
    if isinstance(error, ProblemsError):
        outcome = "nothing was done" if isinstance(error, SettingsError) else "nothing was started"
        show_problems(error.problems, as_json=False, outcome=outcome)
        return
    say(f"acp-launch: {harmless(error.message)}", style=RED)
    for line in error.detail:
        say(f"    {harmless(line)}", style=DIM)
    if error.fix:
        say(f"    fix: {harmless(error.fix)}")
