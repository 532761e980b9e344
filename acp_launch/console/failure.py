"""Errors as users see them: the message, its details and the fix."""

from collections.abc import Iterator

from acp_launch.console.problems import show as show_problems
from acp_launch.console.stderr import QUOTED, RED, harmless, say
from acp_launch.errors import LaunchError, ProblemsError

STDOUT_CLOSED = 141


def show(error: LaunchError) -> None:
    """Print the error and its fix on stderr."""
    if error.exit_code == STDOUT_CLOSED:
        return  # the reader, such as head(1), has all it wanted; cat prints nothing either
    if isinstance(error, ProblemsError):
        show_problems(error.problems, as_json=False, outcome=error.outcome)
        return
    for text, style in lines(error):
        say(text, style=style)


def lines(error: LaunchError) -> Iterator[tuple[str, str]]:
    """Yield each line with its style."""
    if isinstance(error, ProblemsError):
        yield from ((str(problem), RED) for problem in error.problems)
        return
    yield f"acp-launch: {_indented(error.message)}", RED
    for line in error.detail:
        yield f"    {_indented(line)}", QUOTED
    if error.fix:
        yield f"    fix: {_indented(error.fix)}", ""


def _indented(text: str) -> str:
    """Indent further lines, so that none of an agent's text looks like a line of ours."""
    return harmless(text).replace("\n", "\n    ")
