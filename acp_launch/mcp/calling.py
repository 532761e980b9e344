"""`tools/call`, and what comes back."""

import json

from msgspec import Raw, Struct

from acp_launch.errors import RemoteProtocolError
from acp_launch.mcp.stdio import Connection
from acp_launch.protocol.acp import decoded, mapping, sequence, text

PATIENCE = 60.0  # seconds of silence, where nobody chose a limit


class Limit(Struct, frozen=True):
    """How many seconds we wait for the answer, or with `of_silence` for the answer or the next progress."""

    seconds: float
    of_silence: bool
    knob: str  # what makes it longer


class ToolResult(Struct, frozen=True):
    """`parts` are the texts as they are, and a line about each thing that is no text."""

    parts: tuple[str, ...]
    is_error: bool
    raw: Raw


async def call_tool(connection: Connection, tool: str, arguments: Raw, limit: Limit) -> ToolResult:
    """
    Raises:
        LaunchError: as `Connection.ask`.
        RemoteProtocolError: the result is none.
    """
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": 1}}
    result = await connection.ask(
        connection.client.call("tools/call", params),
        what=f'result of "{tool}"',
        limit=limit.seconds,
        knob=limit.knob,
        since=connection.progressed if limit.of_silence else None,
    )
    body = decoded(result)
    if not isinstance(body, dict):
        raise RemoteProtocolError(f"{connection.label} answered tools/call without a result")
    return read_result(result.copy(), body)


def read_result(raw: Raw, body: dict[str, object]) -> ToolResult:
    """Structured content counts where no text says the same."""
    content = [mapping(item) for item in sequence(body.get("content"))]
    parts = [_part(item) for item in content]
    if "structuredContent" in body and not any(item.get("type") == "text" for item in content):
        parts.append(json.dumps(body["structuredContent"], indent=2, ensure_ascii=False))
    return ToolResult(tuple(parts), body.get("isError") is True, raw)


def _part(item: dict[str, object]) -> str:
    kind = text(item.get("type"))
    if kind == "text":
        return text(item.get("text"))
    if kind == "resource":
        return _resource(mapping(item.get("resource")))
    if kind == "resource_link":
        facts = [text(item.get("uri")), text(item.get("name")), text(item.get("mimeType"))]
    else:
        facts = [text(item.get("mimeType")), _size(item.get("data"))]
    return _line(kind or "something without a type", facts)


def _resource(resource: dict[str, object]) -> str:
    held = resource.get("text")
    size = _bytes(len(held.encode(errors="replace"))) if isinstance(held, str) else _size(resource.get("blob"))
    return _line("resource", [text(resource.get("uri")), text(resource.get("mimeType")), size])


def _line(kind: str, facts: list[str]) -> str:
    return f"[{', '.join(filter(None, [kind, *facts]))}]"


def _size(base64: object) -> str:
    """Of what Base64 stands for."""
    return _bytes(len(base64.rstrip("=")) * 3 // 4) if isinstance(base64, str) else ""


def _bytes(count: int) -> str:
    return f"{count:,} byte{'' if count == 1 else 's'}"
