"""
The private host of a program that uses the Python API: a host without an entry in the list of hosts, whose lifeline is
the program. `python -P -m acp_launch.api.child DESCRIPTOR`.

It is a process of its own because a launch forks guards, takes signals and knows secrets, and none of that is to
happen in a program of others, which may have threads and a loop that must not wait.
"""

import gc
import os
import socket
import sys
import time
from contextlib import redirect_stderr
from functools import partial
from io import TextIOBase
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from acp_launch import shutdown
from acp_launch.api.order import Order
from acp_launch.api.words import EVENT, FAILED
from acp_launch.app.exits import end_in_code
from acp_launch.document.scalars import Duration
from acp_launch.errors import LaunchError
from acp_launch.secret.redact import redactor
from acp_launch.session.events import AnyEvent, NoteEvent, WaitingEvent, encode, name_error
from acp_launch.waits import format_time

if TYPE_CHECKING:
    from acp_launch.engine.prepared import PreparedPlan
    from acp_launch.settings.model import Settings


class ProgramLine:
    """The socket to the program."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=os.dup(descriptor))
        os.register_at_fork(after_in_child=self._socket.close)

    def read_order(self) -> Order:
        """Return what the program wants; raises EOFError if it has ended."""
        said = b""
        while not said.endswith(b"\n"):
            if not (more := self._socket.recv(1 << 16)):
                raise EOFError
            said += more
        return Order(**msgspec.json.decode(said))

    def tell(self, name: str, value: object) -> None:
        """Write a word, without secrets. A program that has ended is told nothing: its end is noticed elsewhere."""
        word = msgspec.json.encode({"name": name, "value": value})
        try:
            self._socket.sendall(redactor.raw_json(word) + b"\n")
        except OSError:
            return

    def tell_event(self, event: AnyEvent) -> None:
        self.tell(EVENT, Raw(encode(replace(event, time=format_time(time.time())))))

    def tell_wait(self, what: str, seconds: float, limit: float) -> None:
        self.tell_event(WaitingEvent(what=what, seconds=seconds, limit=limit))


class Notes(TextIOBase):
    """The stderr of a process without one: each message is a note for the program."""

    def __init__(self, line: ProgramLine) -> None:
        self._line = line

    def write(self, text: str) -> int:
        if said := text.removeprefix("acp-launch: ").rstrip("\n"):
            self._line.tell_event(NoteEvent(text=said))
        return len(text)


def main() -> None:
    """Be the private host until the program ends it, or has ended itself."""
    shutdown.listen()
    gc.disable()
    sys.exit(shutdown.finish_with(partial(end_in_code, _work)))


def _work() -> int:
    descriptor = int(sys.argv[1])
    line = ProgramLine(descriptor)
    order = line.read_order()
    shutdown.watch_lifeline(descriptor)
    with redirect_stderr(Notes(line)):
        try:
            _launch(order, line)
        except LaunchError as error:
            line.tell(FAILED, name_error(error))
            return error.exit_code
    return 0


def _launch(order: Order, line: ProgramLine) -> None:
    from acp_launch.app.planning import prepare_launch
    from acp_launch.app.spec import load_settings

    prepare_launch()
    from acp_launch.app.start import launch_agent
    from acp_launch.session.store import open_registry

    settings = load_settings()
    prepared = _plan(order, settings, line)
    timeouts = replace(prepared.plan.timeouts, **{wait: Duration(limit) for wait, limit in order.limits.items()})
    ready = prepared._replace(plan=replace(prepared.plan, timeouts=timeouts))
    with open_registry(settings.state) as registry, launch_agent(settings, ready, None, "api") as started:
        import asyncio  # while the agent starts

        from acp_launch.api.host import serve

        asyncio.run(serve(order, started, registry, line))


def _plan(order: Order, settings: "Settings", line: ProgramLine) -> "PreparedPlan":
    from acp_launch.app.planning import adhoc_plan, loaded_profile, prepare_plan, resolve_trusted

    if order.agent is not None:
        return adhoc_plan(order.agent, cwd=None, session=None, is_confined=order.is_confined)
    loaded = loaded_profile(order.profile, settings)
    resolved = resolve_trusted(loaded, settings, cwd=None, trust=order.trust, locked=order.locked)
    return prepare_plan(resolved, settings, waiting=line.tell_wait)


if __name__ == "__main__":
    main()
