"""
A `LaunchPlan`: everything that `plan` prints and `run` does.

Each `Value` knows its origin and keeps its secrets as references. Only `reveal` turns a secret into text, and its
result goes only into a child's environment, an argument list or an HTTP header.
"""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from msgspec import Struct, field

from acp_launch.problem import KeyPath, Problem, count, dotted
from acp_launch.profile.model import (
    UNATTENDED_WAIT,
    Agent,
    Approval,
    Client,
    ContainerNetwork,
    LoginOptions,
    Match,
    McpTransport,
    Network,
    Profile,
    Pull,
    RemoteOptions,
    StdioOptions,
    Timeouts,
)
from acp_launch.profile.values import header_fault, templates, variable_headers
from acp_launch.secret.value import (
    MAX_VALUE,
    EnvironmentReference,
    Outcome,
    Secret,
    SecretReference,
    parse,
    place,
    variable,
)

if TYPE_CHECKING:
    from acp_launch.profile.load import Loaded


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


class StdioPlan(StdioOptions, frozen=True, kw_only=True):
    """
    A stdio MCP server.

    With `bridge`, acp-launch starts it, and `env` is its whole environment. Without, the agent starts it in its own
    directory and adds its own environment; then `env` holds only what the profile sets, and of the options only
    `required` has an effect. If `cwd` is None, the server runs in an empty directory of its own, which the launch
    creates. `missing` is as in a `ProcessPlan`. `compared` names the variables that make it another server where
    launches share it. `data` are paths from which it runs nothing, so that a confined agent may write them.
    """

    name: str
    command: Path
    args: tuple[Value, ...]
    env: Mapping[str, Value]
    cwd: Path | None
    data: tuple[Path, ...] = ()
    compared: tuple[str, ...] = ()
    missing: str = ""


class LoginPlan(LoginOptions, frozen=True, kw_only=True):
    """What the profile says of a server's login; `client_id` and others are empty if it names none.

    `issuer` has no `/` at its end.
    """

    client_id: str = ""
    client_secret: Value | None = None
    issuer: str = ""
    client_metadata_url: str = ""


class RemotePlan(RemoteOptions, frozen=True, kw_only=True):
    """An MCP server reached over the network; `type` is `http` or `sse`, as in ACP.

    With `bridge`, acp-launch connects to it. Without, the agent does.
    """

    name: str
    type: str
    url: Value
    headers: Mapping[str, Value]
    env: Mapping[str, Value] = field(default_factory=dict)
    oauth: LoginPlan | None = None  # if the server asks for a login

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


# The place of an agent that is confined, in a container or on another machine: what it sees of this machine.
# `plan/place.py` starts a process in it.
Access = Literal["read", "write", "empty"]
# Why a path is there, for the user. `between` leads from a directory that can be written to a path that cannot.
Reason = Literal["read", "session", "write", "state", "git", "agent", "acp-launch", "system", "between", "seat"]


class Named(Struct, frozen=True):
    """A path as a profile names it, with its references filled in."""

    text: str
    origin: Origin


PROGRAMS = Path(__file__).parent.parent / "bridge"  # those that a container has, to read
STARTER = "start.sh"  # starts one of them with what the image has


class Mount(Struct, frozen=True):
    """A path without links that is there: to be read or written, or as an empty directory in memory."""

    path: Path
    access: Access
    reason: Reason


class Direct(Struct, frozen=True):
    """A program to start in place of a package runner, and the number of arguments that only the runner needs."""

    command: Path
    skipped: int


class InContainer(Struct, frozen=True, tag="container"):
    """A place in a container: how the engine makes it. `user` are words for its command line."""

    engine: str  # podman or docker
    image: str
    network: ContainerNetwork
    pull: Pull
    user: tuple[str, ...]

    @property
    def words(self) -> str:
        return "in the container"


class OverSsh(Struct, frozen=True, tag="ssh"):
    """A place on another machine, where a session works in `directory`."""

    host: str
    directory: Path
    python: str

    @property
    def words(self) -> str:
        return f"on {self.host}"


class Place(Struct, frozen=True, kw_only=True):
    """
    A place. `program` is bubblewrap, or what leads to a place `elsewhere`: the engine, or ssh. `mounts` come from
    `arrange`; `links` are the symbolic links between them, each with its target. `state` are paths that are made if
    they are missing. `seat` is the directory for sockets of the launch, None until there is one.
    """

    program: Path
    mounts: tuple[Mount, ...]
    links: Mapping[Path, Path] = field(default_factory=dict)
    state: tuple[Path, ...] = ()
    network: Network = "shared"
    direct: Direct | None = None
    seat: Path | None = None
    elsewhere: InContainer | OverSsh | None = None

    @property
    def words(self) -> str:
        """How the agent is, for a message."""
        return self.elsewhere.words if self.elsewhere else "confined"


def there_directory(seat: Path) -> str:
    """Return the directory on the other machine for what belongs to a directory for sockets here, of equal name."""
    return f"/tmp/acp-launch-{seat.name.rpartition('-')[2]}"


class LaunchPlan(Struct, frozen=True, kw_only=True):
    """
    The plan of a launch.

    `profile` is the name under which sessions are stored; `file` is the profile's file, None for `--agent`. `called` is
    its name in commands, empty for `--agent`. `is_built_in` profiles come with acp-launch and cannot be changed.
    `place` is for an agent that is confined or elsewhere. `written` are the keys of the profile that this plan does not
    name, as they are written; it has no server, argument or variable.
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
    place: Place | None = None
    written: Profile = field(default_factory=lambda: Profile(version=1, agent=Agent()))

    @property
    def directory(self) -> Path:
        """The working directory of its sessions, as the agent has it."""
        there = self.place.elsewhere if self.place else None
        return there.directory if isinstance(there, OverSsh) else self.cwd

    @property
    def machine(self) -> str:
        """Where its agent is, for a message, if that is another machine: "on build1"."""
        there = self.place.elsewhere if self.place else None
        return there.words if isinstance(there, OverSsh) else ""

    @property
    def location(self) -> str:
        """Where its sessions work: the directory, with the machine if that is another one."""
        there = self.place.elsewhere if self.place else None
        return f"{there.host}:{there.directory}" if isinstance(there, OverSsh) else str(self.cwd)

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


# The secrets that a profile refers to: `needs` lists them, `unmet` reports those that were not found, and `unfit` those
# that cannot be sent as a header.


class Need(Struct, frozen=True):
    """One reference to a secret; `origin` is the place of its `${`."""

    name: str
    origin: Origin


def needs(loaded: "Loaded", *, without: Iterable[str] = ()) -> tuple[Need, ...]:
    """List every reference to a secret in the profile, file by file in the order of lines; each once per text.

    `without` names servers that will not be started.
    """
    unused = {("mcp_servers", name) for name in without}
    used = ((path, template) for path, template in templates(loaded.profile) if path[:2] not in unused)
    found = [need for path, template in used for need in _within(loaded, path, template)]
    return tuple(sorted(found, key=lambda need: (need.origin.source, need.origin.line, need.origin.column)))


def _within(loaded: "Loaded", path: KeyPath, template: str) -> Iterable[Need]:
    for part in dict.fromkeys(parse(template)):
        if isinstance(part, SecretReference):
            at = loaded.positions.where(path, offset=place(template, part))
            yield Need(part.name, Origin(at.file, at.line, at.column, dotted(path)))


def unmet(needs: Iterable[Need], outcomes: Mapping[str, Outcome], *, has_terminal: bool = True) -> tuple[Problem, ...]:
    """Return a problem for each secret that was not found, at its first reference; `has_terminal` as in
    `next_command`.
    """
    found: dict[str, list[Need]] = {}
    for need in dict.fromkeys(needs):  # profiles that extend one file have its references in common
        if outcomes[need.name].state != "found":
            found.setdefault(need.name, []).append(need)
    return tuple(
        _problem(first, len(others), outcomes[name], has_terminal=has_terminal)
        for name, (first, *others) in found.items()
    )


def unfit(plan: LaunchPlan | None, secrets: Mapping[str, Secret]) -> tuple[Problem, ...]:
    """Return a problem for each header or variable whose secret does not fit in a header; values are never quoted."""
    headers = [
        value
        for server in (plan.servers if plan else ())
        if isinstance(server, RemotePlan)
        for value in server.sent.values()
        if value.secrets and all(secret.name in secrets for secret in value.secrets)
    ]
    return tuple(
        value.origin.problem(
            f"{fault}, but the secret in this one does",
            f"keep it as one line of ASCII: acp-launch secret set {value.secrets[0].name}",
        )
        for value in headers
        if (fault := header_fault(value.reveal(secrets)))
    )


def _problem(need: Need, others: int, outcome: Outcome, *, has_terminal: bool) -> Problem:
    if outcome.state == "missing":
        message = f'secret "{need.name}" is not set in the {outcome.source}'
        message += f"; {outcome.reason}" if outcome.reason else ""
    else:
        message = f'cannot read secret "{need.name}": {outcome.reason}'
    message += f" (needed in {count(others, 'other place')}, too)" if others else ""
    return need.origin.problem(message, next_command(need.name, outcome, has_terminal=has_terminal))


def next_command(name: str, outcome: Outcome, *, has_terminal: bool = True) -> str:
    """Return the fix for a secret that was not found. Without a terminal, as in CI, it begins with the variable."""
    export, state = f"export {variable(name)}=...", outcome.state
    own = {
        "missing": f"acp-launch secret set {name}",
        "locked": "unlock it and try again",
        "denied": "try again and allow it",
        "too large": f"store at most {MAX_VALUE // 1024} KiB: acp-launch secret set {name}",
    }.get(state, f"acp-launch secret set {name} shows how to choose another store")
    fix = outcome.fix or own
    if not has_terminal and state != "too large":
        return f"{export}, or {fix}"
    return fix if outcome.fix or state in ("missing", "too large") else f"{fix}, or {export}"
