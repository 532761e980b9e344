"""The questions of `init`, on stderr; the answers come from stdin. Enter gives the default answer
of a line; yes or no is one key."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

from acp_launch.console.ask import terminal
from acp_launch.console.columns import columns
from acp_launch.console.stderr import DIM, YELLOW, harmless, say
from acp_launch.profile.agents import KnownAgent


class InputEnded(Exception):  # noqa: N818 - not an error: the user ended the input
    """Raised at the end of input."""


def agent(known: Sequence[KnownAgent], installed: Iterable[str]) -> str:
    """Ask for the agent. Return the name of a known one, or the command line that the user typed."""
    there = set(installed)
    say("Which agent?", style="1")
    rows = [(f"{number:>4}.", one.name, one.title, _state(one, there)) for number, one in enumerate(known, 1)]
    for row in columns(rows):
        say(row)
    say("  or type the command of another agent", style=DIM)
    answer = ask("Agent", "1")
    if not answer.isdecimal():
        return answer
    if not 0 < int(answer) <= len(known):
        say(f"{answer} is not in the list: choose a number from 1 to {len(known)}", style=YELLOW)
        return agent(known, there)
    return known[int(answer) - 1].name


def place(project: Path, user: Path) -> bool:
    """Ask where to save the profile. True means: for this user only."""
    say("Where should the profile be saved?", style="1")
    say(harmless(f"  1. {project}, shared with the project", keep=""))
    say(harmless(f"  2. {user}, for you only, in every project", keep=""))
    return choice("Location", ("1", "2")) == "2"


def name(suggested: str, fault: Callable[[str], str]) -> str:
    """Ask for a name until `fault`, which returns what is wrong with it, returns an empty string."""
    while True:
        answer = ask("Name of the profile", suggested)
        if not (wrong := fault(answer)):
            return answer
        say(harmless(wrong, keep=""), style=YELLOW)


def servers(found: Sequence[tuple[str, Sequence[str]]], otherwise: Literal["all", "none"]) -> list[int]:
    """Ask which files to import. Return their positions in `found`; Enter means `otherwise`."""
    say("Other tools have MCP servers here:", style="1")
    for row in columns([(f"{number:>4}.", file, ", ".join(names)) for number, (file, names) in enumerate(found, 1)]):
        say(row)
    while True:
        words = ask("Numbers of those to import", otherwise).replace(",", " ").split()
        if words == ["none"]:
            return []
        if words == ["all"]:
            return list(range(len(found)))
        if all(word.isdecimal() and 0 < int(word) <= len(found) for word in words):
            return sorted({int(word) - 1 for word in words})
        say('type numbers from the list, "all" or "none"', style=YELLOW)


def choice(prompt: str, answers: Sequence[str]) -> str:
    """Ask until the answer is one of `answers`. The first is the default."""
    while True:
        answer = ask(prompt, answers[0]).lower()
        if answer in answers:
            return answer
        say(f"answer {' or '.join(answers)}", style=YELLOW)


def agreed(prompt: str) -> bool:
    """Ask a yes-or-no question.

    Raises:
        InputEnded: it was dismissed.
    """
    answer = terminal.agreed(prompt)
    if answer is None:
        raise InputEnded
    return answer


def ask(prompt: str, default: str) -> str:
    """Ask one question and return the answer, or `default` for an empty line.

    Raises:
        InputEnded: at the end of input.
    """
    line = terminal.ask_line(harmless(f"{prompt} [{default}]: ", keep=""))
    if not line:
        raise InputEnded
    return line.strip() or default


def _state(one: KnownAgent, installed: set[str]) -> str:
    return "ready" if one.name in installed else "not installed"
