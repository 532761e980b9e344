"""
What a profile or a batch would run, for the user who decides whether to trust it; and those that were accepted.

The profile's author may try to hide something, so each text takes one line, nothing in it is invisible, and omissions
are counted.
"""

import json
import shlex
import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from acp_launch.console.ask.viewport import break_lines, screen
from acp_launch.console.stderr import DIM, GREEN, RED, harmless_line, paint
from acp_launch.console.stdout import columns as table_lines
from acp_launch.document.flow import inline
from acp_launch.problem import KeyPath, dotted
from acp_launch.profile.agents import started
from acp_launch.profile.keys import find_others
from acp_launch.profile.model import (
    UNATTENDED_WAIT,
    Agent,
    Client,
    Confined,
    Match,
    OAuth,
    Profile,
    RemoteServer,
    Rule,
    Runtime,
    StdioServer,
)
from acp_launch.profile.rules import ANSWERS
from acp_launch.profile.trust import Acceptance, TrustState, changes, discreet, power, shown
from acp_launch.profile.values import templates
from acp_launch.regex import regex
from acp_launch.registry.installed import of_program
from acp_launch.secret.value import EnvironmentReference, SecretReference, parse

# The actions of a profile as it is written. References are not resolved, since their values may change. Programs and
# directories that this machine lacks are shown too. Credentials are masked.


Found = Mapping[KeyPath, Path]
QUOTE = '"'
_LOCKED = regex(r'lock\.(?P<key>.*)\.package: "(?P<package>.*)"')
ROWS = 40  # variables of a program that have a row each; further harmless ones share one row


class ReportRow(Struct, frozen=True):
    """A row of the report. `label` is empty if it continues the row above. `is_potent`: see `profile.trust.power`."""

    label: str
    text: str
    is_potent: bool = False


def parts(profile: Profile, found: Found, said: Sequence[str]) -> Iterator[ReportRow]:
    """Yield the rows, in the words and the order of `plan`. `found` are the existing programs and directories; `said`
    are all lines of the profile."""
    agent = replace(profile.agent, inherit_env=profile.agent_inherits)
    yield from _directories(profile, found)
    if profile.session.mode:
        yield ReportRow("mode", discreet(profile.session.mode))
    for index, (name, value) in enumerate(profile.session.config.items()):
        yield ReportRow(
            "" if index else "config", discreet(f"{name}: {value if isinstance(value, str) else str(value).lower()}")
        )
    yield ReportRow("permissions", profile.permissions.default)
    if not profile.permissions.inherit:
        yield ReportRow("drops", "the permission rules of the profiles it extends", is_potent=True)
    yield from map(_rule, profile.permissions.rules)
    if profile.permissions.unattended != UNATTENDED_WAIT:
        yield ReportRow("unattended", profile.permissions.unattended)
    if does := describe_client(profile.client):
        yield ReportRow("client", does)
    yield from _program(("agent",), agent, found, "agent", "", is_elsewhere=profile.runtime.is_elsewhere)
    if profile.runtime.confined is not None:
        yield from _confinement(agent, profile.runtime.confined)
    yield from _elsewhere(profile.runtime)
    for name, server in profile.mcp_servers.items():
        if isinstance(server, StdioServer):
            yield from _server(name, server, found)
        else:
            yield from _remote(name, server)
    for path, value in find_others(profile):
        yield ReportRow(dotted(path), write_value(value))
    yield from _references(profile)
    for locked in filter(None, map(_LOCKED.fullmatch, said)):
        yield ReportRow("locks", f"{locked['key'].strip(QUOTE)} to {discreet(locked['package'])}")


def _rule(rule: Rule) -> ReportRow:
    """Write a rule as `plan` does, but with quotes: a glob cannot pass for another key."""
    answer, match = next((name, each) for name in ANSWERS if (each := getattr(rule, name)) != Match())
    globs = {key: getattr(match, key) for key in Match.__struct_fields__}
    said = [f"{key} {', '.join(_quote('', glob) for glob in each)}" for key, each in globs.items() if each]
    return ReportRow(answer, "; ".join(said))


def write_value(value: object) -> str:
    """Write the value of a key that has no words of its own as a profile does, with credentials masked."""
    return discreet(inline(to_builtins(value, enc_hook=str)))


def describe_client(client: Client) -> str:
    """Say what acp-launch does for the agent; empty if it does nothing."""
    files = {True: ["reads and writes files"], False: [], "read": ["reads files"]}[client.fs]
    does = ", ".join([*files, *(["runs commands"] if client.terminal else [])])
    return f"{does} for the agent" if does else ""


def _confinement(agent: Agent, confined: Confined) -> Iterator[ReportRow]:
    yield ReportRow("confined", "it sees the session's directories, what it needs to run, and nothing else")
    known = started(agent.command or "", agent.args)
    for verb, paths in (
        ("writes", (*(known.state if known else ()), *confined.state, *confined.write)),
        ("reads", confined.read),
    ):
        if paths:
            yield ReportRow("", discreet(f"{verb} {', '.join(paths)}"))
    yield ReportRow("", "has no network" if confined.network == "none" else "shares the network of this machine")


def _elsewhere(runtime: Runtime) -> Iterator[ReportRow]:
    if (container := runtime.container) is not None:
        engine = "podman or docker" if container.engine == "auto" else container.engine
        yield ReportRow("container", discreet(f"image {container.image}, by {engine}"))
        if container.pull != "never":
            yield ReportRow("", "fetches the image if it is not there", is_potent=True)
        yield ReportRow("", "has the session's directories of this machine" + (", and" if container.mounts else ""))
        for path in container.mounts:
            yield ReportRow("", discreet(f"{'reads' if path.endswith(':ro') else 'writes'} {path.removesuffix(':ro')}"))
        yield ReportRow("", _NETWORKS[container.network], is_potent=container.network == "host")
        if container.user == "image":
            yield ReportRow("", "runs as the user that the image names")
    if (ssh := runtime.ssh) is not None:
        yield ReportRow("ssh", discreet(f"{ssh.host}, in {ssh.directory}, by {ssh.python} there"), is_potent=True)


_NETWORKS = {
    "default": "has the engine's default network",
    "none": "has no network",
    "host": "shares the network of this machine",
}


def _server(name: str, server: StdioServer, found: Found) -> Iterator[ReportRow]:
    path = ("mcp_servers", name)
    yield from _program(path, server, found, "mcp server", f"{name}: ")
    yield ReportRow("", _where(server, found.get((*path, "cwd"))))
    if server.data:
        data = discreet(", ".join(server.data))
        yield ReportRow("", f"takes as data, which a confined agent may write: {data}", is_potent=True)
    if not server.bridge:
        yield ReportRow("", "started by the agent")
    if not server.required:
        yield ReportRow("", "not required")


def _remote(name: str, server: RemoteServer) -> Iterator[ReportRow]:
    yield ReportRow("mcp server", f"{name}: {server.type} {discreet(server.url)}")
    yield from _set("sends", server.sent)
    if server.oauth is not None:
        yield ReportRow("", _login(server.oauth))
    if server.insecure:
        yield ReportRow("", "may send them unencrypted (insecure: true)", True)
    if not server.bridge:
        yield ReportRow("", "the agent connects to it, and gets its address, its headers and their secrets")
    if not server.required:
        yield ReportRow("", "not required")


def _login(oauth: OAuth) -> str:
    scopes = f"the scopes {', '.join(oauth.scopes)}" if oauth.scopes else "the scopes that it names"
    known_as = oauth.client_id or oauth.client_metadata_url
    at = f" at {oauth.issuer}" if oauth.issuer else ""
    client = f", as the client {known_as}" if known_as else ""
    host = "" if oauth.callback == OAuth().callback else f", answered at {oauth.callback}"
    resource = "" if oauth.resource else ", for a token that may be good elsewhere (resource: false)"
    return discreet(f"asks you to log in{at}, for {scopes}{client}{host}{resource}")


def _where(server: StdioServer, there: Path | None) -> str:
    if server.cwd is not None and server.bridge:
        return f"directory {_there(server.cwd, there)}"
    return "directory (a private, empty one)" if there is None else f"directory {there} (the session's)"


def _program(
    path: KeyPath, program: Agent | StdioServer, found: Found, label: str, before: str, *, is_elsewhere: bool = False
) -> Iterator[ReportRow]:
    if isinstance(program, Agent) and program.registry is not None:
        yield from _registry_rows(program.registry, program.args, found.get((*path, "registry")), label)
    else:
        there, command = found.get((*path, "command")), program.command or ""
        yield _line(label, before, [str(there or command), *program.args])
        if there is None and not is_elsewhere:
            yield ReportRow("", "not installed")
        elif "${" in command:
            yield ReportRow("", f"from {command}")
    yield from _variables(program.env)
    if program.inherit_env == "all":
        yield ReportRow("", "gets your whole environment")
    elif program.inherit_env != "minimal" and program.inherit_env:
        yield ReportRow("", f"gets from your environment: {', '.join(program.inherit_env)}")


def _line(label: str, before: str, words: Sequence[str]) -> ReportRow:
    return ReportRow(label, f"{before}{discreet(' '.join(map(shlex.quote, words)))}")


def _registry_rows(written: str, args: Sequence[str], program: Path | None, label: str) -> Iterator[ReportRow]:
    """Yield what runs of the registry: a version that the profile does not choose may be another one tomorrow."""
    made = of_program(program) if program else None
    if program is None or made is None:
        yield ReportRow(
            label,
            f"the registry's agent {written}, with: {shlex.join(args)}" if args else f"the registry's agent {written}",
        )
        yield ReportRow("", "not installed")
        return
    said = made.manifest
    yield _line(label, "", [str(program), *said.args, *args])
    version = f"version {said.version}" if "@" in written else f"the newest version installed: {said.version}"
    yield ReportRow("", f"{said.id} of the registry, {version} ({said.kind} {said.package})")
    yield from _variables(said.env)


def _directories(profile: Profile, found: Found) -> Iterator[ReportRow]:
    written = profile.workspace.cwd
    there = found.get(("workspace", "cwd"))
    if written is not None:
        yield ReportRow("directory", _there(written, there))
    elif there is not None:
        yield ReportRow("directory", str(there))
    for index, further in enumerate(profile.workspace.additional_directories):
        yield ReportRow("also", _there(further, found.get(("workspace", "additional_directories", index))))


def _there(written: str, there: Path | None) -> str:
    if there is None:
        return f"{written}, which does not exist yet"
    return f"{there}, from {written}" if "${" in written else str(there)


def _variables(values: Mapping[str, str]) -> Iterator[ReportRow]:
    """Yield dangerous variables first, because the others may be many."""
    potent = {name: can for name in values if (can := power(name))}
    yield from (
        ReportRow("", f"sets {name}, which {can}: {_quote(name, values[name])}", True) for name, can in potent.items()
    )
    yield from _set("sets", {name: value for name, value in values.items() if name not in potent})


def _set(verb: str, values: Mapping[str, str]) -> Iterator[ReportRow]:
    said = [f"{name}: {_quote(name, value)}" for name, value in values.items()]
    yield from (ReportRow("", f"{verb} {each}") for each in said[:ROWS])
    if rest := said[ROWS:]:
        yield ReportRow("", f"{verb} {', '.join(rest)}")


def _quote(name: str, value: str) -> str:
    """Quote a value, so that an empty value is visible, and where each ends."""
    return json.dumps(discreet(value, name), ensure_ascii=False)


def _references(profile: Profile) -> Iterator[ReportRow]:
    """Yield the secrets, and the variables of the user's environment, that the profile refers to."""
    every = [part for _, template in templates(profile) for part in parse(template)]
    if secrets := dict.fromkeys(part.name for part in every if isinstance(part, SecretReference)):
        yield ReportRow("secrets", ", ".join(secrets))
    if read := dict.fromkeys(part.name for part in every if isinstance(part, EnvironmentReference)):
        yield ReportRow("reads", f"from your environment: {', '.join(read)}")


MAX_DIFF_LINES = 400  # further ones are counted
MAX_LINE_CHARS = 20_000  # further ones are counted
FOREIGN_MARKS = 8  # characters that are named; further ones are counted
_GAP = regex(r" {9,}")  # so many spaces could push the rest to where a new line would begin


def heading(state: TrustState) -> str:
    return f"acp-launch: {_plain(state.label)} would:"


def report(rows: Iterable[ReportRow], state: TrustState) -> Iterator[str]:
    """Yield everything that would happen, and the changes since it was accepted; coloured for a terminal."""
    for doubt in state.doubts:
        yield paint(f"  {_plain(doubt)}", RED)
    weaker = (ReportRow("weaker", each, is_potent=True) for each in state.weakened)
    said = [*rows, *weaker]
    width = max(len(part.label) for part in said)
    columns = screen()[0] if sys.stderr.isatty() else sys.maxsize
    for part in said:
        row = f"  {part.label:{width}}  {_plain(part.text)}"
        yield from (paint(each, RED) if part.is_potent else each for each in break_lines(row, columns))
    if foreign := _foreign("".join([state.label, *(part.text for part in said)])):
        yield paint(f"  look closely: non-ASCII characters may look like others: {foreign}", RED)
    if any(len(part.text) > MAX_LINE_CHARS for part in said):
        yield paint("  look closely: too long to show in full; read the file before you accept it", RED)
    if state.before is not None and state.how == "changed":
        yield from _news(state.before, state.now)


def _news(before: Acceptance, now: Sequence[str]) -> Iterator[str]:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(before.since))
    yield f"changed since you accepted it on {when}:"
    found = list(changes(before.lines, [str(shown(line)) for line in now]))
    for line in _cut(found):
        yield paint(f"  {_plain(_mark_line(line))}", RED if line.startswith("-") else GREEN)
    if not found:
        yield "  only a credential written in it (not shown)"


def _mark_line(line: str) -> str:
    """Return a line of a difference, with the power of its variable."""
    said = shown(line[2:])
    return f"{line[:2]}{said.path}, which {said.can}: {said.value}" if said.can else line


def _foreign(text: str) -> str:
    """Name the characters outside ASCII, because letters of other alphabets may look like ASCII letters."""
    marks = sorted({mark for mark in text if not mark.isascii()})
    named = [f"U+{ord(mark):04X} {unicodedata.name(mark, '')}".strip() for mark in marks[:FOREIGN_MARKS]]
    more = [f"and {len(marks) - FOREIGN_MARKS} more"] if len(marks) > FOREIGN_MARKS else []
    return ", ".join([*named, *more])


def table(acceptances: Sequence[Acceptance]) -> str:
    rows = [
        (each.profile, each.project, each.file, time.strftime("%Y-%m-%d", time.localtime(each.since)))
        for each in acceptances
    ]
    return "\n".join(table_lines([tuple(map(_plain, row)) for row in rows]))


def table_json(acceptances: Sequence[Acceptance]) -> dict[str, Any]:
    """Return the JSON for `trust --list --json`; `since` is in Unix seconds."""
    members = ("profile", "project", "file", "since")
    return {"profiles": [{name: getattr(each, name) for name in members} for each in acceptances]}


def _cut(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:MAX_DIFF_LINES]
    if len(lines) > MAX_DIFF_LINES:
        yield paint(f"… {len(lines) - MAX_DIFF_LINES:,} more lines", DIM)


def _plain(text: str) -> str:
    """Return `text` on one line, with every character visible."""
    seen = harmless_line(text[: 2 * MAX_LINE_CHARS].replace("\r", "\\r"))
    seen = _GAP.sub(lambda gap: f" [{len(gap[0])} spaces] ", seen)[:MAX_LINE_CHARS]
    return f"{seen} … and {len(text) - MAX_LINE_CHARS:,} more characters" if len(text) > MAX_LINE_CHARS else seen
