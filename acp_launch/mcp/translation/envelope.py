"""
What an agent of MCP 2026-07-28 says with each request: its version, itself, and what it can do. Pure.
"""

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from acp_launch.mcp import era
from acp_launch.mcp.message import CLIENT_INFO
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.written import written


class Meta(Struct):
    version: str = field(default="", name=era.VERSION)
    client: Raw | UnsetType = field(default=UNSET, name=era.CLIENT)
    capabilities: Raw | UnsetType = field(default=UNSET, name=era.CAPABILITIES)
    level: str = field(default="", name=era.LEVEL)
    token: Raw | UnsetType = field(default=UNSET, name="progressToken")


class Params(Struct):
    meta: Meta = field(default_factory=Meta, name="_meta")
    state: str = field(default="", name="requestState")
    responses: dict[str, Raw] | None = field(default=None, name="inputResponses")


class Abilities(Struct):
    sampling: Raw | UnsetType = UNSET
    elicitation: Raw | UnsetType = UNSET
    roots: Raw | UnsetType = UNSET


_params, _abilities = msgspec.json.Decoder(Params), msgspec.json.Decoder(Abilities)
_members = msgspec.json.Decoder(dict[str, Raw])


def params(raw: Raw) -> Params:
    """Read the parameters of a request; what is malformed counts as omitted."""
    return jsonrpc.read(_params, raw) or Params()


def abilities(raw: Raw) -> Abilities:
    """Read the capabilities of a client."""
    return jsonrpc.read(_abilities, raw) or Abilities()


def members(raw: Raw) -> dict[str, Raw] | None:
    """Read an object of any members; None if it is not one."""
    return jsonrpc.read(_members, raw)


def copied(meta: Meta) -> Meta:
    """Return a copy that does not keep the message in memory."""
    return msgspec.structs.replace(
        meta, client=_kept(meta.client), capabilities=_kept(meta.capabilities), token=_kept(meta.token)
    )


def _kept(raw: Raw | UnsetType) -> Raw | UnsetType:
    return UNSET if raw is UNSET else raw.copy()


def about(meta: Meta) -> tuple[Raw, Raw]:
    """Return the client's name and its capabilities."""
    client = meta.client if meta.client is not UNSET and era.is_object(meta.client) else Raw(written(CLIENT_INFO))
    able = meta.capabilities
    return client, able if able is not UNSET and era.is_object(able) else Raw(b"{}")


def token(said: Params) -> Raw | None:
    return said.meta.token.copy() if said.meta.token is not UNSET else None
