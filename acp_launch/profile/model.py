"""
What a person may write in a profile, as frozen values (DESIGN §4).

These are plain dataclasses on purpose: pydantic validates them (`check`) and turns them into JSON Schema (`schema`),
but a profile that was checked before can be built without importing it. The string under a field is its
description in `schema.json`. A key that does nothing yet is not here, so it is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from acp_launch.document.duration import Duration
from acp_launch.profile.template import Template
from acp_launch.settings.model import STRICT

Approval = Literal["ask", "allow", "deny"]
_INITIALIZE, _SESSION, _SILENCE = Duration(120), Duration(60), Duration(1800)  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    initialize: Duration = _INITIALIZE
    """Longest wait for the agent's answer to `initialize`; the first `npx` run downloads packages."""
    session: Duration = _SESSION
    """Longest wait for a session to be opened, loaded, resumed, listed, closed or deleted."""
    silence: Duration = _SILENCE
    """Longest silence within a turn: no update, no request, no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    command: Template
    """The program to start: a name on PATH, an absolute path, or a path relative to the project."""
    args: tuple[Template, ...] = ()
    """Its arguments. A secret here is visible to every user of the machine in `ps`."""
    env: Mapping[str, Template] = field(default_factory=dict)
    """Environment variables of the agent, over what it inherits."""
    inherit_env: Literal["all", "minimal"] | tuple[str, ...] = "all"
    """What the agent inherits from the shell: `all`, `minimal`, or a list of names and `PREFIX_*` patterns."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    """How long we wait for the agent, by what is awaited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    cwd: Template | None = None
    """The session's working directory. Default: the directory acp-launch was started in."""
    additional_directories: tuple[Template, ...] = ()
    """Further directories of the session, for agents that advertise them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    name: str | None = None
    """The named session that `run` opens without `--session`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    default: Approval = "ask"
    """What to answer when the agent asks for permission. `ask` without a terminal means deny."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioServer:
    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    command: Template
    """The server's program: a name on PATH, an absolute path, or a path relative to the project."""
    type: Literal["stdio"] = "stdio"
    """Implied by `command`."""
    args: tuple[Template, ...] = ()
    """Its arguments. A secret here is visible to every user of the machine in `ps`."""
    env: Mapping[str, Template] = field(default_factory=dict)
    """Environment variables of the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServer:
    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    type: Literal["http"]
    """MCP's streamable HTTP transport."""
    url: Template
    """The server's address, `http://` or `https://`."""
    headers: Mapping[str, Template] = field(default_factory=dict)
    """HTTP headers sent with every request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SseServer:
    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    type: Literal["sse"]
    """MCP's older HTTP+SSE transport."""
    url: Template
    """The address of the event stream, `http://` or `https://`."""
    headers: Mapping[str, Template] = field(default_factory=dict)
    """HTTP headers sent with every request."""


McpServer = StdioServer | HttpServer | SseServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    version: Literal[1]
    """The version of this format: 1."""
    agent: Agent
    """The coding agent to start."""
    description: str = ""
    """One line for `acp-launch list`."""
    workspace: Workspace = field(default_factory=Workspace)
    """Where the agent works."""
    session: Session = field(default_factory=Session)
    """The conversation it opens."""
    permissions: Permissions = field(default_factory=Permissions)
    """What the agent may do without asking."""
    mcp_servers: Mapping[str, McpServer] = field(default_factory=dict)
    """The MCP servers the agent may use, by name."""
