"""
`terminal/create`, `output`, `wait_for_exit`, `kill` and `release` (ACP v1 "terminals", C-71 to C-73).

A command's output goes to the agent with known secrets hidden: no command needs them shown, and agents must not see
them. The owner of a `Terminals` must close it, so that no command outlives the session.
"""

import asyncio
import os
import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from acp_launch.errors import LaunchError
from acp_launch.plan.executable import CannotRun, find
from acp_launch.plan.model import Place
from acp_launch.plan.place import enclose, find_inside, shows
from acp_launch.process.child import wait_shielded
from acp_launch.process.terminal import Terminal
from acp_launch.process.tree import Exit
from acp_launch.protocol import jsonrpc
from acp_launch.regex import regex
from acp_launch.session.events import Refusal, Services, TerminalEvent, invalid, missing
from acp_launch.session.files import Allowed, whole_number

# ruff: noqa: PTH112, PTH113 - methods of Path raise for a name that is too long
# What `terminal/create` asks us to run: its params become an argv, an environment and a directory.
#
# The schema calls `command` a program, but agents also put a whole shell line there without `args`. A text that is not
# a program, and would mean something to a shell, is given to /bin/sh. The directory need not be one of the session's: a
# command can change its directory anyway, so we could not keep that promise. It is shown to the user who decides.
#
# A confined agent is told only of paths in its place: others are missing.


DEFAULT_OUTPUT_BYTES = 1024 * 1024  # if the agent names no limit
MAX_OUTPUT_BYTES = 8 * 1024 * 1024  # whatever the agent names
UINT64 = 2**64 - 1
_SHELL = regex(r"[\s|&;<>()$`\\\"'*?\[\]#~=%!{}]")
# Variables that do not change what a program does. The others are shown to the user who decides.
_HARMLESS = regex(r"CI|CLAUDECODE|COLORTERM|COLUMNS|FORCE_COLOR|LANG|LC_[A-Z]+|LINES|NO_COLOR|TERM|TZ")


class Command(Struct, frozen=True):
    """A command to run. `said` is the agent's request, after its variables that may change the effect."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    said: str
    args: tuple[str, ...]
    limit: int  # bytes of output

    @property
    def line(self) -> str:
        """Return the line as a user would type it."""
        return " ".join([self.said, *map(shlex.quote, self.args)])

    def tool_call(self) -> dict[str, Any]:
        """Return the tool call to ask about before it runs."""
        args = {"args": list(self.args)} if self.args else {}
        raw = {"command": self.said, **args, "cwd": str(self.cwd)}
        return {"kind": "execute", "title": self.line, "rawInput": raw}


def command(params: dict[str, Any], *, cwd: Path, env: Mapping[str, str], place: Place | None = None) -> Command:
    """Read the params. `cwd` is the default directory; `env` is the environment before the agent's own variables. The
    command runs in the `place` of the agent, if that has one.

    Raises:
        Refusal: the params are wrong, or there is no such program or directory.
    """
    program, words = _word(params.get("command"), "command"), _command_words(params)
    own = _variables(params)
    directory = _directory(params, cwd, place)
    whole = {**env, **own}
    if place is None:
        found = find(program, project=directory, path=whole.get("PATH"))
    else:
        found = _find_inside(program, directory, whole.get("PATH", os.defpath), place)
    argv, typed = _argv(program, words, found)
    if place is not None:
        argv, whole = enclose(argv, whole, directory, place)
    told = [f"{name}={shlex.quote(value)}" for name, value in own.items() if not _HARMLESS.fullmatch(name)]
    return Command(argv, whole, directory, " ".join([*told, typed]), tuple(words), _limit(params))


def _find_inside(program: str, cwd: Path, path: str, place: Place) -> Path | CannotRun:
    """Find a program as a process in this place does: what that does not see is not looked at."""
    folders = [cwd] if "/" in program else [Path(each) for each in path.split(os.pathsep) if each.startswith("/")]
    for folder in folders:
        there = find_inside(place, folder / program)
        if there is not None and shows(place, there) and os.path.isfile(there) and os.access(there, os.X_OK):
            return folder / program
    return CannotRun(f'the agent does not see a program "{program}"', "install it where the agent sees it")


def _argv(program: str, words: list[str], found: Path | CannotRun) -> tuple[tuple[str, ...], str]:
    """Return what to start, and how its first word would be typed."""
    if not isinstance(found, CannotRun):
        return (str(found), *words), shlex.quote(program)
    if not words and _SHELL.search(program):
        return ("/bin/sh", "-c", program), program
    raise missing(f"cannot run it: {found.message}; {found.fix}")


def _directory(params: dict[str, Any], default: Path, place: Place | None) -> Path:
    value = params.get("cwd")
    if value is None:
        return default
    directory = Path(_word(value, "cwd"))
    if not directory.is_absolute():
        raise invalid(f'"cwd" must be absolute, not "{directory}"')
    there: Path | None = directory
    if place is not None:
        there = find_inside(place, directory)
    if there is None or not os.path.isdir(there):
        raise missing(f'there is no directory "{directory}"', {"path": str(directory)})
    return directory


def _command_words(params: dict[str, Any]) -> list[str]:
    value = params.get("args")
    if value is None:
        return []
    if not isinstance(value, list):
        raise invalid('"args" must be a list of strings')
    return [_word(word, "args", may_be_empty=True) for word in value]


def _variables(params: dict[str, Any]) -> dict[str, str]:
    value = params.get("env")
    if value is None:
        return {}
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise invalid('"env" must be a list of objects with "name" and "value"')
    named = [(_word(entry.get("name"), "env"), _word(entry.get("value"), "env", may_be_empty=True)) for entry in value]
    if odd := next((name for name, _ in named if "=" in name), None):
        raise invalid(f'"env": "{odd}" is not a valid name for a variable')
    return dict(named)


def _word(value: object, name: str, *, may_be_empty: bool = False) -> str:
    """Return text that can be given to a program."""
    if not isinstance(value, str) or not (value or may_be_empty):
        raise invalid(f'"{name}": expected {"" if may_be_empty else "some "}text')
    if "\0" in value:
        raise invalid(f'"{name}" holds a NUL character')
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise invalid(f'"{name}" holds half a surrogate pair, which is not valid text') from None
    return value


def _limit(params: dict[str, Any]) -> int:
    value = whole_number(params, "outputByteLimit", least=0, most=UINT64)
    return DEFAULT_OUTPUT_BYTES if value is None else min(value, MAX_OUTPUT_BYTES)


MAX_TERMINALS = 64  # that were not released; an agent that needs more has forgotten some

Tell = Callable[[TerminalEvent], None]


class Terminals:
    def __init__(
        self, cwd: Path, env: Mapping[str, str], *, allowed: Allowed, tell: Tell, place: Place | None = None
    ) -> None:
        """Serve terminals.

        `cwd` and `env` are the defaults for a command. `tell` gets a command's output, at most 20 times a second.
        `place` is a confined agent's.
        """
        self._cwd, self._env, self._place = cwd, env, place
        self._allowed, self._tell = allowed, tell
        self._count = 0
        self._known: dict[str, Terminal] = {}  # by the id that the agent may use
        self._leaving: set[Terminal] = set()  # released, and perhaps not ended yet
        self._is_closed = False

    def services(self) -> Services:
        return {
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait_for_exit,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }

    async def close(self, hurry: asyncio.Event | None = None) -> None:
        """End every command with all it started, at the same time, and start no more; bounded as `Terminal.end` is.

        Completed even if the caller is cancelled, but then, or once `hurry` is set, without any grace.
        """
        self._is_closed = True
        living = [*self._known.values(), *self._leaving]
        self._known.clear()
        try:
            hastening = asyncio.create_task(_hasten(living, hurry or asyncio.Event()))
            try:
                ending = [asyncio.create_task(terminal.end()) for terminal in living]
                await wait_shielded(*ending, cancelling=lambda: _hasten_now(living))
            finally:
                hastening.cancel()
        finally:
            for terminal in living:
                terminal.drop()

    async def _create(self, params: dict[str, Any]) -> object:
        wanted = command(params, cwd=self._cwd, env=self._env, place=self._place)
        self._check_room()
        if reason := await self._allowed(wanted.tool_call()):
            raise self._refuse(wanted, Refusal(jsonrpc.INTERNAL_ERROR, reason))
        self._check_room()
        return {"terminalId": self._start(wanted)}

    def _start(self, wanted: Command) -> str:
        self._count += 1
        id = f"terminal-{self._count}"

        def tell(output: str = "", exit: Exit | None = None) -> None:
            ending = None if exit is None else _words(exit)
            step = TerminalEvent(terminal_id=id, command=wanted.line, cwd=str(wanted.cwd), output=output, exit=ending)
            self._tell(step)

        try:
            terminal = Terminal(
                wanted.argv,
                env=wanted.env,
                cwd=wanted.cwd,
                name=id,
                limit=wanted.limit,
                is_boxed=self._place is not None,
                said=tell,
                ended=lambda exit: tell(exit=exit),
            )
        except LaunchError as error:
            reason = "; ".join(filter(None, (error.message, error.fix)))
            raise self._refuse(wanted, Refusal(jsonrpc.INTERNAL_ERROR, reason)) from None
        self._known[id] = terminal
        tell()
        return id

    async def _output(self, params: dict[str, Any]) -> object:
        terminal = self._find(params)
        text, is_cut = terminal.output()
        so_far = {"output": text, "truncated": is_cut}
        return so_far if terminal.exit is None else {**so_far, "exitStatus": _status(terminal.exit)}

    async def _wait_for_exit(self, params: dict[str, Any]) -> object:
        return _status(await self._find(params).wait())

    async def _kill(self, params: dict[str, Any]) -> object:
        await self._find(params).end()
        return {}

    async def _release(self, params: dict[str, Any]) -> object:
        terminal = self._find(params)
        del self._known[params["terminalId"]]
        self._leaving = {other for other in self._leaving if not other.is_gone} | {terminal}
        await terminal.end()
        return {}

    def _find(self, params: dict[str, Any]) -> Terminal:
        id = params.get("terminalId")
        terminal = self._known.get(id) if isinstance(id, str) else None
        if terminal is None:
            raise missing("there is no such terminal, or it was released", {"terminalId": id})
        return terminal

    def _check_room(self) -> None:
        if self._is_closed:
            raise Refusal(jsonrpc.INTERNAL_ERROR, "the session is over")
        if len(self._known) >= MAX_TERMINALS:
            raise Refusal(jsonrpc.INTERNAL_ERROR, f"{MAX_TERMINALS} terminals are open; release one first")

    def _refuse(self, wanted: Command, refusal: Refusal) -> Refusal:
        exit = f"it was refused: {refusal.message}"
        self._tell(TerminalEvent(terminal_id="", command=wanted.line, cwd=str(wanted.cwd), exit=exit))
        return refusal


async def _hasten(terminals: Sequence[Terminal], hurry: asyncio.Event) -> None:
    await hurry.wait()
    _hasten_now(terminals)


def _hasten_now(terminals: Sequence[Terminal]) -> None:
    for terminal in terminals:
        terminal.hurry.set()


def _status(exit: Exit) -> dict[str, Any]:
    """Return the exit as in the schema; both members are null if the status was lost."""
    return {"exitCode": exit.status, "signal": None if exit.signal is None else _signal(exit.signal)}


def _words(exit: Exit) -> str:
    if exit.signal is not None:
        return f"signal {_signal(exit.signal)}"
    return "its exit status was lost" if exit.status is None else f"exit status {exit.status}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have numbers only
        return f"SIG{number}"
