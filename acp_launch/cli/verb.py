"""
All verbs by name, and the declaration of a verb's arguments and options: a NamedTuple whose fields are annotated with
names and help.

    class Greet(NamedTuple):
        '''Greet a user.'''

        name: Annotated[str, Argument("NAME", "The user's name.")]
        loud: Annotated[bool, Option("--loud -l", "In capitals.")] = False

        def carry_out(self) -> int: ...

`plain` reads plainly spelled arguments without typer, which costs 30 ms of every start. Everything else (help,
`--option=value`, combined short options, mistakes) is left to typer, which reports mistakes well; `cli.app` makes its
parameters from the same fields. A field is a flag (`bool`), a text, a path, a choice (`Literal`), or a tuple of those
for several values. The module imports little, because help is made from it.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from acp_launch.document.scalars import Duration
from acp_launch.errors import UsageError

if TYPE_CHECKING:
    from acp_launch.profile.discover import Found
    from acp_launch.settings.model import Settings

# The headings of `acp-launch --help`, and where each verb is: a declaration, a function for typer, or a group of verbs.
HEADINGS: Mapping[str, Mapping[str, str]] = {
    "Run": {
        "run": "run.Run",
        "serve": "serve.Serve",
        "up": "up.Up",
        "attach": "run.Attach",
        "reload": "up.Reload",
        "down": "up.Down",
        "login": "login.login",
        "logout": "login.logout",
        "permission": "permission.app",
    },
    "Profiles": {
        "list": "profiles.List",
        "init": "imports.init",
        "import": "imports.import_",
        "edit": "edit.edit",
        "profile": "edit.app",
        "validate": "profiles.Validate",
        "plan": "profiles.Plan",
        "show": "profiles.Show",
        "trust": "trust.trust",
        "lock": "trust.lock",
        "export": "imports.export",
        "schema": "profiles.Schema",
    },
    "Secrets": {"secret": "secrets.app"},
    "Sessions": {"session": "sessions.app"},
    "Servers": {"mcp": "mcp.app"},
    "Agents": {"agents": "agents.app", "replay": "replay.Replay"},
    "This machine": {
        "doctor": "machine.doctor",
        "config": "config.app",
        "ps": "machine.ps",
        "logs": "machine.logs",
        "trace": "machine.trace",
        "reap": "machine.reap",
        "completion": "completion.completion",
        "help": "help.help_",
    },
}
# What users of other tools type for a verb.
SYNONYMS: Mapping[str, str] = {
    "agent": "agents",
    "log": "logs",
    "permissions": "permission",
    "profiles": "list",
    "secrets": "secret",
    "servers": "mcp",
    "sessions": "session",
    "status": "ps",
    "stop": "down",
    "traces": "trace",
}
VERBS: Mapping[str, str] = {name: place for verbs in HEADINGS.values() for name, place in verbs.items()}


def load(name: str) -> Any:
    """Import the verb of this name; a start pays for no other."""
    module, _, attribute = VERBS[name].partition(".")
    return getattr(import_module(f"acp_launch.cli.{module}"), attribute)


def import_without(name: str, absent: str) -> None:
    """Import a module as if another one were not installed: it takes long to import, and nothing of it is needed."""
    kept = sys.modules.get(absent)
    sys.modules[absent] = None  # type: ignore[assignment]
    try:
        import_module(name)
    finally:
        del sys.modules[absent]
        if kept is not None:
            sys.modules[absent] = kept


class Argument(NamedTuple):
    metavar: str
    help: str


class Option(NamedTuple):
    """An option. `names` are as help shows them. `read` parses a value, and raises UsageError if it is wrong."""

    names: str
    help: str
    metavar: str | None = None
    read: Callable[[str], object] | None = None


# Options of several verbs.
LOCKED = Option("--locked", "Refuse packages that differ from the project's lock file.")
PLAIN = Option("--plain", "Use no colours, no animation and no links, as with NO_COLOR.")
TRACE = Option("--trace", "Write every message of agent and servers to a file; `trace` shows it.", "FILE")
TRUST = Option("--trust", "Run a project's profile once without trusting it.")


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


def check_session_name(session: str | None) -> str | None:
    """Check a session's name from the command line.

    Raises:
        UsageError: it is not a valid name.
    """
    from acp_launch.profile.values import SESSION_NAME_FIX, session_name_fault

    if session is not None and (fault := session_name_fault(session)):
        raise UsageError(fault, fix=SESSION_NAME_FIX)
    return session


def at_home(directory: Path | None) -> Path | None:
    """Expand `~` in a directory, because shells leave it in `--cwd=~/x`: they expand it only at a word's beginning."""
    try:
        return directory.expanduser() if directory else None
    except RuntimeError:
        raise UsageError(f"--cwd: no home directory is known for {directory}", fix="give an absolute path") from None


def load_settings() -> "Settings":
    """Load the user's settings; `--help` imports none of that."""
    from acp_launch.settings.load import load

    return load()


def find_profile(name: str) -> "Found":
    """Find a profile by its name or path from here; raise UsageError if there is none."""
    from acp_launch.profile.discover import find, here

    return find(name, start=here(), settings=load_settings())


class Verb(Protocol):
    """A verb with all its values, as `plain` returns it."""

    def carry_out(self) -> int:
        """Carry out the verb and return the exit code."""


class Parameter(NamedTuple):
    """A field of a verb. `kind` is the type of one value; a field with `is_many` takes several."""

    field: str
    note: Option | Argument
    kind: Any
    is_many: bool

    def read(self, text: str) -> object:
        """Parse a word; raise ValueError or UsageError if it does not fit."""
        if isinstance(self.note, Option) and self.note.read:
            return self.note.read(text)
        if get_origin(self.kind) is Literal:
            return _one_of(get_args(self.kind), text)
        return self.kind(text)


V = TypeVar("V", bound=Verb)


def parameters(verb: Callable[..., Verb]) -> list[Parameter]:
    """List the parameters of a verb in order."""
    return [_parameter(field, *get_args(hint)) for field, hint in get_type_hints(verb, include_extras=True).items()]


def _parameter(field: str, kind: Any, note: Option | Argument) -> Parameter:
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (member for member in get_args(kind) if member is not NoneType)
    is_many = get_origin(kind) is tuple
    return Parameter(field, note, get_args(kind)[0] if is_many else kind, is_many)


def plain(verb: Callable[..., V], arguments: Sequence[str]) -> V | None:
    """Read the arguments after the verb; None if typer should read them."""
    known = parameters(verb)
    options = {name: each for each in known if isinstance(each.note, Option) for name in each.note.names.split()}
    try:
        words, found = _read(arguments, options)
        for each in known:
            if isinstance(each.note, Argument):
                found |= _take(each, words)
        return None if words else verb(**found)
    except (ValueError, TypeError, UsageError):  # TypeError if an argument is missing
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


def _take(argument: Parameter, words: list[str]) -> dict[str, Any]:
    """Remove an argument's words from `words` and return their values by field."""
    taken = words[:] if argument.is_many else words[:1]
    del words[: len(taken)]
    values = tuple(map(argument.read, taken))
    return {argument.field: values if argument.is_many else values[0]} if taken else {}
