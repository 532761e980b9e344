"""
Everything decided, nothing started: what `plan` prints and what `run` does.

Each `Value` knows where it came from and keeps its secrets as references; `reveal` is the one place where a
secret becomes text, and its results go to a child's environment, an argument list or an HTTP header only.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from msgspec import Struct, field

from acp_launch.problem import KeyPath, Problem
from acp_launch.profile.model import Approval, Client, Match, Restart, Roots, ServerTimeouts, Timeouts, Tools
from acp_launch.secret.reference import EnvironmentReference, SecretReference
from acp_launch.secret.value import Secret


class Origin(Struct, frozen=True):
    """Where a value came from: a place in a profile, or `source` alone (`inherited`, `--agent`)."""

    source: str
    line: int = 0
    column: int = 0
    path: str = ""

    def __str__(self) -> str:
        return ":".join([self.source, *(str(number) for number in (self.line, self.column) if number)])

    def problem(self, message: str, fix: str) -> Problem:
        """Something wrong with the value, at its place."""
        return Problem(self.source, self.line, self.column, self.path, message, fix)


INHERITED = Origin("inherited")
OURS = Origin("acp-launch")  # of a variable that keeps a program from the project it runs in


class Inherited(str):
    """Text a `${env:NAME}` stood for. It may be a credential, so it is shown as the reference it came from."""

    reference: EnvironmentReference

    def __new__(cls, text: str, reference: EnvironmentReference) -> Self:
        made = super().__new__(cls, text)
        made.reference = reference
        return made


class Value(Struct, frozen=True):
    """Text in which only secrets are still open, and where it came from."""

    parts: tuple[str | SecretReference, ...]
    origin: Origin

    @property
    def secrets(self) -> tuple[SecretReference, ...]:
        return tuple(part for part in self.parts if isinstance(part, SecretReference))

    def display(self) -> str:
        """The text with references for every secret and every value from the environment: safe to print."""
        return "".join(str(part.reference) if isinstance(part, Inherited) else str(part) for part in self.parts)

    def reveal(self, secrets: Mapping[str, Secret]) -> str:
        """The text itself; `secrets` maps each reference's name to its value. KeyError when one is missing."""
        return "".join(part if isinstance(part, str) else secrets[part.name].expose() for part in self.parts)

    def __repr__(self) -> str:  # an inherited value may be a credential too
        return f"Value(..., origin={self.origin!r})"


class ProcessPlan(Struct, frozen=True, kw_only=True):
    """One process to start. `command` is absolute and exists; `env` is its whole environment."""

    name: str
    command: Path
    args: tuple[Value, ...]
    env: Mapping[str, Value]
    cwd: Path

    def display(self) -> str:
        """Its command line, as a shell would read it: safe to print."""
        from acp_launch.secret.detect import masked

        arguments = masked(shlex.join(argument.display() for argument in self.args))
        return f"{shlex.quote(str(self.command))} {arguments}".rstrip()


class StdioPlan(Struct, frozen=True, kw_only=True):
    """
    A stdio MCP server. With `bridge` we start it, and `env` is its whole environment; without, the agent does, in its
    own directory, and adds its own: then `env` holds only what the profile sets, and the rest below means nothing.

    Without a `cwd` it runs in an empty directory of its own, which the launch makes (`process.workdir`).
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
    bridge: bool = True


class RemotePlan(Struct, frozen=True, kw_only=True):
    """An MCP server reached over the network; `type` is `http` or `sse`, as in ACP."""

    name: str
    type: str
    url: Value
    headers: Mapping[str, Value]
    required: bool = True


ServerPlan = StdioPlan | RemotePlan


class RulePlan(Struct, frozen=True):
    """A rule about tool calls. The globs in `match.path` are absolute; where a link leads elsewhere, both are there."""

    answer: Approval
    match: Match
    origin: Origin

    def __str__(self) -> str:
        return f"{self.origin.path} ({self.origin})"


class LaunchPlan(Struct, frozen=True, kw_only=True):
    """`profile` is the name sessions are kept under, `file` where it was read (None for `--agent`). `called` is how a
    command names it, empty for `--agent`; `is_built_in` whether it came with acp-launch, so that it cannot be changed.
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
    origins: Mapping[KeyPath, Origin] = field(default_factory=dict)  # of what the files say; a list is one value
    rules: tuple[RulePlan, ...] = ()
    client: Client = field(default_factory=Client)

    @property
    def values(self) -> tuple[Value, ...]:
        """Every value the profile sets, and what the agent inherits, in order of appearance."""
        values = [*self.agent.args, *self.agent.env.values()]
        for server in self.servers:
            if isinstance(server, StdioPlan):
                values += [*server.args, *(value for value in server.env.values() if value.origin != INHERITED)]
            else:
                values += [server.url, *server.headers.values()]
        return tuple(values)

    @property
    def secrets(self) -> tuple[SecretReference, ...]:
        """Every secret the launch needs, in order of appearance, each name once."""
        return tuple({part.name: part for value in self.values for part in value.secrets}.values())
