"""Who is at the other end of a unix socket, from the kernel."""

import socket
import struct
import sys

PLATFORM: str = sys.platform
LOCAL_PEERCRED = 1  # <sys/un.h> of macOS and FreeBSD, at level 0
XUCRED = 76  # bytes: version, user, number of groups, 16 groups


def peer_uid(connection: socket.socket) -> int | None:
    """The user who connected; None where the kernel does not say, or (macOS) they have gone already."""
    if PLATFORM == "linux":
        return _second(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))  # struct ucred: pid, uid, gid
    if PLATFORM == "darwin" or PLATFORM.startswith("freebsd"):
        try:
            return _second(connection.getsockopt(0, LOCAL_PEERCRED, XUCRED))
        except OSError:
            return None
    return None


def _second(numbers: bytes) -> int:
    return int(struct.unpack_from("2I", numbers)[1])
