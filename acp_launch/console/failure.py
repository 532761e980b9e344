"""How a failure looks: what, its details, what to do."""

from collections.abc import Iterator

from acp_launch.console.problems import show as show_problems
from acp_launch.console.stderr import QUOTED, RED, harmless, say
from acp_launch.errors import LaunchError, ProblemsError

STDOUT_CLOSED = 141


def show(error: LaunchError) -> None:
    """Say on stderr what went wrong and what to do about it."""
    if error.exit_code == STDOUT_CLOSED:
        return  # whoever closed it, head(1) for instance, had enough: no words, as with cat
    if isinstance(error, ProblemsError):
        show_problems(error.problems, as_json=False, outcome=error.outcome)
        return
    for text, style in lines(error):
        say(text, style=style)


def lines(error: LaunchError) -> Iterator[tuple[str, str]]:
    """What to say, and in which style."""
    if isinstance(error, ProblemsError):
        yield from ((str(problem), RED) for problem in error.problems)
        return
    yield f"acp-launch: {_indented(error.message)}", RED
    for line in error.detail:
        yield f"    {_indented(line)}", QUOTED
    if error.fix:
        yield f"    fix: {_indented(error.fix)}", ""


def _indented(text: str) -> str:
    """Words of an agent's may have several lines; none of them looks like one of ours."""
    return harmless(text).replace("\n", "\n    ")
