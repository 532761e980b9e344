"""
A profile as its layers make it: YAML that is a profile, extends nothing, and says of each value where it is from.

The layers may come from a stranger: whatever cannot be printed is written as an escape, in values, keys and comments.
"""

import json
import re
from collections.abc import Iterator, Mapping

from acp_launch.console.stderr import harmless
from acp_launch.document.nodes import Plain, scalar
from acp_launch.problem import KeyPath
from acp_launch.profile.load import Loaded, Positions
from acp_launch.protocol.written import visible_long

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./@%+=-]*(?: [A-Za-z0-9_./@%+=-]+)*")


def as_yaml(loaded: Loaded) -> str:
    """Ends in a newline."""
    layers = [f"#   {harmless(layer.label, keep='')}" for layer in loaded.layers]
    head = [f"# {harmless(loaded.found.name, keep='')}, merged from", *layers]
    return "\n".join([*head, *_mapping(loaded.merged, (), loaded.positions), ""])


def _mapping(mapping: Mapping[str, Plain], path: KeyPath, positions: Positions) -> Iterator[str]:
    indent = "  " * len(path)
    for key, value in mapping.items():
        inner = (*path, key)
        if isinstance(value, dict) and value:
            yield f"{indent}{_text(key)}:"
            yield from _mapping(value, inner, positions)
        elif isinstance(value, list) and value:
            yield f"{indent}{_text(key)}:"
            for index, item in enumerate(value):
                yield f"{indent}  - {_flow(item)}  {_origin((*inner, index), positions)}"
        else:
            yield f"{indent}{_text(key)}: {_flow(value)}  {_origin(inner, positions)}"


def _origin(path: KeyPath, positions: Positions) -> str:
    at = positions.where(path)
    return harmless(f"# {at.file}:{at.line}", keep="")


def _flow(value: Plain) -> str:
    """On one line; what is within brackets is JSON."""
    return _text(value) if isinstance(value, str) else visible_long(json.dumps(value, ensure_ascii=False))


def _text(text: str) -> str:
    """Quoted unless it cannot mean anything else."""
    if _PLAIN.fullmatch(text) and scalar(text) == text:
        return text
    return visible_long(json.dumps(text, ensure_ascii=False))
