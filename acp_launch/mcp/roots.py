"""
The answer to `roots/list` (requirement G1; MCP "roots"): the session's directory first, which servers take as the
primary root, then the additional ones.
"""

from collections.abc import Sequence
from pathlib import PurePath
from urllib.parse import quote


def listing(directories: Sequence[PurePath]) -> dict[str, list[dict[str, str]]]:
    """The result of `roots/list`; URIs are percent-encoded, bytes that are no text included."""
    return {"roots": [{"uri": uri(directory), "name": directory.name or str(directory)} for directory in directories]}


def uri(directory: PurePath) -> str:
    return "file://" + quote(str(directory).encode(errors="surrogateescape"))
