"""
Problems and errors: for users on stderr, with details and fixes, and for scripts on stdout, as JSON.

A profile may come from anywhere, so control characters and colours in a message are made visible.
"""

from collections.abc import Iterator, Sequence

from acp_launch.console import stdout
from acp_launch.console.stderr import DIM, QUOTED, RED, YELLOW, harmless, harmless_line, paint, say
from acp_launch.errors import LaunchError, ProblemsError
from acp_launch.problem import Problem, summary

STDOUT_CLOSED = 141


def show(problems: Sequence[Problem], *, as_json: bool, outcome: str = "nothing was started") -> None:
    """Print all problems. `outcome` ends the closing line, which counts errors; warnings alone have none."""
    if as_json:
        stdout.put_json({"problems": [problem.as_json() for problem in problems]})
        return
    for line in "\n".join((*map(_text, problems), summary(problems, outcome))).splitlines():
        say(line)


def _text(problem: Problem) -> str:
    what, _, fix = str(problem).partition("\n    fix: ") if problem.fix else (str(problem), "", "")
    place = harmless_line(problem.place)
    message = harmless_line(what).removeprefix(place)
    head = place + paint(message, YELLOW if problem.severity == "warning" else RED)
    return f"{head}\n    {paint('fix:', DIM)} {harmless_line(fix)}" if fix else head


def show_error(error: LaunchError) -> None:
    """Print the error and its fix on stderr."""
    if error.exit_code == STDOUT_CLOSED:
        return  # the reader, such as head(1), has all it wanted; cat prints nothing either
    if isinstance(error, ProblemsError):
        show(error.problems, as_json=False, outcome=error.outcome)
        return
    for text, style in error_lines(error):
        say(text, style=style)


def error_lines(error: LaunchError) -> Iterator[tuple[str, str]]:
    """Yield each line with its style."""
    if isinstance(error, ProblemsError):
        yield from ((str(problem), RED) for problem in error.problems)
        return
    yield f"acp-launch: {_indent(error.message)}", RED
    for line in error.detail:
        yield f"    {_indent(line)}", QUOTED
    if error.fix:
        yield f"    fix: {_indent(error.fix)}", ""


def _indent(text: str) -> str:
    """Indent further lines, so that none of an agent's text looks like ours."""
    return harmless(text).replace("\n", "\n    ")
