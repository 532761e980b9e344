"""
What a profile would do, part by part, as it is written: a reference stays one, since what it stands for may be another
thing tomorrow; and whatever is written is here, also what this machine cannot start today. Credentials are masked.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from acp_launch.problem import KeyPath
from acp_launch.profile.model import Agent, Profile, StdioServer, templates
from acp_launch.profile.trust import discreet, power
from acp_launch.secret.reference import EnvironmentReference, SecretReference, parse

Found = Mapping[KeyPath, Path]
RULES = "permissions.rules"
ROWS = 40  # variables of a program that have a row each; what is more, and does nothing in particular, shares one


class Part(Struct, frozen=True):
    """`label` is what it is about, or nothing for what belongs to the one before. `is_potent`: see `profile.potent`."""

    label: str
    text: str
    is_potent: bool = False


def parts(profile: Profile, found: Found, said: Sequence[str]) -> Iterator[Part]:
    """`found` are the programs and directories that are there, `said` is all that the profile says."""
    yield from _program(("agent",), profile.agent, found, "runs", "")
    yield from _directories(profile, found)
    for name, server in profile.mcp_servers.items():
        if isinstance(server, StdioServer):
            yield from _server(name, server, found)
        else:
            yield Part("server", f"{name}: {server.type} {discreet(server.url)}")
            yield from _set("sends", server.headers)
            if not server.required:
                yield Part("", "not required")
    yield from _references(profile)
    yield Part("asks", f"permissions.default: {profile.permissions.default}")
    yield from (Part("rule", line.removeprefix(RULES)) for line in said if line.startswith(RULES))
    yield from _services(profile)
    chosen = {**({"mode": profile.session.mode} if profile.session.mode else {}), **profile.session.config}
    if chosen:
        yield Part("chooses", discreet(", ".join(f"{name}={value}" for name, value in chosen.items())))


def _server(name: str, server: StdioServer, found: Found) -> Iterator[Part]:
    path = ("mcp_servers", name)
    yield from _program(path, server, found, "server", f"{name}: ")
    yield Part("", _where(server, found.get((*path, "cwd"))))
    if not server.bridge:
        yield Part("", "started by the agent")
    if not server.required:
        yield Part("", "not required")


def _where(server: StdioServer, there: Path | None) -> str:
    if server.cwd is not None and server.bridge:
        return f"in {_there(server.cwd, there)}"
    return "in an empty directory of its own" if there is None else f"in {there}, the session's directory"


def _program(path: KeyPath, program: Agent | StdioServer, found: Found, label: str, before: str) -> Iterator[Part]:
    there = found.get((*path, "command"))
    words = [str(there or program.command), *program.args]
    yield Part(label, f"{before}{discreet(' '.join(map(shlex.quote, words)))}")
    if there is None:
        yield Part("", "which is not there yet")
    elif "${" in program.command:
        yield Part("", f"written {program.command}")
    yield from _variables(program.env)
    if program.inherit_env == "all":
        yield Part("", "gets your whole environment")
    elif program.inherit_env != "minimal" and program.inherit_env:
        yield Part("", f"gets of your environment {', '.join(program.inherit_env)}")


def _directories(profile: Profile, found: Found) -> Iterator[Part]:
    written = profile.workspace.cwd
    there = found.get(("workspace", "cwd"))
    if written is not None:
        yield Part("in", _there(written, there))
    elif there is not None:
        yield Part("in", str(there))
    for index, further in enumerate(profile.workspace.additional_directories):
        yield Part("and in", _there(further, found.get(("workspace", "additional_directories", index))))


def _there(written: str, there: Path | None) -> str:
    if there is None:
        return f"{written}, which is not there yet"
    return f"{there}, written {written}" if "${" in written else str(there)


def _variables(values: Mapping[str, str]) -> Iterator[Part]:
    """Those that can do something first: what comes after may be much."""
    potent = {name: can for name in values if (can := power(name))}
    yield from (
        Part("", f"sets {name}, which {can}: {_quoted(name, values[name])}", True) for name, can in potent.items()
    )
    yield from _set("sets", {name: value for name, value in values.items() if name not in potent})


def _set(verb: str, values: Mapping[str, str]) -> Iterator[Part]:
    said = [f"{name}: {_quoted(name, value)}" for name, value in values.items()]
    yield from (Part("", f"{verb} {each}") for each in said[:ROWS])
    if rest := said[ROWS:]:
        yield Part("", f"{verb} {', '.join(rest)}")


def _quoted(name: str, value: str) -> str:
    """So that an empty value is seen, and where each ends."""
    return json.dumps(discreet(value, name), ensure_ascii=False)


def _references(profile: Profile) -> Iterator[Part]:
    """The secrets it uses and the variables of the user's environment that it refers to, wherever they stand."""
    every = [part for _, template in templates(profile) for part in parse(template)]
    if secrets := dict.fromkeys(part.name for part in every if isinstance(part, SecretReference)):
        yield Part("secrets", ", ".join(secrets))
    if read := dict.fromkeys(part.name for part in every if isinstance(part, EnvironmentReference)):
        yield Part("reads", f"from your environment: {', '.join(read)}")


def _services(profile: Profile) -> Iterator[Part]:
    files = {True: ["files (read and write)"], "read": ["files (read)"], False: []}[profile.client.fs]
    if served := [*files, *(["commands"] if profile.client.terminal else [])]:
        yield Part("serves", ", ".join(served))
