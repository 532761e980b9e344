"""
What the agent starts in a server's place: it lends its stdin and stdout to a seat (seat.py), and waits for the end.

A program of its own, `python -I -S shim.py SOCKET NAME` with the token in ACP_LAUNCH_SEAT, one process per server: so
it imports next to nothing (`os` alone would be a tenth of its start, `socket` doubles it). seat.py says what is
said. Where its descriptors cannot be lent (they are files, or a sandbox forbids it) it copies bytes: copying.py.
"""

import select
import sys
import time

if sys.platform != "win32":
    import posix
    from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket

CONNECT = 5.0  # seconds; only a launcher that stands still leaves its door full
KNOCK = 0.02  # seconds between two attempts
WHY = "acp-launch has ended or refused it; start the agent through acp-launch again"


def main(argv: list[str]) -> int:
    _fill_standard_streams()
    token = posix.environ.get(b"ACP_LAUNCH_SEAT", b"")
    if len(argv) != 3 or not token:
        return _fail("this is started by agents, in the way acp-launch told them; start acp-launch instead")
    seat = _connect(argv[1])
    if seat is None or not _is_let_in(seat, b"acp-launch 2 %b %b\n" % (token, argv[2].encode(errors="replace"))):
        return _fail(f'no connection for the MCP server "{argv[2]}": {WHY}')
    if _lends(seat):
        _wait(seat)
    else:
        _copy(seat)
    return 0


def _fill_standard_streams() -> None:
    """Where stdin, stdout or stderr is closed, the socket would become it."""
    while (spare := posix.open("/dev/null", posix.O_RDWR)) <= 2:
        pass
    posix.close(spare)


def _fail(why: str) -> int:
    poll = select.poll()
    poll.register(2, select.POLLOUT)
    if poll.poll(0) == [(2, select.POLLOUT)]:  # else nothing reads it, and we would wait for that
        posix.write(2, f"acp-launch: {why}\n".encode(errors="replace"))
    return 1


def _connect(path: str) -> "socket | None":
    seat = socket(AF_UNIX, SOCK_STREAM)
    seat.setblocking(False)
    deadline = time.monotonic() + CONNECT
    while time.monotonic() < deadline:
        try:
            seat.connect(path)
            return seat
        except BlockingIOError:  # more are waiting to be let in than fit (Linux)
            time.sleep(KNOCK)
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
    """Whether the seat has our stdin and stdout now; they are not ours any more then."""
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
    """It is a pipe or a socket."""
    return posix.fstat(descriptor).st_mode & 0o170000 in (0o010000, 0o140000)  # S_IFMT: S_IFIFO, S_IFSOCK


def _wait(seat: "socket") -> None:
    """Until the seat hangs up: the conversation is over, or the launcher dead."""
    try:
        while seat.recv(4096):
            pass
    except OSError:
        return


def _copy(seat: "socket") -> None:
    sys.path.insert(0, __file__.rpartition("/")[0])
    from copying import Pump  # type: ignore[import-not-found]

    Pump(seat, b"=").run()


if __name__ == "__main__":
    try:
        status = main(sys.argv)
    except KeyboardInterrupt:
        status = 130
    posix._exit(status)  # there is nothing to tidy up, and tidying takes longer than starting a shim should
