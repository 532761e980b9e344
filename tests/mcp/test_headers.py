"""The headers of the newer era: what they repeat of a request's body, and how (M-31)."""

import base64
import json
from typing import Any

import pytest
from msgspec import Raw

from acp_launch.mcp.http.headers import ToolHeaders, request_headers, version_of, wanted_headers, written

MARK = "x-mcp-header"


@pytest.mark.parametrize("plain", ["", "eu-1", "a b", "=?base64?x", "!~"])
def test_a_safe_value_is_written_as_it_is(plain: str) -> None:
    assert written(plain) == plain


@pytest.mark.parametrize("value", ["größe", " a", "a ", "a\nb", "a\tb", "=?base64?YQ==?=", "\x7f", "😀"])
def test_any_other_value_is_written_in_base64_between_marks(value: str) -> None:
    encoded = written(value)
    assert encoded.startswith("=?base64?")
    assert encoded.endswith("?=")
    assert base64.b64decode(encoded[9:-2]).decode() == value


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "add"}, "add"),
        ("prompts/get", {"name": "größe"}, written("größe")),
        ("resources/read", {"uri": "test://one", "name": "x"}, "test://one"),
        ("tools/list", {"name": "add"}, None),
        ("tools/call", {"name": 3}, None),
    ],
)
def test_the_name_of_what_is_used_is_a_header(method: str, params: dict[str, Any], name: str | None) -> None:
    headers = request_headers(method, Raw(json.dumps(params).encode()), {})
    assert headers == {"Mcp-Method": method, **({} if name is None else {"Mcp-Name": name})}


def test_arguments_that_a_tool_wants_are_headers_if_they_are_given() -> None:
    tools = {"add": {("a",): "A", ("deep", "b"): "B", ("no",): "No", ("list",): "List", ("on",): "On"}}
    arguments = {"a": "größe", "deep": {"b": 7}, "list": [1], "on": True, "no": None}
    params = Raw(json.dumps({"name": "add", "arguments": arguments}).encode())
    assert request_headers("tools/call", params, tools) == {
        "Mcp-Method": "tools/call",
        "Mcp-Name": "add",
        "Mcp-Param-A": written("größe"),
        "Mcp-Param-B": "7",
        "Mcp-Param-On": "true",
    }


def test_the_version_in_meta_makes_a_message_one_of_the_newer_era() -> None:
    line = b'{"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}'
    assert version_of(line, Raw(line[10:-1])) == "2026-07-28"
    assert version_of(b'{"params":{}}', Raw(b"{}")) == ""
    assert version_of(b'"io.modelcontextprotocol/protocolVersion"', Raw(b"[]")) == ""


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_a_tool_names_headers_for_its_arguments_at_any_depth() -> None:
    inner = schema(b={"type": "integer", MARK: "B"})
    assert wanted_headers(schema(a={"type": "string", MARK: "A"}, deep=inner)) == {("deep", "b"): "B", ("a",): "A"}
    assert wanted_headers({"default": {MARK: "data"}, "$ref": "http://example.com"}) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        schema(a={"type": "number", MARK: "A"}),
        schema(a={MARK: "A"}),
        schema(a={"type": "string", MARK: "two words"}),
        schema(a={"type": "string", MARK: ""}),
        schema(a={"type": "string", MARK: 3}),
        schema(a={"type": "string", MARK: "A"}, b={"type": "string", MARK: "a"}),
        {MARK: "A"},
        schema(a={"items": {"type": "string", MARK: "A"}}),
        schema(a={"anyOf": [{"type": "string", MARK: "A"}]}),
        {"$defs": {"a": {"type": "string", MARK: "A"}}},
    ],
)
def test_a_tool_that_names_headers_in_another_way_is_left_out_with_a_note(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=MARK):
        wanted_headers(wrong)
    tools = [{"name": "bad", "inputSchema": wrong}, {"name": "good", "inputSchema": schema(a={"type": "string"})}]
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools, "ttlMs": 0}}).encode()
    shown, reasons = ToolHeaders().shown(line)
    assert json.loads(shown)["result"] == {"tools": [tools[1]], "ttlMs": 0}
    assert len(reasons) == 1
    assert reasons[0].startswith('the tool "bad" is left out: ')


def test_other_lists_of_tools_stay_as_they_are() -> None:
    """M-7."""
    for line in (b'{"id":1,"result":{"tools":[ ]}}', b'{"id":1,"result":{"x-mcp-header":1}}', b'["x-mcp-header"]'):
        assert ToolHeaders().shown(line) == (line, [])


def test_a_tool_that_wants_a_flood_of_headers_is_left_out() -> None:
    """In a time that grows with its schema, and not with the square of it."""
    properties = {f"a{n}": {"type": "string", "x-mcp-header": f"A{n}"} for n in range(200_000)}
    with pytest.raises(ValueError, match="more than 100 arguments"):
        wanted_headers({"properties": properties})


def test_a_deep_and_wide_schema_takes_memory_in_proportion_to_its_size() -> None:
    import tracemalloc

    schema: dict[str, object] = {"properties": {f"a{n}": {} for n in range(20_000)}}
    for _ in range(500):
        schema = {"properties": {"a": schema}}
    tracemalloc.start()
    try:
        assert wanted_headers(schema) == {}
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
