"""
The line between the launcher and its guards: values, and descriptors that travel with them, through a socket pair.

Each value is marshalled, after its length: both ends are the same interpreter, one forked from the other. Unlike a
pipe, a socket cannot be opened through /proc, so no other process holds it open by accident.
"""

import _socket
import marshal
import os
import select
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any

_LENGTH = 4  # bytes
_CHUNK = 64 * 1024  # bytes
_MOST_DESCRIPTORS = 3  # with one value


class GuardLine:
    """One end. `say` never blocks: what the socket does not take is held for `flush`."""

    def __init__(self, end: _socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._owed: deque[tuple[bytes, Sequence[int]]] = deque()
        self._read = b""
        self.descriptors: deque[int] = deque()  # the received descriptors, in their order
        self.is_over = False  # the other end is closed

    def fileno(self) -> int:
        return self._end.fileno()

    @property
    def owes(self) -> bool:
        return bool(self._owed)

    def say(self, value: Any, descriptors: Sequence[int] = ()) -> None:
        """Send `value`; `descriptors`, at most three, must stay open until nothing is owed."""
        body = marshal.dumps(value)
        self._owed.append((len(body).to_bytes(_LENGTH, sys.byteorder) + body, descriptors))
        self.flush()

    def flush(self) -> None:
        """Send what is owed, as far as the socket takes it."""
        try:
            while self._owed:
                payload, descriptors = self._owed[0]
                sent = self._end.sendmsg([payload], _ancillary(descriptors))
                if sent < len(payload):
                    self._owed[0] = (payload[sent:], ())
                else:
                    self._owed.popleft()
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # the other end is gone
            self._owed.clear()
            self.is_over = True

    def heard(self) -> list[Any]:
        """Return the values that have arrived; sets `is_over` at the end."""
        while self._receive():
            pass
        values = []
        while (length := self._next_length()) is not None:
            values.append(marshal.loads(self._read[_LENGTH : _LENGTH + length]))
            self._read = self._read[_LENGTH + length :]
        return values

    def wait(self, seconds: float) -> bool:
        """Wait until something arrives, or owed data can be sent; False if neither happened in time."""
        poll = select.poll()
        poll.register(self._end.fileno(), select.POLLIN | (select.POLLOUT if self._owed else 0))
        return bool(poll.poll(max(0.0, seconds) * 1000))

    def close(self) -> None:
        self.is_over = True
        self._end.close()
        while self.descriptors:
            os.close(self.descriptors.popleft())

    def _next_length(self) -> int | None:
        if len(self._read) < _LENGTH:
            return None
        length = int.from_bytes(self._read[:_LENGTH], sys.byteorder)
        return length if len(self._read) >= _LENGTH + length else None

    def _receive(self) -> bool:
        """Receive once. Returns whether there may be more."""
        if self.is_over:
            return False
        try:
            chunk, ancillary, _, _ = self._end.recvmsg(
                _CHUNK, _socket.CMSG_SPACE(_MOST_DESCRIPTORS * _DESCRIPTOR), _CLOSE_ON_EXEC
            )
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            chunk, ancillary = b"", []
        for level, kind, data in ancillary:
            if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                self._take(data)
        self._read += chunk
        self.is_over = not chunk
        return bool(chunk)

    def _take(self, data: bytes) -> None:
        for start in range(0, len(data) - _DESCRIPTOR + 1, _DESCRIPTOR):
            descriptor = int.from_bytes(data[start : start + _DESCRIPTOR], sys.byteorder)
            os.set_inheritable(descriptor, False)  # where the kernel has no MSG_CMSG_CLOEXEC
            self.descriptors.append(descriptor)


_DESCRIPTOR = 4  # bytes: a C int
_CLOSE_ON_EXEC = getattr(_socket, "MSG_CMSG_CLOEXEC", 0)


def _ancillary(descriptors: Sequence[int]) -> list[tuple[int, int, bytes]]:
    if not descriptors:
        return []
    data = b"".join(each.to_bytes(_DESCRIPTOR, sys.byteorder) for each in descriptors)
    return [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, data)]


def pair() -> tuple[_socket.socket, _socket.socket]:
    """Create the two ends of a line, not inheritable."""
    return _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
