"""A content block as text: its text, or a description of it (ACP v1 "content")."""

from typing import Any

from acp_launch.protocol import acp


def said(block: dict[str, Any]) -> str:
    """Return the text as the agent sent it, not made harmless."""
    kind = acp.text(block.get("type"))
    if kind == "text":
        return acp.text(block.get("text"))
    if kind in ("image", "audio"):
        size = len(acp.text(block.get("data"))) * 3 // 4  # base64
        return f"[{kind}: {acp.text(block.get('mimeType')) or 'of an unknown type'}, {size:,} bytes]"
    if kind == "resource_link":
        name = acp.text(block.get("title")) or acp.text(block.get("name"))
        return f"[{name}: {acp.text(block.get('uri'))}]"
    if kind == "resource":
        resource = acp.mapping(block.get("resource"))
        return acp.text(resource.get("text")) or f"[{acp.text(resource.get('uri'))}]"
    return ""
