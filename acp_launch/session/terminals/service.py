"""
`terminal/create`, `output`, `wait_for_exit`, `kill` and `release` (ACP v1 "terminals", C-71 to C-73).

What a command prints is given to the agent with known secrets hidden: nothing it could run needs them shown, and it
is the agents that must not see them. Whoever makes a `Terminals` closes it: no command outlives the session.
"""

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from acp_launch.errors import LaunchError
from acp_launch.process.terminal import Terminal
from acp_launch.process.tree import Exit
from acp_launch.protocol import jsonrpc
from acp_launch.session.files.service import Allowed
from acp_launch.session.service import Refusal, Services, TerminalServed, missing
from acp_launch.session.terminals.command import Command, command

AT_ONCE = 64  # terminals that were not released; an agent that needs more has forgotten some

Tell = Callable[[TerminalServed], None]


class Terminals:
    def __init__(self, cwd: Path, env: Mapping[str, str], *, allowed: Allowed, tell: Tell) -> None:
        """`cwd` and `env` are what a command has unless the agent says otherwise. `tell` hears at most 20 times a
        second what a command prints."""
        self._cwd, self._env = cwd, env
        self._allowed, self._tell = allowed, tell
        self._count = 0
        self._known: dict[str, Terminal] = {}  # by the id the agent may use
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
        """End every command with all it started, together, and start no more; bounded as `Terminal.end` is.

        Seen through although the caller is cancelled, but then, or once `hurry` is set, without any grace.
        """
        self._is_closed = True
        living = [*self._known.values(), *self._leaving]
        self._known.clear()
        try:
            await _ended(living, hurry or asyncio.Event())
        finally:
            for terminal in living:
                terminal.drop()

    async def _create(self, params: dict[str, Any]) -> object:
        wanted = command(params, cwd=self._cwd, env=self._env)
        self._check_room()
        if reason := await self._allowed(wanted.tool_call()):
            raise self._refused(wanted, Refusal(jsonrpc.INTERNAL_ERROR, reason))
        self._check_room()
        return {"terminalId": self._start(wanted)}

    def _start(self, wanted: Command) -> str:
        self._count += 1
        id = f"terminal-{self._count}"

        def tell(output: str = "", exit: Exit | None = None) -> None:
            ending = None if exit is None else _words(exit)
            step = TerminalServed(terminal_id=id, command=wanted.line, cwd=str(wanted.cwd), output=output, exit=ending)
            self._tell(step)

        try:
            terminal = Terminal(
                wanted.argv,
                env=wanted.env,
                cwd=wanted.cwd,
                name=id,
                limit=wanted.limit,
                said=tell,
                ended=lambda exit: tell(exit=exit),
            )
        except LaunchError as error:
            reason = "; ".join(filter(None, (error.message, error.fix)))
            raise self._refused(wanted, Refusal(jsonrpc.INTERNAL_ERROR, reason)) from None
        self._known[id] = terminal
        tell()
        return id

    async def _output(self, params: dict[str, Any]) -> object:
        terminal = self._named(params)
        text, is_cut = terminal.output()
        so_far = {"output": text, "truncated": is_cut}
        return so_far if terminal.exit is None else {**so_far, "exitStatus": _status(terminal.exit)}

    async def _wait_for_exit(self, params: dict[str, Any]) -> object:
        return _status(await self._named(params).wait())

    async def _kill(self, params: dict[str, Any]) -> object:
        await self._named(params).end()
        return {}

    async def _release(self, params: dict[str, Any]) -> object:
        terminal = self._named(params)
        del self._known[params["terminalId"]]
        self._leaving = {other for other in self._leaving if not other.is_gone} | {terminal}
        await terminal.end()
        return {}

    def _named(self, params: dict[str, Any]) -> Terminal:
        id = params.get("terminalId")
        terminal = self._known.get(id) if isinstance(id, str) else None
        if terminal is None:
            raise missing("there is no such terminal, or it was released", {"terminalId": id})
        return terminal

    def _check_room(self) -> None:
        if self._is_closed:
            raise Refusal(jsonrpc.INTERNAL_ERROR, "the session is over")
        if len(self._known) >= AT_ONCE:
            raise Refusal(jsonrpc.INTERNAL_ERROR, f"{AT_ONCE} terminals are open; release one first")

    def _refused(self, wanted: Command, refusal: Refusal) -> Refusal:
        exit = f"it was refused: {refusal.message}"
        self._tell(TerminalServed(terminal_id="", command=wanted.line, cwd=str(wanted.cwd), exit=exit))
        return refusal


async def _ended(terminals: Sequence[Terminal], hurry: asyncio.Event) -> None:
    """End them all; a cancellation hastens it, and is passed on afterwards."""
    ending = [asyncio.create_task(terminal.end()) for terminal in terminals]
    hastening = asyncio.create_task(_hasten(terminals, hurry))
    cancelled: asyncio.CancelledError | None = None
    while not all(task.done() for task in ending):
        try:
            await asyncio.wait(ending)
        except asyncio.CancelledError as error:
            cancelled = error
            _hasten_now(terminals)
    hastening.cancel()
    await asyncio.wait({hastening})
    if cancelled is not None:
        raise cancelled
    for task in ending:
        task.result()


async def _hasten(terminals: Sequence[Terminal], hurry: asyncio.Event) -> None:
    await hurry.wait()
    _hasten_now(terminals)


def _hasten_now(terminals: Sequence[Terminal]) -> None:
    for terminal in terminals:
        terminal.hurry.set()


def _status(exit: Exit) -> dict[str, Any]:
    """As the schema has it; both are null when the status was lost."""
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
