"""The reply `look`: a description of the attachments of a prompt, which shows that they arrived complete."""

import binascii
from base64 import b64decode

from acp_launch.demo.turn import Turn
from acp_launch.demo.wire import Message

PNG = b"\x89PNG\r\n\x1a\n"


def look(turn: Turn, rest: str) -> None:
    seen = [_seen(block) for block in turn.blocks if block["type"] != "text"]
    if not seen:
        turn.say("Nothing is attached to this prompt.")
    for number, words in enumerate(seen, 1):
        turn.say(f"{number}. {words}\n")


def _seen(block: Message) -> str:
    match block["type"]:
        case "resource":
            return _resource(block["resource"])
        case "resource_link":
            size = f", {block['size']} bytes" if isinstance(block.get("size"), int) else ""
            return f"a link to {block['uri']} ({_mime(block)}{size})"
        case kind:
            return _media(kind, block)


def _resource(resource: Message) -> str:
    held = resource.get("text")
    if isinstance(held, str):
        first = held.splitlines()[0][:60] if held else ""
        return f"the text of {resource.get('uri')} ({len(held)} characters), which begins with: {first}"
    return f"the bytes of {resource.get('uri')} ({_mime(resource)})"


def _media(kind: str, block: Message) -> str:
    try:
        data = b64decode(block["data"], validate=True)
    except binascii.Error as error:
        return f"{kind} whose data is not base64: {error}"
    shape = ""
    if data.startswith(PNG) and len(data) >= 24:
        shape = f", {int.from_bytes(data[16:20], 'big')}×{int.from_bytes(data[20:24], 'big')} pixels"
    return f"{kind} of type {_mime(block)}, {len(data)} bytes{shape}"


def _mime(block: Message) -> str:
    return str(block.get("mimeType") or "no type given")
