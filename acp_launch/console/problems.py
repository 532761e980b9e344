"""
Problems for users (on stderr, with a closing line) and for scripts (on stdout, JSON).

A profile may come from anywhere, so control characters and colours in a message are made visible.
"""

from collections.abc import Sequence

from acp_launch.console.stderr import DIM, RED, YELLOW, harmless, paint, say
from acp_launch.problem import Problem, count, errors


def show(problems: Sequence[Problem], *, as_json: bool, outcome: str = "nothing was started") -> None:
    """Print all problems. `outcome` ends the closing line, which counts errors; warnings alone have none."""
    if as_json:
        import json

        from acp_launch.console import stdout

        stdout.put_json(json.dumps({"problems": [problem.as_json() for problem in problems]}))
        return
    for line in "\n".join((*map(_text, problems), *closing(problems, outcome))).splitlines():
        say(line)


def closing(problems: Sequence[Problem], outcome: str) -> list[str]:
    """Return `2 problems, 1 warning; nothing was started`, or nothing if there are only warnings."""
    wrong = len(errors(problems))
    warnings = len(problems) - wrong
    noted = f", {count(warnings, 'warning')}" if warnings else ""
    return [f"{count(wrong, 'problem')}{noted}; {outcome}"] if wrong else []


def _text(problem: Problem) -> str:
    what, _, fix = str(problem).partition("\n    fix: ") if problem.fix else (str(problem), "", "")
    place = harmless(problem.place, keep="")
    message = harmless(what, keep="").removeprefix(place)
    head = place + paint(message, YELLOW if problem.severity == "warning" else RED)
    return f"{head}\n    {paint('fix:', DIM)} {harmless(fix, keep='')}" if fix else head
