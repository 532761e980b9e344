"""
A `Fault`: what is wrong at one path of a document, before its line is known. Also the sentences all formats share.

`described` turns a pydantic error into a `Fault`; `placed` finds the lines. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from acp_launch.document.nodes import Plain, found, number_text
from acp_launch.problem import KeyPath, Problem, Severity, dotted, likeliest
from acp_launch.regex import regex

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from acp_launch.document.yaml import Document

REQUIRED = "this key is required"
NONE: Mapping[str, str] = {}
UNKNOWN_KEY = frozenset({"unexpected_keyword_argument", "extra_forbidden"})  # of a dataclass, of a model
_EXPECTED = {
    "string_type": "text",
    "dataclass_type": "a mapping",
    "dataclass_exact_type": "a mapping",
    "mapping_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "bool_parsing": "true or false",
}
_NO_TEXT = regex(r"[\d.+-]+|true|false|null", re.IGNORECASE)  # YAML reads these as other values
_SHAPED = {
    "a mapping": "write it on separate lines as KEY: VALUE",
    "a list": "write each item on its own line after a dash: - ITEM",
    "text": "write one text, in quotes if need be",
}


class Fault(Struct, frozen=True):
    """What is wrong at `path`. `offset` counts characters into the text there; `at_key` points at the key."""

    path: KeyPath
    message: str
    fix: str = ""
    offset: int = 0
    at_key: bool = False
    severity: Severity = "error"


def placed(document: "Document", faults: Iterable[Fault]) -> Iterator[Problem]:
    """Turn each fault into a Problem with its file and line."""
    for fault in faults:
        at = document.where(fault.path, key=fault.at_key, offset=fault.offset)
        yield at.problem(dotted(fault.path), fault.message, fault.fix, fault.severity)


def misplaced(path: KeyPath, expected: str, value: Plain) -> Fault:
    """Describe a value of the wrong type: what was expected, what was found, and the most likely edit."""
    return Fault(path, f"expected {expected}, found {found(value)}", _repair(expected, value))


def _repair(expected: str, value: Plain) -> str:
    if value is None:
        return "write a value, or remove the key"
    if expected == "text" and isinstance(value, bool | int | float):
        return f'quote it: "{str(value).lower() if isinstance(value, bool) else number_text(value)}"'
    if expected == "a list" and isinstance(value, str):
        items = ", ".join(map(in_list, value.split()[:4]))
        return f"write it as a list: [{items}]" if len(value) < 60 else "write it as a list"
    return next((fix for what, fix in _SHAPED.items() if expected.startswith(what)), "correct the value")


def in_list(word: str) -> str:
    """Quote a word if needed, so that it can stand between brackets as a text."""
    is_plain = re.fullmatch(r"(?!-\Z)[\w./-][\w./@=+-]*", word) and not _NO_TEXT.fullmatch(word)
    return word if is_plain else f'"{word}"'


def choose(path: KeyPath, value: Plain, choices: Sequence[str], meant: str | None = None) -> Fault:
    """Describe a value that is not in a fixed list; `meant` is the choice to suggest, if it is known."""
    listed = ", ".join(choices[:-1]) + f" or {choices[-1]}"
    nearest = meant or (likeliest(value, choices) if isinstance(value, str) else "")
    fix = f"write {nearest}" if nearest else f"write one of them: {choices[0]}"
    return Fault(path, f"expected {listed}, found {found(value)}", fix)


def unknown_key(path: KeyPath, known: Sequence[str], others: Mapping[str, str] = NONE) -> Fault:
    """Describe a key that its mapping does not have; `known` are those it has.

    `others` maps names that other tools use, in lower case with underscores, to ours. They go before similar names.
    """
    key = str(path[-1])
    plain = key.lower().replace("-", "_")
    nearest = others[plain] if others.get(plain) in known else likeliest(plain, known)
    if nearest:
        return Fault(path, f'unknown key "{key}"; did you mean "{nearest}"?', f"write {nearest}", at_key=True)
    return Fault(path, f'unknown key "{key}"', f"use one of {', '.join(known)}", at_key=True)


def described(error: "ErrorDetails", path: KeyPath) -> Fault:
    """Describe a pydantic error of the value at `path`. Not for unknown keys: only the format knows the other keys."""
    inner, kind, value = error["loc"], error["type"], error["input"]
    where = (*path, *inner)
    if kind == "missing":
        return Fault(where, REQUIRED, f"add: {inner[-1]}: ...")
    context: Mapping[str, Any] = error.get("ctx", {})
    if kind == "value_error":  # our own types bring their words
        refused = context["error"]
        return Fault(where, str(refused), refused.fix, offset=refused.offset)
    if kind == "literal_error":
        return choose(where, value, re.findall(r"'([^']*)'", context["expected"]))
    return misplaced(where, _EXPECTED.get(kind, error["msg"]), value)
