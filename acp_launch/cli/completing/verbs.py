"""
Which verbs there are, known without typer: `verbs.txt`, written by `python -m tests.cli.verbtable` from the real ones.

    acp-launch session rm<TAB>Delete sessions, at the agent too when the agent can.
    <TAB>session...
    <TAB>--profile -p<TAB>profile<TAB>Its profile, where two have that name.

A verb begins its line, and so does a group of verbs. Below it are its arguments, each by the kind of word it is, and
its options: names, kind, help. `flag` takes no value, `text` is what nobody can know beforehand, `text|json` a choice
(with `|file` it may be a path as well); the other kinds are those of `sources`, or for the shell to know. With `...`
there may be any number of them.
"""

import os
from typing import NamedTuple

PROGRAM = "acp-launch"
FLAG = "flag"
MORE = "..."
_TABLE = os.path.join(os.path.dirname(__file__), "verbs.txt")  # noqa: PTH118, PTH120 - pathlib costs as much as Python


class Argument(NamedTuple):
    """`kind` as in the table, without its dots."""

    kind: str
    many: bool


class Option(NamedTuple):
    names: tuple[str, ...]
    kind: str
    many: bool
    help: str


class Verb(NamedTuple):
    help: str
    arguments: list[Argument]
    options: list[Option]


Verbs = dict[str, Verb]
HELP = Option(("--help", "-h"), FLAG, False, "Show this message and exit.")


def verbs() -> Verbs:
    """Each by its words: `session rm`. The program itself has none."""
    with open(_TABLE, encoding="utf-8") as file:  # noqa: PTH123
        return read(file.read())


def read(table: str) -> Verbs:
    """Whatever it is, it can be asked for help."""
    found: Verbs = {}
    verb = Verb("", [], [])
    for line in filter(None, table.splitlines()):
        name, *fields = line.split("\t")
        if name.startswith(PROGRAM):
            verb = found[name.removeprefix(PROGRAM).lstrip()] = Verb(fields[0], [], [HELP])
        elif len(fields) == 1:
            verb.arguments.append(Argument(*_kind(fields[0])))
        elif fields:
            names, kind, help = fields
            verb.options.insert(-1, Option(tuple(names.split()), *_kind(kind), help))
    return found


def below(verbs: Verbs, group: str) -> dict[str, str]:
    """The verbs of a group by their last word, with their help."""
    names = {name: name.rpartition(" ") for name in verbs if name}
    return {last: verbs[name].help for name, (above, _, last) in names.items() if above == group}


def _kind(text: str) -> tuple[str, bool]:
    return text.removesuffix(MORE), text.endswith(MORE)
