"""The `:` commands of an interactive session, such as `:help`. A prompt that begins with a colon is written `::…`."""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from acp_launch.console.draw.live import token_counts
from acp_launch.console.permissions import about
from acp_launch.console.sessions import CHOICE, ago, choice_row, display_name
from acp_launch.console.stderr import DIM, QUOTE
from acp_launch.console.stdout import columns, fit
from acp_launch.console.stream.text import stands
from acp_launch.errors import LaunchError, UsageError
from acp_launch.interactive.picker import PickList, pick
from acp_launch.interactive.state import (
    ActiveSession,
    InteractiveState,
    Leave,
    Move,
    Outcome,
    is_the_end,
    option_values,
)
from acp_launch.interactive.terminal import SIGIL, WORDS, Key, Word, can_draw, is_ours
from acp_launch.private import create
from acp_launch.problem import count, likeliest, ours
from acp_launch.regex import regex
from acp_launch.secret.redact import redactor
from acp_launch.session.hold import is_fresh
from acp_launch.session.opening import Setting, apply_option
from acp_launch.session.options import Option, match
from acp_launch.session.permission.policy import Policy
from acp_launch.session.store import Record

T = TypeVar("T")

# The output of `:sessions`, `:permissions`, `:context` and `?`.


def sessions(records: Sequence[Record], here: str) -> Iterator[str]:
    """Yield a line for each session; the current one is marked."""
    for record in records:
        mark = "*" if record.name == here else " "
        turns = f"  {count(record.turns, 'turn')}" if record.turns else ""
        title = "" if is_fresh(record.name) else record.title
        name = display_name(record.name, record.title)
        yield f"{mark} {name}  {ago(record.last_used, now=time.time())}{turns}  {title}".rstrip()


def permissions(policy: Policy) -> Iterator[str]:
    """Yield the policy in the order of its evaluation."""
    if policy.approve:
        yield f"  --approve {policy.approve}"
    for number, rule in enumerate(policy.rules, 1):
        yield f"  {number}. {rule}"
    for kept in policy.kept:
        yield f"  {kept}: {about(kept)}"
    yield f"  default: {policy.default}"


def context(current: ActiveSession) -> Iterator[str]:
    """Yield what the context is filled with, as far as the agent reports it, the cost, and what was attached."""
    told = current.client.state.usage
    if told.used is not None and told.size:
        yield f"  context: {told.used:,} of {told.size:,} tokens ({told.used / told.size:.0%})"
    else:
        yield "  context: not reported by the agent so far"
    if told.cost:
        yield f"  cost: {told.cost}"
    if last := " · ".join(token_counts((current.last.usage if current.last else None) or {})):
        yield f"  {last} tokens in the last turn"
    yield f"  turns here: {current.turns}"
    for file in current.attached:
        yield f"  attached: {file}"


def details(interactive: InteractiveState, current: ActiveSession) -> Iterator[str]:
    """Yield what the status line has no room for."""
    state, name = current.client.state, current.held_session.name
    titled = f"{name}: {state.title}" if state.title else name
    yield f"  session: {titled} (profile {interactive.launch.plan.profile})"
    yield f"  agent: {current.connection.agent.title or interactive.launch.plan.agent.command.name}"
    for option in filter(None, (match(state.options, "mode"), match(state.options, "model"))):
        yield f"  {option.name.lower()}: {option.shown}"
    yield from islice(context(current), 1)
    if state.usage.cost:
        yield f"  cost: {state.usage.cost}"
    for standing in interactive.launch.servers.standings():
        yield f"  server: {standing.server} {standing.state}"


_UNASKING = regex(r"(?i)bypass|yolo|danger|unrestricted|full.?(access|auto)|(skip|without).?permission")
FIRST = "/ runs a command of the agent, : one of ours, @ attaches a file, ? shows the keys"
KEYBOARD = (
    ("Enter", "send; Alt-Enter or Ctrl-J begins a new line"),
    ("Esc", "close the menu, dismiss the question, or interrupt the turn; twice: edit the last prompt"),
    ("Up, Down, Ctrl-R", "the history of prompts; Up on an empty line takes back a queued prompt"),
    ("Tab", "complete a command or a file"),
    ("Shift-Tab", "the agent's next mode"),
    ("Ctrl-G", "type in your editor ($VISUAL, $EDITOR)"),
    ("Ctrl-O", "unfold the thoughts, long outputs and long changes of this turn"),
    ("Ctrl-C", "clear the line, or interrupt; twice: leave"),
    ("Ctrl-D, exit, :q", "leave; a space before the word exit sends it"),
    ("Ctrl-L, Ctrl-Z", "begin at the top of the screen; stop until fg"),
    ("/ : @ ?", "commands of the agent, ours, a file, this list"),
)
# Other names of commands. Those with a slash are habits from other programs, unless the agent offers them.
ALIASES = {
    **dict.fromkeys((":q", ":q!", ":wq", ":exit", "/exit", "/quit", *WORDS), ":quit"),
    **dict.fromkeys((":clear", "/clear", "/new"), ":new"),
    **dict.fromkeys((":resume", "/resume"), ":switch"),
    **{f"/{name}": f":{name}" for name in ("help", "model", "mode", "sessions")},
    **dict.fromkeys((":cost", ":status", ":usage", "/cost", "/usage"), ":context"),
    **dict.fromkeys((":mcp", ":tools"), ":servers"),
    ":save": ":export",
}
# What else users type after a colon, and what does it.
MEANT = {
    **dict.fromkeys(("abort", "cancel", "kill", "stop"), "Esc interrupts the turn"),
    "compact": "a command of the agent begins with /",
    "history": "in another shell: acp-launch session history NAME",
}
SHELL = "!"
LISTED = 200  # columns of the values of an option in a list of all options
HABIT = 2  # words of a line that may be a habit: a longer one is a prompt


class ColonCommand(Struct, frozen=True):
    """A command. `in_turn` is whether it works during a turn."""

    run: Callable[[InteractiveState, ActiveSession, str], Awaitable[Outcome | None]]
    hint: str
    meaning: str
    in_turn: bool = True


def prompt_of(text: str) -> str:
    """Return the text to send: `::help` stands for `:help`."""
    return text[1:] if text.startswith(SIGIL * 2) else text


def is_for_us(text: str, current: ActiveSession) -> bool:
    """Return whether entered text is a command instead of a prompt, in this session. A space before it sends it."""
    name, *rest = text.split()
    is_habit = text.startswith("/") and name in ALIASES and len(rest) < HABIT
    is_shell = text.startswith(SHELL) and text[1:2].isalpha()
    offered = {f"/{each.name}" for each in current.client.state.commands}
    return is_ours(text) or is_shell or (is_habit and name not in offered)


def words() -> tuple[Word, ...]:
    return tuple(Word(name, command.meaning, command.hint) for name, command in COMMANDS.items())


def find_command(text: str) -> tuple[ColonCommand, str]:
    """Return the command of a line, and the text after its name.

    Raises:
        UsageError: the command is unknown.
    """
    name, command, rest = _split(text)
    if name.startswith(SHELL):
        fix = "with a space before it, it goes to the agent; Ctrl-Z leads to your shell, and fg back"
        raise UsageError(f"{SHELL} runs no command here", fix=fix)
    if command is None:
        near = likeliest(name, COMMANDS)
        usual = f"did you mean {near}?" if near else ":help lists the commands; ::text sends text that begins with :"
        fix = MEANT.get(name.removeprefix(":"), usual)
        raise UsageError(f"unknown command {name}", fix=fix)
    return command, rest


def _split(text: str) -> tuple[str, ColonCommand | None, str]:
    """Return the name at the beginning of a line, its command, and the text after it."""
    name, _, rest = text.strip().partition(" ")
    return name, COMMANDS.get(ALIASES.get(name, name)), rest.strip()


def works_in_turn(text: str) -> bool:
    """Return whether the line can be run during a turn. An unknown command can, since it only reports an error."""
    _, command, _ = _split(text)
    return command is None or command.in_turn


async def run(interactive: InteractiveState, current: ActiveSession, text: str) -> Outcome | None:
    """Run a command; errors are shown, and the session continues. Return how the session changes, if it does."""
    interactive.show_command(text)

    async def work() -> Outcome | None:
        command, rest = find_command(text)
        name, *_ = text.split()
        if not name.startswith(SIGIL):
            interactive.say(f"{name} is {ALIASES[name]} here; with a space before it, it goes to the agent", DIM)
        return await command.run(interactive, current, rest)

    return await _report_errors(interactive, work())


async def press(interactive: InteractiveState, current: ActiveSession, key: Key) -> None:
    """Do what a key stands for; errors are shown, and the session continues."""
    await _report_errors(interactive, KEYS[key](interactive, current))


async def _report_errors(interactive: InteractiveState, work: Awaitable[T]) -> T | None:
    try:
        return await work
    except LaunchError as error:
        if is_the_end(error):
            raise
        interactive.show_error(error)
        return None


async def _help(interactive: InteractiveState, current: ActiveSession, rest: str) -> None:
    named = columns([(f"  {name} {command.hint}", command.meaning) for name, command in COMMANDS.items()])
    interactive.say("\n".join(named))
    interactive.say("  /… runs a command of the agent, @path attaches a file, ? on an empty line shows the keys", DIM)
    interactive.say("  attention in config.yaml sets the bell and the window's title", DIM)


async def _keys(interactive: InteractiveState, current: ActiveSession) -> None:
    interactive.say("\n".join(columns([(f"  {keys}", meaning) for keys, meaning in KEYBOARD])), DIM)
    interactive.say("\n".join(details(interactive, current)), QUOTE)


async def _unfold(interactive: InteractiveState, current: ActiveSession) -> None:
    if not interactive.output.unfold():
        interactive.say("Ctrl-O: nothing is folded", DIM)


async def _quit(interactive: InteractiveState, current: ActiveSession, rest: str) -> Outcome:
    return Leave(0)


async def _sessions(interactive: InteractiveState, current: ActiveSession, rest: str) -> None:
    interactive.say("\n".join(sessions(interactive.held_sessions.records(), current.held_session.name)))


async def _switch(interactive: InteractiveState, current: ActiveSession, rest: str) -> Outcome | None:
    rest = rest or await _picked_session(interactive, current)
    if not rest:
        return None
    if rest == current.held_session.name:
        interactive.say(f"already in session {rest}")
        return None
    return Move(interactive.held_sessions.enter(rest, is_new=False))


async def _picked_session(interactive: InteractiveState, current: ActiveSession) -> str:
    """Let the user choose one of the other sessions; empty if the user leaves without a choice.

    Raises:
        UsageError: there is no list to draw, or no other session.
    """
    others = [each for each in interactive.held_sessions.records() if each.name != current.held_session.name]
    if not others:
        raise UsageError("there is no other session of this profile here", fix=":new starts one")
    if not can_draw():
        interactive.say("\n".join(sessions(others, "")))
        raise UsageError("which session?", fix=":switch NAME")

    rows = [choice_row(record, now=time.time()) for record in others]
    async with interactive.front.suspended():
        number = await pick(PickList(title="Switch to", headings=CHOICE, rows=rows, ends=[0]))
    return "" if number is None else others[number].name


async def _new(interactive: InteractiveState, current: ActiveSession, rest: str) -> Outcome:
    return Move(interactive.held_sessions.enter(rest, is_new=True) if rest else interactive.held_sessions.fresh())


async def _show_or_set(name: str, interactive: InteractiveState, current: ActiveSession, rest: str) -> None:
    option = match(current.client.state.options, name)
    if rest:
        await _set_to(interactive, current, name, rest)
    elif option is None:
        interactive.say(f"this agent has no {name}s to choose from")
    else:
        _tell_option(interactive, option)


async def _next_mode(interactive: InteractiveState, current: ActiveSession) -> None:
    """Set the mode after the current one. The status line shows it, so nothing is said about it."""
    async with interactive.changing:  # each press counts from the mode that the one before has set
        option = match(current.client.state.options, "mode")
        if (value := next_mode(option)) is None:
            interactive.say(f"Shift-Tab: {'no other mode to go to' if option else 'this agent has no modes'}", DIM)
        else:
            await _set_option(interactive, current, "mode", value)


def next_mode(option: Option | None) -> str | None:
    """Return the mode after the current one; None if there is no other.

    A mode in which the agent asks for no permission is left out: no slip of a finger allows everything.
    """
    choices = option.choices if option else ()
    values = [each.value for each in choices if not _UNASKING.search(f"{each.value} {each.name}")]
    if option is None or not (others := [value for value in values if value != option.current]):
        return None
    order = [each.value for each in choices]
    place = order.index(option.current) if option.current in order else -1
    return next((value for value in order[place + 1 :] if value in others), others[0])


async def _set(interactive: InteractiveState, current: ActiveSession, rest: str) -> None:
    name, _, value = rest.replace("=", " ", 1).partition(" ")
    options = current.client.state.options
    if value.strip():
        await _set_to(interactive, current, name, value.strip())
    elif name and (option := match(options, name)) is not None:
        _tell_option(interactive, option)
    else:
        for option in options:
            interactive.say(f"{option.id} = {option.shown}  {option.description}", QUOTE)
            values = " | ".join(each.text for each in option_values(option))
            interactive.say(fit(f"    {values}", LISTED), QUOTE)
        if not options:
            interactive.say("this agent has no options")


async def _set_to(interactive: InteractiveState, current: ActiveSession, name: str, value: str) -> None:
    told = interactive.output.settings_told
    before = await _set_option(interactive, current, name, value)
    option = match(current.client.state.options, before.id)
    if interactive.output.settings_told == told:  # else the agent reported the change, and it was shown
        interactive.say(f"{before.name}: {option.shown if option else value}", QUOTE)


async def _set_option(interactive: InteractiveState, current: ActiveSession, name: str, value: str) -> Option:
    """Set an option, and return it as it was before."""
    wish = Setting(name, value, f":set {name} {value}")
    client, limit = current.client, interactive.launch.plan.timeouts.session
    made = await apply_option(current.connection, client.state, current.session.ready.session_id, wish, limit=limit)
    client.settled()
    interactive.chosen[:] = [*(each for each in interactive.chosen if each.option != name), wish]
    return made.option


def _tell_option(interactive: InteractiveState, option: Option) -> None:
    interactive.say(f"{option.name}: {option.shown}", QUOTE)
    for choice in option.choices:
        mark = "*" if choice.value == option.current else " "
        said = f" {mark} {choice.value}  {choice.name}{f': {choice.description}' if choice.description else ''}"
        interactive.say(said, QUOTE)


async def _servers(interactive: InteractiveState, current: ActiveSession, rest: str) -> None:
    await interactive.launch.servers.refresh()
    standings = interactive.launch.servers.standings()
    for standing in standings:
        interactive.say(f"  {stands(standing)}")
    if not standings:
        interactive.say("this profile has no MCP servers that acp-launch runs")


async def _restart(interactive: InteractiveState, current: ActiveSession, rest: str) -> None:
    known = [standing.server for standing in interactive.launch.servers.standings()]
    _check_server(rest, known, ":restart", f'unknown server "{rest}"', "(this profile has none)")
    interactive.launch.servers.restart(rest)
    interactive.say(f"restarting {rest}")


def _check_server(name: str, known: Sequence[str], command: str, fault: str, none: str) -> None:
    if not name:
        raise UsageError("which server?", fix=f"{command} SERVER; :servers lists them")
    if name not in known:
        raise UsageError(fault, fix=f"{command} {' | '.join(known) or none}")


async def _login(interactive: InteractiveState, current: ActiveSession, rest: str) -> None:
    known = [name for name, each in interactive.launch.context.prepared.credentials.items() if each.is_login]
    none = "(no server of this session wants a login)"
    _check_server(rest, known, ":login", f'no server "{rest}" wants a login', none)
    if not await interactive.log_in(rest):
        interactive.say(f"the login to {rest} was not changed")
        return
    if rest not in [standing.server for standing in interactive.launch.servers.standings()]:
        interactive.say(f"this session was opened without {rest}, and its agent cannot be given another server now")
        interactive.say("to use it, leave with :quit, and come back with the command that is shown then")
        return
    interactive.launch.servers.restart(rest)
    interactive.say(f"restarting {rest}, so that it uses the login")


async def _permissions(interactive: InteractiveState, current: ActiveSession, rest: str) -> None:
    interactive.say("\n".join(permissions(interactive.policy())))


async def _context(interactive: InteractiveState, current: ActiveSession, rest: str) -> None:
    interactive.say("\n".join(context(current)), QUOTE)


async def _export(interactive: InteractiveState, current: ActiveSession, rest: str) -> None:
    if not rest:
        raise UsageError("export to which file?", fix=":export notes.md")
    heading = redactor.text(current.client.title or current.held_session.name)
    path = _write_new(interactive.here, rest, interactive.output.transcript.markdown(heading))
    interactive.say(f"exported to {path}")


def _write_new(here: Path, name: str, text: str) -> Path:
    """Write a new file that only the user can read, since it holds the conversation. `name` is relative to `here`."""
    try:
        path = here / Path(name).expanduser()
        create(path, text.encode(errors="replace"))
    except RuntimeError:
        raise UsageError(f"cannot resolve ~ in {name}", fix="give a path without ~") from None
    except ValueError:
        raise UsageError("a file name cannot contain a NUL character", fix=":export notes.md") from None
    except OSError as error:
        fix = "name another file" if isinstance(error, FileExistsError) else "name a file in a directory you can write"
        raise UsageError(f"cannot export to {name}: {error.strerror}", fix=fix) from None
    return path


async def _detach(interactive: InteractiveState, current: ActiveSession, rest: str) -> Leave:
    await interactive.launch.detach()
    interactive.resume = lambda name: ours("attach", name)
    current.held_session.is_used = True  # it is open in the host, also before its first prompt
    return Leave(0)


async def _take(interactive: InteractiveState, current: ActiveSession, rest: str) -> None:
    await interactive.launch.take()
    interactive.say("questions about this session come here from now on", DIM)


COMMANDS = {
    ":help": ColonCommand(_help, "", "list the commands"),
    ":sessions": ColonCommand(_sessions, "", "list the sessions of this project and profile"),
    ":switch": ColonCommand(_switch, "[NAME]", "switch to another session; without NAME, choose one", in_turn=False),
    ":new": ColonCommand(_new, "[NAME]", "start a new session and switch to it", in_turn=False),
    ":mode": ColonCommand(partial(_show_or_set, "mode"), "[MODE]", "show or set the agent's mode"),
    ":model": ColonCommand(partial(_show_or_set, "model"), "[MODEL]", "show or set the agent's model"),
    ":set": ColonCommand(_set, "[OPTION VALUE]", "show or set the agent's options"),
    ":servers": ColonCommand(_servers, "", "show the state of the MCP servers"),
    ":restart": ColonCommand(_restart, "SERVER", "restart an MCP server"),
    ":login": ColonCommand(_login, "SERVER", "log in to an MCP server, and restart it", in_turn=False),
    ":permissions": ColonCommand(_permissions, "", "show the permission rules and your remembered answers"),
    ":context": ColonCommand(_context, "", "show what fills the context, tokens and cost, as the agent reports them"),
    ":export": ColonCommand(_export, "FILE", "write this conversation to a Markdown file"),
    ":detach": ColonCommand(_detach, "", "leave a session of a host; a running turn goes on"),
    ":take": ColonCommand(_take, "", "take questions here, in a session with several terminals"),
    ":quit": ColonCommand(_quit, "", "end the session; it can be resumed later", in_turn=False),
}

KEYS: Mapping[Key, Callable[[InteractiveState, ActiveSession], Awaitable[None]]] = {
    "modes": _next_mode,
    "keys": _keys,
    "unfold": _unfold,
}
