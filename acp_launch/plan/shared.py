"""
What one launch asks of the server host: a server of `share: user`, resolved, with the values of its secrets.

A `SharedServer` goes over the host's socket, and nowhere else. `share_key` says what makes two of them one server.
Pure.
"""

from collections.abc import Mapping, Sequence
from functools import cache, reduce
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from acp_launch.plan.model import StdioPlan, Value
from acp_launch.profile.keys import SERVER, patterns, row_of
from acp_launch.profile.model import USER_IDLE, StdioOptions
from acp_launch.secret.value import Secret


class SharedServer(Struct, frozen=True, kw_only=True):
    """A server to be shared. Its repr shows only the name.

    `directory` is None for an empty one of the host. `compared` names the variables in `env` that make it another
    server; the others come from the launch that starts it. `options` are the process's, and the default of
    those that each launch has for itself. `roots` are the session's directories, None if they are not declared to the
    server. `secrets` are values that must never be printed. `idle` is in seconds.
    """

    name: str
    argv: tuple[str, ...]
    directory: str | None
    env: Mapping[str, str]
    compared: tuple[str, ...]
    options: StdioOptions
    idle: float
    roots: tuple[str, ...] | None
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return f"SharedServer({self.name!r})"

    def __rich_repr__(self) -> list[tuple[str, str]]:  # msgspec's own shows every field
        return [("name", self.name)]


def shared_server(plan: StdioPlan, secrets: Mapping[str, Secret], directories: Sequence[PurePath]) -> SharedServer:
    """Reveal what the server host needs of a plan; `directories` are the session's."""
    used = {each.name for value in (*plan.args, *plan.env.values()) for each in value.secrets}
    options = {path[0]: getattr(plan, path[0]) for path in compared_options()}
    options |= {"roots": "agent", "timeouts": replace(plan.timeouts, call=None), "share": "launch"}
    return SharedServer(
        name=plan.name,
        argv=(str(plan.command), *(argument.reveal(secrets) for argument in plan.args)),
        directory=None if plan.cwd is None else str(plan.cwd),
        env={name: value.reveal(secrets) for name, value in plan.env.items()},
        compared=plan.compared,
        options=StdioOptions(**options),
        idle=plan.idle or USER_IDLE,
        roots=tuple(map(str, directories)) if plan.roots == "session" else None,
        secrets=tuple(secrets[name].expose() for name in sorted(used)),
    )


def leave_out_unknown(plan: StdioPlan, secrets: Mapping[str, Secret]) -> tuple[StdioPlan, list[str]]:
    """Return the plan without what needs a secret that is not in `secrets`, and the names of that for the user."""

    def is_known(value: Value) -> bool:
        return all(each.name in secrets for each in value.secrets)

    env = {name: value for name, value in plan.env.items() if is_known(value)}
    args = plan.args if all(map(is_known, plan.args)) else ()
    names = [f"variable {name}" for name in plan.compared if name not in env] + ["arguments"] * (args != plan.args)
    return replace(plan, args=args, env=env, compared=tuple(filter(env.__contains__, plan.compared))), names


def as_plain(server: SharedServer) -> dict[str, Any]:
    """Return it as plain values. Only `json.dumps` writes them: a variable need not be UTF-8."""
    plain: dict[str, Any] = msgspec.to_builtins(server, enc_hook=float)
    return plain


def from_plain(plain: Any) -> SharedServer:
    """Read it again.

    Raises:
        msgspec.ValidationError: it is not one.
    """
    return msgspec.convert(plain, SharedServer, dec_hook=lambda kind, value: kind(value))


@cache
def compared_options() -> tuple[tuple[str, ...], ...]:
    """Return the options that make it another server; a mapping in place of the keys in it, if it is compared."""
    found: list[tuple[str, ...]] = []
    for path, _ in patterns(StdioOptions):
        if path[:1] not in found and row_of(SERVER + ".".join(path)).is_compared:
            found.append(path)
    return tuple(found)


def share_key(server: SharedServer) -> dict[str, object]:
    """Return all that makes it the same server, by its name for the user. To be compared in memory, and never shown."""
    return {
        "command": server.argv[0],
        "arguments": server.argv[1:],
        "directory": server.directory,
        **{".".join(path): reduce(getattr, path, server.options) for path in compared_options()},
        "roots": server.roots,
        **{f"variable {name}": server.env[name] for name in server.compared},
    }


_SHOWN = ("command", "directory", "protocol", "timeouts.start", "roots")


def differences(here: SharedServer, there: SharedServer) -> list[str]:
    """Say what keeps two servers apart, without a value that may be a secret: `directory (here /a, there /b)`."""
    ours, its = share_key(here), share_key(there)
    names = [name for name in {**ours, **its} if ours.get(name) != its.get(name)]
    return [
        f"{name} (here {_word(name, ours)}, there {_word(name, its)})" if name in _SHOWN else name for name in names
    ]


def _word(name: str, of: Mapping[str, object]) -> str:
    value = of[name]
    if isinstance(value, tuple):
        return ", ".join(value)
    if value is None:
        return "an empty one" if name == "directory" else "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
