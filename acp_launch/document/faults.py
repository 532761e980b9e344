"""
What is wrong at one path of what a person wrote, before anybody knows the line; and the sentences all formats share.

Pure. `described` turns one pydantic error into a sentence of ours; `placed` finds the lines.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from acp_launch.document.nodes import Plain, found, number_text
from acp_launch.problem import KeyPath, Problem, Severity, dotted, likeliest

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
    "bad_duration": "a duration",
    "bad_size": "a number of bytes from 4KiB to 1GiB",
}
_SHAPED = {
    "a mapping": "write it on lines of its own as KEY: VALUE",
    "a list": "write each item on a line of its own after a dash: - ITEM",
    "text": "write one text, in quotes if need be",
}


class Fault(Struct, frozen=True):
    """`offset` counts characters into the text at `path`; `at_key` points at the key, not at its value."""

    path: KeyPath
    message: str
    fix: str = ""
    offset: int = 0
    at_key: bool = False
    severity: Severity = "error"


def placed(document: "Document", faults: Iterable[Fault]) -> Iterator[Problem]:
    """Each fault with its file and line."""
    for fault in faults:
        at = document.where(fault.path, key=fault.at_key, offset=fault.offset)
        yield Problem(at.file, at.line, at.column, dotted(fault.path), fault.message, fault.fix, fault.severity)


def misplaced(path: KeyPath, expected: str, value: Plain) -> Fault:
    """A value of the wrong type: what was expected, what was found, and the edit that is most likely meant."""
    return Fault(path, f"expected {expected}, found {found(value)}", _repair(expected, value))


def _repair(expected: str, value: Plain) -> str:
    if value is None:
        return "write a value, or remove the key"
    if expected == "text" and isinstance(value, bool | int | float):
        return f'quote it: "{str(value).lower() if isinstance(value, bool) else number_text(value)}"'
    if expected == "a list" and isinstance(value, str):
        items = ", ".join(map(_item, value.split()[:4]))
        return f"write it as a list: [{items}]" if len(value) < 60 else "write it as a list"
    return next((fix for what, fix in _SHAPED.items() if expected.startswith(what)), "write it as that")


def _item(word: str) -> str:
    """As it can stand between brackets."""
    return word if re.fullmatch(r"[\w./@-]+", word) else f'"{word}"'


def choose(path: KeyPath, value: Plain, choices: Sequence[str], meant: str | None = None) -> Fault:
    """A value outside a fixed list."""
    listed = ", ".join(choices[:-1]) + f" or {choices[-1]}"
    nearest = meant or (likeliest(value, choices) if isinstance(value, str) else "")
    fix = f"write {nearest}" if nearest else f"write one of them: {choices[0]}"
    return Fault(path, f"expected {listed}, found {found(value)}", fix)


def unknown_key(path: KeyPath, known: Sequence[str], others: Mapping[str, str] = NONE) -> Fault:
    """A key that is none of the `known` ones of its mapping.

    `others`: what one of them is called elsewhere, in lower case with underscores; it goes before what looks alike.
    """
    key = str(path[-1])
    plain = key.lower().replace("-", "_")
    nearest = others[plain] if others.get(plain) in known else likeliest(plain, known)
    if nearest:
        return Fault(path, f'unknown key "{key}"; did you mean "{nearest}"?', f"write {nearest}", at_key=True)
    return Fault(path, f'unknown key "{key}"', f"use one of {', '.join(known)}", at_key=True)


def described(error: "ErrorDetails", path: KeyPath) -> Fault:
    """One error of whatever was validated at `path`; not for an unknown key: only its format knows the others."""
    inner, kind, value = error["loc"], error["type"], error["input"]
    where = (*path, *inner)
    if kind == "missing":
        return Fault(where, REQUIRED, f"add: {inner[-1]}: ...")
    context: Mapping[str, Any] = error.get("ctx", {})
    if kind == "bad_reference":
        return Fault(where, context["message"], context["fix"], offset=context["offset"])
    if kind == "literal_error":
        return choose(where, value, re.findall(r"'([^']*)'", context["expected"]))
    expected = _EXPECTED.get(kind, error["msg"])
    if "fix" in context:  # our own types know what to do about it
        return Fault(where, f"expected {expected}, found {found(value)}", context["fix"])
    return misplaced(where, expected, value)
