"""The headers of the newer era: what they repeat of a request's body, and how (M-31)."""

import base64
import json
from typing import Any

import pytest
from msgspec import Raw

from acp_launch.mcp.message import encode_header, request_headers, version_of


@pytest.mark.parametrize("plain", ["", "eu-1", "a b", "=?base64?x", "!~"])
def test_a_safe_value_is_written_as_it_is(plain: str) -> None:
    assert encode_header(plain) == plain


@pytest.mark.parametrize("value", ["größe", " a", "a ", "a\nb", "a\tb", "=?base64?YQ==?=", "\x7f", "😀"])
def test_any_other_value_is_written_in_base64_between_marks(value: str) -> None:
    encoded = encode_header(value)
    assert encoded.startswith("=?base64?")
    assert encoded.endswith("?=")
    assert base64.b64decode(encoded[9:-2]).decode() == value


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "add"}, "add"),
        ("prompts/get", {"name": "größe"}, encode_header("größe")),
        ("resources/read", {"uri": "test://one", "name": "x"}, "test://one"),
        ("tools/list", {"name": "add"}, None),
        ("tools/call", {"name": 3}, None),
    ],
)
def test_the_name_of_what_is_used_is_a_header(method: str, params: dict[str, Any], name: str | None) -> None:
    headers = request_headers("x", method, Raw(json.dumps(params).encode()))
    named = {} if name is None else {"Mcp-Name": name}
    assert headers == {"MCP-Protocol-Version": "x", "Mcp-Method": method, **named}


def test_the_version_in_meta_makes_a_message_one_of_the_newer_era() -> None:
    line = b'{"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}'
    assert version_of(Raw(line[10:-1])) == "2026-07-28"
    assert version_of(Raw(b"{}")) == ""
    assert version_of(Raw(b"[]")) == ""
    assert version_of(Raw(line[10:-1].replace(b'"2026-07-28"', b"3"))) == ""
