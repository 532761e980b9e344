"""
The program that the agent starts in place of a bridged MCP server.

It passes its stdin and stdout to the launcher over a unix socket, then waits for the end; seat.py defines the protocol.
If the descriptors cannot be passed (they are files, or a sandbox forbids it), it copies bytes: copying.py. Where ssh
would lose them, ACP_LAUNCH_SEAT_COPY tells it to do so. It may run elsewhere: Python 3.8 or later.

It is started as `python -I -S shim.py SOCKET NAME` with the token in ACP_LAUNCH_SEAT, once for each server. Its start
must be fast, so it imports next to nothing: `os` alone would be a tenth of its start, and `socket` doubles it.
"""

import posix
import select
import sys
import time
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket

CONNECT_TIMEOUT = 5.0  # the socket's backlog stays full only if the launcher hangs
GONE_SECONDS = 2.5  # for a socket that was removed to be made again; or the launch has ended
RETRY_SECONDS = 0.02  # between two attempts
WHY = "acp-launch or the session has ended, or it was refused"


def main(argv: "list[str]") -> int:
    _fill_standard_streams()
    token = posix.environ.get(b"ACP_LAUNCH_SEAT", b"")
    if len(argv) != 3 or not token:
        return _fail("this program is started by agents; run acp-launch instead")
    seat = _connect(argv[1])
    if seat is None or not _is_let_in(seat, b"acp-launch 2 %b %b\n" % (token, argv[2].encode(errors="replace"))):
        return _fail(f'no connection for the MCP server "{argv[2]}": {WHY}')
    if b"ACP_LAUNCH_SEAT_COPY" not in posix.environ and _lends(seat):
        _wait(seat)
    else:
        _copy(seat)
    return 0


def _fill_standard_streams() -> None:
    """Open /dev/null for each closed standard stream, which the socket would otherwise become."""
    while (spare := posix.open("/dev/null", posix.O_RDWR)) <= 2:
        pass
    posix.close(spare)


def _fail(why: str) -> int:
    poll = select.poll()
    poll.register(2, select.POLLOUT)
    if poll.poll(0) == [(2, select.POLLOUT)]:  # otherwise a write could block
        posix.write(2, f"acp-launch: {why}\n".encode(errors="replace"))
    return 1


def _connect(path: str) -> "socket | None":
    seat = socket(AF_UNIX, SOCK_STREAM)
    seat.setblocking(False)
    begun, limit = time.monotonic(), CONNECT_TIMEOUT
    while time.monotonic() < begun + limit:
        try:
            seat.connect(path)
            return seat
        except BlockingIOError:  # the backlog is full (Linux)
            time.sleep(RETRY_SECONDS)
        except FileNotFoundError:
            limit = GONE_SECONDS
            time.sleep(RETRY_SECONDS)
        except OSError:
            return None
    return None


def _is_let_in(seat: "socket", greeting: bytes) -> bool:
    seat.setblocking(True)
    try:
        seat.sendall(greeting)
        return seat.recv(1) == b"+"
    except OSError:
        return False


def _lends(seat: "socket") -> bool:
    """Pass our stdin and stdout to the seat, and point ours at /dev/null; return whether that worked."""
    if not (_flows(0) and _flows(1)):
        return False
    both = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1))
    try:
        seat.sendmsg([b"+"], [(SOL_SOCKET, SCM_RIGHTS, both)])
    except OSError:  # a sandbox that forbids it
        return False
    nothing = posix.open("/dev/null", posix.O_RDWR)
    for number in (0, 1):
        posix.dup2(nothing, number)
    return True


def _flows(descriptor: int) -> bool:
    return posix.fstat(descriptor).st_mode & 0o170000 in (0o010000, 0o140000)  # S_IFMT: S_IFIFO, S_IFSOCK


def _wait(seat: "socket") -> None:
    """Wait until the seat closes the connection, because the conversation is over or the launcher is dead."""
    try:
        while seat.recv(4096):
            pass
    except OSError:
        return


def _copy(seat: "socket") -> None:
    sys.path.insert(0, __file__.rpartition("/")[0])
    from copying import CopyLoop  # type: ignore[import-not-found]

    CopyLoop(seat, b"=").run()


if __name__ == "__main__":
    try:
        status = main(sys.argv)
    except KeyboardInterrupt:
        status = 130
    posix._exit(status)  # nothing needs cleaning up, and the interpreter's shutdown would take long
