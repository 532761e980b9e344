"""The `:` commands of an interactive session, such as `:help`. A prompt that begins with a colon is written `::…`."""

import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from acp_launch.console.permissions import about
from acp_launch.console.sessions import ago
from acp_launch.console.stderr import DIM, QUOTE
from acp_launch.console.stream.text import opened
from acp_launch.errors import LaunchError, UsageError
from acp_launch.interactive.front import Word
from acp_launch.interactive.state import CurrentSession, InteractiveState, Leave, Move, Outcome, is_the_end
from acp_launch.problem import likeliest
from acp_launch.secret.redact import redactor
from acp_launch.session.opening import Setting, fulfil
from acp_launch.session.options import Option, match
from acp_launch.session.permission.policy import Policy
from acp_launch.session.store import Record

# The output of `:sessions`, `:permissions` and `:usage`.


def sessions(records: Sequence[Record], here: str) -> Iterator[str]:
    """Yield a line for each session; the current one is marked."""
    for record in records:
        mark = "*" if record.name == here else " "
        yield f"{mark} {record.name}  {ago(record.last_used, now=time.time())}  {record.title}"


def permissions(policy: Policy) -> Iterator[str]:
    """Yield the policy in the order of its evaluation."""
    if policy.approve:
        yield f"  --approve {policy.approve}"
    for number, rule in enumerate(policy.rules, 1):
        yield f"  {number}. {rule}"
    for kept in policy.kept:
        yield f"  {kept}: {about(kept)}"
    yield f"  default: {policy.default}"


def usage(current: CurrentSession) -> Iterator[str]:
    """Yield the usage that the agent reported for this session and its last turn."""
    told = current.client.state.usage
    if told.used is not None and told.size:
        yield f"  context: {told.used:,} of {told.size:,} tokens ({told.used / told.size:.0%})"
    if told.cost:
        yield f"  cost: {told.cost.amount:.4g} {told.cost.currency}"
    for name, count in ((current.last.usage if current.last else None) or {}).items():
        yield f"  last turn, {name}: {count}"
    yield f"  turns here: {current.turns}"


SIGIL = ":"


class Command(Struct, frozen=True):
    """A command. `in_turn` is whether it works during a turn."""

    run: Callable[[InteractiveState, CurrentSession, str], Awaitable[Outcome | None]]
    hint: str
    meaning: str
    in_turn: bool = True


def is_ours(text: str) -> bool:
    """Return whether a line is a command instead of a prompt."""
    return text.startswith(SIGIL) and not text.startswith(SIGIL * 2)


def prompt_of(text: str) -> str:
    """Return the text to send: `::x` stands for `:x`."""
    return text[1:] if text.startswith(SIGIL * 2) else text


def words() -> tuple[Word, ...]:
    """Return the commands for completion."""
    return tuple(Word(name, command.meaning, command.hint) for name, command in COMMANDS.items())


def found(text: str) -> tuple[Command, str]:
    """Return the command of a line, and the text after its name.

    Raises:
        UsageError: the command is unknown.
    """
    name, _, rest = text.partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        near = likeliest(name, COMMANDS)
        fix = f"did you mean {near}?" if near else ":help lists the commands; ::text sends text that begins with :"
        raise UsageError(f"unknown command {name}", fix=fix)
    return command, rest.strip()


def works_in_turn(text: str) -> bool:
    """Return whether the line can be run during a turn. An unknown command can, since it only reports an error."""
    command = COMMANDS.get(text.partition(" ")[0])
    return command is None or command.in_turn


async def run(interactive: InteractiveState, current: CurrentSession, text: str) -> Outcome | None:
    """Run a command; errors are shown, and the session continues. Return how the session changes, if it does."""
    try:
        interactive.commanded(text)
        command, rest = found(text)
        return await command.run(interactive, current, rest)
    except LaunchError as error:
        if is_the_end(error):
            raise
        interactive.failed(error)
        return None


async def _help(interactive: InteractiveState, current: CurrentSession, rest: str) -> None:
    width = max(len(f"{name} {command.hint}") for name, command in COMMANDS.items())
    for name, command in COMMANDS.items():
        interactive.say(f"  {f'{name} {command.hint}':{width}}  {command.meaning}")
    interactive.say("  /… runs a command of the agent, @path attaches a file, Alt-Enter begins a new line", DIM)


async def _quit(interactive: InteractiveState, current: CurrentSession, rest: str) -> Outcome:
    return Leave(0)


async def _sessions(interactive: InteractiveState, current: CurrentSession, rest: str) -> None:
    for line in sessions(interactive.held_sessions.records(), current.held_session.name):
        interactive.say(line)


async def _switch(interactive: InteractiveState, current: CurrentSession, rest: str) -> Outcome | None:
    if not rest:
        raise UsageError("which session?", fix=":switch NAME; :sessions lists them")
    if rest == current.held_session.name:
        interactive.say(f"already in session {rest}")
        return None
    return Move(interactive.held_sessions.enter(rest, is_new=False))


async def _new(interactive: InteractiveState, current: CurrentSession, rest: str) -> Outcome:
    return Move(interactive.held_sessions.enter(rest, is_new=True) if rest else interactive.held_sessions.fresh())


async def _mode(interactive: InteractiveState, current: CurrentSession, rest: str) -> None:
    option = match(current.client.state.options, "mode")
    if rest:
        await _set_to(interactive, current, "mode", rest)
    elif option is None:
        interactive.say("this agent has no modes")
    else:
        _tell_option(interactive, option)


async def _set(interactive: InteractiveState, current: CurrentSession, rest: str) -> None:
    name, _, value = rest.replace("=", " ", 1).partition(" ")
    options = current.client.state.options
    if value.strip():
        await _set_to(interactive, current, name, value.strip())
    elif name and (option := match(options, name)) is not None:
        _tell_option(interactive, option)
    else:
        for option in options:
            interactive.say(f"{option.id} = {option.shown}  {option.description}", QUOTE)
        if not options:
            interactive.say("this agent has no options")


async def _set_to(interactive: InteractiveState, current: CurrentSession, name: str, value: str) -> None:
    wish = Setting(name, value, f":set {name} {value}")
    client, limit = current.client, interactive.launch.plan.timeouts.session
    told = interactive.output.settings_told
    before, _ = await fulfil(current.connection, client.state, current.ready.session_id, wish, limit=limit)
    client.settled()
    interactive.chosen.append(wish)
    option = match(client.state.options, before.id)
    if interactive.output.settings_told == told:  # else the agent reported the change, and it was shown
        interactive.say(f"{before.name}: {option.shown if option else value}", QUOTE)


def _tell_option(interactive: InteractiveState, option: Option) -> None:
    interactive.say(f"{option.name}: {option.shown}", QUOTE)
    for choice in option.choices:
        mark = "*" if choice.value == option.current else " "
        said = f" {mark} {choice.value}  {choice.name}{f': {choice.description}' if choice.description else ''}"
        interactive.say(said, QUOTE)


async def _servers(interactive: InteractiveState, current: CurrentSession, rest: str) -> None:
    standings = interactive.launch.servers.standings()
    for standing in standings:
        for text, _ in opened([standing]):
            interactive.say(f"  {text.removeprefix('acp-launch: mcp servers: ')}")
    if not standings:
        interactive.say("this profile has no MCP servers that acp-launch runs")


async def _restart(interactive: InteractiveState, current: CurrentSession, rest: str) -> None:
    known = [standing.server for standing in interactive.launch.servers.standings()]
    if not rest:
        raise UsageError("which server?", fix=":restart SERVER; :servers lists them")
    if rest not in known:
        raise UsageError(f'unknown server "{rest}"', fix=f":restart {' | '.join(known) or '(this profile has none)'}")
    interactive.launch.servers.restart(rest)
    interactive.say(f"restarting {rest}")


async def _permissions(interactive: InteractiveState, current: CurrentSession, rest: str) -> None:
    for line in permissions(interactive.launch.needs.services.gate.policy):
        interactive.say(line)


async def _usage(interactive: InteractiveState, current: CurrentSession, rest: str) -> None:
    for line in usage(current):
        interactive.say(line, QUOTE)


async def _export(interactive: InteractiveState, current: CurrentSession, rest: str) -> None:
    if not rest:
        raise UsageError("export to which file?", fix=":export notes.md")
    heading = redactor.text(current.client.title or current.held_session.name)
    path = _written(interactive.here, rest, interactive.output.transcript.markdown(heading))
    interactive.say(f"exported to {path}")


def _written(here: Path, name: str, text: str) -> Path:
    """Write a new file that only the user can read, since it holds the conversation. `name` is relative to `here`."""
    try:
        path = here / Path(name).expanduser()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except RuntimeError:
        raise UsageError(f"cannot resolve ~ in {name}", fix="give a path without ~") from None
    except ValueError:
        raise UsageError("a file name cannot contain a NUL character", fix=":export notes.md") from None
    except OSError as error:
        fix = "name another file" if isinstance(error, FileExistsError) else "name a file in a directory you can write"
        raise UsageError(f"cannot export to {name}: {error.strerror}", fix=fix) from None
    return path


COMMANDS = {
    ":help": Command(_help, "", "list the commands"),
    ":sessions": Command(_sessions, "", "list the sessions of this project and profile"),
    ":switch": Command(_switch, "NAME", "switch to another session", in_turn=False),
    ":new": Command(_new, "[NAME]", "start a new session and switch to it", in_turn=False),
    ":mode": Command(_mode, "[MODE]", "show or set the agent's mode"),
    ":set": Command(_set, "[OPTION VALUE]", "show or set the agent's options"),
    ":servers": Command(_servers, "", "show the state of the MCP servers"),
    ":restart": Command(_restart, "SERVER", "restart an MCP server"),
    ":permissions": Command(_permissions, "", "show the permission rules and your remembered answers"),
    ":usage": Command(_usage, "", "show context, tokens and cost, as the agent reports them"),
    ":export": Command(_export, "FILE", "write this conversation to a Markdown file"),
    ":quit": Command(_quit, "", "end the session; it can be resumed later", in_turn=False),
}
