"""
The export of a profile: its servers, and its agent if the tool starts agents, as entries of another tool. Pure.

`exported` converts a profile, `exported_whole` makes it one agent that acp-launch runs. A value that the tool cannot
express is left out with a note (`Exported.notes`); a server is left out if its command or address cannot be expressed.
`insert_entries` puts the entries into the tool's file; `standalone_text` writes them on their own.

Secrets are never read here. If the tool takes secrets only from its environment, each secret gets a variable: that of
the server if it is the variable's whole value, else its own name in upper case. `References` records them.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from acp_launch.interop import editors, formats
from acp_launch.interop.formats import Misfit
from acp_launch.interop.read import Untranslatable
from acp_launch.interop.tools import Dialect, Tool
from acp_launch.profile.edit import CannotEdit
from acp_launch.profile.edit import put as put_yaml
from acp_launch.profile.leaks import slug
from acp_launch.profile.model import Agent, HttpServer, McpServer, Profile, ServerTimeouts, SseServer, StdioServer
from acp_launch.profile.yamledit import lines
from acp_launch.protocol.written import visible
from acp_launch.regex import regex
from acp_launch.secret.reference import EnvironmentReference, Part, SecretReference, VariableReference, parse
from acp_launch.secret.value import PREFIX, variable

_SPECIAL = {  # text that a tool would take for one of its references; see `read` for the dialects
    "none": regex("(?!)"),
    "shell": regex(r"\$\{[A-Za-z_]"),
    "dollar": regex(r"\$\{?[A-Za-z_]"),
    "code": regex(r"\$\{"),
    "braces": regex(r"\{(?:env|file):"),
}


class ExportContext(Struct, frozen=True):
    """The values of `${project}` and the like, for tools without such references."""

    project: str
    home: str
    profile: str
    python: str


class References:
    """The secrets of one export by their names in the tool: variables, or inputs."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}  # variable → secret
        self.inputs: dict[str, str] = {}  # input → secret
        self._reserved: dict[str, str] = {}

    def reserve(self, text: str, wanted: str) -> None:
        """Reserve the variable `wanted` for a secret that is its whole value."""
        parts = parse(text)
        if len(parts) == 1 and isinstance(parts[0], SecretReference):
            self._reserved.setdefault(wanted, parts[0].name)

    def variable(self, secret: str, wanted: str = "") -> str:
        name = _named(self._reserved, wanted or variable(secret).removeprefix(PREFIX), secret)
        self.variables[name] = secret
        return name

    def input(self, secret: str) -> str:
        return _named(self.inputs, slug(secret.replace("/", "-")) or "secret", secret)


def tool_text(
    text: str, tool: Tool, context: ExportContext, references: References, *, key: str = "", called: str = ""
) -> str:
    """Write a profile's text with the tool's references.

    `key` is its place: `env` or `headers`; `called` is the server's variable that has this value.

    Raises:
        Untranslatable: the tool cannot express part of it.
    """
    parts, dialect = parse(text), tool.dialect_of(key)
    whole = called if len(parts) == 1 else ""
    return "".join(_said(part, tool, dialect, context, references, whole) for part in parts)


def only_variable(text: str, references: References, *, called: str = "") -> str | None:
    """Return the variable that is the whole `text`, for tools that take names of variables; None if there is none."""
    parts = parse(text)
    return _variable(parts, references, called)


def bearer_variable(text: str, references: References) -> str | None:
    """Return the variable in `Bearer …`; None if there is none."""
    head, *rest = parse(text) or ("",)
    return _variable(rest, references, "") if head == "Bearer " else None


def _variable(parts: Sequence[Part], references: References, called: str) -> str | None:
    if len(parts) != 1:
        return None
    if isinstance(parts[0], SecretReference):
        return references.variable(parts[0].name, called)
    if isinstance(parts[0], EnvironmentReference) and parts[0].default is None:
        return parts[0].name
    return None


def _said(part: Part, tool: Tool, dialect: Dialect, context: ExportContext, references: References, called: str) -> str:
    if isinstance(part, str):
        if _SPECIAL[dialect].search(part):
            raise Untranslatable(f"holds text that {tool.title} would take for a variable")
        return part
    if isinstance(part, VariableReference):
        return _place(part.name, dialect, context)
    if isinstance(part, SecretReference):
        if tool.name == "vscode":
            return f"${{input:{references.input(part.name)}}}"
        if dialect == "none":
            raise Untranslatable(f"is a secret ({part.name}), and {tool.title} has no references")
        return _environment(references.variable(part.name, called), None, tool, dialect)
    return _environment(part.name, part.default, tool, dialect)


def _environment(name: str, default: str | None, tool: Tool, dialect: Dialect) -> str:
    if dialect == "none":
        raise Untranslatable(f"is the variable {name}, and {tool.title} has no references")
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        raise Untranslatable(f"is a variable that {tool.title} cannot name")
    if default is not None and dialect != "shell":
        raise Untranslatable(f"has a default for {name}, and {tool.title} does not have defaults")
    if dialect == "code":
        return f"${{env:{name}}}"
    if dialect == "braces":
        return f"{{env:{name}}}"
    return f"${{{name}}}" if default is None else f"${{{name}:-{default}}}"


def _place(name: str, dialect: Dialect, context: ExportContext) -> str:
    own: Mapping[str, Mapping[str, str]] = {
        "code": {"project": "${workspaceFolder}", "cwd": "${workspaceFolder}", "home": "${userHome}"},
        "shell": {"home": "${HOME}"},
        "dollar": {"home": "${HOME}"},
        "braces": {"home": "{env:HOME}"},
    }
    here = {"project": context.project, "cwd": context.project, "home": context.home}
    further = {"profile": context.profile, "python": context.python}
    return own.get(dialect, {}).get(name) or (here | further)[name]


def _named(known: dict[str, str], wanted: str, secret: str) -> str:
    """Choose the name of a secret; a name stands for one secret only."""
    name, number = wanted, 1
    while known.get(name, secret) != secret:
        number += 1
        name = f"{wanted}_{number}"
    known[name] = secret
    return name


# Keys of a server that no other tool has, and of a remote one.
_COMMON = ("restart", "roots", "protocol", "session_elevation", "start", "idle", "share", "bridge")
_OURS = (*_COMMON, "inherit_env")
_OURS_REMOTE = (*_COMMON, "timeouts", "oauth", "insecure")
_DEFAULT = StdioServer(command="")  # type: ignore[arg-type]
_DEFAULT_REMOTE = HttpServer(type="http", url="")  # type: ignore[arg-type]


class EntryWriter(Struct):
    """Writes texts of a profile for one tool, with a note for everything that the tool cannot express."""

    tool: Tool
    context: ExportContext
    references: References
    notes: list[str]

    def text(self, text: str, key: str = "", called: str = "") -> str:
        """Write one text.

        Raises:
            Untranslatable: the tool cannot express part of it.
        """
        return tool_text(text, self.tool, self.context, self.references, key=key, called=called)

    def path(self, text: str, *, is_program: bool) -> str:
        """Write a path that is relative to the project as an absolute one; the name of a program on PATH stays."""
        has_folder = "/" in text or "\\" in text
        if (is_program and not has_folder) or text.startswith(("/", "~", "\\", "$")) or re.match("[A-Za-z]:", text):
            return self.text(text)
        return self.text("${project}/" + text.removeprefix("./"))

    def texts(self, owner: str, key: str, written: Mapping[str, str]) -> dict[str, str]:
        """Write variables or headers; those that cannot be expressed are left out."""
        found = {}
        for name, text in written.items():
            try:
                found[name] = self.text(text, key, name if key == "env" else "")
            except Untranslatable as why:
                self.notes.append(f"{owner}: {key}.{name} is left out: it {why}")
        return found

    def named(self, owner: str, written: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """Split variables for a tool that passes on variables by name: into literals, and names."""
        literals: dict[str, str] = {}
        names = []
        for name, text in written.items():
            variable = only_variable(text, self.references, called=name)
            if variable == name:
                names.append(name)
            elif variable is not None:
                self.notes.append(f"{owner}: env.{name} is left out: {self.tool.title} cannot rename {variable}")
            else:
                literals |= self.texts(owner, "env", {name: text})
        return literals, names

    def mention(self, name: str, server: McpServer) -> None:
        """Note the keys of a server that only acp-launch supports."""
        is_stdio = isinstance(server, StdioServer)
        default: McpServer = _DEFAULT if is_stdio else _DEFAULT_REMOTE
        ours = _OURS if is_stdio else _OURS_REMOTE
        lost = [key for key in ours if getattr(server, key) != getattr(default, key)]
        if lost:
            self.notes.append(f"{name}: {', '.join(lost)} is left out: only acp-launch does that")

    def without_cwd(self, name: str, server: StdioServer) -> None:
        if server.cwd:
            self.notes.append(f"{name}: cwd is left out: {self.tool.title} has no such setting")

    def seconds(self, name: str, server: StdioServer, which: str) -> float | None:
        """Return a timeout in seconds; None if it is the default."""
        found = getattr(server.timeouts, which)
        return None if found is None or found == getattr(ServerTimeouts(), which) else float(found)

    def tools(self, name: str, server: StdioServer, which: str) -> list[str] | None:
        """Return the names of allowed or denied tools; None without a restriction, or, with a note, for patterns."""
        globs: Sequence[str] = getattr(server.tools, which)
        if list(globs) == (["*"] if which == "allow" else []):
            return None
        plain = [re.sub(r"\[([*?\[])\]", r"\1", glob) for glob in globs]
        if any(re.search(r"[*?\[]", re.sub(r"\[[*?\[]\]", "", glob)) for glob in globs):
            self.notes.append(f"{name}: tools.{which} is left out: {self.tool.title} does not have patterns")
            return None
        return plain

    def unrestricted(self, name: str, server: McpServer) -> None:
        """Note a restriction of tools that cannot be expressed."""
        if server.tools != _DEFAULT.tools:
            self.notes.append(f"{name}: tools is left out: {self.tool.title} shows all of them")


def without_empty(**members: Any) -> dict[str, Any]:
    """Return the members that are not empty."""
    return {key: value for key, value in members.items() if value not in (None, "", [], {})}


Entry = dict[str, Any]
Remote = HttpServer | SseServer


class Exported(Struct, frozen=True):
    """A profile in the tool's format. `variables` and `inputs` are its secrets by their names in the tool."""

    servers: Mapping[str, Entry]
    agents: Mapping[str, Entry]
    notes: tuple[str, ...]
    variables: Mapping[str, str]
    inputs: Mapping[str, str]


def exported(profile: Profile, tool: Tool, context: ExportContext) -> Exported:
    """Convert a profile's servers, and its agent if the tool starts agents."""
    writer = EntryWriter(tool, context, References(), [])
    for server in profile.mcp_servers.values():
        for name, text in server.env.items() if isinstance(server, StdioServer) else ():
            writer.references.reserve(text, name)
    agents = _agent(writer, profile.agent) if tool.agents else {}
    servers = dict(_servers(writer, profile.mcp_servers)) if tool.servers else {}
    if profile.mcp_servers and not tool.servers:
        writer.notes.append(f"the profile's MCP servers are left out: {tool.title} keeps its own elsewhere")
    return Exported(servers, agents, tuple(writer.notes), writer.references.variables, writer.references.inputs)


def exported_whole(name: str, tool: Tool, command: Sequence[str]) -> Exported:
    """Convert a profile into one agent, whose `command` runs all of it: no server and no secret is exported."""
    return Exported({}, {name: _agent_entry(tool, command, {})}, (), {}, {})


def _agent(writer: EntryWriter, agent: Agent) -> dict[str, Entry]:
    if agent.command is None:
        writer.notes.append(f"the agent is left out: {writer.tool.title} has its own way to get {agent.registry}")
        return {}
    try:
        command = [writer.path(agent.command, is_program=True), *map(writer.text, agent.args)]
    except Untranslatable as why:
        writer.notes.append(f"the agent is left out: its command {why}")
        return {}
    title = writer.tool.title
    writer.notes.append(f"{title} starts the agent itself: acp-launch is not in between, and supervises nothing")
    if writer.tool.name == "acpx" and agent.env:
        writer.notes.append(f"agent: env is left out ({', '.join(agent.env)}): acpx gives its agents its own")
    env = {} if writer.tool.name == "acpx" else writer.texts("agent", "env", agent.env)
    return {writer.context.profile: _agent_entry(writer.tool, command, env)}


def _agent_entry(tool: Tool, command: Sequence[str], env: Mapping[str, str]) -> Entry:
    if tool.name == "acpx":
        return {"argv": list(command)}
    kind = {"type": "custom"} if tool.name == "zed" else {}
    return {**kind, "command": command[0], "args": list(command[1:]), "env": dict(env)}


def _servers(writer: EntryWriter, servers: Mapping[str, McpServer]) -> Iterator[tuple[str, Entry]]:
    for name, server in servers.items():
        try:
            if isinstance(server, StdioServer):
                entry = _PROGRAMS.get(writer.tool.name, _program)(writer, name, server)
            else:
                entry = _REMOTES.get(writer.tool.name, _remote)(writer, name, server)
                writer.unrestricted(name, server)
            writer.mention(name, server)
        except Untranslatable as why:
            writer.notes.append(f"{name} is left out: it {why}")
        else:
            yield name, entry


def _started(writer: EntryWriter, server: StdioServer) -> Entry:
    command = writer.path(server.command, is_program=True)
    return {"command": command, "args": [writer.text(text) for text in server.args]}


def _cwd(writer: EntryWriter, server: StdioServer) -> str:
    return writer.path(server.cwd, is_program=False) if server.cwd else ""


def _program(writer: EntryWriter, name: str, server: StdioServer) -> Entry:
    """Write a program for Claude Desktop, Claude Code or Zed: the most common format."""
    kinds = {"claude": {"type": "stdio"}, "zed": {"source": "custom"}}
    writer.without_cwd(name, server)
    writer.unrestricted(name, server)
    call = writer.seconds(name, server, "call") if writer.tool.name == "claude" else None
    more = without_empty(env=writer.texts(name, "env", server.env), timeout=call and round(call * 1000))
    return {**kinds.get(writer.tool.name, {}), **_started(writer, server), **more}


def _program_of_an_editor(writer: EntryWriter, name: str, server: StdioServer) -> Entry:
    kind = {"type": "stdio"} if writer.tool.name == "vscode" else {}
    writer.unrestricted(name, server)
    more = without_empty(env=writer.texts(name, "env", server.env), cwd=_cwd(writer, server))
    return {**kind, **_started(writer, server), **more}


def _gemini_program(writer: EntryWriter, name: str, server: StdioServer) -> Entry:
    call = writer.seconds(name, server, "call")
    more = without_empty(
        env=writer.texts(name, "env", server.env),
        cwd=_cwd(writer, server),
        timeout=call and round(call * 1000),
        includeTools=writer.tools(name, server, "allow"),
        excludeTools=writer.tools(name, server, "deny"),
    )
    return {**_started(writer, server), **more}


def _codex_program(writer: EntryWriter, name: str, server: StdioServer) -> Entry:
    literals, names = writer.named(name, server.env)
    more = without_empty(
        env=literals,
        env_vars=names,
        cwd=_cwd(writer, server),
        startup_timeout_sec=writer.seconds(name, server, "start"),
        tool_timeout_sec=writer.seconds(name, server, "call"),
        enabled_tools=writer.tools(name, server, "allow"),
        disabled_tools=writer.tools(name, server, "deny"),
        required=None if server.required else False,
    )
    return {**_started(writer, server), **more}


def _opencode_program(writer: EntryWriter, name: str, server: StdioServer) -> Entry:
    started = _started(writer, server)
    writer.without_cwd(name, server)
    writer.unrestricted(name, server)
    start = writer.seconds(name, server, "start")
    more = without_empty(environment=writer.texts(name, "env", server.env), timeout=start and round(start * 1000))
    return {"type": "local", "command": [started["command"], *started["args"]], "enabled": True, **more}


def _goose_program(writer: EntryWriter, name: str, server: StdioServer) -> Entry:
    started = _started(writer, server)
    literals, names = writer.named(name, server.env)
    writer.without_cwd(name, server)
    call = writer.seconds(name, server, "call")
    more = without_empty(timeout=call and round(call), available_tools=writer.tools(name, server, "allow"))
    if server.tools.deny:
        writer.notes.append(f"{name}: tools.deny is left out: goose can only be told which tools are allowed")
    head = {"enabled": True, "type": "stdio", "name": name, "description": ""}
    return {**head, "cmd": started["command"], "args": started["args"], "envs": literals, "env_keys": names, **more}


def _acpx_program(writer: EntryWriter, name: str, server: StdioServer) -> Entry:
    writer.without_cwd(name, server)
    writer.unrestricted(name, server)
    return {"name": name, **_started(writer, server), "env": _pairs(writer.texts(name, "env", server.env))}


def _remote(writer: EntryWriter, name: str, server: Remote) -> Entry:
    """Write a remote server for Claude Code, VS Code, Cursor or Zed."""
    kinds: dict[str, Entry] = {"zed": {"source": "custom"}}
    kinds |= {tool: {"type": server.type} for tool in ("claude", "vscode")}
    headers = writer.texts(name, "headers", server.sent)
    return {**kinds.get(writer.tool.name, {}), "url": writer.text(server.url), **without_empty(headers=headers)}


def _no_remote(writer: EntryWriter, name: str, server: Remote) -> Entry:
    raise Untranslatable(f"has a url, and {writer.tool.title}'s file takes programs only")


def _gemini_remote(writer: EntryWriter, name: str, server: Remote) -> Entry:
    headers = without_empty(headers=writer.texts(name, "headers", server.sent))
    return {"httpUrl" if server.type == "http" else "url": writer.text(server.url), **headers}


def _codex_remote(writer: EntryWriter, name: str, server: Remote) -> Entry:
    if server.type == "sse":
        raise Untranslatable("speaks SSE, which Codex does not")
    literals, from_env, bearer = dict[str, str](), dict[str, str](), ""
    for header, text in server.sent.items():
        if header.lower() == "authorization" and (variable := bearer_variable(text, writer.references)):
            bearer = variable
        elif variable := only_variable(text, writer.references):
            from_env[header] = variable
        else:
            literals |= writer.texts(name, "headers", {header: text})
    more = without_empty(
        bearer_token_env_var=bearer,
        http_headers=literals,
        env_http_headers=from_env,
        required=None if server.required else False,
    )
    return {"url": writer.text(server.url), **more}


def _opencode_remote(writer: EntryWriter, name: str, server: Remote) -> Entry:
    headers = without_empty(headers=writer.texts(name, "headers", server.sent))
    return {"type": "remote", "url": writer.text(server.url), "enabled": True, **headers}


def _goose_remote(writer: EntryWriter, name: str, server: Remote) -> Entry:
    headers = writer.texts(name, "headers", server.sent)
    keys = [variable for variable in writer.references.variables if f"${{{variable}}}" in "".join(headers.values())]
    kind = "streamable_http" if server.type == "http" else "sse"
    head = {"enabled": True, "type": kind, "name": name, "description": "", "uri": writer.text(server.url)}
    return {**head, "headers": headers, "envs": {}, "env_keys": keys}


def _acpx_remote(writer: EntryWriter, name: str, server: Remote) -> Entry:
    headers = _pairs(writer.texts(name, "headers", server.sent))
    return {"name": name, "type": server.type, "url": writer.text(server.url), "headers": headers}


def _pairs(texts: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": text} for name, text in texts.items()]


_PROGRAMS: Mapping[str, Callable[[EntryWriter, str, StdioServer], Entry]] = {
    "vscode": _program_of_an_editor,
    "cursor": _program_of_an_editor,
    "gemini": _gemini_program,
    "codex": _codex_program,
    "opencode": _opencode_program,
    "goose": _goose_program,
    "acpx": _acpx_program,
}
_REMOTES: Mapping[str, Callable[[EntryWriter, str, Remote], Entry]] = {
    "claude-desktop": _no_remote,
    "gemini": _gemini_remote,
    "codex": _codex_remote,
    "opencode": _opencode_remote,
    "goose": _goose_remote,
    "acpx": _acpx_remote,
}


_BEGIN = {"json": "{}\n", "toml": "", "yaml": "extensions: {}\n"}


class ExportEntry(Struct, frozen=True):
    """One entry of the tool's file: its key, its name, and how it differs from the present one."""

    holder: str
    name: str
    value: Mapping[str, Any]
    difference: str  # new, same, other


def pieces(found: Exported, tool: Tool, root: Any) -> tuple[ExportEntry, ...]:
    """List the entries of an export; `root` is the present content of the tool's file."""
    groups = ((tool.agents, found.agents), (tool.servers, found.servers))
    return tuple(
        ExportEntry(holder, name, value, _difference(root, holder, name, value))
        for holder, entries in groups
        for name, value in entries.items()
    )


def insert_entries(text: str | None, tool: Tool, wanted: tuple[ExportEntry, ...], inputs: Mapping[str, str]) -> str:
    """Put entries into the text of a tool's file; `text` is None for a new file.

    Raises:
        Misfit: a value of another type is in the way.
    """
    written = text if text and text.strip() else _BEGIN[tool.syntax]
    for piece in wanted:
        written = _put(written, tool, piece)
    for input, secret in (inputs if wanted else {}).items():
        if not any(isinstance(one, Mapping) and one.get("id") == input for one in _inputs(written)):
            written = formats.add(written, ("inputs",), _input(input, secret))
    return written


def standalone_text(found: Exported, tool: Tool) -> str:
    """Write the entries on their own, under their keys, for the user to paste."""
    if tool.syntax in ("shell", "lua"):
        return editors.toad(found.agents) if tool.syntax == "shell" else editors.neovim(found.agents)
    everything = {tool.agents: found.agents, tool.servers: found.servers}
    shown: dict[str, Any] = {key: value for key, value in everything.items() if key and value}
    if tool.syntax == "toml":
        tables = (formats.put_table("", tool.servers, name, value) for name, value in found.servers.items())
        return "\n".join(tables)
    if tool.syntax == "yaml":
        return "".join(f"{line}\n" for key, value in shown.items() for line in lines(key, value, column=0, level=1))
    if tool.name == "acpx" and found.servers:
        shown[tool.servers] = list(found.servers.values())
    if found.inputs:
        shown["inputs"] = [_input(input, secret) for input, secret in found.inputs.items()]
    return visible(json.dumps(shown, indent=2, ensure_ascii=False)) + "\n"


def _difference(root: Any, holder: str, name: str, value: Mapping[str, Any]) -> str:
    above = root.get(holder) if isinstance(root, Mapping) else None
    if isinstance(above, list):
        above = {one.get("name"): one for one in above if isinstance(one, Mapping)}
    there: Any = above.get(name) if isinstance(above, Mapping) else None
    if there is None:
        return "new"
    return "same" if isinstance(there, Mapping) and all(there.get(key) == value[key] for key in value) else "other"


def _put(text: str, tool: Tool, piece: ExportEntry) -> str:
    """Put one entry. Each format's module checks that nothing else changes; for JSON this function does."""
    if tool.syntax == "toml":
        return formats.put_table(text, piece.holder, piece.name, piece.value)
    if tool.syntax == "yaml":
        try:
            return put_yaml(text, (piece.holder, piece.name), piece.value)
        except CannotEdit as cannot:
            raise Misfit(cannot.message) from None
    if tool.name == "acpx" and piece.holder == tool.servers:
        return formats.add(text, (piece.holder,), piece.value, instead=_index(text, piece))
    written = formats.put(text, (piece.holder, piece.name), piece.value)
    before, after = formats.parse(text).root, formats.parse(written).root
    before.setdefault(piece.holder, {})[piece.name] = piece.value
    if before != after:
        raise Misfit("members that come once")
    return written


def _index(text: str, piece: ExportEntry) -> int | None:
    listed = formats.parse(text).root.get(piece.holder)
    names = (
        [one.get("name") if isinstance(one, Mapping) else None for one in listed] if isinstance(listed, list) else []
    )
    return names.index(piece.name) if piece.name in names else None


def _inputs(text: str) -> Iterator[Any]:
    listed = formats.parse(text).root.get("inputs")
    return iter(listed if isinstance(listed, list) else [])


def _input(id: str, secret: str) -> dict[str, Any]:
    return {"id": id, "type": "promptString", "description": f"the secret {secret}", "password": True}
