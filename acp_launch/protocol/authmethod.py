"""
The ways to log in that an agent lists in `authMethods` (ACP v1 "Authentication"), read leniently (C-22).

    agent       `authenticate` with its id; the agent does the rest. Also what has no type, or one we do not know (C-28)
    terminal    the agent's own program, with further arguments, on the user's terminal; never `authenticate` (C-24)

Two forms that are no part of the protocol are still about: `env_var`, which says which variables the agent reads, and
`_meta["terminal-auth"]`, a command line of the agent's choosing on a method without a type.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

LEGACY = "terminal-auth"
OWN_COMMAND = "log in with the agent's own command, then run this again"  # where no other way is known
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")


class Variable(Struct, frozen=True):
    """An environment variable the agent reads its credentials from; `label` is empty when it has none."""

    name: str
    label: str = ""
    secret: bool = True
    optional: bool = False


class AuthMethod(Struct, frozen=True):
    """A way to log in.

    `args` and `env` belong to `terminal`; `variables` and `link` to what was an `env_var`; `command` and `command_env`
    are the agent's command line, and whatever has one is no flow of `authenticate`.
    """

    id: str
    name: str
    description: str = ""
    type: Literal["agent", "terminal"] = "agent"
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    variables: tuple[Variable, ...] = ()
    link: str = ""
    command: tuple[str, ...] = ()
    command_env: Mapping[str, str] = {}


def read(items: object) -> tuple[AuthMethod, ...]:
    """The methods in `authMethods`. A bad one is dropped alone, and so is one whose id has been taken before."""
    methods: dict[str, AuthMethod] = {}
    for item in items if isinstance(items, list) else ():
        method = _method(item)
        if method is not None:
            methods.setdefault(method.id, method)
    return tuple(methods.values())


def _method(item: object) -> AuthMethod | None:
    said = _mapping(item)
    id, name = said.get("id"), said.get("name")
    if not isinstance(id, str) or not isinstance(name, str):
        return None
    about = _text(said.get("description"))
    match said.get("type"):
        case "terminal":
            return _terminal(said, id, name, about)
        case "agent":
            return AuthMethod(id, name, about)
        case "env_var":
            return AuthMethod(id, name, about, variables=_variables(said.get("vars")), link=_text(said.get("link")))
    command, env = _command(_mapping(said.get("_meta")).get(LEGACY))
    return AuthMethod(id, name, about, command=command, command_env=env)


def _terminal(said: dict[str, Any], id: str, name: str, about: str) -> AuthMethod | None:
    """None when its arguments are no strings: without them the program would start as an agent (the schema gives
    them a default for null, and for nothing else)."""
    args, env = _strings(said.get("args")), _texts(said.get("env"))
    if args is None or env is None:
        return None
    return AuthMethod(id, name, about, "terminal", args, env)


def _command(said: object) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The whole command line and its variables; empty when it is none: a malformed `_meta` counts as omitted."""
    form = _mapping(said)
    command, args, env = _strings([form.get("command")]), _strings(form.get("args")), _texts(form.get("env"))
    if not command or not command[0] or args is None or env is None:
        return (), {}
    return (*command, *args), env


def _variables(items: object) -> tuple[Variable, ...]:
    found = (_variable(_mapping(item)) for item in (items if isinstance(items, list) else ()))
    return tuple(variable for variable in found if variable is not None)


def _variable(said: dict[str, Any]) -> Variable | None:
    """None for what is no variable's name that a shell, or a profile, could set."""
    name = said.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return None
    return Variable(name, _text(said.get("label")), said.get("secret") is not False, said.get("optional") is True)


def _strings(value: object) -> tuple[str, ...] | None:
    """Nothing for what is omitted or null, None for what is no list of strings that a process could be given."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) and "\0" not in item for item in value):
        return None
    return tuple(value)


def _texts(value: object) -> Mapping[str, str] | None:
    """Nothing for what is omitted or null, None for what are no variables that a process could be given."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        return None
    fit = all(name and not set("=\0") & set(name) and "\0" not in text for name, text in value.items())
    return value if fit else None


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
