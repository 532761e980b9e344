"""
The keys of a profile: a row of `KEYS` for each, with what other parts of the program must know of it. Pure.

`model` has a key's type, default and meaning. A row stands for the keys below it, too, unless those have rows, or it
names those that it has words for. A key without a row, or without words, is shown by `plan` and the trust screen as it
is written; of a server, only acp-launch knows it, and with another value it is another server.
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
    worded: tuple[str, ...] = ()  # the keys below it that this is said of, if not of all
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
    "runtime.confined": KeyRow(worded=("state", "read", "write", "network")),
    "runtime.container": KeyRow(worded=("image", "engine", "mounts", "network", "pull", "user")),
    "runtime.ssh": KeyRow(worded=("host", "directory", "python")),
    "mcp_servers.*.restart": KeyRow(
        is_trusted=False,
        is_ours=True,
        is_carried=True,
        is_compared=True,
        is_idle=True,
        worded=("policy", "max", "min_uptime", "backoff.initial", "backoff.max", "backoff.factor"),
    ),
    "mcp_servers.*.roots": KeyRow(is_trusted=False, is_ours=True, is_compared=True, is_idle=True),
    "mcp_servers.*.protocol": KeyRow(is_trusted=False, is_ours=True, is_compared=True, is_idle=True),
    "mcp_servers.*.session_elevation": KeyRow(is_trusted=False, is_ours=True, is_idle=True),
    "mcp_servers.*.start": KeyRow(is_trusted=False, is_ours=True, is_idle=True),
    "mcp_servers.*.idle": KeyRow(is_trusted=False, is_ours=True, is_idle=True),
    "mcp_servers.*.share": KeyRow(is_trusted=False, is_ours=True, is_idle=True),
    "mcp_servers.*.bridge": KeyRow(is_ours=True),
    "mcp_servers.*.data": KeyRow(is_ours=True, is_idle=True),
    "mcp_servers.*.inherit_env": KeyRow(is_ours=True, is_carried=True, is_compared=True, is_idle=True),
    "mcp_servers.*.oauth": KeyRow(
        is_ours=True,
        is_carried=True,
        worded=("scopes", "callback", "resource", "client_id", "client_secret", "issuer", "client_metadata_url"),
    ),
    "mcp_servers.*.oauth.callback_port": QUIET,
    "mcp_servers.*.insecure": KeyRow(is_ours=True),
    "mcp_servers.*.required": KeyRow(is_ours=True, is_carried=True),
    "mcp_servers.*.tools": KeyRow(is_trusted=False, is_idle=True, worded=("allow", "deny")),
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
_OTHER = KeyRow(is_ours=True, is_compared=True)


def row_of(name: str) -> KeyRow:
    """Return the row of a key, or of the mapping around it; a key that has no words there is shown as it is written."""
    row, below = _row_around(name)
    has_words = not row.worded or below in ("", *row.worded)
    return row if has_words else structs.replace(row, is_planned=True, is_trusted=True)


def _row_around(name: str) -> tuple[KeyRow, str]:
    """Return the row of a key and "", or of the mapping around it and the rest of the name."""
    around = name
    while around and around not in KEYS:
        around = around.rpartition(".")[0]
    return KEYS.get(around, _OTHER), name[len(around) :].removeprefix(".")


def server_keys(has: Callable[[KeyRow], bool]) -> tuple[str, ...]:
    """Return the names of the keys of servers that have a property."""
    names = dict.fromkeys((*StdioServer.__struct_fields__, *HttpServer.__struct_fields__))
    return tuple(name for name in names if has(row_of(SERVER + name)))


def find_others(
    owner: Struct, shape: type[Shape] = Profile, path: KeyPath = (), above: str = ""
) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the path and the value of each key of `shape` that is set in `owner`, at `path`, and has no words."""
    for key in structs.fields(shape):
        here, name, value = (*path, key.name), above + key.name, getattr(owner, key.name)
        row, below = _row_around(name)
        if row is not _OTHER and (not row.worded or below in row.worded):
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
