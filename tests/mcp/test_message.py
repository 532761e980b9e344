"""What servers say, read leniently; and what comes back from a tool, as lines."""

import json
from typing import Any

import pytest
from msgspec import Raw

from acp_launch.errors import RemoteProtocolError
from acp_launch.mcp.client import read_result
from acp_launch.mcp.message import LEGACY_VERSIONS, read_server, read_tools, renumber

LABEL = 'the MCP server "x"'


def server(**members: object) -> Raw:
    return Raw(json.dumps({"protocolVersion": LEGACY_VERSIONS[0], **members}).encode())


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_a_server_may_answer_any_version_with_a_handshake(version: str) -> None:
    assert read_server(LABEL, server(protocolVersion=version)).protocol_version == version


def test_a_version_we_do_not_speak_is_named_with_those_we_do() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        read_server(LABEL, server(protocolVersion="2026-07-28"))
    assert (caught.value.message, caught.value.fix) == (
        f'{LABEL} speaks MCP "2026-07-28", which acp-launch does not',
        "use a release of it that speaks one of 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05",
    )


@pytest.mark.parametrize("answer", ["null", "[]", "{}", '{"protocolVersion": 1}', '"2025-11-25"'])
def test_an_answer_without_a_version_is_a_broken_protocol(answer: str) -> None:
    with pytest.raises(RemoteProtocolError, match=r"names no protocol version in its answer to initialize$"):
        read_server(LABEL, Raw(answer.encode()))


def test_malformed_optional_members_count_as_omitted() -> None:
    read = read_server(LABEL, server(serverInfo=[], capabilities={"tools": {}, "prompts": True}, instructions=5))
    assert (read.name, read.version, read.instructions) == ("", "", "")
    assert (read.offers("tools"), read.offers("prompts"), read.offers("logging")) == (True, False, False)


def test_a_tool_without_a_name_is_left_out() -> None:
    tools = list(read_tools([{"name": "a", "inputSchema": None, "title": "A"}, {"name": 5}, {}]))
    assert [(tool.name, tool.description, tool.properties, tool.required) for tool in tools] == [("a", "A", {}, ())]


def parts(body: dict[str, Any]) -> tuple[str, ...]:
    return read_result(Raw(b""), body).parts


def test_texts_stay_as_they_are_and_the_rest_is_described() -> None:
    content = [
        {"type": "text", "text": "one\n"},
        {"type": "text"},
        {"type": "image", "mimeType": "image/png", "data": "MTIzNA=="},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "é"}},
        {"type": "resource", "resource": {"blob": "MQ=="}},
        {"type": "resource_link", "uri": "file:///b", "name": "b", "mimeType": "text/plain"},
        {},
        "not an object",
    ]
    assert parts({"content": content}) == (
        "one\n",
        "",
        "[image, image/png, 4 bytes]",
        "[resource, file:///a, 2 bytes]",
        "[resource, 1 byte]",
        "[resource_link, file:///b, b, text/plain]",
        "[something without a type]",
        "[something without a type]",
    )


def test_structured_content_is_shown_where_no_text_says_the_same() -> None:
    assert parts({"content": [], "structuredContent": {"é": 1}}) == ('{\n  "é": 1\n}',)
    assert parts({"content": [{"type": "text", "text": "1"}], "structuredContent": {"a": 1}}) == ("1",)
    assert parts({}) == ()


@pytest.mark.parametrize(("said", "is_error"), [(True, True), (False, False), ("yes", False), (None, False)])
def test_only_true_marks_an_error(said: object, is_error: bool) -> None:
    assert read_result(Raw(b""), {"isError": said}).is_error is is_error


@pytest.mark.parametrize(
    ("line", "ours", "token"),
    [
        (b'{"jsonrpc":"2.0","id":5,"method":"x"}', b'{"jsonrpc":"2.0","id":77,"method":"x"}', None),
        (b'{"id":"a","method":"x"}', b'{"id":77,"method":"x"}', None),
        (b'{"id":5,"method":"x","id":6}', b'{"id":5,"method":"x","id":77}', None),
        (b'{"id":5,"method":"x","\\u0069d":6}', b'{"id":5,"method":"x","\\u0069d":77}', None),
        (b'{"id":5,"params":{"a":{"id":1}}}', b'{"id":77,"params":{"a":{"id":1}}}', None),
        (
            b'{"id":5,"params":{"_meta":{"progressToken":"t"}}}',
            b'{"id":77,"params":{"_meta":{"progressToken":77}}}',
            b'"t"',
        ),
        (
            b'{"id":5,"params":{"_meta":{"\\u0070rogressToken":3}}}',
            b'{"id":77,"params":{"_meta":{"\\u0070rogressToken":77}}}',
            b"3",
        ),
        (b'{"id":5,"params":{"progressToken":3}}', b'{"id":77,"params":{"progressToken":3}}', None),
    ],
)
def test_a_request_gets_an_id_and_a_token_of_ours_however_it_is_written(
    line: bytes, ours: bytes, token: bytes | None
) -> None:
    given, own = renumber(line, 77)
    assert (given, None if own is None else bytes(own)) == (ours, token)
