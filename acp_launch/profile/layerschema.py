"""
The schema of a profile that extends others: nothing is required of it, and `null` removes what they say.

Made from the strict one: each shape has a twin here, without what is required and with `null` beside every value. The
kinds of servers are one shape, since the file may say only what is different about a server.
"""

from collections.abc import Mapping
from typing import Any

_TWIN = "Layer"
_SERVERS = ("StdioServer", "HttpServer", "SseServer")
_REFERENCE = "#/$defs/"
_KINDS = {"enum": ["stdio", "http", "sse"], "title": "type", "description": "Implied by `command`."}
_LISTED = ("Rule", "Match")  # in lists only
_KEPT = ("version", "extends")  # never null


def layered(root: Mapping[str, Any], shapes: Mapping[str, Any]) -> dict[str, Any]:
    """A schema that is `root` for who extends nothing; `$defs` holds the shapes, `root` itself, and their twins."""
    merged = {key: value for name in reversed(_SERVERS) for key, value in shapes[name]["properties"].items()}
    server = {**shapes[_SERVERS[0]], "properties": {**merged, "type": _KINDS}, "title": "Server"}
    loose = {name: shape for name, shape in shapes.items() if name not in (*_SERVERS, *_LISTED)} | {"Server": server}
    twins = {f"{name}{_TWIN}": _loosened(shape) for name, shape in loose.items()}
    strict = {"if": {"not": {"required": ["extends"]}}, "then": {"$ref": f"{_REFERENCE}Profile"}}
    return {**_loosened(root), **strict, "$defs": {**shapes, "Profile": dict(root), **twins}}


def _loosened(shape: Mapping[str, Any]) -> dict[str, Any]:
    twin = {key: value for key, value in shape.items() if key != "required"}
    keys = shape["properties"].items()
    return {**twin, "properties": {key: value if key in _KEPT else _removable(value) for key, value in keys}}


def _removable(value: dict[str, Any]) -> dict[str, Any]:
    """Titles and descriptions stay outside, where editors look for them."""
    outside: dict[str, Any] = {key: value[key] for key in ("title", "description", "default") if key in value}
    inside = _twin({key: part for key, part in value.items() if key not in outside})
    if isinstance(entries := inside.get("additionalProperties"), dict):
        inside["additionalProperties"] = {"anyOf": [entries, {"type": "null"}]}
    return {**outside, "anyOf": [inside, {"type": "null"}]}


def _twin(part: Any) -> Any:
    """With references to twins. A list is replaced as a whole, so what is in one is as strict as ever."""
    if isinstance(part, list):
        twins = [_twin(item) for item in part]
        return [twin for index, twin in enumerate(twins) if twin not in twins[:index]]
    if not isinstance(part, dict) or "items" in part:
        return part
    return {key: _referred(value) if key == "$ref" else _twin(value) for key, value in part.items()}


def _referred(reference: str) -> str:
    name = reference.removeprefix(_REFERENCE)
    return f"{_REFERENCE}{'Server' if name in _SERVERS else name}{_TWIN}"
