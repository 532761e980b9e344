"""Whose roots a server is told: the agent's when it declares them, else the session's (requirement G1). Pure."""

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from acp_launch.protocol import jsonrpc

METHOD = "roots/list"
CHANGED = "notifications/roots/list_changed"


class _Capabilities(Struct):
    roots: Raw | UnsetType = UNSET


class _Initialize(Struct):
    capabilities: _Capabilities


_initialize = msgspec.json.Decoder(_Initialize)


def are_declared(params: Raw) -> bool:
    """Whether an agent's `initialize` says that it answers `roots/list` itself."""
    found = jsonrpc.read(_initialize, params)
    return found is not None and found.capabilities.roots is not UNSET
