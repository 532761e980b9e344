"""
A `Fault` at one path of a document, before its line is known. Also the sentences all formats share.

`described` turns a pydantic error into a `Fault`; `placed` finds the lines. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from acp_launch.document.flow import command_words, inline, words
from acp_launch.document.nodes import Plain, found, number_text
from acp_launch.document.shape import Shape, hint_at, list_meant, mapping_meant, shape_at
from acp_launch.problem import KeyPath, Problem, Severity, dotted, likeliest
from acp_launch.regex import regex

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from acp_launch.document.yaml import Document

REQUIRED = "this key is required"
NONE: Mapping[str, str] = {}
UNKNOWN_KEY = frozenset({"unexpected_keyword_argument", "extra_forbidden"})  # of a dataclass, of a model
_SHAPES = ("dataclass_type", "dataclass_exact_type")
_EXPECTED = {
    "string_type": "text",
    **dict.fromkeys(_SHAPES, "a mapping"),
    "mapping_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "bool_parsing": "true or false",
}
_ENTRY = regex(r"\s*([\w.-]+)\s*(?:=|:\s)\s*(.*)", re.DOTALL)  # in a list or a text: `A=b`, `A: b`
MAX_WRITTEN = 200  # characters of a value that a fix writes out
_SHAPED = {
    "a list": "write each item on its own line after a dash: - ITEM",
    "text": "write one text, in quotes if need be",
}


class Fault(Struct, frozen=True):
    """A fault at `path`. `offset` counts characters into the text there; `at_key` points at the key."""

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


def misplaced(path: KeyPath, expected: str, value: Plain, meant: Plain = None) -> Fault:
    """Describe a value of the wrong type: what was expected, what was found, and the most likely edit.

    `meant` is the value to write instead, if it is known.
    """
    fix = _write_out(path, meant) if meant is not None and value is not None else _repair(path, expected, value)
    return Fault(path, f"expected {expected}, found {found(value)}", fix)


def _write_out(path: KeyPath, meant: Plain) -> str:
    """Tell what to write; of a long list or mapping only how it begins."""
    while len(written := inline(meant)) > MAX_WRITTEN and len(meant) > 1:
        meant = dict([*meant.items()][: len(meant) // 2]) if isinstance(meant, dict) else meant[: len(meant) // 2]
    written = written if len(written) <= MAX_WRITTEN else "{...}" if isinstance(meant, dict) else "[...]"
    return f"write {inline(path[-1])}: {written}" if path and isinstance(path[-1], str) else f"write {written}"


def _repair(path: KeyPath, expected: str, value: Plain) -> str:
    if value is None:
        return "write a value, or remove the key"
    if expected == "text" and isinstance(value, bool | int | float):
        return f'quote it: "{str(value).lower() if isinstance(value, bool) else number_text(value)}"'
    if expected == "text" and isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return _write_out(path, value[0])
    if expected.startswith("a list") and isinstance(value, str):
        is_command = str(path[-1]).endswith("command")
        return _write_out(path, command_words(value) if is_command else words(value))
    if expected.startswith("a mapping"):
        return _write_out(path, named_entries(value))
    return next((fix for what, fix in _SHAPED.items() if expected.startswith(what)), "correct the value")


def named_entries(value: Plain) -> dict[str, Plain]:
    """Return the mapping of names for which a value most likely stands: `[A=b]`, `"A: b"`, `[{A: b}]`,
    `[{name: A, ...}]`."""
    meant = dict[str, Plain]()
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            called = item.get("name")
            rest = {key: entry for key, entry in item.items() if key != "name"}
            meant |= {called: rest} if isinstance(called, str) else item
        elif isinstance(item, str) and (match := _ENTRY.fullmatch(item)):
            meant[match[1]] = match[2]
        else:
            meant[f"NAME_{len(meant) + 1}" if "NAME" in meant else "NAME"] = item
    return meant


def choose(path: KeyPath, value: Plain, choices: Sequence[str], meant: str | None = None) -> Fault:
    """Describe a value that is not in a fixed list; `meant` is the choice to suggest, if it is known."""
    listed = ", ".join(choices[:-1]) + f" or {choices[-1]}"
    said = value[0] if isinstance(value, list) and len(value) == 1 else value
    nearest = meant or (likeliest(said, choices) if isinstance(said, str) else "")
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


def described(error: "ErrorDetails", path: KeyPath, shape: type[Shape]) -> Fault:
    """Describe a pydantic error of the value at `path`, validated as `shape`. Not for unknown keys: only the format
    knows the other keys."""
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
    at = shape_at(shape, inner)
    meant: Plain = mapping_meant(at, value) if kind in _SHAPES else None
    if meant == {} and value is not None:
        fix = f"write its keys below it: {', '.join(at.__struct_fields__)}"
        return Fault(where, f"expected a mapping, found {found(value)}", fix)
    if kind == "tuple_type" and isinstance(value, dict):
        meant = list_meant(hint_at(shape, inner), value)
    return misplaced(where, _EXPECTED.get(kind, error["msg"]), value, meant)
