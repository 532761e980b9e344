"""
A text of a profile becomes one of another tool, with that tool's own references; a secret's value is not known here.

    shell, dollar   ${NAME}           code   ${env:NAME}; a secret of VS Code's is ${input:ID}
    braces          {env:NAME}        none   nothing but text: what is a reference cannot be said there

Where a tool takes secrets from its environment only, each secret gets a variable: that of the server if it is the whole
of one, else its own name in upper case. `References` remembers which. Pure.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from acp_launch.interop.places import Dialect, Tool
from acp_launch.interop.variables import Untranslatable
from acp_launch.profile.leaks import slug
from acp_launch.secret.environment import PREFIX, variable
from acp_launch.secret.reference import EnvironmentReference, Part, SecretReference, VariableReference, parse

_SPECIAL = {  # what a tool would take for a reference of its own
    "none": re.compile("(?!)"),
    "shell": re.compile(r"\$\{[A-Za-z_]"),
    "dollar": re.compile(r"\$\{?[A-Za-z_]"),
    "code": re.compile(r"\$\{"),
    "braces": re.compile(r"\{(?:env|file):"),
}


class Surroundings(Struct, frozen=True):
    """What `${project}` and its like are here, for tools that have no word for them."""

    project: str
    home: str
    profile: str
    python: str


class References:
    """The secrets of one export, by what the tool calls them: a variable, or an input."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}  # variable → secret
        self.inputs: dict[str, str] = {}  # input → secret
        self._reserved: dict[str, str] = {}

    def reserve(self, text: str, wanted: str) -> None:
        """The variable `wanted` is for the secret that is the whole `text`, before any other wants it."""
        parts = parse(text)
        if len(parts) == 1 and isinstance(parts[0], SecretReference):
            self._reserved.setdefault(wanted, parts[0].name)

    def variable(self, secret: str, wanted: str = "") -> str:
        name = _named(self._reserved, wanted or variable(secret).removeprefix(PREFIX), secret)
        self.variables[name] = secret
        return name

    def input(self, secret: str) -> str:
        return _named(self.inputs, slug(secret.replace("/", "-")) or "secret", secret)


def outward(
    text: str, tool: Tool, around: Surroundings, references: References, *, key: str = "", called: str = ""
) -> str:
    """`key` is where it stands: `env`, `headers`; `called` the variable of the server's that `text` is the value of.

    Raises:
        Untranslatable: the tool cannot say part of it.
    """
    parts, dialect = parse(text), tool.dialect_of(key)
    whole = called if len(parts) == 1 else ""
    return "".join(_said(part, tool, dialect, around, references, whole) for part in parts)


def only_variable(text: str, references: References, *, called: str = "") -> str | None:
    """The variable that `text` is nothing but, for tools that name variables instead of writing references."""
    parts = parse(text)
    return _variable(parts, references, called)


def bearer_variable(text: str, references: References) -> str | None:
    """The variable of `Bearer …`, likewise."""
    head, *rest = parse(text) or ("",)
    return _variable(rest, references, "") if head == "Bearer " else None


def _variable(parts: Sequence[Part], references: References, called: str) -> str | None:
    if len(parts) != 1:
        return None
    if isinstance(parts[0], SecretReference):
        return references.variable(parts[0].name, called)
    if isinstance(parts[0], EnvironmentReference) and parts[0].default is None:
        return parts[0].name
    return None


def _said(part: Part, tool: Tool, dialect: Dialect, around: Surroundings, references: References, called: str) -> str:
    if isinstance(part, str):
        if _SPECIAL[dialect].search(part):
            raise Untranslatable(f"holds text that {tool.title} would take for a variable")
        return part
    if isinstance(part, VariableReference):
        return _place(part.name, dialect, around)
    if isinstance(part, SecretReference):
        if tool.name == "vscode":
            return f"${{input:{references.input(part.name)}}}"
        if dialect == "none":
            raise Untranslatable(f"is a secret ({part.name}), and {tool.title} has no references")
        return _environment(references.variable(part.name, called), None, tool, dialect)
    return _environment(part.name, part.default, tool, dialect)


def _environment(name: str, default: str | None, tool: Tool, dialect: Dialect) -> str:
    if dialect == "none":
        raise Untranslatable(f"is the variable {name}, and {tool.title} has no references")
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        raise Untranslatable(f"is a variable that {tool.title} cannot name")
    if default is not None and dialect != "shell":
        raise Untranslatable(f"has a default for {name}, and {tool.title} knows no defaults")
    if dialect == "code":
        return f"${{env:{name}}}"
    if dialect == "braces":
        return f"{{env:{name}}}"
    return f"${{{name}}}" if default is None else f"${{{name}:-{default}}}"


def _place(name: str, dialect: Dialect, around: Surroundings) -> str:
    own: Mapping[str, Mapping[str, str]] = {
        "code": {"project": "${workspaceFolder}", "cwd": "${workspaceFolder}", "home": "${userHome}"},
        "shell": {"home": "${HOME}"},
        "dollar": {"home": "${HOME}"},
        "braces": {"home": "{env:HOME}"},
    }
    here = {"project": around.project, "cwd": around.project, "home": around.home}
    further = {"profile": around.profile, "python": around.python}
    return own.get(dialect, {}).get(name) or (here | further)[name]


def _named(known: dict[str, str], wanted: str, secret: str) -> str:
    """The name under which `secret` is known; a name stands for one secret only."""
    name, number = wanted, 1
    while known.get(name, secret) != secret:
        number += 1
        name = f"{wanted}_{number}"
    known[name] = secret
    return name
