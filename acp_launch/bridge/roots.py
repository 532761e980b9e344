"""Whose roots a server is told: the agent's when it declares them, else the session's (requirement G1). Pure."""

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

METHOD = "roots/list"
CHANGED = "notifications/roots/list_changed"


class _Capabilities(Struct):
    roots: Raw | UnsetType = UNSET


class _Initialize(Struct):
    capabilities: _Capabilities


def are_declared(params: Raw) -> bool:
    """Whether an agent's `initialize` says that it answers `roots/list` itself."""
    try:
        return msgspec.json.decode(params, type=_Initialize).capabilities.roots is not UNSET
    except msgspec.DecodeError:
        return False
