"""
Published agents that speak ACP: how each is started, installed and logged in to. Pure.

The facts come from driving the agents (claude, codex, gemini, opencode, qwen, copilot), or from the ACP registry and
their manuals (the others).
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

# Whether an agent sends the history of a loaded session before its answer to `session/load` or (most of it) after it;
# "" if unknown.
Replay = Literal["before", "after", ""]
PYTHON = "${python}"  # the Python that runs acp-launch


class KnownAgent(Struct, frozen=True, kw_only=True):
    """
    A published agent.

    `install` is a command, or where to get it; `node` is the Node.js that its package wants, as a range of npm.
    `login` says how the user logs in once; `variable` holds a key instead. `timeouts` are written as in a profile;
    `notes` are sentences that every user of the agent should read. `takes` are the kinds of MCP servers that it
    accepts, if known. `replay` says when it sends the history of a session. `state` are the paths of the home that it
    must be able to write, as in `runtime.confined`.
    `is_built_in`: a built-in profile of its name starts it.
    """

    name: str
    title: str
    command: str
    args: tuple[str, ...] = ()
    install: str = ""
    node: str = ""
    login: str = ""
    variable: str = ""
    timeouts: tuple[tuple[str, str], ...] = (("initialize", "60s"),)
    notes: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    replay: Replay = ""
    state: tuple[str, ...] = ()
    is_built_in: bool = False

    @property
    def needs(self) -> tuple[str, ...]:
        """The steps before its first use, a sentence each."""
        key = f"set {self.variable} in your shell: the agent inherits it"
        ways = " or ".join(filter(None, (self.login, key if self.variable else "")))
        return tuple(filter(None, (self.install, f"{ways[0].upper()}{ways[1:]}." if ways else "")))


_AGENTS = (
    KnownAgent(
        name="claude",
        is_built_in=True,
        title="Claude Code",
        command="claude-agent-acp",
        install="npm install -g @agentclientprotocol/claude-agent-acp",
        node=">=22",
        login="log in once with Claude Code,",
        variable="ANTHROPIC_API_KEY",
        replay="before",
        state=("~/.claude",),
    ),
    KnownAgent(
        name="codex",
        is_built_in=True,
        title="Codex",
        command="codex-acp",
        install="npm install -g @agentclientprotocol/codex-acp",
        login="log in once with Codex,",
        variable="OPENAI_API_KEY",
        notes=("In its default mode this agent reviews its own tool calls and asks you nothing.",),
        takes=("stdio", "http"),
        replay="before",
        state=("~/.codex",),
    ),
    KnownAgent(
        name="gemini",
        is_built_in=True,
        title="Gemini CLI",
        command="gemini",
        args=("--acp",),
        install="npm install -g @google/gemini-cli",
        node=">=20",
        login="log in once by starting `gemini`,",
        variable="GEMINI_API_KEY",
        timeouts=(("initialize", "120s"),),
        notes=(
            "Older versions use --experimental-acp instead of --acp.",
            "It starts MCP servers in trusted folders only, and does not say so. To trust every folder you run it in,",
            'add below agent: env: {GEMINI_CLI_TRUST_WORKSPACE: "true"}',
        ),
        replay="after",
        state=("~/.gemini",),
    ),
    KnownAgent(
        name="opencode",
        is_built_in=True,
        title="opencode",
        command="opencode",
        args=("acp",),
        install="npm install -g opencode-ai",
        login="choose a model and log in once with `opencode auth login`",
        timeouts=(("initialize", "120s"), ("session", "120s")),
        notes=("It starts slowly, and waits for its MCP servers.",),
        replay="before",
        state=tuple(f"~/{kind}/opencode" for kind in (".config", ".local/share", ".local/state", ".cache")),
    ),
    KnownAgent(
        name="qwen",
        title="Qwen Code",
        command="qwen",
        args=("--acp",),
        install="npm install -g @qwen-code/qwen-code",
        node=">=22",
        login="log in once by starting `qwen`,",
        variable="OPENAI_API_KEY",
        timeouts=(("initialize", "120s"),),
        notes=("It hands its own key to MCP servers that it starts itself (bridge: false).",),
        replay="before",
        state=("~/.qwen",),
    ),
    KnownAgent(
        name="copilot",
        title="GitHub Copilot CLI",
        command="copilot",
        args=("--acp",),
        install="npm install -g @github/copilot",
        login="log in once with `copilot login`,",
        variable="COPILOT_GITHUB_TOKEN",
        notes=("It takes MCP servers over HTTP only, and gets bridged ones that way (agent.mcp).",),
        takes=("http", "sse"),
        replay="before",
        state=("~/.copilot",),
    ),
    KnownAgent(
        name="goose",
        title="goose",
        command="goose",
        args=("acp",),
        install="https://block.github.io/goose says how to install it",
        login="choose a model and log in once with `goose configure`",
    ),
    KnownAgent(
        name="cursor",
        title="Cursor CLI",
        command="cursor-agent",
        args=("acp",),
        install="https://cursor.com/docs/cli says how to install it",
        login="log in once with `cursor-agent login`,",
        variable="CURSOR_API_KEY",
    ),
    KnownAgent(
        name="kimi",
        title="Kimi CLI",
        command="kimi",
        args=("acp",),
        install="uv tool install kimi-cli",
        login="log in once with `kimi login`",
    ),
    KnownAgent(
        name="cline",
        title="Cline CLI",
        command="cline",
        args=("--acp",),
        install="npm install -g cline",
        login="choose a model and log in once with `cline auth`",
    ),
    KnownAgent(
        name="auggie",
        title="Auggie CLI",
        command="auggie",
        args=("--acp",),
        install="npm install -g @augmentcode/auggie",
        node=">=20",
        login="log in once with `auggie login`",
    ),
    KnownAgent(
        name="demo",
        is_built_in=True,
        title="A scripted agent: no account, no network",
        command=PYTHON,
        args=("-I", "-m", "acp_launch.demo.agent"),
        timeouts=(),
        notes=("It comes with acp-launch; there is nothing to install.",),
    ),
)
AGENTS = {agent.name: agent for agent in _AGENTS}
RUNNERS = ("npx", "bunx", "pnpx")
INSTALLERS = ("npm", "uv")  # programs that install, as opposed to an address that says how
SERVERS = {  # published MCP servers that profiles name by their programs
    **{
        f"mcp-server-{name}": f"npm install -g @modelcontextprotocol/server-{name}"
        for name in ("everything", "filesystem", "github", "memory", "sequential-thinking")
    },
    **{f"mcp-server-{name}": f"uv tool install mcp-server-{name}" for name in ("fetch", "git", "time")},
}


def installer(command: str) -> tuple[str, ...]:
    """Return the command line that installs a program; empty if it is not known, or for a path."""
    words = _install(command).split() if _program(command) == command else []
    return tuple(words) if words[:1] and words[0] in INSTALLERS else ()


def how_to_install(command: str) -> str:
    """Say how to install a program, and which Node.js it needs: a command line, or a sentence; empty if unknown."""
    agent = known(command)
    return f"{agent.install} (needs Node.js {agent.node})" if agent and agent.node else _install(command)


def _install(command: str) -> str:
    agent = known(command)
    return agent.install if agent else SERVERS.get(_program(command), "")


def known(command: str) -> KnownAgent | None:
    """Return the agent that a command starts, given its name or a path to it; None if unknown."""
    program = _program(command)
    return next((agent for agent in AGENTS.values() if agent.command == program), None)


def started(command: str, args: Sequence[str]) -> KnownAgent | None:
    """Return the agent that a command line starts, also through a package runner such as npx; None if unknown."""
    if _program(command) in RUNNERS:
        package = next((arg for arg in args if not arg.startswith("-")), "")
        name = package[:1] + package[1:].partition("@")[0]  # without its version
        return next((agent for agent in AGENTS.values() if name and agent.install.endswith(f" {name}")), None)
    return known(command)


def _program(command: str) -> str:
    return command.replace("\\", "/").rpartition("/")[2].removesuffix(".exe").removesuffix(".cmd")
