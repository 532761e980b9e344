"""
A `LaunchPlan`: everything that `plan` prints and `run` does.

Each `Value` knows its origin and keeps its secrets as references. Only `reveal` turns a secret into text, and its
result goes only into a child's environment, an argument list or an HTTP header.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from msgspec import Struct, field

from acp_launch.document.scalars import Duration
from acp_launch.problem import KeyPath, Problem
from acp_launch.profile.model import (
    UNATTENDED_WAIT,
    Approval,
    Client,
    Elevation,
    Match,
    McpTransport,
    ProtocolPin,
    RemoteRestart,
    RemoteTimeouts,
    Restart,
    Roots,
    ServerTimeouts,
    Start,
    Timeouts,
    Tools,
)
from acp_launch.profile.values import HeaderSpelling, variable_headers
from acp_launch.secret.reference import EnvironmentReference, SecretReference
from acp_launch.secret.value import Secret


class Origin(Struct, frozen=True):
    """The origin of a value: a place in a profile, or `source` alone (`inherited`, `--agent`)."""

    source: str
    line: int = 0
    column: int = 0
    path: str = ""

    def __str__(self) -> str:
        return ":".join([self.source, *(str(number) for number in (self.line, self.column) if number)])

    def problem(self, message: str, fix: str) -> Problem:
        """Report a problem with the value at its place."""
        return Problem(self.source, self.line, self.column, self.path, message, fix)


INHERITED = Origin("inherited")
OURS = Origin("acp-launch")  # of a variable that keeps the project's files from running in a program


class Inherited(str):
    """The value of a `${env:NAME}`. It may be a credential, so it is shown as its reference."""

    reference: EnvironmentReference

    def __new__(cls, text: str, reference: EnvironmentReference) -> Self:
        made = super().__new__(cls, text)
        made.reference = reference
        return made


class Value(Struct, frozen=True):
    """Text in which only secrets are unresolved, and its origin."""

    parts: tuple[str | SecretReference, ...]
    origin: Origin

    @property
    def secrets(self) -> tuple[SecretReference, ...]:
        return tuple(part for part in self.parts if isinstance(part, SecretReference))

    def display(self) -> str:
        """Return the text with references for every secret and every value from the environment: safe to print."""
        return "".join(str(part.reference) if isinstance(part, Inherited) else str(part) for part in self.parts)

    def reveal(self, secrets: Mapping[str, Secret]) -> str:
        """Return the text itself; `secrets` maps each reference's name to its value. KeyError if one is missing."""
        return "".join(part if isinstance(part, str) else secrets[part.name].expose() for part in self.parts)

    def concealed(self, secrets: Mapping[str, Secret]) -> Secret:
        """Return the text as a secret; `secrets` as for `reveal`."""
        return Secret(self.reveal(secrets))

    def __repr__(self) -> str:  # an inherited value may be a credential too
        return f"Value(..., origin={self.origin!r})"


class ProcessPlan(Struct, frozen=True, kw_only=True):
    """One process to start. `command` is absolute and exists; `env` is its whole environment.

    `missing` says why `command` cannot be run; then it is the text of the profile. Only a draft has such a process.
    `registry` is the agent of the registry that is started, as `ID@VERSION`; empty for any other program.
    """

    name: str
    command: Path
    args: tuple[Value, ...]
    env: Mapping[str, Value]
    cwd: Path
    missing: str = ""
    registry: str = ""

    def display(self) -> str:
        """Return its command line, quoted for a shell: safe to print."""
        from acp_launch.secret.detect import masked

        arguments = masked(shlex.join(argument.display() for argument in self.args))
        return f"{shlex.quote(str(self.command))} {arguments}".rstrip()


class StdioPlan(Struct, frozen=True, kw_only=True):
    """
    A stdio MCP server.

    With `bridge`, acp-launch starts it, and `env` is its whole environment. Without, the agent starts it in its own
    directory and adds its own environment; then `env` holds only what the profile sets, and the fields below `cwd` have
    no effect. If `cwd` is None, the server runs in an empty directory of its own, which the launch creates.
    `missing` is as in a `ProcessPlan`.
    """

    name: str
    command: Path
    args: tuple[Value, ...]
    env: Mapping[str, Value]
    cwd: Path | None
    required: bool = True
    restart: Restart = field(default_factory=Restart)
    timeouts: ServerTimeouts = field(default_factory=ServerTimeouts)
    tools: Tools = field(default_factory=Tools)
    roots: Roots = "agent"
    protocol: ProtocolPin = "auto"
    session_elevation: Elevation = "off"
    start: Start = "eager"
    idle: Duration | None = None
    share: bool = False
    bridge: bool = True
    missing: str = ""


class LoginPlan(Struct, frozen=True, kw_only=True):
    """What the profile says of a server's login; `client_id` is empty if it names no client."""

    scopes: tuple[str, ...] = ()
    client_id: str = ""
    client_secret: Value | None = None
    client_metadata_url: str = ""
    callback_port: int | None = None


class RemotePlan(Struct, frozen=True, kw_only=True):
    """An MCP server reached over the network; `type` is `http` or `sse`, as in ACP.

    With `bridge`, acp-launch connects to it. Without, the agent does, and the fields below `required` have no effect.
    """

    name: str
    type: str
    url: Value
    headers: Mapping[str, Value]
    env: Mapping[str, Value] = field(default_factory=dict)
    env_headers: HeaderSpelling = "exact"
    oauth: LoginPlan | None = None  # if the server asks for a login
    insecure: bool = False
    bridge: bool = True
    required: bool = True
    restart: RemoteRestart = field(default_factory=RemoteRestart)
    timeouts: RemoteTimeouts = field(default_factory=RemoteTimeouts)
    tools: Tools = field(default_factory=Tools)
    roots: Roots = "agent"
    protocol: ProtocolPin = "auto"
    session_elevation: Elevation = "off"
    start: Start = "eager"
    idle: Duration | None = None
    share: bool = False

    @property
    def sent(self) -> Mapping[str, Value]:
        """All headers of each request, with those that carry the variables."""
        named = variable_headers(self.env, self.env_headers)
        return {**self.headers, **{header: self.env[name] for name, header in named.items()}}


ServerPlan = StdioPlan | RemotePlan


class RulePlan(Struct, frozen=True):
    """A rule about tool calls. The globs in `match.path` are absolute; a path through a link has a second, real one."""

    answer: Approval
    match: Match
    origin: Origin

    def __str__(self) -> str:
        return f"{self.origin.path} ({self.origin})"


class LaunchPlan(Struct, frozen=True, kw_only=True):
    """
    The plan of a launch.

    `profile` is the name under which sessions are stored; `file` is the profile's file, None for `--agent`. `called` is
    its name in commands, empty for `--agent`. `is_built_in` profiles come with acp-launch and cannot be changed.
    """

    profile: str
    file: Path | None
    called: str = ""
    is_built_in: bool = False
    project: Path
    description: str
    agent: ProcessPlan
    timeouts: Timeouts
    cwd: Path
    additional_directories: tuple[Path, ...]
    session: str | None
    permission: Approval
    servers: tuple[ServerPlan, ...]
    mode: str | None = None
    config: Mapping[str, str | bool] = field(default_factory=dict)
    origins: Mapping[KeyPath, Origin] = field(default_factory=dict)  # of each value in the files; a list is one value
    rules: tuple[RulePlan, ...] = ()
    unattended: str = UNATTENDED_WAIT  # as in the profile: `wait DURATION`, `deny` or `allow-reads`
    client: Client = field(default_factory=Client)
    mcp: McpTransport = "auto"

    @property
    def values(self) -> tuple[Value, ...]:
        """Every value the profile sets, and what the agent inherits, in order of appearance."""
        values = [*self.agent.args, *self.agent.env.values()]
        for server in self.servers:
            if isinstance(server, StdioPlan):
                values += [*server.args, *(value for value in server.env.values() if value.origin != INHERITED)]
            else:
                values += [server.url, *server.headers.values(), *server.env.values()]
                values += [server.oauth.client_secret] if server.oauth and server.oauth.client_secret else []
        return tuple(values)

    @property
    def secrets(self) -> tuple[SecretReference, ...]:
        """Every secret the launch needs, in order of appearance, each name once."""
        return tuple({part.name: part for value in self.values for part in value.secrets}.values())
