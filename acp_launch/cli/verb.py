"""
All verbs by name, and the declaration of a verb's arguments and options: a function whose parameters are annotated with
names and help. It returns the exit code; None is 0.

    def greet(
        name: Annotated[str, Argument("NAME", "The user's name.")],
        loud: Annotated[bool, Option("--loud -l", "In capitals.")] = False,
    ) -> None:
        '''Greet a user.'''

Where the values are passed on together, it is a NamedTuple with these as fields, and a method `carry_out`.

`plain` reads plainly spelled arguments without typer, which costs 30 to 130 ms. Everything else (help,
combined short options, mistakes) is left to typer, which reports mistakes well; `cli.app` makes its
parameters from the same declaration. A value is a flag (`bool`), a text, a path, a choice (`Literal`), or a tuple of
those for several values. The module imports little, because help is made from it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from acp_launch.document.scalars import Duration
from acp_launch.errors import UsageError
from acp_launch.shutdown import LIFELINE

# The headings of `acp-launch --help`, by what users do; where each verb, or group of verbs, is in this package; and the
# first sentence of its help, so that `--help` imports none. Verbs under MORE are only named.
MORE = "More"
HEADINGS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Run": {
        "run": ("run.Run", "Run a prompt, or start an interactive session."),
        "up": (
            "up.up",
            "Start agent and servers in the background; `run` uses them from then on, without waiting for a start.",
        ),
        "attach": ("run.attach", "Attach this terminal to a session of a host, also in the middle of a turn."),
        "down": (
            "down.down",
            "End what `up` has started: the agent, its servers, and running turns; sessions can be resumed later.",
        ),
        "batch": ("batch.app", "Run many tasks over many profiles."),
        "serve": ("serve.Serve", "Serve a profile to an editor: an ACP agent on stdin and stdout."),
    },
    "Set up": {
        "init": ("imports.Init", "Create a profile."),
        "import": ("imports.Import", "Import MCP servers and agents from other tools."),
        "edit": ("edit.edit", "Edit a profile's file in $VISUAL or $EDITOR."),
        "login": ("login.login", "Log in to a profile's agent."),
        "secret": ("secrets.app", "Secrets: set, list, check, rm, rename, copy-to-env."),
        "mcp": ("mcp.app", "The MCP servers of a profile: list, inspect, tools, call, login, logout, status."),
        "trust": ("trust.trust", "Trust a project's profile, or a batch, until it changes."),
        "doctor": ("machine.doctor", "Check this machine and a profile: its agent, servers and secrets."),
    },
    "Look": {
        "list": ("profiles.list_", "List the profiles available here, shadowed and broken ones too."),
        "validate": (
            "profiles.validate",
            "Check profiles: report every problem with its line, and every credential written in a file. ",
        ),
        "plan": ("profiles.plan", "Show what would start and where each value comes from."),
        "session": (
            "sessions.app",
            "Choose a session to resume; list, show, history, wait, cancel, rename, move, export, import, "
            "close, rm, prune.",
        ),
        "ps": ("machine.ps", "Show your running launches: sessions, directory, processes."),
        "logs": ("machine.logs", "Show the stderr of the agent and the MCP servers of the latest launch."),
        "help": ("help.help_", "Show the documentation: the topics, a page, or where a word occurs."),
    },
    MORE: {
        "agents": ("agents.app", ""),
        "completion": ("completion.completion", ""),
        "config": ("config.app", ""),
        "export": ("export.Export", ""),
        "lock": ("trust.lock", ""),
        "logout": ("login.logout", ""),
        "permission": ("permission.app", ""),
        "profile": ("edit.app", ""),
        "reap": ("machine.reap", ""),
        "reload": ("down.reload", ""),
        "replay": ("replay.Replay", ""),
        "schema": ("profiles.schema", ""),
        "show": ("profiles.show", ""),
        "trace": ("machine.trace", ""),
    },
}
# What users of other tools type for a verb.
SYNONYMS: Mapping[str, str] = {
    "agent": "agents",
    "auth": "login",
    "check": "validate",
    "exec": "run",
    "log": "logs",
    "ls": "list",
    "permissions": "permission",
    "profiles": "list",
    "secrets": "secret",
    "servers": "mcp",
    "sessions": "session",
    "status": "ps",
    "stop": "down",
    "traces": "trace",
}
VERBS: Mapping[str, str] = {name: place for verbs in HEADINGS.values() for name, (place, _) in verbs.items()}


def load(name: str) -> Any:
    """Import the verb of this name, or the group; a start pays for no other."""
    module, _, attribute = VERBS[name].rpartition(".")
    return getattr(import_module(f"acp_launch.cli.{module}"), attribute)


class Argument(NamedTuple):
    metavar: str
    help: str | None = None


class Option(NamedTuple):
    """An option. `names` are as help shows them. `read` parses a value, and raises UsageError if it is wrong."""

    names: str
    help: str
    metavar: str | None = None
    read: Callable[[str], object] | None = None


def read_duration(text: str, option: str = "--timeout") -> Duration:
    """Parse a duration such as `2m`, `1.5s` or `1.5`, which is in seconds; `option` is for the error.

    Raises:
        UsageError: the text is not a duration.
    """
    try:
        return Duration.parse(f"{text}s" if text[-1:].isdigit() else text)
    except ValueError:
        fix = "write a positive number and its unit, seconds without one: 90, 500ms, 2m, 1h"
        raise UsageError(f'{option}: expected a duration, found "{text}"', fix=fix) from None


def read_keep(text: str) -> Duration:
    """Parse the value of `--keep`."""
    return read_duration(text, "--keep")


def read_descriptor(text: str) -> int:
    """Parse the value of `--lifeline`.

    Raises:
        UsageError: it is not a number.
    """
    if not (text.isascii() and text.isdecimal()):
        raise UsageError(f'--lifeline: expected the number of a descriptor, found "{text}"', fix=LIFELINE)
    return int(text)


# Arguments and options of several verbs.
Approve = Literal["all", "reads", "none"]
Output = Annotated[Literal["text", "json", "quiet"], Option("--output -o", "The output format.")]
ProfileName = Annotated[str, Argument("PROFILE", "A profile's name, or the path of its file.")]
OnlyProfile = Annotated[str | None, Argument("[PROFILE]", "Only this profile's.")]
Directory = Annotated[Path | None, Option("--cwd", "The session's directory.", "DIR")]
Json = Annotated[bool, Option("--json", "Print JSON on stdout.")]
Lifeline = Annotated[
    int | None, Option("--lifeline", "End as by SIGTERM at the end of file of this descriptor.", "FD", read_descriptor)
]
Locked = Annotated[bool, Option("--locked", "Refuse packages that differ from the project's lock file.")]
Plain = Annotated[bool, Option("--plain", "Use no colours, no animation and no links, as with NO_COLOR.")]
TraceFile = Annotated[
    Path | None, Option("--trace", "Write every message of agent and servers to a file; `trace` shows it.", "FILE")
]
Trust = Annotated[bool, Option("--trust", "Run a project's profile once without trusting it.")]
Yes = Annotated[bool, Option("--yes -y", "Do not ask.")]


Verb = Callable[..., Any]
V = TypeVar("V", bound=Verb)
REQUIRED = object()  # the default of an argument that must be given


class Group:
    """A group of verbs as it is declared; `cli.app` makes typer's of it."""

    def __init__(self, about: str) -> None:
        self.about = about
        self.verbs: dict[str, tuple[Verb, Mapping[str, Any]]] = {}  # by name, with what typer is given besides
        self.choice: Verb | None = None  # carried out if only the group is named

    def verb(self, name: str | None = None, **given: Any) -> Callable[[V], V]:
        """Add a verb, by default under its function's name."""

        def add(verb: V) -> V:
            self.verbs[name or verb.__name__.replace("_", "-")] = (verb, given)
            return verb

        return add

    def alone(self, verb: V) -> V:
        """Let this be carried out if only the group is named; else it is called as well, and knows from its context."""
        self.choice = verb
        return verb


class Parameter(NamedTuple):
    """A parameter of a verb. `kind` is the type of one value; one with `is_many` takes several.

    `note` is another thing if typer alone reads it, which is told by `hint`.
    """

    field: str
    note: Any
    kind: Any
    is_many: bool
    default: Any
    hint: Any

    def read(self, text: Any) -> object:
        """Parse a word; raise ValueError or UsageError if it does not fit."""
        if isinstance(self.note, Option) and self.note.read:
            return self.note.read(text)
        if get_origin(self.kind) is Literal:
            if text not in get_args(self.kind):
                raise ValueError(text)
            return text
        return self.kind(text)


def parameters(verb: Verb) -> list[Parameter]:
    hints = get_type_hints(verb, include_extras=True)
    hints.pop("return", None)
    given = (verb.__new__ if isinstance(verb, type) else verb).__defaults__ or ()
    defaults = (*[REQUIRED] * (len(hints) - len(given)), *given)
    return [_parameter(field, hint, default) for (field, hint), default in zip(hints.items(), defaults, strict=True)]


def _parameter(field: str, hint: Any, default: Any) -> Parameter:
    kind, note, *_ = *get_args(hint), None, None
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (member for member in get_args(kind) if member is not NoneType)
    is_many = get_origin(kind) is tuple
    return Parameter(field, note, get_args(kind)[0] if is_many else kind, is_many, default, hint)


def carry_out(verb: Verb, values: Mapping[str, Any]) -> int:
    """Carry out a verb with these values; return the exit code."""
    try:
        made = verb(**values)
        return (made.carry_out() if isinstance(verb, type) else made) or 0
    except SystemExit as ended:  # a verb leaves from within
        return int(ended.code or 0)


def plain(verb: Verb, arguments: Sequence[str]) -> dict[str, Any] | None:
    """Read the arguments after the verb, and return the values that are given; None if typer should read them."""
    known = parameters(verb)
    if not all(isinstance(each.note, Option | Argument) for each in known):
        return None
    names = ((name, each) for each in known if isinstance(each.note, Option) for name in each.note.names.split())
    options = {name: each for name, each in names if "/" not in name}  # typer reads an option with an opposite
    try:
        words, found = _read(arguments, options)
        for each in known:
            if isinstance(each.note, Argument):
                taken = words[:] if each.is_many else words[:1]
                del words[: len(taken)]
                values = tuple(map(each.read, taken))
                found |= {each.field: values if each.is_many else values[0]} if taken else {}
    except (ValueError, UsageError):
        return None
    is_complete = all(each.field in found or each.default is not REQUIRED for each in known)
    return found if is_complete and not words else None


def _read(arguments: Sequence[str], options: Mapping[str, Parameter]) -> tuple[list[str], dict[str, Any]]:
    words: list[str] = []
    found: dict[str, Any] = {}
    rest = iter(arguments)
    for argument in rest:
        name, has_value, given = argument.partition("=") if argument.startswith("--") else (argument, "", "")
        if argument == "--":
            words += rest
        elif (each := options.get(name)) and not (has_value and each.kind is bool):
            value = True if each.kind is bool else each.read(given if has_value else _value(rest))
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
