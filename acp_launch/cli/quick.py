"""
What a verb takes from the command line, written once: a NamedTuple whose fields are noted with their names and help.

    class Greet(NamedTuple):
        '''Greet a user.'''

        name: Annotated[str, Argument("NAME", "The user's name.")]
        loud: Annotated[bool, Option("--loud -l", "In capitals.")] = False

        def carry_out(self) -> int: ...

`plain` reads the words and options that are plainly spelled, without typer, which costs 30 ms of every start. Whatever
is not plain (help, `--option=value`, a short cut, a mistake) is left to typer, which knows how to say what is wrong and
whose parameters `cli.app` makes from the same fields. A field is a flag (`bool`), a text, a path or one of several
(`Literal`), or a tuple of those where there may be more. Free of imports that cost: help is made from it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from acp_launch.errors import UsageError


class Argument(NamedTuple):
    metavar: str
    help: str


class Option(NamedTuple):
    """`names` as help shows them. `read` makes a value of a text, and raises UsageError where it does not fit."""

    names: str
    help: str
    metavar: str | None = None
    read: Callable[[str], object] | None = None


class Verb(Protocol):
    """What `plain` gives: every value that was asked for, and what to do with them."""

    def carry_out(self) -> int:
        """Do it, and give the exit code."""


class Parameter(NamedTuple):
    """A field. `kind` is the type of one value; `is_many` fields take several."""

    field: str
    note: Option | Argument
    kind: Any
    is_many: bool

    def read(self, text: str) -> object:
        """The value of a word. Raises ValueError or UsageError when the word does not fit."""
        if isinstance(self.note, Option) and self.note.read:
            return self.note.read(text)
        if get_origin(self.kind) is Literal:
            return _one_of(get_args(self.kind), text)
        return self.kind(text)


V = TypeVar("V", bound=Verb)


def parameters(verb: Callable[..., Verb]) -> list[Parameter]:
    """Those of a verb, in their order."""
    return [_parameter(field, *get_args(hint)) for field, hint in get_type_hints(verb, include_extras=True).items()]


def _parameter(field: str, kind: Any, note: Option | Argument) -> Parameter:
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (member for member in get_args(kind) if member is not NoneType)
    is_many = get_origin(kind) is tuple
    return Parameter(field, note, get_args(kind)[0] if is_many else kind, is_many)


def plain(verb: Callable[..., V], arguments: Sequence[str]) -> V | None:
    """What the arguments after the verb ask for, or None when typer should read them."""
    known = parameters(verb)
    options = {name: each for each in known if isinstance(each.note, Option) for name in each.note.names.split()}
    try:
        words, found = _read(arguments, options)
        for each in known:
            if isinstance(each.note, Argument):
                found |= _taken(each, words)
        return None if words else verb(**found)
    except (ValueError, TypeError, UsageError):  # a TypeError: an argument is missing
        return None


def _read(arguments: Sequence[str], options: Mapping[str, Parameter]) -> tuple[list[str], dict[str, Any]]:
    words: list[str] = []
    found: dict[str, Any] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            words += rest
        elif each := options.get(argument):
            value = True if each.kind is bool else each.read(_value(rest))
            found[each.field] = (*found.get(each.field, ()), value) if each.is_many else value
        elif argument.startswith("-") and argument != "-":
            raise ValueError(argument)
        else:
            words.append(argument)
    return words, found


def _value(rest: Iterator[str]) -> str:
    value = next(rest, "--")
    if value.startswith("-") and value != "-":
        raise ValueError(value)
    return value


def _one_of(choices: Sequence[str], text: str) -> str:
    if text not in choices:
        raise ValueError(text)
    return text


def _taken(argument: Parameter, words: list[str]) -> dict[str, Any]:
    """The words it takes are taken away."""
    taken = words[:] if argument.is_many else words[:1]
    del words[: len(taken)]
    values = tuple(map(argument.read, taken))
    return {argument.field: values if argument.is_many else values[0]} if taken else {}
