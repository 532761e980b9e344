"""The conversation of `init`: each question has an answer that Enter gives. Questions on stderr, answers from stdin."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from acp_launch.console.columns import columns
from acp_launch.console.stderr import DIM, YELLOW, harmless, put, say
from acp_launch.console.stderr import ask as question
from acp_launch.profile.agents import KnownAgent


class Dismissed(Exception):  # noqa: N818 - it reads as what happened
    """Raised at the end of input: whoever was asked has left."""


def agent(known: Sequence[KnownAgent], installed: Iterable[str]) -> str:
    """The name of one of them, or a command line that was typed."""
    there = set(installed)
    say("Which agent?", style="1")
    rows = [(f"{number:>4}.", one.name, one.title, _state(one, there)) for number, one in enumerate(known, 1)]
    for row in columns(rows):
        say(row)
    say("  or type a command that starts another one", style=DIM)
    answer = ask("Agent", "1")
    if not answer.isdecimal():
        return answer
    if not 0 < int(answer) <= len(known):
        say(f"there is no number {answer}", style=YELLOW)
        return agent(known, there)
    return known[int(answer) - 1].name


def place(project: Path, user: Path) -> bool:
    """Whether it is to be kept for the user alone."""
    say("Where is it kept?", style="1")
    say(harmless(f"  1. {project}, for everybody who works on this project", keep=""))
    say(harmless(f"  2. {user}, for you in every project", keep=""))
    return choice("Place", ("1", "2")) == "2"


def name(suggested: str, fault: Callable[[str], str]) -> str:
    """A name without a `fault`, which is what is wrong with one; asked again until it has none."""
    while True:
        answer = ask("Name of the profile", suggested)
        if not (wrong := fault(answer)):
            return answer
        say(harmless(wrong, keep=""), style=YELLOW)


def servers(found: Sequence[tuple[str, Sequence[str]]]) -> list[int]:
    """Which of the files are to be taken over, by their place in `found`; none is what Enter means."""
    say("Other tools have MCP servers here:", style="1")
    for row in columns([(f"{number:>4}.", file, ", ".join(names)) for number, (file, names) in enumerate(found, 1)]):
        say(row)
    while True:
        words = ask("Take over which, by number", "none").replace(",", " ").split()
        if words == ["none"]:
            return []
        if all(word.isdecimal() and 0 < int(word) <= len(found) for word in words):
            return sorted({int(word) - 1 for word in words})
        say('give their numbers, or "none"', style=YELLOW)


def choice(prompt: str, answers: Sequence[str]) -> str:
    """One of the answers, the first by default."""
    while True:
        answer = ask(prompt, answers[0]).lower()
        if answer in answers:
            return answer
        say(f"answer {' or '.join(answers)}", style=YELLOW)


def ask(prompt: str, default: str) -> str:
    """
    Raises:
        Dismissed: at the end of input.
    """
    question(harmless(f"{prompt} [{default}]: ", keep=""))
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        put("\n")
    if not line:
        raise Dismissed
    return line.strip() or default


def _state(one: KnownAgent, installed: set[str]) -> str:
    return "ready" if one.name in installed else one.install
