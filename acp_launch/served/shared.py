"""
A server that launches share (`share: user`), as one launch sees it: the connection to its process in the server host.

    launch   !share SharedRequest     once; then lines of MCP, both ways
             !given-up                before it leaves: a call took too long
    host     !joined Joined           once the process was started
             !ended SharedEnd         it will not be started again

No agent and no server can send a line that begins with `!`, as only messages pass an exchange. The host is started by
the first launch that needs it. If it is killed, the launches' connections end, and each begins again as it began.
"""

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

import acp_launch
from acp_launch.errors import AgentError, StateError, Upgraded
from acp_launch.plan.model import StdioPlan
from acp_launch.plan.shared import SharedServer, as_plain, shared_server
from acp_launch.problem import ours
from acp_launch.process import detached, prepare
from acp_launch.process.flow import Link, LinkEnd, LinkUser
from acp_launch.process.lifecycle import Ended
from acp_launch.process.logs import LogFile
from acp_launch.process.program import may_fetch
from acp_launch.process.tree import StopOutcome
from acp_launch.protocol.jsonrpc import Envelope
from acp_launch.regex import regex
from acp_launch.secret.value import Secret
from acp_launch.served.connect import GREETING_TIMEOUT, stall_reason
from acp_launch.served.registry import find_server_host, hold_place, server_host_state
from acp_launch.served.wire import READY
from acp_launch.waits import stretch

SHARE, JOINED, ENDED = b"!share ", b"!joined ", b"!ended "
STARTING = "starting"  # the place of the launch that starts the host
START_TIMEOUT = stretch(10.0)  # of the host
RESTART_SECONDS = stretch(3.0)  # until it is started once more
POLL_SECONDS = 0.02
RETRY_SECONDS = 0.2  # before a launch looks for another host
# The host's environment. Variables of servers come from the launches.
INHERITED = regex(
    r"HOME|PATH|USER|LOGNAME|LANG|LC_ALL|TMPDIR|XDG_RUNTIME_DIR|XDG_(CONFIG|STATE|CACHE)_HOME"
    r"|ACP_LAUNCH_((CONFIG|STATE|CACHE)_DIR|MAX_LINE|TEST_PATIENCE)"
)


class SharedRequest(Struct, frozen=True, kw_only=True):
    """What a launch asks for, besides the server."""

    label: str
    launch: str
    pid: int


class Joined(Struct, frozen=True, kw_only=True):
    """The process that it has got. Its stderr is in the file `log`, for this launch from `offset` on.

    `why` says what became of the one before, if it has been started again.
    """

    pid: int | None
    log: str
    offset: int
    why: str = ""


class SharedEnd(Struct, frozen=True, kw_only=True):
    """How a process has ended for good, and the last lines of its stderr."""

    ended: Ended
    detail: tuple[str, ...] = ()


class SharedProgram(Struct, frozen=True, kw_only=True):
    """A server that is started in the server host, with its secrets revealed. Its repr shows only the name.

    `state` is the user's state directory. `note` shows a line to the user.
    """

    name: str
    server: SharedServer
    request: SharedRequest
    state: Path
    max_line: int
    note: Callable[[str], None]

    @property
    def may_fetch(self) -> bool:
        return may_fetch(self.server.argv)

    @asynccontextmanager
    async def begin(self, *, restarts: int, log: Callable[[bytes], None] | None) -> "AsyncIterator[SharedProcess]":
        try:
            line = await _reach(self.state)
        except StateError as error:
            raise AgentError(error.message, fix=error.fix) from error
        with line:
            process = SharedProcess(line, self, log)
            try:
                yield process
            finally:
                process.close()

    def __repr__(self) -> str:
        return f"SharedProgram({self.name!r})"

    def __rich_repr__(self) -> list[tuple[str, str]]:  # msgspec's own shows every field
        return [("name", self.name)]


def share_server(
    state: Path,
    label: str,
    max_line: int,
    plan: StdioPlan,
    name: str,
    secrets: Mapping[str, Secret],
    directories: Sequence[Path],
    note: Callable[[str], None],
) -> SharedProgram:
    """Return the program of a server that launches share."""
    request = SharedRequest(label=label, launch=prepare.launch_id(), pid=os.getpid())
    server = shared_server(plan, secrets, directories)
    return SharedProgram(name=name, server=server, request=request, state=state, max_line=max_line, note=note)


class SharedProcess(Link, LinkUser):
    """A process of the server host at work for this launch; both a `Running` and its `Lines`."""

    def __init__(self, line: socket.socket, program: SharedProgram, log: Callable[[bytes], None] | None) -> None:
        self.hurry = asyncio.Event()
        self.pid: int | None = None
        self.end: Ended | None = None
        self._name, self._note = program.name, program.note
        self._log, self._detail = log, list[str]()
        self._over = asyncio.Event()
        self._line: Callable[[bytes, Envelope | None], None] = lambda line, message: None
        self._make_room: Callable[[], None] = lambda: None
        self._on_burst: Callable[[bool], None] = lambda is_on: None
        super().__init__(line.fileno(), line.fileno(), self, max_line=program.max_line)
        asked = {"server": as_plain(program.server), "request": msgspec.to_builtins(program.request)}
        self.send(SHARE + json.dumps(asked).encode())

    # The interface of a process.

    @property
    def lines(self) -> "SharedProcess":
        return self

    @property
    def is_dead(self) -> bool:
        return self.end is not None

    @property
    def unsent(self) -> Sequence[bytes]:
        return ()

    async def wait(self) -> None:
        await self._over.wait()

    async def stop(self, *, grace: float) -> StopOutcome:
        """Leave the process, which goes on for others."""
        self.close()
        self._finish(Ended("was left", is_clean=True))
        return StopOutcome(None, (), ())

    def stderr_tail(self) -> list[str]:
        return self._detail

    def listen(
        self,
        line: Callable[[bytes, Envelope | None], None],
        on_drained: Callable[[], None] = lambda: None,
        on_burst: Callable[[bool], None] = lambda is_on: None,
    ) -> None:
        self._line, self._make_room, self._on_burst = line, on_drained, on_burst

    # Its own link.

    def receive(self, line: bytes) -> None:
        if line[:1] in b"{[":
            self._line(line, None)
        elif line.startswith(JOINED):
            joined = msgspec.json.decode(line[len(JOINED) :], type=Joined)
            self.pid = joined.pid
            if joined.why:
                self._note(f"{self._name}, which launches share, {joined.why}; it was started again (pid {joined.pid})")
            elif isinstance(self._log, LogFile):
                with suppress(OSError, ValueError):  # as for its own output, which is not written then
                    self._log.share(Path(joined.log), joined.offset)
        elif line.startswith(ENDED):
            end = msgspec.json.decode(line[len(ENDED) :], type=SharedEnd)
            self._detail = list(end.detail)
            self._finish(end.ended)

    def over(self, end: LinkEnd) -> None:
        lost = Ended("lost its server host", follows="anew", pause=RETRY_SECONDS)
        self._finish(Ended(end.why) if end.is_fault else lost)

    def on_drained(self) -> None:
        self._make_room()

    def on_burst(self, is_on: bool) -> None:
        self._on_burst(is_on)

    def fail(self, error: Exception) -> None:
        self._finish(Ended(reason=f"its server host does not speak as it should: {error}"))

    def _finish(self, end: Ended) -> None:
        self.end = self.end or end
        self._over.set()


async def _reach(state: Path) -> socket.socket:
    """Connect to the server host, and start it if there is none; of launches that find none, one starts it.

    Raises:
        Upgraded: it would be of another version than this launch.
        AgentError: it cannot be reached.
    """
    now = asyncio.get_running_loop().time
    begun, again, is_ours = now(), 0.0, False
    with ExitStack() as held:
        while (line := await _connect(state)) is None:
            try:
                is_ours = is_ours or held.enter_context(hold_place(server_host_state(state), "", STARTING)) is not None
            except StateError as error:
                raise AgentError(error.message, fix=error.fix) from None
            if is_ours and now() >= again and _is_installed():
                again = now() + RESTART_SECONDS
                if why := _start():
                    raise AgentError(f"the server host could not be started: {why}")
            if now() > begun + START_TIMEOUT:
                if is_ours and not _is_installed():
                    raise _explain_upgrade("acp-launch was removed")
                note = find_server_host(state)
                what = f"cannot be reached (pid {note.pid})" if note else f"did not start within {START_TIMEOUT:g} s"
                raise AgentError(f"the server host {what}", fix=ours("down", "--servers", "--force") if note else "")
            await asyncio.sleep(POLL_SECONDS)
    return line


async def _connect(state: Path) -> socket.socket | None:
    """Connect to a host, and wait until it greets, as a stopped one does not; None if there is none, or it ends.

    Raises:
        AgentError: it is stopped, or silent.
    """
    note = find_server_host(state)
    if note is None:
        return None
    line = socket.socket(socket.AF_UNIX)
    line.setblocking(False)
    try:
        line.connect(note.socket)
        async with asyncio.timeout(GREETING_TIMEOUT):
            if await asyncio.get_running_loop().sock_recv(line, len(READY)) == READY:
                return line
    except TimeoutError:
        stopped = stall_reason(note)
        what = stopped.message if stopped else f"the server host (pid {note.pid}) does not answer"
        line.close()
        raise AgentError(what, fix=stopped.fix if stopped else ours("down", "--servers", "--force")) from None
    except OSError:  # it has just ended, or is busy
        pass
    line.close()
    return None


def _is_installed() -> bool:
    """Return whether acp-launch is there to be started; for a moment of its upgrade it is not.

    Raises:
        Upgraded: it is of another version.
    """
    try:
        text = Path(acp_launch.__file__).read_text(encoding="utf-8")
    except OSError:
        return False
    found = regex(r'__version__ = "(.+)"').search(text)
    if found and found[1] != acp_launch.__version__:
        raise _explain_upgrade(f"acp-launch was upgraded from {acp_launch.__version__} to {found[1]}")
    return found is not None and os.access(sys.executable, os.X_OK)


def _explain_upgrade(how: str) -> Upgraded:
    what = f"cannot be started: {how} while this launch runs"
    return Upgraded(what, fix="start the launch again for its shared servers")


def _start() -> str:
    """Start the host, which nothing of this launch ends; return why it could not be started."""
    env = {name: value for name, value in os.environ.items() if INHERITED.fullmatch(name)}
    return detached.start([sys.executable, "-P", "-m", "acp_launch.app.serverhost"], env)
