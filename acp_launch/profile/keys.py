"""
The keys of a profile: a row of `KEYS` for each, with what other parts of the program must know of it. Pure.

`model` has a key's type, default and meaning. A row stands for the keys below it, too, unless those have rows. A key
without a row is shown by `plan` and the trust screen as it is written, and of a server, only acp-launch knows it.
`tests/profile/test_keys.py` holds the rows against what `plan`, the trust screen and `export` do.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from msgspec import NODEFAULT, Struct, structs

from acp_launch.document.shape import Shape, hints_of, shapes_in, takes
from acp_launch.problem import KeyPath
from acp_launch.profile.model import HttpServer, Profile, SseServer, StdioServer


class KeyRow(Struct, frozen=True, kw_only=True):
    is_planned: bool = True  # `plan` shows it
    is_trusted: bool = True  # the trust screen shows it; not what lets nothing more run, be reached or be sent
    # Of a server:
    is_ours: bool = False  # no other tool has it: `export` leaves it out, and says so
    is_carried: bool = False  # conversations go on when a reload changes it
    is_compared: bool = False  # with another value it is another server, where launches share it (`share: user`)
    is_idle: bool = False  # it has no effect for a server that the agent starts itself (`bridge: false`)


QUIET = KeyRow(is_trusted=False)
KEYS: Mapping[str, KeyRow] = {
    "version": KeyRow(is_planned=False, is_trusted=False),
    "description": QUIET,
    "extends": KeyRow(is_planned=False, is_trusted=False),  # what comes of it is shown
    "agent.command": KeyRow(),
    "agent.registry": KeyRow(),
    "agent.args": KeyRow(),
    "agent.env": KeyRow(),
    "agent.inherit_env": KeyRow(),
    "agent.timeouts": QUIET,
    "agent.mcp": QUIET,
    "workspace.cwd": KeyRow(),
    "workspace.additional_directories": KeyRow(),
    "session.name": QUIET,
    "session.mode": KeyRow(),
    "session.config": KeyRow(),
    "permissions.default": KeyRow(),
    "permissions.rules": KeyRow(),
    "permissions.inherit": KeyRow(is_planned=False),  # `plan` shows the rules that hold
    "permissions.unattended": KeyRow(),
    "client.fs": KeyRow(),
    "client.terminal": KeyRow(),
    "runtime.confined": KeyRow(),
    "mcp_servers.*.restart": KeyRow(is_trusted=False, is_ours=True, is_carried=True, is_compared=True, is_idle=True),
    "mcp_servers.*.roots": KeyRow(is_trusted=False, is_ours=True, is_compared=True, is_idle=True),
    "mcp_servers.*.protocol": KeyRow(is_trusted=False, is_ours=True, is_compared=True, is_idle=True),
    "mcp_servers.*.session_elevation": KeyRow(is_trusted=False, is_ours=True, is_idle=True),
    "mcp_servers.*.start": KeyRow(is_trusted=False, is_ours=True, is_idle=True),
    "mcp_servers.*.idle": KeyRow(is_trusted=False, is_ours=True, is_idle=True),
    "mcp_servers.*.share": KeyRow(is_trusted=False, is_ours=True, is_idle=True),
    "mcp_servers.*.bridge": KeyRow(is_ours=True),
    "mcp_servers.*.data": KeyRow(is_ours=True, is_idle=True),
    "mcp_servers.*.inherit_env": KeyRow(is_ours=True, is_carried=True, is_compared=True, is_idle=True),
    "mcp_servers.*.oauth": KeyRow(is_ours=True, is_carried=True),
    "mcp_servers.*.oauth.callback_port": QUIET,
    "mcp_servers.*.insecure": KeyRow(is_ours=True),
    "mcp_servers.*.required": KeyRow(is_ours=True, is_carried=True),
    "mcp_servers.*.tools": KeyRow(is_trusted=False, is_idle=True),
    "mcp_servers.*.timeouts": KeyRow(is_trusted=False, is_idle=True),
    "mcp_servers.*.timeouts.start": KeyRow(is_trusted=False, is_compared=True),
    "mcp_servers.*.command": KeyRow(is_carried=True, is_compared=True),
    "mcp_servers.*.args": KeyRow(is_carried=True, is_compared=True),
    "mcp_servers.*.env": KeyRow(is_carried=True, is_compared=True),
    "mcp_servers.*.cwd": KeyRow(is_carried=True, is_compared=True, is_idle=True),
    "mcp_servers.*.type": KeyRow(),
    "mcp_servers.*.url": KeyRow(is_carried=True),
    "mcp_servers.*.headers": KeyRow(is_carried=True),
    "mcp_servers.*.env_headers": KeyRow(is_carried=True),
}
SERVER = "mcp_servers.*."
_OTHER = KeyRow(is_ours=True)


def row_of(name: str) -> KeyRow:
    """Return the row of a key, or of the mapping around it."""
    while name and name not in KEYS:
        name = name.rpartition(".")[0]
    return KEYS.get(name, _OTHER)


def server_keys(has: Callable[[KeyRow], bool]) -> tuple[str, ...]:
    """Return the names of the keys of servers that have a property."""
    names = dict.fromkeys((*StdioServer.__struct_fields__, *HttpServer.__struct_fields__))
    return tuple(name for name in names if has(row_of(SERVER + name)))


def find_others(
    owner: Struct, shape: type[Shape] = Profile, path: KeyPath = (), above: str = ""
) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the path and the value of each key of `shape` that is set in `owner`, at `path`, and has no row."""
    for key in structs.fields(shape):
        here, name, value = (*path, key.name), above + key.name, getattr(owner, key.name)
        if name in KEYS:
            continue
        if name == "mcp_servers":
            for called, server in value.items():
                yield from find_others(server, type(server), (*here, called), SERVER)
        elif isinstance(value, Shape):
            yield from find_others(value, type(value), here, f"{name}.")
        elif value != (key.default if key.default_factory is NODEFAULT else key.default_factory()):
            yield here, value


def patterns(shape: type[Shape] = Profile, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path of each key with its type, a mapping before the keys in it; "*" is a server's name."""
    for name, hint in hints_of(shape).items():
        yield (*above, name), hint
        for inner in dict.fromkeys(shapes_in(hint)):
            yield from patterns(inner, (*above, name, *(("*",) if name == "mcp_servers" else ())))


@cache
def nullable() -> frozenset[tuple[str, ...]]:
    """Return the keys for which `null` is a value, with the same meaning as a missing key."""
    return frozenset(path for path, hint in patterns() if takes(hint, None))


def other_kind(shape: type[Shape], key: str) -> str:
    """Return what a server has with which this key, unknown to `shape`, is allowed; "" if it is of no server."""
    other = {StdioServer: HttpServer, HttpServer: StdioServer, SseServer: StdioServer}.get(shape)
    return "" if other is None or key not in other.__struct_fields__ else "url" if other is HttpServer else "command"
