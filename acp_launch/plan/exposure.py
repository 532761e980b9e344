"""
Code that a confined agent can write, and that a server would run outside of the agent's place.

A server runs as the user, with its secrets. So what it runs must not be writable in the place: its program, the scripts
and packages of that, its working directory, and what variables name. Such a path may be below a directory that the
agent writes if the place shows it as one that can only be read.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

from msgspec.structs import replace

from acp_launch.plan.executable import imports_from_here, words
from acp_launch.plan.installation import MODULES, SCRIPTS, cache_of, list_hops, read_runner
from acp_launch.plan.model import INHERITED, LaunchPlan, Origin, Place, RemotePlan, ServerPlan, StdioPlan, Value
from acp_launch.plan.place import can_write
from acp_launch.private import real
from acp_launch.problem import KeyPath, Problem
from acp_launch.profile.agents import started
from acp_launch.profile.trust import RUNS, power
from acp_launch.regex import regex
from acp_launch.secret.detect import noun

# ruff: noqa: PTH112, PTH113 - methods of Path raise in a directory that we may not enter
# Programs whose first arguments name code.
_INTERPRETER = regex(
    r"(?:env|python|pypy|node|bun|deno|ruby|perl|php|lua|java|tsx|ts-node|uv|uvx|npx|bunx|(?:ba|da|z|k)?sh)[0-9.]*",
    re.IGNORECASE,
)
_PIECE = regex(r"[\s'\"();&|:=]+")
_PATHS = ("PYTHONPATH", "NODE_PATH", "NODE_OPTIONS", "PERL5LIB", "RUBYLIB", "LD_LIBRARY_PATH", "LD_PRELOAD")


def keep_apart(plan: LaunchPlan, where: Place, environ: Mapping[str, str]) -> tuple[LaunchPlan, list[Problem]]:
    """Return the plan with servers that find no program in a directory that the agent can write, and a problem for
    each part of a server that would undo the place."""
    problems = list[Problem]()
    servers = list[ServerPlan]()
    for server in plan.servers:
        if isinstance(server, RemotePlan):
            problems += _check_remote(plan, server, where)
        else:
            problems += _check_local(plan, server, where, environ)
            if server.bridge:
                server = replace(server, env=_without_writable_folders(server.env, where))
        servers.append(server)
    problems += _check_transport(plan, where)
    return replace(plan, servers=tuple(servers)), problems


def _check_transport(plan: LaunchPlan, where: Place) -> Iterator[Problem]:
    known = started(str(plan.agent.command), [argument.display() for argument in plan.agent.args])
    takes = known.takes if known else ()
    is_http = plan.mcp == "http" or (plan.mcp == "auto" and bool(takes) and "stdio" not in takes)
    if where.network == "none" and is_http and any(server.bridge for server in plan.servers):
        at = _origin(plan, ("runtime", "confined", "network"))
        what = "the agent reaches its servers over HTTP, but has no network"
        yield at.problem(what, "write network: shared, or agent: {mcp: stdio}")


def _check_remote(plan: LaunchPlan, server: RemotePlan, where: Place) -> Iterator[Problem]:
    if server.bridge:
        return
    at = _origin(plan, ("mcp_servers", server.name, "bridge"))
    if where.network == "none":
        yield at.problem("the agent connects to this server itself, but has no network", "remove bridge: false")
    elif server.url.secrets or _has_secret({**server.headers, **server.env}):
        yield at.problem("the agent would get the secrets of this server", "remove bridge: false")


def _check_local(plan: LaunchPlan, server: StdioPlan, where: Place, environ: Mapping[str, str]) -> Iterator[Problem]:
    is_secret = _has_secret(server.env) or any(argument.secrets for argument in server.args)
    if not server.bridge:
        if is_secret:
            at = _origin(plan, ("mcp_servers", server.name, "bridge"))
            yield at.problem("the agent would get the secrets of this server", "remove bridge: false")
        return
    seen = set[Path]()
    for origin, path in _list_code(plan, server, environ, is_secret):
        file = real(path)
        if file not in seen and can_write(where, file):
            seen.add(file)
            yield origin.problem(*_word(file, where))


def _word(path: Path, where: Place) -> tuple[str, str]:
    what = f"the agent can write {path}, and this server runs it outside of the agent's place, as you"
    named = (each for each in reversed(where.mounts) if each.reason != "between")
    inside = next(each.path for each in named if path.is_relative_to(each.path))
    away = f"keep it outside of {inside}"
    exists = os.path.lexists(path) and path != inside
    return what, f"add {path} to runtime.confined.read, or {away}" if exists else away


def _list_code(
    plan: LaunchPlan, server: StdioPlan, environ: Mapping[str, str], is_secret: bool
) -> Iterator[tuple[Origin, Path]]:
    """Yield what the server runs, as far as it can be seen, with the place that names it."""
    at = _origin(plan, ("mcp_servers", server.name, "command"))
    line = words(server.command, server.args)
    runner = read_runner(server.command, line[1:])
    for hop in list_hops(server.command, _path_of(server.env)):
        yield from ((at, each) for each in _with_modules(hop))
    if runner is not None:
        yield at, cache_of(runner.source, environ)
    if server.cwd is not None and (is_secret or runner is not None or imports_from_here(line)):
        yield _origin(plan, ("mcp_servers", server.name, "cwd")), server.cwd
    for argument, path in _list_scripts(server, is_secret):
        yield from ((argument.origin, each) for each in _with_modules(path))
    for name, value in server.env.items():
        if name in _PATHS or (value.origin != INHERITED and power(name) == RUNS):
            yield from ((value.origin, path) for path in _list_paths(_text(value), server.cwd))


def _with_modules(path: Path) -> Iterator[Path]:
    """Yield a program or script, and where it would find packages if it is JavaScript."""
    yield path
    if path.suffix in SCRIPTS or MODULES in path.parts:
        yield from (each / MODULES for each in real(path).parents if each.name != MODULES)


def _list_scripts(server: StdioPlan, is_secret: bool) -> Iterator[tuple[Value, Path]]:
    """Yield the paths among the arguments that name code: those that an interpreter is told, and every file if the
    server has a secret."""
    names_code = _is_interpreter(server.command.name)
    for argument in server.args:
        text = _text(argument)
        for path in _list_paths(text, server.cwd):
            if names_code or (is_secret and not os.path.isdir(path)):
                yield argument, path
        is_before = text.startswith("-") or text == "run" or "=" in text or _is_interpreter(text)
        names_code = names_code and is_before and text != "-m"


def _is_interpreter(program: str) -> bool:
    return _INTERPRETER.fullmatch(PurePath(program).name) is not None


def _list_paths(text: str, cwd: Path | None) -> Iterator[Path]:
    """Yield the paths in a text. Relative ones mean nothing in an empty directory."""
    for piece in dict.fromkeys((text, *_PIECE.split(text))):
        if piece.startswith("/") or (cwd is not None and piece and ("/" in piece or os.path.isfile(cwd / piece))):
            yield Path(os.path.normpath((cwd or Path("/")) / piece))


def _text(value: Value) -> str:
    return "".join(part for part in value.parts if isinstance(part, str))


def _has_secret(values: Mapping[str, Value]) -> bool:
    """Tell whether one of these is a secret, or a credential by its name."""
    return any(value.secrets or (noun(name) and any(value.parts)) for name, value in values.items())


def _path_of(env: Mapping[str, Value]) -> str | None:
    return _text(env["PATH"]) if "PATH" in env else None


def _without_writable_folders(env: Mapping[str, Value], where: Place) -> Mapping[str, Value]:
    """Leave out of an inherited PATH what the agent can write: programs look for others there."""
    path = env.get("PATH")
    if path is None or path.origin != INHERITED:
        return env
    kept = [each for each in _text(path).split(os.pathsep) if not can_write(where, real(Path(each)))]
    return {**env, "PATH": Value((os.pathsep.join(kept),), INHERITED)}


def _origin(plan: LaunchPlan, path: KeyPath) -> Origin:
    """Return where a value is written, or what is nearest to it."""
    paths = (path[:length] for length in range(len(path), 0, -1))
    return next((plan.origins[each] for each in paths if each in plan.origins), Origin(plan.profile))
