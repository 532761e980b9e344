"""
What one entry of another tool says, in our words and still in that tool's way of writing. Pure.

A value of the wrong type is left out with a word about it, never guessed at; a key without a counterpart likewise.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from acp_launch.document.duration import Duration
from acp_launch.document.nodes import number_text

Kind = Literal["server", "agent"]
Transport = Literal["", "stdio", "http", "sse"]
MOST = 10_000  # texts of one entry
_TRANSPORTS: Mapping[str, Transport] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "https": "http",
    "remote": "http",
    "streamable": "http",
    "streamablehttp": "http",
    "sse": "sse",
}


@dataclass
class Declared:
    """`left` is what has no place in ours: a key and why. `unfit` says why the entry cannot be taken at all."""

    name: str
    kind: Kind = "server"
    command: str = ""
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    transport: Transport = ""
    headers: dict[str, str] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)  # `timeouts`, `tools` and `required` as a profile has them
    passed: list[str] = field(default_factory=list)  # variables of the tool's own environment
    from_env: dict[str, tuple[str, str]] = field(default_factory=dict)  # header → text before it, variable
    kept: list[str] = field(default_factory=list)  # variables whose values the tool has in a store of its own
    left: list[tuple[str, str]] = field(default_factory=list)
    disabled: bool = False
    unfit: str = ""

    def leave(self, key: str, why: str = "has no counterpart in a profile") -> None:
        self.left.append((key, why))


Reader = Callable[[Declared, str, Any], None]  # the entry, the key as it is written, its value


def text(value: Any) -> str | None:
    """As it reaches a program; None for what is no single value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return number_text(value)
    return value if isinstance(value, str) else None


def command(entry: Declared, key: str, value: Any) -> None:
    if isinstance(value, Mapping):  # Zed's older form: a command with its own arguments
        command(entry, f"{key}.path", value.get("path"))
        args(entry, f"{key}.args", value.get("args", []))
        env(entry, f"{key}.env", value.get("env") or {})
        return
    if isinstance(value, list):
        args(entry, key, value)
        entry.command, entry.args = (entry.args[0], entry.args[1:]) if entry.args else ("", [])
        return
    found = text(value)
    if found is None:
        entry.unfit = f"its {key} is no text"
    entry.command = found or ""


def args(entry: Declared, key: str, value: Any) -> None:
    found = [text(item) for item in value] if isinstance(value, list) and len(value) <= MOST else [None]
    if None in found:  # a missing argument would make it another command
        entry.unfit = f"its {key} is no list of texts"
        return
    entry.args = [item for item in found if item is not None]


def env(entry: Declared, key: str, value: Any) -> None:
    entry.env |= _map(entry, key, value)


def headers(entry: Declared, key: str, value: Any) -> None:
    entry.headers |= _map(entry, key, value)


def _map(entry: Declared, key: str, value: Any) -> dict[str, str]:
    """A mapping of texts; acpx writes it as a list of names and values."""
    if isinstance(value, list) and len(value) <= MOST:
        value = _pairs(entry, key, value)
    if not isinstance(value, Mapping) or len(value) > MOST:
        entry.leave(key, "is no mapping of texts")
        return {}
    found = {}
    for name, written in value.items():
        if (one := text(written)) is None:
            entry.leave(f"{key}.{name}", "is no text")
        else:
            found[str(name)] = one
    return found


def _pairs(entry: Declared, key: str, items: Sequence[Any]) -> dict[str, Any]:
    found = {}
    for index, item in enumerate(items):
        name = item.get("name") if isinstance(item, Mapping) else None
        if not isinstance(name, str) or "value" not in item:
            entry.leave(f"{key}[{index}]", "is no name with a value")
        elif name in found:
            entry.leave(f"{key}[{index}]", f"names {name} again")
        else:
            found[name] = item["value"]
    return found


def cwd(entry: Declared, key: str, value: Any) -> None:
    entry.cwd = _single(entry, key, value)


def url(entry: Declared, key: str, value: Any) -> None:
    entry.url = _single(entry, key, value)


def url_of(transport: Transport) -> Reader:
    """A key that says by its name how the server is spoken to."""

    def read(entry: Declared, key: str, value: Any) -> None:
        url(entry, key, value)
        entry.transport = entry.transport or transport

    return read


def transport(entry: Declared, key: str, value: Any) -> None:
    word = re.sub("[^a-z]", "", value.lower()) if isinstance(value, str) else ""
    if word in _TRANSPORTS:
        entry.transport = _TRANSPORTS[word]
    else:
        entry.unfit = f"its {key} is none that acp-launch knows"


def disabled(entry: Declared, key: str, value: Any) -> None:
    entry.disabled = entry.disabled or value is True


def enabled(entry: Declared, key: str, value: Any) -> None:
    entry.disabled = entry.disabled or value is False


def required(entry: Declared, key: str, value: Any) -> None:
    if isinstance(value, bool):
        entry.more["required"] = value
    else:
        entry.leave(key, "is neither true nor false")


def silent(entry: Declared, key: str, value: Any) -> None:
    """What says nothing to us: a description, an icon."""


def timeout(what: Literal["start", "call"], unit: float) -> Reader:
    """`unit` is how many seconds one of theirs is."""

    def read(entry: Declared, key: str, value: Any) -> None:
        seconds = value * unit if isinstance(value, int | float) and not isinstance(value, bool) else 0
        if not 0.001 <= seconds <= 24 * 3600:
            entry.leave(key, "is no length of time")
            return
        entry.more.setdefault("timeouts", {})[what] = str(Duration(round(seconds, 3)))

    return read


def tools(what: Literal["allow", "deny"]) -> Reader:
    def read(entry: Declared, key: str, value: Any) -> None:
        names = value if isinstance(value, list) else []
        if value is None or (names == [] and isinstance(value, list)):
            return  # no restriction
        if not names or len(names) > MOST or not all(isinstance(name, str) and name.strip() for name in names):
            # Not left out silently: a server with more tools than somebody wanted is another server.
            entry.unfit = f"its {key} is no list of names"
            return
        entry.more.setdefault("tools", {})[what] = [re.sub(r"([*?\[])", r"[\1]", name) for name in names]

    return read


def _single(entry: Declared, key: str, value: Any) -> str:
    found = text(value)
    if found is None:
        entry.unfit = f"its {key} is no text"
    return found or ""
