"""The client's parameters, validated. Every function returns the value or raises -32602 with the name of the field."""

import os
from pathlib import Path
from typing import Any

from acp_launch.demo.wire import INVALID_PARAMS, Message, RpcError


def wrong(sentence: str) -> RpcError:
    return RpcError(INVALID_PARAMS, sentence)


def text(params: Message, key: str) -> str:
    found = params.get(key)
    if not isinstance(found, str):
        raise wrong(f"{key} must be a string")
    return found


def optional_text(params: Message, key: str) -> str | None:
    return None if params.get(key) is None else text(params, key)


def listing(params: Message, key: str) -> list[Any]:
    found = params.get(key)
    if not isinstance(found, list):
        raise wrong(f"{key} must be a list")
    return found


def absolute(path: object, key: str) -> str:
    if not isinstance(path, str) or not Path(path).is_absolute():
        raise wrong(f"{key} must be an absolute path")
    return os.path.normpath(path)


def directory(path: object, key: str) -> str:
    found = absolute(path, key)
    if not Path(found).is_dir():
        raise wrong(f"{key} is not a directory that exists: {found}")
    return found


def directories(params: Message) -> list[str]:
    if params.get("additionalDirectories") is None:
        return []
    return [directory(each, "additionalDirectories") for each in listing(params, "additionalDirectories")]


def servers(params: Message) -> list[Message]:
    """Return the MCP servers; a server of a type that we do not advertise is refused by name."""
    return [_server(entry) for entry in listing(params, "mcpServers")]


def _server(entry: object) -> Message:
    if not isinstance(entry, dict):
        raise wrong("mcpServers: every entry must be an object")
    name = text(entry, "name")
    kind = entry.get("type", "stdio")
    if kind in ("http", "sse"):
        url = text(entry, "url")
        if not url.startswith(("http://", "https://")):
            raise wrong(f"mcpServers[{name}].url must begin with http:// or https://")
        return {"name": name, "type": kind, "url": url, "headers": _pairs(entry, "headers", name)}
    if kind != "stdio":
        raise wrong(f"mcpServers[{name}]: this agent speaks stdio, http and sse, not {kind}")
    command = absolute(entry.get("command"), f"mcpServers[{name}].command")
    args = listing(entry, "args")
    if not all(isinstance(arg, str) for arg in args):
        raise wrong(f"mcpServers[{name}].args must be strings")
    return {"name": name, "command": command, "args": args, "env": _pairs(entry, "env", name)}


def _pairs(entry: Message, key: str, name: str) -> dict[str, str]:
    pairs = listing(entry, key)
    if not all(isinstance(pair, dict) for pair in pairs):
        raise wrong(f"mcpServers[{name}].{key} must hold {{name, value}} objects")
    return {text(pair, "name"): text(pair, "value") for pair in pairs}


def option_value(params: Message) -> str | bool:
    """Return the value of an option. A boolean must name its type, text must not (ACP v1 "session config options")."""
    found = params.get("value")
    if isinstance(found, bool) and params.get("type") == "boolean":
        return found
    if isinstance(found, str) and params.get("type") is None:
        return found
    raise wrong('value must be a string, or a boolean with "type": "boolean"')


def prompt(params: Message) -> list[Message]:
    blocks = listing(params, "prompt")
    for block in blocks:
        _check_block(block)
    return blocks


REQUIRED = {
    "text": ("text", str),
    "resource_link": ("uri", str),
    "resource": ("resource", dict),
    "image": ("data", str),
    "audio": ("data", str),
}


def _check_block(block: object) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(kind, str) or kind not in REQUIRED:
        raise wrong(f"prompt: content of type {kind!r} was not advertised; {', '.join(REQUIRED)} are")
    key, expected = REQUIRED[kind]
    if not isinstance(block.get(key), expected):
        raise wrong(f"prompt: a {kind} block needs {key}")
