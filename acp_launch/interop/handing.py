"""What a profile exports goes into a tool's text, or stands alone to be pasted; what is there already stays. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from acp_launch.interop import jsonc, jsonedit, toml
from acp_launch.interop.jsonedit import Misfit
from acp_launch.interop.places import Tool
from acp_launch.interop.writers import Exported
from acp_launch.profile.edit import CannotEdit
from acp_launch.profile.edit import put as put_yaml
from acp_launch.profile.yamledit import lines
from acp_launch.protocol.written import visible

_BEGIN = {"json": "{}\n", "toml": "", "yaml": "extensions: {}\n"}


class Piece(Struct, frozen=True):
    """One entry: under which key, by which name, and how it stands to what is there."""

    holder: str
    name: str
    value: Mapping[str, Any]
    standing: str  # new, same, other


def pieces(found: Exported, tool: Tool, root: Any) -> tuple[Piece, ...]:
    """`root` is what the tool's file says now."""
    groups = ((tool.agents, found.agents), (tool.servers, found.servers))
    return tuple(
        Piece(holder, name, value, _standing(root, holder, name, value))
        for holder, entries in groups
        for name, value in entries.items()
    )


def handed(text: str | None, tool: Tool, wanted: tuple[Piece, ...], inputs: Mapping[str, str]) -> str:
    """`text` is the tool's; None where there is no file.

    Raises:
        Misfit: something that is none of ours is in the way.
    """
    written = text if text and text.strip() else _BEGIN[tool.syntax]
    for piece in wanted:
        written = _put(written, tool, piece)
    for input, secret in (inputs if wanted else {}).items():
        if not any(isinstance(one, Mapping) and one.get("id") == input for one in _inputs(written)):
            written = jsonedit.add(written, ("inputs",), _input(input, secret))
    return written


def alone(found: Exported, tool: Tool) -> str:
    """To be pasted: the entries, under the keys they belong to."""
    everything = {tool.agents: found.agents, tool.servers: found.servers}
    shown: dict[str, Any] = {key: value for key, value in everything.items() if key and value}
    if tool.syntax == "toml":
        tables = (toml.put("", tool.servers, name, value) for name, value in found.servers.items())
        return "\n".join(tables)
    if tool.syntax == "yaml":
        return "".join(f"{line}\n" for key, value in shown.items() for line in lines(key, value, column=0, level=1))
    if tool.name == "acpx" and found.servers:
        shown[tool.servers] = list(found.servers.values())
    if found.inputs:
        shown["inputs"] = [_input(input, secret) for input, secret in found.inputs.items()]
    return visible(json.dumps(shown, indent=2, ensure_ascii=False)) + "\n"


def _standing(root: Any, holder: str, name: str, value: Mapping[str, Any]) -> str:
    above = root.get(holder) if isinstance(root, Mapping) else None
    if isinstance(above, list):
        above = {one.get("name"): one for one in above if isinstance(one, Mapping)}
    there: Any = above.get(name) if isinstance(above, Mapping) else None
    if there is None:
        return "new"
    return "same" if isinstance(there, Mapping) and all(there.get(key) == value[key] for key in value) else "other"


def _put(text: str, tool: Tool, piece: Piece) -> str:
    """What checks that nothing else changed is where each of them is; of JSON it is here."""
    if tool.syntax == "toml":
        return toml.put(text, piece.holder, piece.name, piece.value)
    if tool.syntax == "yaml":
        try:
            return put_yaml(text, (piece.holder, piece.name), piece.value)
        except CannotEdit as cannot:
            raise Misfit(cannot.message) from None
    if tool.name == "acpx" and piece.holder == tool.servers:
        return jsonedit.add(text, (piece.holder,), piece.value, instead=_index(text, piece))
    written = jsonedit.put(text, (piece.holder, piece.name), piece.value)
    before, after = jsonc.parse(text).root, jsonc.parse(written).root
    before.setdefault(piece.holder, {})[piece.name] = piece.value
    if before != after:
        raise Misfit("members that come once")
    return written


def _index(text: str, piece: Piece) -> int | None:
    listed = jsonc.parse(text).root.get(piece.holder)
    names = (
        [one.get("name") if isinstance(one, Mapping) else None for one in listed] if isinstance(listed, list) else []
    )
    return names.index(piece.name) if piece.name in names else None


def _inputs(text: str) -> Iterator[Any]:
    listed = jsonc.parse(text).root.get("inputs")
    return iter(listed if isinstance(listed, list) else [])


def _input(id: str, secret: str) -> dict[str, Any]:
    return {"id": id, "type": "promptString", "description": f"the secret {secret}", "password": True}
