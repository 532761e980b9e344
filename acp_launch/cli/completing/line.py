"""What a command line wants at its end, as far as it is typed. Pure: nothing is looked up but the table of verbs."""

from collections.abc import Sequence
from typing import NamedTuple

from acp_launch.cli.completing.verbs import FLAG, Argument, Option, Verb, Verbs, below


class Wanted(NamedTuple):
    """
    The word at the end is `lead` (`--output=`, mostly empty) and then something that begins with `word`, of the `kind`
    that the table says, or `verb` or `option`, or empty where nothing more can be.
    """

    kind: str
    word: str
    line: "Line"
    lead: str = ""


class Line(NamedTuple):
    """What is before the last word; `plain` after `--`, where nothing is an option any more."""

    verb: str
    arguments: list[tuple[str, str]]
    options: list[tuple[Option, str]]
    plain: bool = False

    def first(self, kind: str) -> str:
        """The first value of this kind: an argument, else an option's; empty when there is none."""
        options = ((option.kind, value) for option, value in self.options)
        return next((value for of, value in (*self.arguments, *options) if of == kind), "")


def wanted(words: Sequence[str], verbs: Verbs) -> Wanted:
    """`words` are those after the program's name; the last one is being typed, and may be empty."""
    *before, word = words or ("",)
    name, rest = _verb(before, verbs)
    walk = _Walk(verbs[name])
    for each in rest:
        walk.take(each)
    line = Line(name, walk.arguments, walk.options, walk.plain)
    if walk.waiting:
        return Wanted(walk.waiting.kind, word, line)
    if word.startswith("-") and not walk.plain:
        return _option(word, verbs[name], line)
    if below(verbs, name):
        return Wanted("" if walk.arguments else "verb", word, line)
    argument = walk.next_argument()
    return Wanted(argument.kind if argument else "", word, line)


def offered(verb: Verb, line: Line) -> list[Option]:
    """The options that may be given here: once each, but for those that may be given again."""
    given = {option.names for option, _ in line.options if not option.many}
    return [option for option in verb.options if option.names not in given]


class _Walk:
    def __init__(self, verb: Verb) -> None:
        self.arguments: list[tuple[str, str]] = []
        self.options: list[tuple[Option, str]] = []
        self.waiting: Option | None = None  # for its value
        self.plain = False
        self._verb = verb

    def take(self, word: str) -> None:
        if self.waiting:
            self.options.append((self.waiting, word))
            self.waiting = None
        elif self.plain or not word.startswith("-") or word == "-":
            argument = self.next_argument()
            self.arguments.append((argument.kind if argument else "", word))
        elif word == "--":
            self.plain = True
        else:
            self._take_option(word)

    def next_argument(self) -> Argument | None:
        known = self._verb.arguments
        if len(self.arguments) < len(known):
            return known[len(self.arguments)]
        return known[-1] if known and known[-1].many else None

    def _take_option(self, word: str) -> None:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            self._take_one(name, value, has_value=bool(equals))
            return
        for at, letter in enumerate(word[1:], 2):  # -vojson
            rest = word[at:]
            if not self._take_one(f"-{letter}", rest, has_value=bool(rest)):
                return

    def _take_one(self, name: str, value: str, *, has_value: bool) -> bool:
        """Whether it is a flag, after which there may be another in the same word."""
        option = _named(name, self._verb)
        if option is None:
            return False
        if option.kind == FLAG or has_value:
            self.options.append((option, value))
        else:
            self.waiting = option
        return option.kind == FLAG


def _verb(words: Sequence[str], verbs: Verbs) -> tuple[str, Sequence[str]]:
    """The verb that is named, and the words after it; options may come before its last word."""
    name = ""
    for index, word in enumerate(words):
        if not below(verbs, name):
            return name, words[index:]
        if f"{name} {word}".strip() in verbs:
            name = f"{name} {word}".strip()
        elif not word.startswith("-"):
            return name, words[index:]
    return name, ()


def _option(word: str, verb: Verb, line: Line) -> Wanted:
    name, equals, value = word.partition("=")
    if not equals:
        return Wanted("option", word, line)
    option = _named(name, verb)
    return Wanted(option.kind if option and option.kind != FLAG else "", value, line, f"{name}=")


def _named(name: str, verb: Verb) -> Option | None:
    return next((option for option in verb.options if name in option.names), None)
