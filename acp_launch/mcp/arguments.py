"""
The arguments of a tool as the user types them: one JSON object, or `key=value` words. Pure.

    text=hello      text, unless the tool's schema gives this argument another type
    a=2             a number if the schema says number; a boolean, a list or an object likewise, as JSON
    a:=2            JSON, whatever the schema says

JSON is passed on as written, so that no digit of a number changes.
"""

import json
from collections.abc import Sequence
from typing import Any, NoReturn

from msgspec import Raw, Struct

from acp_launch.errors import UsageError
from acp_launch.mcp.message import Tool
from acp_launch.problem import likeliest
from acp_launch.protocol.acp import mapping, sequence
from acp_launch.protocol.splice import written

NESTED = 8  # levels of anyOf and $ref followed to find the type of an argument
KINDS = {bool: "boolean", int: "integer", str: "string", type(None): "null", list: "array", dict: "object"}
ARTICLES = {"integer": "an integer", "null": "null", "array": "an array", "object": "an object"}
EXAMPLE = 'give them as key=value, or as one JSON object: \'{"key": "value"}\''


class Pair(Struct, frozen=True):
    key: str
    value: str
    is_json: bool


Given = Raw | tuple[Pair, ...]


def read_words(words: Sequence[str]) -> Given:
    """Read the words after the tool's name.

    Raises:
        UsageError: they are neither a JSON object nor `key=value` words.
    """
    if len(words) == 1 and words[0].lstrip()[:1] == "{":
        return read_object(words[0], "the arguments")
    pairs = tuple(map(_pair, words))
    keys = [pair.key for pair in pairs]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise UsageError(f'"{twice}" is given twice', fix=f"a list is JSON: {twice}:='[1, 2]'")
    return pairs


def read_object(written: str, source: str) -> Raw:
    """Read the text of one JSON object; `source` names it in messages.

    Raises:
        UsageError: the text is not a JSON object.
    """
    try:
        value = _json(written)
    except ValueError as fault:
        raise UsageError(f"{source} cannot be read as JSON: {fault}", fix=EXAMPLE) from None
    if not isinstance(value, dict):
        raise UsageError(f"{source} must be a JSON object, not {_article(_kind(value))}", fix=EXAMPLE)
    return _raw(written)


def fit_arguments(given: Given, tool: Tool) -> Raw:
    """Return the arguments as JSON. Words are checked against the tool's schema; an object is left to the server.

    Raises:
        UsageError: an argument is missing, has the wrong type, or is unknown and the schema allows no others.
    """
    if isinstance(given, Raw):
        return given
    unknown = [pair.key for pair in given if pair.key not in tool.properties]
    missing = [name for name in tool.required if name not in {pair.key for pair in given}]
    if (unknown and tool.schema.get("additionalProperties") is False) or missing:
        wrong = [f"needs {', '.join(missing)}"] if missing else []
        wrong += [f"has no argument {' or '.join(_nearest(key, tool) for key in unknown)}"] if unknown else []
        takes = ", ".join(tool.properties) or "no arguments"
        raise UsageError(f'"{tool.name}" ' + ", and ".join(wrong), fix=f"it takes {takes}")
    return Raw(written({pair.key: _value(pair, tool) for pair in given}))


def types_of(schema: object, root: object) -> frozenset[str]:
    """Return the JSON types that a schema allows, following `$ref`s into `root`; empty if it does not say."""
    return _types(schema, root, NESTED)


def _types(schema: object, root: object, depth: int) -> frozenset[str]:
    said = mapping(schema)
    if depth == 0:
        return frozenset()
    if isinstance(named := said.get("type"), str):
        return frozenset({named})
    found = {name for name in sequence(named) if isinstance(name, str)}
    values = [*sequence(said.get("enum")), *([said["const"]] if "const" in said else [])]
    found |= {_kind(value) for value in values}
    parts = [part for word in ("anyOf", "oneOf", "allOf") for part in sequence(said.get(word))]
    parts += [_resolve(reference, root)] if isinstance(reference := said.get("$ref"), str) else []
    return frozenset(found).union(*(_types(part, root, depth - 1) for part in parts))


def _resolve(reference: str, root: object) -> object:
    """Resolve a reference within the schema; nothing is fetched."""
    found = root
    for step in reference.removeprefix("#/").split("/"):
        found = mapping(found).get(step.replace("~1", "/").replace("~0", "~"))
    return found


def _pair(word: str) -> Pair:
    key, equals, value = word.partition("=")
    if not equals or key in ("", ":"):
        raise UsageError(f'"{word}" is not a tool argument', fix=EXAMPLE)
    if not key.endswith(":"):
        return Pair(key, value, False)
    try:
        _json(value)
    except ValueError as fault:
        raise UsageError(f'"{word}" cannot be read as JSON: {fault}', fix=f"as text: {key[:-1]}={value}") from None
    return Pair(key[:-1], value, True)


def _value(pair: Pair, tool: Tool) -> Raw | str:
    types = types_of(tool.properties.get(pair.key), tool.schema)
    if pair.is_json or _fits(pair.value, types):
        return _raw(pair.value)
    if types and "string" not in types:
        wanted = " or ".join(map(_article, sorted(types)))
        raise UsageError(
            f'"{pair.key}" of "{tool.name}" must be {wanted}, not "{pair.value}"', fix=_sample(pair.key, types)
        )
    return _text(pair.value)


def _fits(written: str, types: frozenset[str]) -> bool:
    """Tell whether a text is JSON of one of the types, other than a string."""
    try:
        kind = _kind(_json(written))
    except ValueError:
        return False
    return kind != "string" and (kind in types or (kind == "integer" and "number" in types))


def _kind(value: object) -> str:
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return KINDS[type(value)]


def _article(kind: str) -> str:
    return ARTICLES.get(kind, f"a {kind}")


def _sample(key: str, types: frozenset[str]) -> str:
    samples = {"boolean": "true", "array": "'[1, 2]'", "object": "'{\"key\": 1}'", "null": "null"}
    return f"for example {key}={samples.get(min(types), '1')}"


def _json(written: str) -> Any:
    """Parse JSON strictly: without NaN, and without text that cannot be sent."""
    _text(written)
    try:
        return json.loads(written, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _text(written: str) -> str:
    try:
        written.encode()
    except UnicodeEncodeError:  # the command line holds bytes that are not UTF-8
        raise UsageError("the arguments are not UTF-8", fix="convert them: iconv -t UTF-8") from None
    return written


def _raw(written: str) -> Raw:
    """Put JSON on one line, as a message must be; in JSON, line breaks occur only between tokens."""
    return Raw(written.replace("\r", " ").replace("\n", " ").encode())


def _nearest(key: str, tool: Tool) -> str:
    near = likeliest(key, tool.properties)
    return f'"{key}" (did you mean "{near}"?)' if near else f'"{key}"'
