"""The words of the protocol, judged by its schema where that stands beside the checkout."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from acp_launch.protocol.acp import NAMES, NUMBERS, VALUES, is_structure
from tests.judges import SCHEMA

# Of JSON-RPC, or of the JSON Schema within an elicitation: not numbers that agents report of themselves.
OTHER_NUMBERS = {"code", "default", "id", "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum"}
OTHER_NUMBERS |= {"priority", "requestId"}
# Names whose values another kind of text may have, or that no message to us has.
OPEN = {"format"}


def members(node: Any) -> Iterator[tuple[str, Any]]:
    """Every member of every object that the schema describes."""
    if isinstance(node, dict):
        properties = node.get("properties")
        described = properties if isinstance(properties, dict) else {}
        yield from described.items()
        for child in [*described.values(), *(child for key, child in node.items() if key != "properties")]:
            yield from members(child)
    elif isinstance(node, list):
        for child in node:
            yield from members(child)


def parts(node: Any, definitions: dict[str, Any], depth: int = 5) -> Iterator[dict[str, Any]]:
    """A member's schema, and those it is made of."""
    if not isinstance(node, dict) or depth == 0:
        return
    yield node
    if "$ref" in node:
        yield from parts(definitions[node["$ref"].rpartition("/")[2]], definitions, depth - 1)
    for child in [*node.get("oneOf", []), *node.get("anyOf", []), *node.get("allOf", []), node.get("items")]:
        yield from parts(child, definitions, depth - 1)


def test_every_member_that_the_schema_fixes_is_known() -> None:
    if not SCHEMA.exists():
        pytest.skip("the schema does not stand beside the checkout")
    schema = json.loads(SCHEMA.read_text())
    for name, node in members(schema):
        assert name in NAMES
        for part in parts(node, schema["$defs"]):
            fixed = {part.get("const"), *part.get("enum", [])}
            words = {word for word in fixed if isinstance(word, str)} if name not in OPEN else set()
            assert words <= VALUES.get(name, frozenset()), name
            kinds = part.get("type", [])
            if {"integer", "number"} & {*([kinds] if isinstance(kinds, str) else kinds)}:
                assert name in NUMBERS | OTHER_NUMBERS


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("sessionUpdate", "usage_update", True),
        ("sessionUpdate", "usage_update_of_mine", False),
        ("title", "usage_update", False),
        ("used", 5, True),
        ("pin", 5, False),
    ],
)
def test_a_word_is_the_protocols_only_in_its_place(name: str, value: object, expected: bool) -> None:
    assert is_structure(name, value) is expected
