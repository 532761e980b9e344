"""
What a confined agent can write, and a server would act on outside of the agent's place.

A server runs as the user, with its secrets. So what it runs must not be writable in the place: its program, the scripts
and packages of that, its working directory, and what variables name. Such a path may be below a directory that the
agent writes if the place shows it as one that can only be read. Of the other paths among its arguments and variables it
is not known whether it runs a file there: a server with a secret gets none that the agent can write, unless the
profile says that it is `data`.

No path may lead through a link that the agent can lay: `find_stray` says so, also of mounts.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from urllib.parse import unquote

from msgspec.structs import replace

from acp_launch.plan.executable import imports_from_here, words
from acp_launch.plan.installation import MODULES, SCRIPTS, cache_of, list_hops, read_runner
from acp_launch.plan.model import (
    INHERITED,
    InContainer,
    Inherited,
    LaunchPlan,
    Origin,
    OverSsh,
    Place,
    RemotePlan,
    ServerPlan,
    StdioPlan,
    Value,
)
from acp_launch.plan.place import can_change, can_write
from acp_launch.private import follow_links, real
from acp_launch.problem import KeyPath, Problem
from acp_launch.profile.agents import started
from acp_launch.profile.trust import RUNS, power
from acp_launch.regex import regex
from acp_launch.secret.detect import noun

# Programs whose first arguments name code.
_INTERPRETER = regex(
    r"(?:env|python|pypy|node|bun|deno|ruby|perl|php|lua|java|tsx|ts-node|uv|uvx|npx|bunx|(?:ba|da|z|k)?sh"
    r"|g?make|just|p?npm|yarn|cargo|go|gradlew?|mvnw?|rake|bundle|poetry|pdm|hatch|dotnet|find|xargs)[0-9.]*",
    re.IGNORECASE,
)
_BETWEEN = regex(r"[\s'\"`();&|:=,@<>{}\[\]]+")  # paths in a text
_BEGIN = regex(r"(?<![\w./~-])/")  # of an absolute path behind any other sign
_HOST = regex(r"file://[^/\s]*", re.IGNORECASE)
_VARIABLE = regex(r"\$(?:\{(\w+)[^}]*\}|(\w+))")
_HOME = regex(r"(?<![^\s'\"`();&|:=,@])~(?=/)")
_PATHS = ("PYTHONPATH", "NODE_PATH", "NODE_OPTIONS", "PERL5LIB", "RUBYLIB", "LD_LIBRARY_PATH", "LD_PRELOAD")
# Variables that open the user's keys, although no word in their names says so.
_KEYS = ("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "GPG_AGENT_INFO", "KRB5CCNAME")


def find_stray(path: Path, plan: LaunchPlan, where: Place, written: Sequence[Path]) -> str:
    """Say why a path does not surely lead where its name says: out of the project, or through a link that a confined
    agent can change, in this launch or in another; empty if it does. `written` are the paths that those can write."""
    target, links = follow_links(path)
    for base in (plan.project, plan.cwd):
        if base in path.parents and not target.is_relative_to(real(base)):
            return f"{path} leads out of {base}, to {target}"
    mounts = {mount.path: mount for mount in where.mounts}
    changed = next((link for link in links if can_change(link, mounts, written)), None)
    return f"{changed} is a link to {target}, which a confined agent can change" if changed else ""


def keep_apart(
    plan: LaunchPlan, where: Place, environ: Mapping[str, str], written: Sequence[Path] = ()
) -> tuple[LaunchPlan, list[Problem]]:
    """Return the plan with servers that find no program in a directory that the agent can write, and a problem for
    each part of a server that would undo the place. `written` is as in `find_stray`."""
    problems = list[Problem]()
    servers = list[ServerPlan]()
    for server in plan.servers:
        if isinstance(server, RemotePlan):
            problems += _check_remote(plan, server, where)
        elif server.bridge:
            problems += _check_local(plan, server, where, environ, written)
            server = replace(server, env=_without_writable_folders(server.env, where))
        elif _is_trusted(server):
            at = _origin(plan, ("mcp_servers", server.name, "bridge"))
            problems.append(at.problem("the agent would get the secrets of this server", "remove bridge: false"))
        servers.append(server)
    problems += _check_transport(plan, where)
    return replace(plan, servers=tuple(servers)), problems


def _check_transport(plan: LaunchPlan, where: Place) -> Iterator[Problem]:
    known = started(str(plan.agent.command), [argument.display() for argument in plan.agent.args])
    takes = known.takes if known else ()
    is_http = plan.mcp == "http" or (plan.mcp == "auto" and bool(takes) and "stdio" not in takes)
    if not (is_http and any(server.bridge for server in plan.servers)):
        return
    match where.elsewhere:
        case None if where.network == "none":
            at = _origin(plan, ("runtime", "confined", "network"))
            what = "the agent reaches its servers over HTTP, but has no network"
            yield at.problem(what, "write network: shared, or agent: {mcp: stdio}")
        case InContainer(network="default" | "none"):
            at = _origin(plan, ("runtime", "container"))
            what = "the agent reaches its servers over HTTP, at 127.0.0.1 of this machine, which the container has not"
            yield at.problem(what, "write network: host, or agent: {mcp: stdio}")
        case OverSsh():
            at = _origin(plan, ("runtime", "ssh"))
            what = "the agent takes its servers over HTTP, which does not lead there"
            yield at.problem(what, "write agent: {mcp: stdio}")


def _check_remote(plan: LaunchPlan, server: RemotePlan, where: Place) -> Iterator[Problem]:
    if server.bridge:
        return
    at = _origin(plan, ("mcp_servers", server.name, "bridge"))
    if where.network == "none":
        yield at.problem("the agent connects to this server itself, but has no network", "remove bridge: false")
    elif server.url.secrets or _has_secret({**server.headers, **server.env}):
        yield at.problem("the agent would get the secrets of this server", "remove bridge: false")


def _check_local(
    plan: LaunchPlan, server: StdioPlan, where: Place, environ: Mapping[str, str], written: Sequence[Path]
) -> Iterator[Problem]:
    seen = set[Path]()
    for origin, path in _list_code(plan, server, environ):
        target, links = follow_links(path)
        if target not in seen and (found := next((each for each in (target, *links) if can_write(where, each)), None)):
            seen |= {target, found}
            what = f"the agent can write {found}, and this server runs it outside of the agent's place, as you"
            yield origin.problem(what, _protect(found, where))
    for origin, path in list_given(plan, server):
        target = real(path)
        if target in seen:
            continue
        seen.add(target)
        if why := find_stray(path, plan, where, written):
            yield origin.problem(f"{why}; this server would follow it, as you", f"name {target} itself, or remove it")
        elif _is_trusted(server) and (found := _find_writable(target, where)) and not _is_data(target, server):
            what = f"the agent can write {found}, and this server, which has a secret, may run it outside, as you"
            fix = f"write data: [{path}] if it runs nothing from there; else {_protect(found, where)}"
            yield origin.problem(what, fix)


def _find_writable(path: Path, where: Place) -> Path | None:
    """Return the path if the agent can write it, or what it can write below it. All of a machine is not meant."""
    if can_write(where, path):
        return path
    below = (each.path for each in where.mounts if each.access == "write" and path in each.path.parents)
    return next(below, None) if len(path.parts) > 1 else None


def _is_data(path: Path, server: StdioPlan) -> bool:
    return any(path.is_relative_to(real(each)) for each in server.data)


def _protect(path: Path, where: Place) -> str:
    """Say how the agent is kept from writing a path."""
    named = (each for each in reversed(where.mounts) if each.reason != "between")
    inside = next(each.path for each in named if path.is_relative_to(each.path))
    away = f"keep it outside of {inside}"
    exists = os.path.lexists(path) and path != inside
    key = f"{path}:ro to runtime.container.mounts" if where.elsewhere else f"{path} to runtime.confined.read"
    return f"add {key}, or {away}" if exists else away


def _list_code(plan: LaunchPlan, server: StdioPlan, environ: Mapping[str, str]) -> Iterator[tuple[Origin, Path]]:
    """Yield what the server runs for certain, with the place that names it."""
    at = _origin(plan, ("mcp_servers", server.name, "command"))
    line = words(server.command, server.args)
    runner = read_runner(server.command, line[1:])
    for hop in list_hops(server.command, _text(server.env["PATH"]) if "PATH" in server.env else None):
        yield from ((at, each) for each in (server.command, *_with_modules(hop)))
    if runner is not None:
        yield at, cache_of(runner.source, environ)
    if server.cwd is not None and (runner is not None or imports_from_here(line)):
        yield _origin(plan, ("mcp_servers", server.name, "cwd")), server.cwd
    for argument, path in _list_scripts(server):
        yield from ((argument.origin, each) for each in _with_modules(path))
    for name, value in server.env.items():
        if name in _PATHS or (value.origin != INHERITED and power(name) == RUNS):
            yield from ((value.origin, path) for path in _list_paths(_text(value), server))


def list_given(plan: LaunchPlan, server: StdioPlan) -> Iterator[tuple[Origin, Path]]:
    """Yield the paths that a server is given, with the place that names each: its directory, and those among its
    arguments and the variables that the profile sets."""
    if server.cwd is not None:
        yield _origin(plan, ("mcp_servers", server.name, "cwd")), server.cwd
    own = (value for value in server.env.values() if value.origin != INHERITED)
    for value in (*server.args, *own):
        yield from ((value.origin, path) for path in _list_paths(_text(value), server))


def _with_modules(path: Path) -> Iterator[Path]:
    """Yield a program or script, and where it would find packages if it is JavaScript."""
    yield path
    if path.suffix in SCRIPTS or MODULES in path.parts:
        yield from (each / MODULES for each in real(path).parents if each.name != MODULES)


def _list_scripts(server: StdioPlan) -> Iterator[tuple[Value, Path]]:
    """Yield the paths among the arguments that an interpreter, or what builds and runs projects, takes for code."""
    names_code = _is_interpreter(server.command.name)
    for argument in server.args:
        text = _text(argument)
        if names_code:
            yield from ((argument, path) for path in _list_paths(text, server))
        is_before = text.startswith("-") or text == "run" or "=" in text or _is_interpreter(text)
        names_code = names_code and is_before and text != "-m"


def _is_interpreter(program: str) -> bool:
    return _INTERPRETER.fullmatch(PurePath(program).name) is not None


def _list_paths(text: str, server: StdioPlan) -> Iterator[Path]:
    """Yield all that may be paths in a text. Relative ones mean nothing in an empty directory."""

    def expand(found: "re.Match[str]") -> str:
        name = found[1] or found[2]
        return _text(server.env[name]) if name in server.env else ""

    text = _HOME.sub(lambda _: "$HOME", _HOST.sub("", text))
    texts = [text]
    if "%" in text:
        texts.append(unquote(text))
    for each in texts:
        whole = _VARIABLE.sub(expand, each)
        ends = [0, *(found.end() for found in _BETWEEN.finditer(whole))]
        begun = (whole[at:] for at in (*ends, *(found.start() for found in _BEGIN.finditer(whole))))
        # A path may hold what stands between others.
        pieces = (*_BETWEEN.split(whole), *(text for each in begun for text in (each, _BETWEEN.split(each)[0])))
        for piece in dict.fromkeys(pieces):
            if piece.startswith("-"):  # an option with its value, as in -C/srv
                piece = piece[piece.find("/") :] if "/" in piece else ""
            if piece.startswith("/"):
                yield Path(os.path.normpath(f"/{piece.lstrip('/')}"))
            elif piece and server.cwd is not None and ("/" in piece or os.path.lexists(server.cwd / piece)):
                yield Path(os.path.normpath(server.cwd / piece))


def _text(value: Value) -> str:
    return "".join(part for part in value.parts if isinstance(part, str))


def _is_trusted(server: StdioPlan) -> bool:
    """Tell whether a server gets a secret or a credential, or a way to the user's keys."""
    is_given = _has_secret(server.env) or any(map(_holds_secret, server.args))
    return is_given or any(name in server.env for name in _KEYS)


def _has_secret(values: Mapping[str, Value]) -> bool:
    """Tell whether one of these is a secret, or a credential by its name."""
    return any(_holds_secret(value) or (noun(name) and any(value.parts)) for name, value in values.items())


def _holds_secret(value: Value) -> bool:
    named = (part.reference.name for part in value.parts if isinstance(part, Inherited))
    return bool(value.secrets) or any(map(noun, named))


def _without_writable_folders(env: Mapping[str, Value], where: Place) -> Mapping[str, Value]:
    """Leave out of an inherited PATH what the agent can write, or lead elsewhere: programs look for others there."""
    path = env.get("PATH")
    if path is None or path.origin != INHERITED:
        return env

    def is_safe(folder: Path) -> bool:
        target, links = follow_links(folder)
        return folder.is_absolute() and not any(can_write(where, each) for each in (target, *links))

    kept = [each for each in _text(path).split(os.pathsep) if is_safe(Path(each))]
    return {**env, "PATH": Value((os.pathsep.join(kept),), INHERITED)}


def _origin(plan: LaunchPlan, path: KeyPath) -> Origin:
    """Return where a value is written, or the nearest place."""
    paths = (path[:length] for length in range(len(path), 0, -1))
    return next((plan.origins[each] for each in paths if each in plan.origins), Origin(plan.profile))
