"""
The verbs of `mcp`, for the MCP servers of a profile: `list`, `inspect`, `tools` and `call`, and the logins to remote
ones: `login`, `logout` and `status`. They start no agent.

A verb starts a server as a run would, and ends it afterwards.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from acp_launch.app.planning import loaded_profile
from acp_launch.app.spec import load_settings
from acp_launch.cli.verb import Argument, Directory, Group, Json, Option, ProfileName, TraceFile, Trust, read_duration
from acp_launch.console import servers
from acp_launch.console.stderr import DIM, tell
from acp_launch.document.scalars import Duration
from acp_launch.errors import UsageError
from acp_launch.mcp import client
from acp_launch.mcp.arguments import Given, fit_arguments, read_object, read_words
from acp_launch.mcp.client import SILENCE_TIMEOUT, Limit, survey
from acp_launch.mcp.message import roots_result
from acp_launch.problem import did_you_mean, ours
from acp_launch.profile.model import RemoteServer
from acp_launch.protocol.jsonrpc import request

if TYPE_CHECKING:
    from acp_launch.app.probe import Probe, StartedServer

TOOL_FAILED = 9  # docs/scripting.md "Exit codes"
STDIN = Path("-")
MAX_ARGUMENT_BYTES = 64 * 1024 * 1024  # servers do not take longer lines either
TIMEOUT = "Limit the call's time: 500ms, 30s, 2m; a plain number is seconds."
LOGIN_TIMEOUT = "Limit the time for the browser; 5m by default."

app = Group("The MCP servers of a profile: list, inspect, tools, call, login, logout, status.")

Name = Annotated[str | None, Argument("SERVER", "The server's name in the profile.")]
Verbose = Annotated[bool, Option("--verbose -v", "Show the server's stderr and its log messages.")]


@app.verb("list")
def list_(profile: ProfileName, as_json: Json = False) -> None:
    """List the servers of a profile. Nothing is started."""
    settings = load_settings()
    loaded = loaded_profile(profile, settings)
    declared = loaded.profile.mcp_servers
    logins = {}
    if any(isinstance(server, RemoteServer) for server in declared.values()):
        from acp_launch.app.mcplogin import states

        logins = {each.name: each for each in states(loaded, settings)}
    servers.show_list(declared, logins, as_json=as_json)
    if not loaded.profile.mcp_servers and not as_json:
        tell(f"{loaded.found.name} has no MCP servers", style=DIM)


@app.verb()
def inspect(
    profile: ProfileName,
    name: Name = None,
    as_json: Json = False,
    cwd: Directory = None,
    trust: Trust = False,
    verbose: Verbose = False,
    trace: TraceFile = None,
) -> None:
    """Start a server and show its name, what it offers, what it was given, and its times."""
    from acp_launch.app.probe import probe, with_server

    wanted = probe(profile, name, cwd=cwd, trust=trust, trace=trace)

    async def story(started: "StartedServer") -> None:
        found = await survey(started.connection, started.server, limit=wanted.server.timeouts.start)
        facts = {
            "profile": wanted.plan.profile,
            "name": wanted.server.name,
            "after": started.after,
            "remote": started.remote,
            "era": started.era,
            "hidden": sum(not wanted.policy.allows(tool) for tool in found.tool_names),
            **roots_result(wanted.roots),
        }
        await servers.show_survey(found, facts, wanted.variables, as_json=as_json)

    with_server(wanted, story, verbose=verbose, offers_roots=True)


@app.verb()
def tools(
    profile: ProfileName,
    name: Name = None,
    as_json: Json = False,
    cwd: Directory = None,
    trust: Trust = False,
    verbose: Verbose = False,
    trace: TraceFile = None,
) -> None:
    """List the tools of a server that the profile allows, with their arguments (* is required)."""
    from acp_launch.app.probe import probe, with_server

    wanted = probe(profile, name, cwd=cwd, trust=trust, trace=trace)

    async def story(started: "StartedServer") -> None:
        found = await client.tools(started.connection, started.server, limit=started.limit)
        seen = [tool for tool in found if wanted.policy.allows(tool.name)]
        await servers.show_tools(wanted.server.name, seen, len(found) - len(seen), as_json=as_json)

    with_server(wanted, story, verbose=verbose)


@app.verb()
def call(
    profile: ProfileName,
    name: Name = None,
    tool: Annotated[str | None, Argument("TOOL", "The tool's name.")] = None,
    words: Annotated[
        tuple[str, ...],
        Argument("[ARGUMENTS]...", '\'{"key": "value"}\', or key=value and key:=JSON; - reads JSON from stdin.'),
    ] = (),
    file: Annotated[Path | None, Option("--file -f", "Read the arguments, as JSON, from a file.")] = None,
    as_json: Annotated[bool, Option("--json", "Print the whole result as the server's JSON.")] = False,
    timeout: Annotated[Duration | None, Option("--timeout", TIMEOUT, "DURATION", read_duration)] = None,
    cwd: Directory = None,
    trust: Trust = False,
    verbose: Verbose = False,
    trace: TraceFile = None,
) -> int:
    """Call a tool and print its result."""
    from acp_launch.app.probe import probe, with_server

    given = _read_arguments(words, file)
    wanted = probe(profile, name, cwd=cwd, trust=trust, trace=trace)
    chosen = _check_tool(wanted, tool)
    limit = _limit(wanted, timeout)

    async def story(started: "StartedServer") -> bool:
        known = {
            each.name: each for each in await client.tools(started.connection, started.server, limit=started.limit)
        }
        if chosen not in known:
            called, hint = wanted.server.name, did_you_mean(chosen, list(filter(wanted.policy.allows, known)))
            what = f'the MCP server "{called}" has no tool "{chosen}"{hint}'
            raise UsageError(what, fix=ours("mcp", "tools", wanted.plan.called, called))
        result = await client.call_tool(started.connection, chosen, fit_arguments(given, known[chosen]), limit)
        await servers.show_result(result, as_json=as_json)
        return result.is_error

    return TOOL_FAILED if with_server(wanted, story, verbose=verbose) else 0


@app.verb()
def login(
    profile: ProfileName,
    name: Name = None,
    every: Annotated[bool, Option("--all", "Log in to every server without a valid login.")] = False,
    no_browser: Annotated[
        bool, Option("--no-browser", "Do not open a browser; paste the address of its last page.")
    ] = False,
    timeout: Annotated[Duration | None, Option("--timeout", LOGIN_TIMEOUT, "DURATION", read_duration)] = None,
    trust: Trust = False,
) -> int:
    """Log in to a remote server (OAuth), in the browser."""
    from acp_launch.app.mcplogin import log_in

    return log_in(profile, name, every=every, trust=trust, browser=not no_browser, patience=timeout)


@app.verb()
def logout(
    profile: ProfileName,
    name: Name = None,
    every: Annotated[bool, Option("--all", "Log out of every server that asks for a login.")] = False,
    trust: Trust = False,
) -> None:
    """Log out of a remote server: revoke its tokens, and delete them."""
    from acp_launch.app.mcplogin import log_out

    log_out(profile, name, every=every, trust=trust)


@app.verb()
def status(
    profile: ProfileName,
    name: Name = None,
    every: Annotated[bool, Option("--all", "Show every server that wants a login, as without SERVER.")] = False,
    as_json: Json = False,
) -> None:
    """Show the logins to remote servers, without contacting any."""
    from acp_launch.app.mcplogin import status as show

    show(profile, name, every=every, as_json=as_json)


def _limit(wanted: "Probe", timeout: float | None) -> "Limit":
    if timeout is not None:
        return Limit(timeout, False, "--timeout DURATION")
    knob = f"--timeout DURATION, or mcp_servers.{wanted.server.name}.timeouts.call in the profile"
    return Limit(wanted.server.timeouts.call or SILENCE_TIMEOUT, True, knob)


def _check_tool(wanted: "Probe", tool: str | None) -> str:
    """Return the tool's name.

    Raises:
        UsageError: no tool is given, its name is not UTF-8, or the profile does not allow an agent to call it.
    """
    shown = f"{ours('mcp', 'tools', wanted.plan.called, wanted.server.name)} lists them"
    if tool is None:
        raise UsageError("no tool is given", fix=shown)
    if tool.encode(errors="replace").decode() != tool:
        raise UsageError("the tool's name is not UTF-8", fix=shown)
    if refusal := wanted.policy.refusal(request(0, "tools/call", {"name": tool})):
        raise UsageError(refusal, fix=f"allow it: mcp_servers.{wanted.server.name}.tools in the profile")
    return tool


# The arguments of `call`: words, a file or stdin.


def _read_arguments(words: Sequence[str], file: Path | None) -> Given:
    """Read the arguments.

    Raises:
        UsageError: they cannot be read, or are given twice.
    """
    if tuple(words) == ("-",) and file is None:
        file = STDIN
    elif words and file is not None:
        raise UsageError("the arguments are given twice", fix="give them as words, or with --file")
    if file is None:
        return read_words(words)
    source = "stdin" if file == STDIN else str(file)
    return read_object(_read_text(file, source), f"the arguments in {source}")


def _read_text(file: Path, source: str) -> str:
    """Read at most one byte more than allowed, because a device may have no end."""
    try:
        with sys.stdin.buffer if file == STDIN else file.open("rb") as opened:
            raw = opened.read(MAX_ARGUMENT_BYTES + 1)
        if len(raw) > MAX_ARGUMENT_BYTES:
            raise UsageError(f"the arguments in {source} are more than 64 MiB", fix="name a file of JSON")
        return raw.decode("utf-8-sig")
    except OSError as error:
        what = f"cannot read the arguments from {file}: {error.strerror}"
        raise UsageError(what, fix="name a file of JSON") from None
    except UnicodeDecodeError as error:
        what = f"the arguments in {source} are not UTF-8 (byte {error.start})"
        raise UsageError(what, fix="convert them: iconv -t UTF-8") from None
