"""
The trace of a launch, for `--trace FILE`: every message of the agent and of each MCP server, both directions, with its
time, one JSON object a line (docs/scripting.md "Traces").

`tracing` opens the file, `Trace` writes it, and `TracedTransport` is a connection that is traced. Without `--trace`
none of these exists, and no code on a message's way asks for them.

Everything is redacted before it is written. A message of more than `MAX_WHOLE_BYTES` is written by its beginning.
A disk that takes no more ends the trace, not the launch.
"""

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, Raw

from acp_launch import __version__
from acp_launch.descent import open_file
from acp_launch.errors import UsageError
from acp_launch.private import take_lock
from acp_launch.process.program import Running
from acp_launch.protocol.jsonrpc import LineFramer, decode
from acp_launch.protocol.splice import visible_bytes, written
from acp_launch.rpc import Transport, transport
from acp_launch.secret.redact import Redactor, redactor

VERSION = 1
MAX_WHOLE_BYTES = 1024 * 1024  # a longer message is not written whole
BEGINNING_BYTES = 16 * 1024  # that are written of a longer one
HEADER = b'{"type":"trace",'  # the first bytes of every trace

Side = Literal["acp-launch", "agent", "server"]

_json = msgspec.json.Decoder(Raw)


class Trace:
    """The trace of a launch. Made by `tracing`."""

    def __init__(
        self, descriptor: int, note: Callable[[str], None], source: Redactor = redactor, *, name: str = ""
    ) -> None:
        """`note` shows a line to the user, if the file cannot be written; `name` is how a command names the file."""
        self.note, self.name = note, name
        self._descriptor, self._redactor = descriptor, source
        self._size = 0  # bytes of whole lines
        self._began = time.monotonic()
        self._running: dict[str, int | None] = {}  # the pid of each server, and of the agent, which is ""

    def begin(self, verb: str, profile: str) -> None:
        facts = {"version": VERSION, "acpLaunch": __version__, "verb": verb, "profile": profile, "pid": os.getpid()}
        self._add("trace", facts)

    def end(self) -> None:
        self._add("end", {})

    def started(self, pid: int | None, server: str = "") -> None:
        """Note the start of a process, of the agent or of a server, once; a remote server has no pid."""
        if server not in self._running or self._running[server] != pid:
            self._running[server] = pid
            self._add("start", {**_server_field(server), "pid": pid})

    def ended(self, how: str, server: str = "") -> None:
        """Note how a process ended, or why it could not be started; once for each start."""
        if server in self._running:
            del self._running[server]
            self._add("exit", {**_server_field(server), "how": self._redactor.text(how)})

    @contextmanager
    def connected(self, child: Running, server: str = "") -> Iterator[Transport]:
        """Connect to a child that is stopped within the block; its start and its end are noted."""
        self.started(child.pid, server)
        try:
            yield TracedTransport(transport(child), self, server)
        finally:
            self.ended(child.end.how if child.end else "could not be stopped", server)

    def message(self, line: bytes, source: Side, target: Side, server: str = "") -> None:
        """Write a message, given without its newline. `server` names the connection; it is the agent's without one."""
        ends = {**_server_field(server), "from": source, "to": target}
        if len(line) > MAX_WHOLE_BYTES:
            redacted = self._redactor.data(self._redactor.raw_json(line))
            text = redacted[:BEGINNING_BYTES].decode(errors="replace")
            self._add("message", {**ends, **self._envelope(line), "size": len(line)}, b'"text":' + written(text))
        elif line.strip():
            self._add("message", ends, self._content(line))

    def _envelope(self, line: bytes) -> dict[str, object]:
        message = decode(line)
        if message is None:
            return {}
        found: dict[str, object] = {}
        if message.id is not UNSET:
            found["id"] = Raw(self._redactor.raw_json(bytes(message.id)))
        if message.method is not UNSET:
            found["method"] = self._redactor.text(message.method)
        return found

    def conversation(self, server: str) -> "MessageTrace":
        """Return what traces the messages of a conversation with a server."""
        return MessageTrace(self, server)

    def _content(self, line: bytes) -> bytes:
        """Return a message as the last member of an entry: as JSON if it is, else as text."""
        redacted = self._redactor.raw_json(line)
        if _is_json(redacted):
            return b'"message":' + redacted.strip()
        return b'"text":' + written(self._redactor.data(redacted).decode(errors="replace"))

    def _add(self, type: str, facts: dict[str, object], content: bytes = b"") -> None:
        if self._descriptor < 0:
            return
        now, since = time.time(), time.monotonic() - self._began
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1e6) % 1_000_000:06d}Z"
        entry = written({"type": type, "time": moment, "at": round(since, 6), **facts})
        end = b"," + content + b"}\n" if content else b"}\n"
        self._write([entry[:-1], *visible_bytes(end[:-1]), b"\n"])

    def _write(self, pieces: "list[bytes | memoryview]") -> None:
        rest = memoryview(b"".join(pieces))
        size = len(rest)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            # End the trace with its last whole line.
            with suppress(OSError):  # then half a line stays, which a reader can tell
                os.ftruncate(self._descriptor, self._size)
            self._descriptor = -1
            reason = (error.strerror or str(error)).lower()
            self.note(f"cannot write the trace any further ({reason}); the rest of this run is not in it")
        else:
            self._size += size


def _server_field(server: str) -> dict[str, object]:
    return {"server": server} if server else {}


def _is_json(line: bytes) -> bool:
    """Whether it is an object or a list, in UTF-8, that every parser reads."""
    if line[:64].lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        if not line.isascii():
            line.decode()
        _json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


class TracedTransport:
    """A transport whose messages are traced."""

    def __init__(self, inner: Transport, trace: Trace, server: str = "") -> None:
        self._other: Side = "server" if server else "agent"
        self._inner = inner
        self._heard, self._said = LineFramer(limit=sys.maxsize), LineFramer(limit=sys.maxsize)  # the pump has a limit
        self._trace, self._server = trace, server

    async def read(self) -> bytes:
        chunk = await self._inner.read()
        for line in self._heard.feed(chunk or b"\n"):  # the last line may have no end
            self._trace.message(line, self._other, "acp-launch", self._server)
        return chunk

    async def write(self, data: bytes) -> None:
        for line in self._said.feed(data):
            self._trace.message(line, "acp-launch", self._other, self._server)
        await self._inner.write(data)

    async def describe_end(self) -> tuple[str, tuple[str, ...]]:
        how, last_words = await self._inner.describe_end()
        self._trace.ended(how, self._server)
        return how, last_words


# The file. It is private, and replaces nothing but an earlier trace, so that a command can be repeated.


@contextmanager
def tracing(file: Path | None, verb: str, profile: str, note: Callable[[str], None]) -> Iterator[Trace | None]:
    """Write a trace to `file` while the block runs; None without a file.

    Raises:
        UsageError: the file cannot be written, is not a trace, or another run writes to it.
    """
    if file is None:
        yield None
        return
    descriptor = _open_file(file)
    try:
        trace = Trace(descriptor, note, name=str(file))
        trace.begin(verb, profile)
        try:
            yield trace
        finally:
            trace.end()
    finally:
        os.close(descriptor)


def _open_file(file: Path) -> int:
    if str(file) == "-":
        raise _unfit(file, "stdout carries the answer")
    try:
        descriptor = open_file(file, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise _unfit(file, (error.strerror or str(error)).lower()) from None
    try:
        _take_over(descriptor, file)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _take_over(descriptor: int, file: Path) -> None:
    """Empty a file that is empty, or a trace."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise _unfit(file, "it is not a regular file")
    if status.st_size and os.read(descriptor, len(HEADER)) != HEADER:
        raise _unfit(file, "it holds something else, which is not overwritten")
    if not _is_ours(descriptor):
        raise _unfit(file, "another run writes its trace to it")
    try:
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except OSError as error:
        raise _unfit(file, (error.strerror or str(error)).lower()) from None


def _is_ours(descriptor: int) -> bool:
    try:
        return take_lock(descriptor)
    except OSError:  # a file system without locks
        return True


def _unfit(file: Path, reason: str) -> UsageError:
    return UsageError(f"cannot write the trace to {file}: {reason}", fix="name a new file: --trace FILE")


class MessageTrace:
    """Writes each message of a conversation to a trace, once: from its sender to the side that gets it unchanged.

    A message that we keep, answer or change goes to acp-launch, and the message in its place comes from it.
    """

    def __init__(self, trace: Trace, server: str) -> None:
        self._trace, self._server = trace, server
        self._in_hand: tuple[Side, bytes] | None = None  # the message and its sender, until it is written

    def follow(self, sender: Side, line: bytes, handle: Callable[[bytes], None]) -> None:
        """Have a message handled, which may write it to the other side."""
        self._in_hand = sender, line
        try:
            handle(line)
        finally:
            self._keep()

    def write(self, sender: Side, receiver: Side, line: bytes) -> None:
        """Trace a message to a side; it comes from the sender if that is the message in hand."""
        if self._in_hand == (sender, line):
            self._in_hand = None
            self._trace.message(line, sender, receiver, self._server)
            return
        self._keep()
        self._trace.message(line, "acp-launch", receiver, self._server)

    def _keep(self) -> None:
        """Trace the message in hand, which was not passed on."""
        if self._in_hand is not None:
            (sender, line), self._in_hand = self._in_hand, None
            self._trace.message(line, sender, "acp-launch", self._server)
