"""
The format of a profile, as frozen values (docs/profiles.md). Pure.

pydantic words a profile's faults (`check`) and turns the format into JSON Schema (`schema`); a profile
without mistakes is built without importing it. The string under a field is its description in `schema.json`. A key
that has no effect yet is not here, so it is refused.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from msgspec import convert, field

from acp_launch.document.nodes import Plain
from acp_launch.document.scalars import Duration
from acp_launch.document.shape import Shape, build
from acp_launch.profile.values import (
    AGENT_INHERIT,
    INHERIT,
    LISTED,
    SWITCHED,
    Count,
    Factor,
    Files,
    HeaderSpelling,
    Inherit,
    Limit,
    Port,
    Registered,
    Setting,
    Shared,
    Template,
    Truth,
    Unattended,
    variable_headers,
)

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

UNATTENDED_WAIT = "wait 30m"
Roots = Literal["agent", "session"]
McpTransport = Literal["auto", "stdio", "http"]
Approval = Literal["ask", "allow", "deny"]
Elevation = Literal["off", "probe", "on"]
Globs = Annotated[tuple[str, ...], LISTED]
Patterns = Annotated[tuple[Template, ...], LISTED]  # globs in which references are allowed
Start = Literal["eager", "lazy"]
Network = Literal["shared", "none"]
Engine = Literal["auto", "podman", "docker"]
ContainerNetwork = Literal["default", "none", "host"]
Pull = Literal["never", "missing"]
ContainerUser = Literal["keep", "image"]
RestartPolicy = Literal["always", "on-failure", "never"]
ProtocolPin = Literal[
    "auto", "legacy", "modern", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"
]  # a version pins its era, and the handshake's version where the era has one
_INITIALIZE, _SESSION, _SILENCE = Duration(120), Duration(60), Duration(1800)  # seconds
_DOWNLOAD, _LONGEST_REMOTE_PAUSE = Duration(600), Duration(30)  # seconds
_FIRST_PAUSE, _LONGEST_PAUSE, _MIN_UPTIME, _START = Duration(0.2), Duration(10), Duration(10), Duration(30)  # seconds
USER_IDLE = Duration(120)  # `idle` of a server with `share: user` that sets none


class Timeouts(Shape, frozen=True, kw_only=True):
    initialize: Duration = _INITIALIZE
    """Longest wait for the agent's answer to `initialize`; the first `npx` run downloads packages."""
    session: Duration = _SESSION
    """Longest wait for a session to be opened, loaded, resumed, listed, closed or deleted."""
    silence: Duration = _SILENCE
    """Longest silence within a turn: no update, no request, no answer."""


class Agent(Shape, frozen=True, kw_only=True):
    command: Template | None = None
    """The program to start: a name on PATH, an absolute path, or a path relative to the project."""
    registry: Registered = None
    """Instead of `command`, an installed agent of the ACP registry: its id, or `ID@VERSION`. `args` come after those of
    the registry, and `env` goes over its."""
    args: tuple[Template, ...] = ()
    """Its arguments. A secret here is visible to every user of the machine in `ps`."""
    env: Mapping[str, Template] = field(default_factory=dict)
    """Environment variables of the agent, over what it inherits."""
    inherit_env: Annotated[Inherit | None, AGENT_INHERIT] = None
    """What the agent inherits from the shell: `all`, `minimal`, or a list of names and `PREFIX_*` patterns. Default:
    `all`; `minimal` for a confined agent, nothing in a container or by ssh."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    """How long to wait for the agent."""
    mcp: McpTransport = "auto"
    """How the agent reaches bridged MCP servers: `stdio`, `http` (at addresses on 127.0.0.1), or `auto`: http if the
    agent is known to take no others, else stdio."""


class Workspace(Shape, frozen=True, kw_only=True):
    cwd: Template | None = None
    """The session's working directory. Default: the directory acp-launch was started in."""
    additional_directories: tuple[Template, ...] = ()
    """Further directories of the session, for agents that advertise them."""


class Session(Shape, frozen=True, kw_only=True):
    name: str | None = None
    """The named session that `run` opens without `--session`."""
    mode: str | None = None
    """The mode that is set when it is open, by id; the agent must offer it."""
    config: Mapping[str, Setting] = field(default_factory=dict)
    """The agent's config options by id or category, set one after the other when the session is open."""


class Match(Shape, frozen=True, kw_only=True):
    # Every key that is present must match, by one of its globs; upper and lower case differ.
    kind: Globs = ()
    """The kind of call, as the agent reports it: `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`,
    `fetch`, `switch_mode` or `other`; or globs. Agents also use `fetch` and `switch_mode` for other calls."""
    tool: Globs = ()
    """The tool's name, where the agent tells it, as globs."""
    title: Globs = ()
    """The call's title as the agent words it, as globs."""
    path: Patterns = ()
    """The files it names, as globs relative to the project; `*` stays within a directory, `**` does not. `allow` wants
    all of them to match, `deny` and `ask` one. Links are not followed."""
    command: Patterns = ()
    """The command it runs, as globs. For `allow`, no wildcard stands for `;`, `&`, `|`, `<`, `>`, `$`, a backtick, a
    parenthesis or a line end; for `deny` and `ask`, each command of several counts."""


class Rule(Shape, frozen=True, kw_only=True):
    # `rules` ensures that exactly one of them is present and not empty.
    allow: Match = field(default_factory=Match)
    """Calls that are allowed without asking."""
    deny: Match = field(default_factory=Match)
    """Calls that are refused, even with `--approve all`."""
    ask: Match = field(default_factory=Match)
    """Calls that you are asked about."""


class Permissions(Shape, frozen=True, kw_only=True):
    default: Approval = "ask"
    """What to answer when the agent asks for permission. `ask` without a terminal means deny."""
    rules: tuple[Rule, ...] = ()
    """What to answer about some calls; the first rule that matches decides, and `default` where none does. Those of
    profiles that this one extends stand behind its own, and what they deny stays denied."""
    inherit: Truth = True
    """`false`: the rules of profiles that this one extends do not apply."""
    unattended: Unattended = UNATTENDED_WAIT
    """What happens to a question in a host without a terminal: `wait 30m` waits that long for one, then denies;
    `allow-reads` allows to read and search, and denies the rest."""


class Client(Shape, frozen=True, kw_only=True):
    fs: Files = False
    """Whether to read and write files for the agent in the session's directories; `read`: only read them."""
    terminal: Truth = False
    """Whether acp-launch runs commands for the agent."""


class Confined(Shape, frozen=True, kw_only=True):
    state: tuple[Template, ...] = ()
    """Paths of your home that the agent may write, as `~/.NAME`, beside those that acp-launch knows it to need. A
    missing one is made."""
    read: tuple[Template, ...] = ()
    """Further paths that it may read. One below a directory that it may write cannot be written."""
    write: tuple[Template, ...] = ()
    """Further paths that it may write, beside the session's directories."""
    network: Network = "shared"
    """Whether it has this machine's network, with all that listens on it, or none."""


class Container(Shape, frozen=True, kw_only=True):
    image: Template
    """The image, which has `sh`, the agent's program, and python3 or node."""
    engine: Engine = "auto"
    """What starts the container: `podman` or `docker`; `auto` takes the first of both that is installed."""
    mounts: tuple[Template, ...] = ()
    """Further paths of this machine that the agent has there, beside the session's directories, each at its own path:
    `~/.NAME`, or `~/.NAME:ro` to be read only."""
    network: ContainerNetwork = "default"
    """The network of the container: the engine's `default`, `none`, or `host`, the one of this machine."""
    pull: Pull = "never"
    """Whether the engine fetches an image that is not there: `never` or `missing`."""
    user: ContainerUser = "keep"
    """Whom the agent runs as there: `keep`, who you are here, or `image`, whom the image says."""


class Ssh(Shape, frozen=True, kw_only=True):
    host: str
    """The other machine, as you name it to `ssh`: an alias of ~/.ssh/config, which has all options."""
    directory: str
    """The session's working directory there, an absolute path."""
    python: str = "python3"
    """The Python there, 3.8 or later, which ends what the agent leaves: a name on PATH, or an absolute path."""


class Runtime(Shape, frozen=True, kw_only=True):
    # `rules` ensures that at most one of them is present.
    confined: Annotated[Confined | None, SWITCHED] = None
    """Whether the agent sees nothing of this machine but the session's directories and what it needs to run (Linux,
    with bubblewrap): `true`, or a mapping with more that it may see."""
    container: Container | None = None
    """The agent runs in a container; its MCP servers and their secrets stay on this machine."""
    ssh: Ssh | None = None
    """The agent runs on another machine, reached by ssh; its MCP servers and their secrets stay on this one."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether the agent's program is found in a container or on another machine."""
        return self.container is not None or self.ssh is not None


class Backoff(Shape, frozen=True, kw_only=True):
    initial: Duration = _FIRST_PAUSE
    """The pause before the first restart."""
    max: Duration = _LONGEST_PAUSE
    """The longest pause."""
    factor: Factor = 2
    """How much longer each pause is than the one before it."""


class Restart(Shape, frozen=True, kw_only=True):
    policy: RestartPolicy = "on-failure"
    """When a server that ended is started again: `always`, `on-failure` (not after exit status 0), or `never`."""
    max: Count = 5
    """How many restarts in a row are tried before the server is given up."""
    backoff: Backoff = field(default_factory=Backoff)
    """The pauses between restarts."""
    min_uptime: Duration = _MIN_UPTIME
    """How long a server must run before the count of restarts and the pauses are reset."""


class ServerTimeouts(Shape, frozen=True, kw_only=True):
    start: Duration = _START
    """Longest wait for the server's answer to `initialize`, without the time in which `npx`, `uvx` or another package
    runner downloads it."""
    download: Duration = _DOWNLOAD
    """Longest wait for a package runner to download the server."""
    call: Duration | None = None
    """Longest silence during a call. Default: no limit."""


class Tools(Shape, frozen=True, kw_only=True):
    allow: tuple[str, ...] = ("*",)
    """The tools the agent may see and call, as globs: `*`, `?` and `[...]`. Upper and lower case differ."""
    deny: tuple[str, ...] = ()
    """The tools it may not see or call, even if `allow` matches, as globs."""


class Server(Shape, frozen=True, kw_only=True):
    # What servers of all kinds have.
    required: Truth = True
    """Whether a session needs it; `false` opens the session without it, with a notice."""
    tools: Tools = field(default_factory=Tools)
    """Which of its tools the agent may see and call."""
    roots: Roots = "agent"
    """What answers the server's `roots/list`: `agent` (if it declares no roots and the server asks anyway, acp-launch
    answers), or `session` (the server is told that it may ask for the session's directories)."""
    protocol: ProtocolPin = "auto"
    """The MCP version to use with the server: `auto` finds out, `legacy` is the newest before 2026-07-28, `modern`
    is 2026-07-28; or a version."""
    session_elevation: Elevation = "off"
    """Whether a conversation outlives a lost connection (`session/start`), of the agent and to the server. With `probe`
    the server is asked once whether it can do that, with `on` each time, and a line says if it cannot."""
    start: Start = "eager"
    """When it is started: with the agent (`eager`), or at its first use (`lazy`). Until then its lists are those of its
    last run; before its first run it is started with the agent."""
    idle: Duration | None = None
    """After how long without use it is stopped, until its next use. Default: never; with `share: user` 2m after the
    last launch has left it."""
    share: Shared = False
    """Who uses one process of it, or one connection to it: all sessions of the agent (`launch`, or `true`), or all
    launches of yours with the same server (`user`)."""


class StdioOptions(Server, frozen=True, kw_only=True):
    # What stdio servers have without references, so that plans have it as it is written.
    restart: Restart = field(default_factory=Restart)
    """Whether and when it is started again after it ended."""
    timeouts: ServerTimeouts = field(default_factory=ServerTimeouts)
    """How long to wait for the server."""
    bridge: Truth = True
    """`false` passes the server and its secrets to the agent, which starts it; acp-launch does not supervise it."""


class StdioServer(StdioOptions, frozen=True, kw_only=True):
    command: Template
    """The server's program: a name on PATH, an absolute path, or a path relative to the project."""
    type: Literal["stdio"] = "stdio"
    """Implied by `command`."""
    args: tuple[Template, ...] = ()
    """Its arguments. A secret here is visible to every user of the machine in `ps`."""
    env: Mapping[str, Template] = field(default_factory=dict)
    """Environment variables of the server, over what it inherits."""
    cwd: Template | None = None
    """Its working directory, relative to the project. Default: the session's if the profile is a project's; else an
    empty directory of its own, which is removed with the launch."""
    data: tuple[Template, ...] = ()
    """Paths among its arguments and variables from which it runs nothing: a confined agent may write them, although the
    server has a secret."""
    inherit_env: Annotated[Inherit, INHERIT] = "minimal"
    """What it inherits from the shell: `all`, `minimal`, or a list of names and `PREFIX_*` patterns."""


class RemoteBackoff(Shape, frozen=True, kw_only=True):
    initial: Duration = _FIRST_PAUSE
    """The pause before the first restart."""
    max: Duration = _LONGEST_REMOTE_PAUSE
    """The longest pause, unless the server asks for a longer one."""
    factor: Factor = 2
    """How much longer each pause is than the one before it."""


class RemoteRestart(Shape, frozen=True, kw_only=True):
    policy: RestartPolicy = "on-failure"
    """When a connection that was lost is made again: `always`, `on-failure`, or `never`."""
    max: Limit = None
    """How many attempts in a row are made before the server is given up. Default: no limit once it has answered."""
    backoff: RemoteBackoff = field(default_factory=RemoteBackoff)
    """The pauses between attempts."""
    min_uptime: Duration = _MIN_UPTIME
    """How long a connection must last before the count of attempts and the pauses are reset."""


class RemoteTimeouts(Shape, frozen=True, kw_only=True):
    start: Duration = _START
    """Longest wait for the server's answer to `initialize`."""
    call: Duration | None = None
    """Longest silence during a call. Default: no limit."""


class LoginOptions(Shape, frozen=True, kw_only=True):
    # Without references, as `StdioOptions`.
    scopes: Annotated[tuple[str, ...], LISTED] = ()
    """The scopes to ask for. Default: those that the server names."""
    callback: Literal["127.0.0.1", "localhost"] = "127.0.0.1"
    """The host in the redirect address of a login: `http://HOST:PORT/callback`."""
    callback_port: Port = None
    """The port of this machine at which a login is answered, if the client is registered with it. Default: any."""
    resource: bool = True
    """`false`: a login does not name the server in the parameter `resource`, for an authorization server that refuses
    it, such as Microsoft Entra ID."""


class OAuth(LoginOptions, frozen=True, kw_only=True):
    client_id: Template | None = None
    """The id of a client that you have registered with the authorization server. Default: one that is registered
    for you, or known by `client_metadata_url`."""
    client_secret: Template | None = None
    """The secret of that client: `${secret:NAME}`."""
    issuer: str | None = None
    """The authorization server to log in at, `https://`: no other one gets `client_secret`. Default: the one that the
    server names; a login asks you once whether it may get `client_secret`."""
    client_metadata_url: str | None = None
    """The address of a client id metadata document, `https://`, for authorization servers that accept one."""


class RemoteOptions(Server, frozen=True, kw_only=True):
    # Without references, as `StdioOptions`.
    env_headers: HeaderSpelling = "exact"
    """How the names of the headers of `env` are spelled: `exact`; `dashes`, with `-` for each `_`, as many proxies drop
    headers with `_`; or `off`, and no variable is sent."""
    insecure: Truth = False
    """Whether secrets and variables may be sent unencrypted, to an `http://` address that is not this machine's."""
    restart: RemoteRestart = field(default_factory=RemoteRestart)
    """Whether and when a lost connection is made again."""
    timeouts: RemoteTimeouts = field(default_factory=RemoteTimeouts)
    """How long to wait for the server."""
    bridge: Truth = True
    """`false` passes the address, the headers and their secrets to the agent, which connects to the server itself."""


class RemoteServer(RemoteOptions, frozen=True, kw_only=True):
    type: Literal["http", "sse"]
    """`http` is MCP's streamable HTTP transport, `sse` its older HTTP+SSE transport."""
    url: Template
    """The server's address, `https://` or `http://`."""
    headers: Mapping[str, Template] = field(default_factory=dict)
    """HTTP headers sent with every request."""
    env: Mapping[str, Template] = field(default_factory=dict)
    """Variables for the server: each is sent with every request, as the header `X-Env-NAME`."""
    oauth: Annotated[OAuth | None, SWITCHED] = None
    """Whether the server asks for a login (OAuth), which `acp-launch mcp login PROFILE` does: `true`, or a mapping
    with details. Tokens are kept in your secret store."""

    @property
    def sent(self) -> Mapping[str, Template]:
        """All headers of each request, with those that carry the variables."""
        named = variable_headers(self.env, self.env_headers)
        return {**self.headers, **{header: self.env[name] for name, header in named.items()}}


class HttpServer(RemoteServer, frozen=True, kw_only=True):
    type: Literal["http"]
    """MCP's streamable HTTP transport."""


class SseServer(RemoteServer, frozen=True, kw_only=True):
    type: Literal["sse"]
    """MCP's older HTTP+SSE transport."""


McpServer = StdioServer | HttpServer | SseServer
SERVERS: Mapping[str, type[McpServer]] = {"stdio": StdioServer, "http": HttpServer, "sse": SseServer}


class Servers(dict[str, McpServer]):
    """MCP servers by name. The `type` of each tells its shape, which msgspec does not take from a union."""

    @classmethod
    def from_plain(cls, written: Plain) -> Self:
        """Build the servers; raise ValueError if they do not fit."""
        entries = convert(written, dict[str, Any])
        return cls({name: build(SERVERS[_kind(server)], server) for name, server in entries.items()})

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        return handler(Mapping[str, McpServer])


def _kind(server: Plain) -> str:
    kind = server.get("type", "stdio") if isinstance(server, dict) else None
    return kind if isinstance(kind, str) and kind in SERVERS else "stdio"


class Profile(Shape, frozen=True, kw_only=True):
    version: Literal[1]
    """The version of this format: 1."""
    agent: Agent
    """The coding agent to start."""
    description: str = ""
    """One line for `acp-launch list`."""
    extends: Globs = ()  # empty after the check, when the parents are merged into the profile
    """The profiles that this one extends: a name, a file as `./path`, or a list of them."""
    workspace: Workspace = field(default_factory=Workspace)
    """Where the agent works."""
    session: Session = field(default_factory=Session)
    """The conversation it opens."""
    permissions: Permissions = field(default_factory=Permissions)
    """What the agent may do without asking."""
    client: Client = field(default_factory=Client)
    """What acp-launch does for the agent; nothing by default."""
    runtime: Runtime = field(default_factory=Runtime)
    """Where the agent runs. Default: here, as you."""
    mcp_servers: Servers = field(default_factory=Servers)
    """The MCP servers the agent may use, by name."""

    @property
    def agent_inherits(self) -> Inherit:
        """What the agent inherits from the shell, as the profile says, or by default."""
        said, runtime = self.agent.inherit_env, self.runtime
        return said if said is not None else () if runtime.is_elsewhere else "minimal" if runtime.confined else "all"
