"""
`run` without typer, which costs 30 ms of every start: the same words and options, plainly spelled.

Whatever is not plain (help, `--option=value`, a short cut, a mistake) is left to typer, which knows how to say what
is wrong. `tests/cli/test_quick.py` holds the two to the same answer.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from acp_launch.cli.timeout import limit
from acp_launch.cli.wish import Wish

FLAGS = {
    "--continue": "latest",
    "-c": "latest",
    "--new": "new",
    "--no-replay": "no_replay",
    "--trust": "trust",
    "--verbose": "verbose",
    "-v": "verbose",
}
Values = dict[str, object]


def _one_of(*choices: str) -> Callable[[str], str]:
    def chosen(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return chosen


OPTIONS: dict[str, tuple[str, Callable[[str], object]]] = {
    "--file": ("file", Path),
    "-f": ("file", Path),
    "--agent": ("agent", str),
    "--session": ("session", str),
    "-s": ("session", str),
    "--cwd": ("cwd", Path),
    "--output": ("output", _one_of("text", "json", "quiet")),
    "-o": ("output", _one_of("text", "json", "quiet")),
    "--approve": ("approve", _one_of("all", "reads", "none")),
}
REPEATED: dict[str, tuple[str, Callable[[str], object]]] = {
    "--attach": ("attach", Path),
    "-a": ("attach", Path),
    "--set": ("sets", str),
    "--timeout": ("timeouts", limit),
}


def plain_wish(arguments: Sequence[str]) -> Wish | None:
    """What the arguments after `run` ask for, or None when typer should read them."""
    words: list[str] = []
    found: Values = {}
    rest = iter(arguments)
    try:
        for argument in rest:
            if argument == "--":
                words += rest
            elif argument in FLAGS:
                found[FLAGS[argument]] = True
            elif argument in OPTIONS:
                name, read = OPTIONS[argument]
                found[name] = read(_value(rest))
            elif argument in REPEATED:
                name, read = REPEATED[argument]
                found[name] = (*found.get(name, ()), read(_value(rest)))  # type: ignore[misc]
            elif argument.startswith("-") and argument != "-":
                return None
            else:
                words.append(argument)
    except ValueError:
        return None
    return _wish(words, found)


def _value(rest: Iterator[str]) -> str:
    value = next(rest, "--")
    if value.startswith("-") and value != "-":
        raise ValueError(value)
    return value


def _wish(words: list[str], found: Values) -> Wish:
    defaults: Values = dict.fromkeys(("file", "agent", "session", "cwd", "approve"))
    defaults |= {"latest": False, "new": False, "verbose": False, "output": "text"}
    replay = not found.pop("no_replay", False)
    return Wish(words=tuple(words), replay=replay, **(defaults | found))  # type: ignore[arg-type]
