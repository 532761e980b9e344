"""
What a profile would do, part by part, as it is written: a reference stays one, since what it stands for may be another
thing tomorrow; and whatever is written is here, also what this machine cannot start today.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from acp_launch.document.keypath import KeyPath
from acp_launch.profile.model import Agent, Profile, StdioServer
from acp_launch.profile.templates import templates
from acp_launch.secret.reference import EnvironmentReference, SecretReference, parse

Part = tuple[str, str]  # what it is about, or nothing for what belongs to the one before; and what is said of it
Found = Mapping[KeyPath, Path]
RULES = "permissions.rules"


def parts(profile: Profile, found: Found, said: Sequence[str]) -> Iterator[Part]:
    """`found` are the programs and directories that are there, `said` is all that the profile says."""
    yield from _program(("agent",), profile.agent, found, "runs", "")
    yield from _directories(profile, found)
    for name, server in profile.mcp_servers.items():
        if isinstance(server, StdioServer):
            yield from _server(name, server, found)
        else:
            yield "server", f"{name}: {server.type} {server.url}"
            yield from _named("headers", server.headers)
    yield from _references(profile)
    yield "asks", f"permissions.default: {profile.permissions.default}"
    yield from (("rule", line.removeprefix(RULES)) for line in said if line.startswith(RULES))
    yield from _services(profile)
    chosen = {**({"mode": profile.session.mode} if profile.session.mode else {}), **profile.session.config}
    if chosen:
        yield "chooses", ", ".join(f"{name}={value}" for name, value in chosen.items())


def _server(name: str, server: StdioServer, found: Found) -> Iterator[Part]:
    path = ("mcp_servers", name)
    yield from _program(path, server, found, "server", f"{name}: ")
    if server.cwd is not None:
        yield "", f"in {_there(server.cwd, found.get((*path, 'cwd')))}"
    if not server.bridge:
        yield "", "started by the agent"
    if not server.required:
        yield "", "not required"


def _program(path: KeyPath, program: Agent | StdioServer, found: Found, label: str, before: str) -> Iterator[Part]:
    there = found.get((*path, "command"))
    words = [str(there or program.command), *program.args]
    yield label, f"{before}{' '.join(map(shlex.quote, words))}"
    if there is None:
        yield "", "which is not there yet"
    elif "${" in program.command:
        yield "", f"written {program.command}"
    yield from _named("sets", program.env)
    if "PATH" in program.env:
        yield "", f"finds programs in {program.env['PATH']}"
    if program.inherit_env == "all":
        yield "", "gets your whole environment"
    elif program.inherit_env != "minimal" and program.inherit_env:
        yield "", f"gets of your environment {', '.join(program.inherit_env)}"


def _directories(profile: Profile, found: Found) -> Iterator[Part]:
    written = profile.workspace.cwd
    there = found.get(("workspace", "cwd"))
    if written is not None:
        yield "in", _there(written, there)
    elif there is not None:
        yield "in", str(there)
    for index, further in enumerate(profile.workspace.additional_directories):
        yield "and in", _there(further, found.get(("workspace", "additional_directories", index)))


def _there(written: str, there: Path | None) -> str:
    if there is None:
        return f"{written}, which is not there yet"
    return f"{there}, written {written}" if "${" in written else str(there)


def _named(verb: str, values: Mapping[str, str]) -> Iterator[Part]:
    """Names, never values."""
    if values:
        yield "", f"{verb} {', '.join(values)}"


def _references(profile: Profile) -> Iterator[Part]:
    """The secrets it uses and the variables of the user's environment that it refers to, wherever they stand."""
    every = [part for _, template in templates(profile) for part in parse(template)]
    if secrets := dict.fromkeys(part.name for part in every if isinstance(part, SecretReference)):
        yield "secrets", ", ".join(secrets)
    if read := dict.fromkeys(part.name for part in every if isinstance(part, EnvironmentReference)):
        yield "reads", f"from your environment: {', '.join(read)}"


def _services(profile: Profile) -> Iterator[Part]:
    files = {True: ["files (read and write)"], "read": ["files (read)"], False: []}[profile.client.fs]
    if served := [*files, *(["commands"] if profile.client.terminal else [])]:
        yield "serves", ", ".join(served)
