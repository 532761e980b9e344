"""
`cli/shells/verbs.txt`, made from the verbs there are.

    python -m tests.cli.verbtable       writes it anew, after a verb or an option was added

What kind of word an argument or an option's value is follows from its type and its metavar; `KINDS` has the exceptions.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import typer.main
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from acp_launch.cli.app import app
from acp_launch.cli.tab import FLAG, MORE, PROGRAM, TABLE
from acp_launch.interop.tools import PRINTED, TOOLS
from acp_launch.profile.agents import AGENTS

FILE = Path(TABLE)
Command = TyperCommand | TyperGroup  # whichever click typer brings: some versions have their own
Parameter = TyperArgument | TyperOption
BY_METAVAR = {
    "PROFILE": "profile",
    "SERVER": "server",
    "TOPIC": "topic",
    "FILE": "file",
    "DIR": "directory",
    "COMMAND": "command",
    "ARGS": "file",
    "TOOL": "|".join(TOOLS),
    "SOURCE": "|".join([*TOOLS, "file"]),
}
BY_GROUP = {"secret": "secret", "session": "session"}  # what a NAME is
BY_NAME = {"--profile": "profile", "--session": "session", "--cwd": "directory"}
KINDS = {
    ("logs", "profile"): "logged",
    ("logs", "server"): "log",
    ("secret set", "name"): "needed",
    ("mcp call", "tool"): "text",  # a server's, which would have to be started
    ("export", "to"): "|".join([*TOOLS, *PRINTED]),
    ("init", "agent"): "|".join(AGENTS),
}


def table() -> str:
    """What the file should hold."""
    lines = [line for name, command in commands().items() for line in _lines(name, command)]
    return "\n".join(lines) + "\n"


def commands() -> dict[str, Command]:
    """Every verb and group that help shows, by its words; the program itself has none."""
    return dict(_below("", cast(Command, typer.main.get_command(app))))


def parameters(command: Command) -> list[Parameter]:
    """Those that help shows, but for `--help` itself."""
    shown = (each for each in command.params if isinstance(each, TyperArgument | TyperOption))
    return [each for each in shown if not each.hidden]


def _below(name: str, command: Command) -> Iterator[tuple[str, Command]]:
    yield name, command
    if isinstance(command, TyperGroup):
        for word, each in command.commands.items():
            if not each.hidden:
                yield from _below(f"{name} {word}".strip(), cast(Command, each))


def _lines(name: str, command: Command) -> Iterator[str]:
    yield f"{PROGRAM} {name}".strip() + f"\t{(command.help or '').partition(chr(10))[0]}"
    wanted = parameters(command)
    for each in wanted:
        if isinstance(each, TyperArgument):
            kinds = _kinds(name, each)
            yield from (f"\t{kind}{MORE * (each.nargs != 1 and kind == kinds[-1])}" for kind in kinds)
    for each in wanted:
        if isinstance(each, TyperOption):
            (kind,) = _kinds(name, each)
            names = " ".join([*each.opts, *each.secondary_opts])
            yield f"\t{names}\t{kind}{MORE * each.multiple}\t{' '.join((each.help or '').split())}"


def _kinds(verb: str, parameter: Parameter) -> list[str]:
    """More than one for an argument that names several things: `[PROFILE] [PROMPT]...`."""
    if isinstance(parameter, TyperOption) and parameter.is_flag:
        return [FLAG]
    if parameter.type.name == "choice":
        choices = cast(Any, parameter.type).choices
        return ["|".join(str(getattr(choice, "value", choice)) for choice in choices)]
    if known := KINDS.get((verb, parameter.name or "")):
        return [known]
    if re.fullmatch(r"[a-z]+(\|[a-z]+)+", parameter.metavar or ""):
        return [str(parameter.metavar)]
    words = (parameter.metavar or "").replace("[", " ").replace("]", " ").replace(".", " ").replace("-", " ").split()
    return [_kind(verb, word, parameter) for word in words] or [_kind(verb, "", parameter)]


def _kind(verb: str, word: str, parameter: Parameter) -> str:
    for name in (word, *parameter.opts):
        if known := (BY_METAVAR | BY_NAME).get(name):
            return known
    if word == "NAME":
        return BY_GROUP.get(verb.partition(" ")[0], "text")
    return "file" if parameter.type.name in ("path", "file", "directory") else "text"


if __name__ == "__main__":
    FILE.write_text(table(), encoding="utf-8")
