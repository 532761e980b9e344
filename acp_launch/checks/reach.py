"""
Whether anybody answers at the address of a remote MCP server. No more is asked: the agent connects to it itself, and
with the headers of the profile it would be a login.
"""

import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from acp_launch.plan.model import Value
from acp_launch.process.capture import capture
from acp_launch.profile.address import is_local

PATIENCE = 5.0  # seconds for a name and a connection
LATE = f"no answer within {PATIENCE:g} s"
_SECRET = "\ue000"  # in the place of one
PROXIES = ("http_proxy", "https_proxy", "all_proxy")
# A process of its own, since nothing else bounds the time that a name may take.
_CONNECT = """
import socket, sys, time
began = time.perf_counter()
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2]))).close()
except OSError as error:
    print("-", error.strerror or error)
else:
    print("+", time.perf_counter() - began)
"""


def reach(url: Value, environ: Mapping[str, str]) -> float | str | None:
    """Seconds until somebody took the connection, or why nobody did; None where that cannot be told: a proxy stands in
    between, or the host is a secret.

    Raises:
        LaunchError: no process can be started.
    """
    where = address(url, environ)
    if where is None or isinstance(where, str):
        return where
    host, port = where
    argv = [sys.executable, "-I", "-S", "-c", _CONNECT, host, str(port)]
    answer = capture(argv, PATIENCE, env={}, cwd=Path("/"))
    if answer.timed_out:
        return LATE
    sign, _, rest = answer.out.decode(errors="replace").strip().partition(" ")
    return float(rest) if sign == "+" else rest or "the connection could not be tried"


def address(url: Value, environ: Mapping[str, str]) -> tuple[str, int] | str | None:
    """Host and port, or why there are none; None as `reach`. No proxy stands between us and this machine itself."""
    whole = "".join(part if isinstance(part, str) else _SECRET for part in url.parts)
    parts = urlsplit(whole)
    if _SECRET in parts.netloc.rpartition("@")[2]:
        return None
    if any(environ.get(name) or environ.get(name.upper()) for name in PROXIES) and not is_local(whole):
        return None
    try:
        port = parts.port or {"http": 80}.get(parts.scheme.lower(), 443)
    except ValueError:
        return "the port is none"
    return parts.hostname or "", port


def connect(host: str, port: int) -> str:
    """Why nobody takes a connection there; empty when somebody does. Blocks, for a thread that may be given up."""
    try:
        socket.create_connection((host, port), timeout=PATIENCE).close()
    except TimeoutError:
        return LATE
    except (OSError, UnicodeError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""
