"""
The export of a profile: its servers, and its agent if the tool starts agents, as entries of another tool. Pure.

`export_entries` converts a profile, `export_whole` makes it one agent that acp-launch runs. A value that the tool
cannot express is left out with a note (`Exported.notes`); a server is left out if its command or address cannot be.
`insert_entries` puts the entries into the tool's file; `standalone_text` writes them on their own.

Secrets are never read here. If the tool takes secrets only from its environment, each secret gets a variable: that of
the server if it is the variable's whole value, else its own name in upper case. `References` records them.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from acp_launch.interop import formats
from acp_launch.interop.read import EDITOR_VARIABLE, Untranslatable
from acp_launch.interop.tools import Dialect, Tool
from acp_launch.profile.keys import server_keys
from acp_launch.profile.leaks import slug
from acp_launch.profile.model import (
    Agent,
    HttpServer,
    McpServer,
    Profile,
    ServerTimeouts,
    SseServer,
    StdioServer,
    Tools,
)
from acp_launch.protocol.splice import visible
from acp_launch.regex import regex
from acp_launch.secret.value import PREFIX, EnvironmentReference, Part, SecretReference, VariableReference, variable
from acp_launch.secret.value import parse as parse_references

_SPECIAL = {  # text that a tool would take for one of its references; see `read` for the dialects
    "none": regex("(?!)"),
    "shell": regex(r"\$\{[A-Za-z_]"),
    "dollar": regex(r"\$\{?[A-Za-z_]"),
    "commands": regex(r"\$[{(A-Za-z_]"),
    "code": regex(rf"\$\{{(?:{EDITOR_VARIABLE})\}}"),
}
_VARIABLES = {
    **dict.fromkeys(("shell", "dollar", "commands"), "${{{}}}"),
    "code": "${{env:{}}}",
}


class ExportContext(Struct, frozen=True):
    """The values of `${project}` and the like, for tools without such references. `is_shared`: the entries go into a
    file of the project, which others use on their machines."""

    project: str
    home: str
    profile: str
    python: str
    is_shared: bool = False


class References:
    """The secrets of one export by their names in the tool: variables, or inputs."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}  # variable → secret
        self.inputs: dict[str, str] = {}  # input → secret
        self._reserved: dict[str, str] = {}

    def reserve(self, text: str, wanted: str) -> None:
        """Reserve the variable `wanted` for a secret that is its whole value."""
        parts = parse_references(text)
        if len(parts) == 1 and isinstance(parts[0], SecretReference):
            self._reserved.setdefault(wanted, parts[0].name)

    def variable(self, secret: str, wanted: str = "") -> str:
        name = _name_secret(self._reserved, wanted or variable(secret).removeprefix(PREFIX), secret)
        self.variables[name] = secret
        return name

    def input(self, secret: str) -> str:
        return _name_secret(self.inputs, slug(secret.replace("/", "-")) or "secret", secret)


def _environment(name: str, default: str | None, tool: Tool, dialect: Dialect) -> str:
    if dialect == "none":
        raise Untranslatable(f"is the variable {name}, and {tool.title} has no references")
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        raise Untranslatable(f"is a variable that {tool.title} cannot name")
    if default is not None and dialect != "shell":
        raise Untranslatable(f"has a default for {name}, and {tool.title} does not support defaults")
    return _VARIABLES[dialect].format(name if default is None else f"{name}:-{default}")


def _place(name: str, tool: Tool, dialect: Dialect, context: ExportContext) -> str:
    name = "project" if name in ("cwd", "workdir") else name
    if name in tool.folders and (context.is_shared or tool.name != "claude"):  # of a user's file it is not known there
        return tool.folders[name]
    if name == "home" and dialect != "none":
        return _VARIABLES[dialect].format("HOME")
    return str(getattr(context, name))


def _name_secret(known: dict[str, str], wanted: str, secret: str) -> str:
    """Choose the name of a secret; a name stands for one secret only."""
    name, number = wanted, 1
    while known.get(name, secret) != secret:
        number += 1
        name = f"{wanted}_{number}"
    known[name] = secret
    return name


_DEFAULT = StdioServer(command="")  # type: ignore[arg-type]
_DEFAULT_REMOTE = HttpServer(type="http", url="")  # type: ignore[arg-type]

Entry = dict[str, Any]
Remote = HttpServer | SseServer


class Exported(Struct, frozen=True):
    """A profile in the tool's format. `variables` and `inputs` are its secrets by their names in the tool."""

    servers: Mapping[str, Entry]
    agents: Mapping[str, Entry]
    notes: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    inputs: Mapping[str, str] = {}


def export_entries(profile: Profile, tool: Tool, context: ExportContext) -> Exported:
    """Convert a profile's servers, and its agent if the tool starts agents."""
    writer = EntryWriter(tool, context, References(), [])
    for server in profile.mcp_servers.values():
        for name, text in server.env.items() if isinstance(server, StdioServer) else ():
            writer.references.reserve(text, name)
    agents = writer.agent(profile.agent) if tool.agents else {}
    runtime = profile.runtime
    if agents and (kind := next((key for key in ("confined", "container", "ssh") if getattr(runtime, key)), "")):
        writer.notes.append(f"{tool.title} starts the agent here, as you: it has no word for runtime.{kind}")
    servers = {}
    for name, server in profile.mcp_servers.items() if tool.servers else ():
        try:
            servers[name] = writer.server(name, server)
        except Untranslatable as why:
            writer.notes.append(f"{name} is left out: it {why}")
    if profile.mcp_servers and not tool.servers:
        writer.notes.append(f"the profile's MCP servers are left out: {tool.title} keeps its own elsewhere")
    return Exported(servers, agents, tuple(writer.notes), writer.references.variables, writer.references.inputs)


def export_whole(name: str, tool: Tool, command: Sequence[str]) -> Exported:
    """Convert a profile into one agent, whose `command` runs all of it: no server and no secret is exported."""
    return Exported({}, {name: _agent_entry(tool, command, {})})


def _agent_entry(tool: Tool, command: Sequence[str], env: Mapping[str, str]) -> Entry:
    if "argv" in tool.keys:
        return {tool.keys["argv"]: list(command)}
    kind = {"type": "custom"} if tool.name == "zed" else {}
    return {**kind, "command": command[0], "args": list(command[1:]), "env": dict(env)}


class EntryWriter(Struct):
    """Writes entries of a profile for one tool, with a note for everything that the tool cannot express."""

    tool: Tool
    context: ExportContext
    references: References
    notes: list[str]

    def text(self, text: str, key: str = "", called: str = "") -> str:
        """Write a text with the tool's references. `key` is its place: `env` or `headers`; `called` is the server's
        variable that has this value.

        Raises:
            Untranslatable: the tool cannot express part of it.
        """
        parts, dialect = parse_references(text), self.tool.dialect_of(key)
        return "".join(self._part(part, dialect, called if len(parts) == 1 else "") for part in parts)

    def _part(self, part: Part, dialect: Dialect, called: str) -> str:
        tool = self.tool
        if isinstance(part, str):
            if _SPECIAL[dialect].search(part):
                raise Untranslatable(f"holds text that {tool.title} would take for a variable")
            return part
        if isinstance(part, VariableReference):
            return _place(part.name, tool, dialect, self.context)
        if isinstance(part, EnvironmentReference):
            return _environment(part.name, part.default, tool, dialect)
        if tool.name == "vscode":
            return f"${{input:{self.references.input(part.name)}}}"
        if dialect == "none":
            raise Untranslatable(f"is a secret ({part.name}), and {tool.title} has no references")
        return _environment(self.references.variable(part.name, called), None, tool, dialect)

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

    def agent(self, agent: Agent) -> dict[str, Entry]:
        title = self.tool.title
        if agent.command is None:
            self.notes.append(f"the agent is left out: {title} has its own way to get {agent.registry}")
            return {}
        try:
            command = [self.path(agent.command, is_program=True), *map(self.text, agent.args)]
        except Untranslatable as why:
            self.notes.append(f"the agent is left out: its command {why}")
            return {}
        self.notes.append(f"{title} starts the agent itself: acp-launch is not in between, and supervises nothing")
        has_env = "argv" not in self.tool.keys
        if agent.env and not has_env:
            self.notes.append(f"agent: env is left out ({', '.join(agent.env)}): {title} gives its agents its own")
        env = self.texts("agent", "env", agent.env) if has_env else {}
        return {self.context.profile: _agent_entry(self.tool, command, env)}

    def server(self, name: str, server: McpServer) -> Entry:
        """Write a server.

        Raises:
            Untranslatable: the tool cannot express its command or its address.
        """
        tool = self.tool
        if server.type not in tool.types:
            raise Untranslatable(f"is a server over {server.type}, which {tool.title} does not take")
        entry: Entry = {**tool.head, **({"name": name} if "name" in tool.head else {})}
        if tool.types[server.type]:
            entry["type"] = tool.types[server.type]
        if isinstance(server, StdioServer):
            entry |= self._program(name, server)
        else:
            entry |= self._remote(name, server)
        default = _DEFAULT if isinstance(server, StdioServer) else _DEFAULT_REMOTE
        ours = server_keys(lambda key: key.is_ours)
        lost = [key for key in ours if getattr(server, key, None) != getattr(default, key, None)]
        entry |= self._timeouts(name, server) | self._tools(name, server)
        if lost:
            self.notes.append(f"{name}: {', '.join(lost)} is left out: only acp-launch does that")
        return entry

    def _program(self, name: str, server: StdioServer) -> Entry:
        command, args = self.path(server.command, is_program=True), [self.text(text) for text in server.args]
        entry: Entry = {"command": command, "args": args, **self._pairs(name, "env", server.env)}
        if server.cwd and "cwd" in self.tool.keys:
            entry["cwd"] = self.path(server.cwd, is_program=False)
        elif server.cwd:
            self._lose(name, "cwd")
        return entry

    def _pairs(self, owner: str, key: str, written: Mapping[str, str]) -> Entry:
        texts = self.texts(owner, key, written)
        if self.tool.name == "acpx":
            return {key: [{"name": name, "value": text} for name, text in texts.items()]}
        return {key: texts} if texts else {}

    def _remote(self, name: str, server: Remote) -> Entry:
        keys = self.tool.keys
        address = keys.get(server.type) or keys.get("url", "url")
        return {address: self.text(server.url), **self._pairs(name, "headers", server.sent)}

    def _timeouts(self, name: str, server: McpServer) -> Entry:
        entry = {}
        for which in server.timeouts.__struct_fields__:
            seconds = getattr(server.timeouts, which)
            if seconds is None or seconds == getattr(ServerTimeouts(), which):
                continue
            if key := self.tool.keys.get(which):
                entry[key] = round(seconds / self.tool.unit)
            else:
                self._lose(name, f"timeouts.{which}")
        return entry

    def _tools(self, name: str, server: McpServer) -> Entry:
        """Write the names of allowed or denied tools. Without its restriction the server would offer more than the user
        wants, so a note names the loss."""
        entry = {}
        for which, globs in asdict(server.tools).items():
            if globs == getattr(Tools(), which):
                continue
            key = self.tool.keys.get(which)
            if key is None or any(re.search(r"[*?\[]", re.sub(r"\[[*?\[]\]", "", glob)) for glob in globs):
                self._lose(name, f"tools.{which}", "patterns" if key else "")
            else:
                entry[key] = [re.sub(r"\[([*?\[])\]", r"\1", glob) for glob in globs]
        return entry

    def _lose(self, name: str, key: str, what: str = "") -> None:
        self.notes.append(f"{name}: {key} is left out: {self.tool.title} has no {what or 'such setting'}")


def holding_paths(found: Exported, own: Sequence[str]) -> tuple[str, ...]:
    """Name the values of an export that hold one of the paths `own`, or a path below it."""
    pattern = re.compile(rf"(?:{'|'.join(re.escape(path) for path in own if path != '/')})(?![\w.-])")

    def names(value: Any, place: str) -> Iterator[str]:
        if isinstance(value, str):
            yield from [place] if pattern.search(value) else ()
        elif isinstance(value, Mapping | list):
            for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
                yield from names(inner, f"{place}.{key}")

    return tuple(name for group in (found.agents, found.servers) for key in group for name in names(group[key], key))


class ExportEntry(Struct, frozen=True):
    """One entry of the tool's file: its key, its name, and how it differs from the present one."""

    holder: str
    name: str
    value: Mapping[str, Any]
    difference: str  # new, same, other


def compare(found: Exported, tool: Tool, root: Any) -> tuple[ExportEntry, ...]:
    """List the entries of an export; `root` is the present content of the tool's file."""
    groups = ((tool.agents, found.agents), (tool.servers, found.servers))
    return tuple(
        ExportEntry(holder, name, value, _difference(root, holder, name, value))
        for holder, entries in groups
        for name, value in entries.items()
    )


def _difference(root: Any, holder: str, name: str, value: Mapping[str, Any]) -> str:
    above = root.get(holder) if isinstance(root, Mapping) else None
    if isinstance(above, list):
        above = {one.get("name"): one for one in above if isinstance(one, Mapping)}
    there: Any = above.get(name) if isinstance(above, Mapping) else None
    if there is None:
        return "new"
    return "same" if isinstance(there, Mapping) and all(there.get(key) == value[key] for key in value) else "other"


def insert_entries(text: str | None, tool: Tool, wanted: Sequence[ExportEntry], inputs: Mapping[str, str]) -> str:
    """Put entries into the text of a tool's file; `text` is None for a new file.

    Raises:
        Misfit: other text would have to change too.
    """
    written = text if text and text.strip() else "{}\n"
    for one in wanted:
        if tool.name == "acpx" and one.holder == tool.servers:
            written = _put_item(written, one.holder, "name", one.value, replaces=True)
        else:
            written = formats.put(written, (one.holder, one.name), one.value)
    for input, secret in (inputs if wanted else {}).items():
        written = _put_item(written, "inputs", "id", _input(input, secret), replaces=False)
    return written


def _put_item(text: str, holder: str, key: str, item: Mapping[str, Any], *, replaces: bool) -> str:
    """Put an item into a list whose items have names under `key`."""
    listed = formats.parse(text)[0].get(holder, [])
    there = listed if isinstance(listed, list) else []
    names = [one.get(key) if isinstance(one, Mapping) else None for one in there]
    if item[key] in names and not replaces:
        return text
    return formats.put(text, (holder, names.index(item[key]) if item[key] in names else len(names)), item)


def _input(id: str, secret: str) -> dict[str, Any]:
    return {"id": id, "type": "promptString", "description": f"the secret {secret}", "password": True}


def standalone_text(found: Exported, tool: Tool) -> str:
    """Write the entries on their own, under their keys, for the user to paste."""
    if tool.syntax == "shell":
        return "".join(_write_toad(name, entry) for name, entry in found.agents.items())
    if tool.syntax in ("lua", "elisp"):
        write = _write_lua if tool.syntax == "lua" else _write_elisp
        return "\n".join(write(name, entry) for name, entry in found.agents.items())
    everything = {tool.agents: found.agents, tool.servers: found.servers}
    shown: dict[str, Any] = {key: value for key, value in everything.items() if key and value}
    if tool.name == "acpx" and found.servers:
        shown[tool.servers] = list(found.servers.values())
    if found.inputs:
        shown["inputs"] = [_input(input, secret) for input, secret in found.inputs.items()]
    return visible(json.dumps(shown, indent=2, ensure_ascii=False)) + "\n"


def _write_toad(name: str, entry: Entry) -> str:
    """Write a command line. Toad gives the agent's own to a shell, so variables go before it; it would show its first
    word as the agent's name."""
    variables = [f"{key}={value}" for key, value in entry["env"].items()]
    command = shlex.join([*(("env", *variables) if variables else ()), entry["command"], *entry["args"]])
    return f"toad acp --title {_quote_for_shell(name)} {_quote_for_shell(command)} .\n"


def _quote_for_shell(text: str) -> str:
    """Quote a text for each POSIX shell. Characters that cannot be seen, but the line break, become octal escapes."""
    pieces = ["".join(run) for _, run in groupby(text, lambda one: one == "\n" or one.isprintable())]
    return "".join(map(_quote_piece, pieces)) or "''"


def _quote_piece(piece: str) -> str:
    if piece.replace("\n", "").isprintable():
        return shlex.quote(piece)
    return "\"$(printf '" + "".join(f"\\{byte:03o}" for byte in piece.encode(errors="surrogateescape")) + "')\""


# CodeCompanion sends `authenticate` to each agent that offers a login, unless its preset has an `auth` handler that
# returns true, as opencode's has. The two others start an agent with PATH and its `env` alone, so that is Neovim's own.
_NEOVIM = """\
-- CodeCompanion
require("codecompanion").setup({
  adapters = {
    acp = {
      [NAME] = function()
        return require("codecompanion.adapters").extend("opencode", {
          name = NAME,
          formatted_name = NAME,
          commands = { default = { COMMAND, ARGS } },
          defaults = { timeout = 120000 }, -- milliseconds
          env = { ENV },
        })
      end,
    },
  },
})

-- avante.nvim
require("avante").setup({
  provider = NAME,
  acp_providers = {
    [NAME] = { command = COMMAND, args = { ARGS }, env = ALL },
  },
})

-- agentic.nvim
require("agentic").setup({
  provider = NAME,
  acp_providers = {
    [NAME] = { name = NAME, command = COMMAND, args = { ARGS }, env = ALL },
  },
})
"""
_EMACS = """\
;; agent-shell
(with-eval-after-load 'agent-shell
  (add-to-list
   'agent-shell-agent-configs
   (agent-shell-make-agent-config
    :identifier (intern NAME)
    :mode-line-name NAME
    :buffer-name NAME
    :shell-prompt (concat NAME "> ")
    :shell-prompt-regexp (regexp-quote (concat NAME "> "))
    :client-maker (lambda (buffer)
                    (acp-make-client
                     :command COMMAND
                     :command-params '(ARGS)
                     :environment-variables '(ENV)
                     :context-buffer buffer)))))
"""


def _write_lua(name: str, entry: Entry) -> str:
    """Write Lua for each of Neovim's plugins that start agents."""
    env = ", ".join(f"[{_quote_lua(key)}] = {_quote_lua(value)}" for key, value in entry["env"].items())
    every = f'vim.tbl_extend("force", vim.fn.environ(), {{ {env} }})' if env else "vim.fn.environ()"
    args = ", ".join(map(_quote_lua, entry["args"]))
    return _fill_template(
        _NEOVIM, NAME=_quote_lua(name), COMMAND=_quote_lua(entry["command"]), ARGS=args, ENV=env, ALL=every
    )


def _write_elisp(name: str, entry: Entry) -> str:
    env = " ".join(_quote_elisp(f"{key}={value}") for key, value in entry["env"].items())
    args = " ".join(map(_quote_elisp, entry["args"]))
    return _fill_template(_EMACS, NAME=_quote_elisp(name), COMMAND=_quote_elisp(entry["command"]), ARGS=args, ENV=env)


def _fill_template(template: str, **values: str) -> str:
    return re.sub(rf"\b(?:{'|'.join(values)})\b", lambda word: values[word[0]], template)


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n"}


def _quote_text(text: str, *, escape: str) -> str:
    shown = (_ESCAPES.get(one) or (one if one.isprintable() else escape.format(ord(one))) for one in text)
    return f'"{"".join(shown)}"'


_quote_lua = partial(_quote_text, escape="\\u{{{:x}}}")  # of LuaJIT
_quote_elisp = partial(_quote_text, escape="\\U{:08x}")
