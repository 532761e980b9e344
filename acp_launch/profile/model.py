"""
What a person may write in a profile, as frozen values (DESIGN §4).

pydantic says what is wrong with one (`check`) and turns it into JSON Schema (`schema`); a profile without mistakes is
built without importing it. The string under a field is its description in `schema.json`. A key that does nothing yet
is not here, so it is refused.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from msgspec import Struct, field

from acp_launch.document.nodes import shorten
from acp_launch.document.scalars import Duration
from acp_launch.document.shape import Shape
from acp_launch.problem import KeyPath
from acp_launch.secret.reference import PATTERN, BadReference, parse

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

# Numbers and truth values of a profile, taken as they stand: YAML's `"5"` is text and `1` is no truth value. Pure.
#
# Used as `Annotated[int, COUNT]`; with `Annotated[tuple[str, ...], LISTED]` a text stands for a list of one. Importing
# this costs nothing; pydantic asks the note for its schema, and only then is it imported. It refuses with a
# `PydanticCustomError` that says what is expected and whose context carries `fix`.


MOST = 100  # of a factor: what is more was meant to be something else


class Scalar(Struct, frozen=True):
    """What one kind of value must be; `accepts` decides, `schema` is the same for editors."""

    expected: str
    fix: str
    accepts: Callable[[Any], bool]
    schema: Mapping[str, Any]

    def take(self, value: Any, build: Callable[[Any], Any]) -> Any:
        """Raises ValueError when it is not accepted."""
        if not self.accepts(value):
            raise ValueError(self.expected)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(self, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        return dict(self.schema)

    def _checked(self, value: Any) -> Any:
        from pydantic_core import PydanticCustomError

        if self.accepts(value):
            return value
        raise PydanticCustomError("bad_scalar", "{expected}", {"expected": self.expected, "fix": self.fix})


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_factor(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= MOST


TRUTH = Scalar("true or false", "write true or false", lambda value: isinstance(value, bool), {"type": "boolean"})
COUNT = Scalar(
    "a whole number from 0 up", "write a number such as 5, or 0 for none", _is_count, {"type": "integer", "minimum": 0}
)
FACTOR = Scalar(
    f"a number from 1 to {MOST}",
    "write a number such as 2, or 1 for equal pauses",
    _is_factor,
    {"type": "number", "minimum": 1, "maximum": MOST},
)
SETTING = Scalar(
    "text, true or false",
    "write text, true or false",
    lambda value: isinstance(value, str | bool),
    {"type": ["string", "boolean"]},
)
FILES = Scalar(
    "true, false or read",
    "write true, false or read",
    lambda value: isinstance(value, bool) or value == "read",
    {"enum": [True, False, "read"]},
)


class Listed:
    """One item may stand for a list of one; an empty list is refused by whoever knows what it would mean."""

    def take(self, value: Any, build: Callable[[Any], Any]) -> Any:
        """Raises ValueError when the list is declined."""
        return build(_listed(value))

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(_listed, handler(source))

    def __get_pydantic_json_schema__(self, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        listed = handler(schema)
        return {"anyOf": [listed["items"], {**listed, "minItems": 1}]}


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


LISTED = Listed()


# A `Template`: text in which references are allowed. Pure.
#
# Importing this costs nothing; pydantic asks the class for its schema, and only then is it imported. It refuses with a
# `PydanticCustomError` whose context carries `message`, `fix` and `offset`.


class Template(str):
    """Text in which references are allowed; one that passed validation parses."""

    __slots__ = ()

    @classmethod
    def take(cls, value: object) -> Self:
        """Raises ValueError when it is not text, BadReference when a reference in it is wrong."""
        if not isinstance(value, str):
            raise ValueError(f"expected text, found {value!r}")
        parse(value)
        return cls(value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(cls._checked, core_schema.str_schema(strict=True))

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        return {"type": "string", "pattern": PATTERN}

    @classmethod
    def _checked(cls, value: str) -> Self:
        from pydantic_core import PydanticCustomError

        try:
            return cls.take(value)
        except BadReference as bad:
            # The message must not be a format string: what the person wrote may hold braces.
            context = {"message": str(bad), "offset": bad.offset, "fix": bad.fix}
            raise PydanticCustomError("bad_reference", "reference", context) from None


Roots = Literal["agent", "session"]
Approval = Literal["ask", "allow", "deny"]
Globs = Annotated[tuple[str, ...], LISTED]
Patterns = Annotated[tuple[Template, ...], LISTED]  # globs in which references are allowed
RestartPolicy = Literal["always", "on-failure", "never"]
_INITIALIZE, _SESSION, _SILENCE = Duration(120), Duration(60), Duration(1800)  # seconds
_FIRST_PAUSE, _LONGEST_PAUSE, _MIN_UPTIME, _START = Duration(0.2), Duration(10), Duration(10), Duration(30)  # seconds


class Timeouts(Shape, frozen=True, kw_only=True):
    initialize: Duration = _INITIALIZE
    """Longest wait for the agent's answer to `initialize`; the first `npx` run downloads packages."""
    session: Duration = _SESSION
    """Longest wait for a session to be opened, loaded, resumed, listed, closed or deleted."""
    silence: Duration = _SILENCE
    """Longest silence within a turn: no update, no request, no answer."""


class Agent(Shape, frozen=True, kw_only=True):
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


class Workspace(Shape, frozen=True, kw_only=True):
    cwd: Template | None = None
    """The session's working directory. Default: the directory acp-launch was started in."""
    additional_directories: tuple[Template, ...] = ()
    """Further directories of the session, for agents that advertise them."""


class Session(Shape, frozen=True, kw_only=True):
    name: str | None = None
    """The named session that `run` opens without `--session`."""
    mode: str | None = None
    """The mode it is put into when it is open, by id; checked against what the agent offers."""
    config: Mapping[str, Annotated[str | bool, SETTING]] = field(default_factory=dict)
    """The agent's config options by id or category, set one after the other when the session is open."""


class Match(Shape, frozen=True, kw_only=True):
    # Every member that is written must match, by one of its globs; upper and lower case differ.
    kind: Globs = ()
    """What kind of call the agent says it is: `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch`,
    `switch_mode` or `other`; or globs. Agents say `fetch` or `switch_mode` of things that are neither."""
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
    # Exactly one of them is written, and is not empty: `permissions` sees to that.
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
    """What to answer about some calls; the first rule that matches decides, and `default` where none does."""


class Client(Shape, frozen=True, kw_only=True):
    fs: Annotated[bool | Literal["read"], FILES] = False
    """Whether the agent may have us read and write files in the session's directories; `read`: only read."""
    terminal: Annotated[bool, TRUTH] = False
    """Whether the agent may have us run commands."""


class Backoff(Shape, frozen=True, kw_only=True):
    initial: Duration = _FIRST_PAUSE
    """The pause before the first restart."""
    max: Duration = _LONGEST_PAUSE
    """The longest pause; not below `initial`."""
    factor: Annotated[float, FACTOR] = 2
    """How much longer each pause is than the one before it."""


class Restart(Shape, frozen=True, kw_only=True):
    policy: RestartPolicy = "on-failure"
    """When a server that ended is started again: `always`, `on-failure` (not after exit status 0), or `never`."""
    max: Annotated[int, COUNT] = 5
    """How many restarts in a row are tried before the server is given up."""
    backoff: Backoff = field(default_factory=Backoff)
    """The pauses between restarts."""
    min_uptime: Duration = _MIN_UPTIME
    """How long a server must have run for the restarts to be counted, and the pauses to begin, anew."""


class ServerTimeouts(Shape, frozen=True, kw_only=True):
    start: Duration = _START
    """Longest wait for the server's answer to `initialize`; the first `npx` or `uvx` run downloads packages."""
    call: Duration | None = None
    """Longest silence during a call. Default: no limit."""


class Tools(Shape, frozen=True, kw_only=True):
    allow: tuple[str, ...] = ("*",)
    """The tools the agent may see and call, as globs: `*`, `?` and `[...]`. Upper and lower case differ."""
    deny: tuple[str, ...] = ()
    """Those it may not, whatever `allow` says, as globs."""


class StdioServer(Shape, frozen=True, kw_only=True):
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
    inherit_env: Literal["all", "minimal"] | tuple[str, ...] = "minimal"
    """What it inherits from the shell: `all`, `minimal`, or a list of names and `PREFIX_*` patterns."""
    required: Annotated[bool, TRUTH] = True
    """Whether a session cannot do without it; `false` opens the session all the same, and says so."""
    restart: Restart = field(default_factory=Restart)
    """Whether and when it is started again after it ended."""
    timeouts: ServerTimeouts = field(default_factory=ServerTimeouts)
    """How long we wait for it, by what is awaited."""
    tools: Tools = field(default_factory=Tools)
    """Which of its tools the agent may see and call."""
    roots: Roots = "agent"
    """Who answers the server's `roots/list`: `agent`, in whose place we answer only if it declares no roots and the
    server asks all the same; or `session`, and the server is told that it may ask for the session's directories."""
    bridge: Annotated[bool, TRUTH] = True
    """`false` hands the server, secrets and all, to the agent, which starts it itself: nothing supervises it."""


class HttpServer(Shape, frozen=True, kw_only=True):
    type: Literal["http"]
    """MCP's streamable HTTP transport."""
    url: Template
    """The server's address, `http://` or `https://`."""
    headers: Mapping[str, Template] = field(default_factory=dict)
    """HTTP headers sent with every request."""
    required: Annotated[bool, TRUTH] = True
    """`false` lets a session open without it when nothing answers at its address."""


class SseServer(Shape, frozen=True, kw_only=True):
    type: Literal["sse"]
    """MCP's older HTTP+SSE transport."""
    url: Template
    """The address of the event stream, `http://` or `https://`."""
    headers: Mapping[str, Template] = field(default_factory=dict)
    """HTTP headers sent with every request."""
    required: Annotated[bool, TRUTH] = True
    """`false` lets a session open without it when nothing answers at its address."""


McpServer = StdioServer | HttpServer | SseServer


class Profile(Shape, frozen=True, kw_only=True):
    version: Literal[1]
    """The version of this format: 1."""
    agent: Agent
    """The coding agent to start."""
    description: str = ""
    """One line for `acp-launch list`."""
    extends: Globs = ()  # none in a profile that was checked: what it extends is part of it by then
    """What this profile lies over: another one by its name, a file as `./path`, or a list of them."""
    workspace: Workspace = field(default_factory=Workspace)
    """Where the agent works."""
    session: Session = field(default_factory=Session)
    """The conversation it opens."""
    permissions: Permissions = field(default_factory=Permissions)
    """What the agent may do without asking."""
    client: Client = field(default_factory=Client)
    """What we do for the agent; nothing unless it is said here."""
    mcp_servers: Mapping[str, McpServer] = field(default_factory=dict)
    """The MCP servers the agent may use, by name."""


# Every text of a checked profile that may hold references, with its path. Pure.


def templates(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Template]]:
    """Depth first, in the order of the model; `value` is a Profile or any part of one, which lies at `path`."""
    if isinstance(value, Template):
        yield path, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from templates(entry, (*path, key))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from templates(item, (*path, index))
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from templates(getattr(value, name), (*path, name))


# What makes a url or a session's name acceptable, asked of a profile and again of what its references became. Pure.


MAX_SESSION_NAME = 200  # characters
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # what a header may not hold; a tab it may
# Headers that belong to a connection or to its protocol, and not to whoever configures one.
HEADER_NAMES = frozenset({"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "upgrade"})
HEADER_NAMES |= {"last-event-id", "proxy-connection", "transfer-encoding"}
HEADER_BEGINNING = "mcp-"  # Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Param-*
CLEAR = "{} would go over the network in the clear: this is http, and another host"  # names of headers
CLEAR_FIX = "write https://, or reach it through a tunnel on localhost"
URL_FIX = "write an address that begins with https:// or http://"
SESSION_NAME_FIX = f"choose a printable name of 1 to {MAX_SESSION_NAME} characters that begins with no dash"


def session_name_fault(name: str) -> str:
    """What is wrong with a session's name; empty when nothing is."""
    if not name.strip():
        return "the session's name is empty"
    if len(name) > MAX_SESSION_NAME:
        return f"the session's name has {len(name)} characters; at most {MAX_SESSION_NAME} are allowed"
    if name.startswith("-"):
        return f'the session\'s name "{shorten(name)}" begins with "-" like an option'
    return "" if name.isprintable() else "the session's name holds characters that cannot be printed"


def url_fault(url: str) -> str:
    """What is wrong with an address, as far as it is known: references in it may still stand for anything."""
    if url.startswith("$") or not url.strip():
        return "" if url.strip() else "the url is empty"
    if re.search(r"[\s\x00-\x1f\x7f]", re.sub(r"\$\{[^}]*\}", "", url)):
        return "the url holds a space or a control character"
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in {"http", "https"}:
        return f'expected an http or https url, found "{shorten(url)}"'
    return "" if rest and rest[0] not in "/?#:" else f'the url "{shorten(url)}" has no host'


def host(url: str) -> str:
    """Who is spoken to, references, name and port included."""
    return re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]


def is_local(url: str) -> bool:
    """Whether what is sent there stays on this machine."""
    name = (urlsplit(url).hostname or "").rstrip(".")
    is_loopback = re.fullmatch(r"127(\.\d+){3}", name) is not None
    return is_loopback or name in ("localhost", "::1") or name.endswith(".localhost")


def is_in_the_clear(url: str) -> bool:
    """Whether others can read on the way what is sent there; `url` is an address as `url_fault` wants it."""
    try:
        return url.lower().startswith("http://") and not is_local(url)
    except ValueError:  # brackets that hold no address; nothing will be sent
        return False


def header_name_fault(name: str) -> str:
    """What is wrong with the name of a header that is one; empty when nothing is."""
    is_taken = name.lower() in HEADER_NAMES or name.lower().startswith(HEADER_BEGINNING)
    return f'whoever connects sets "{name}" itself, for each request' if is_taken else ""


def header_fault(value: str) -> str:
    """What is wrong with a header's value; empty when nothing is."""
    control = CONTROL.search(value)
    return f"a header cannot hold the character U+{ord(control.group()):04X}" if control else ""
