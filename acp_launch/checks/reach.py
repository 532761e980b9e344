"""
Whether anybody answers at the address of a remote MCP server. No more is asked: the agent connects to it itself, and
with the headers of the profile it would be a login.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from acp_launch.plan.model import Value
from acp_launch.process.capture import capture

PATIENCE = 5.0  # seconds for a name and a connection
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
    if any(environ.get(name) or environ.get(name.upper()) for name in PROXIES):
        return None
    parts = urlsplit("".join(part if isinstance(part, str) else _SECRET for part in url.parts))
    if _SECRET in parts.netloc.rpartition("@")[2]:
        return None
    try:
        port = parts.port or {"http": 80}.get(parts.scheme.lower(), 443)
    except ValueError:
        return "the port is none"
    argv = [sys.executable, "-I", "-S", "-c", _CONNECT, parts.hostname or "", str(port)]
    answer = capture(argv, PATIENCE, env={}, cwd=Path("/"))
    if answer.timed_out:
        return f"no answer within {PATIENCE:g} s"
    sign, _, rest = answer.out.decode(errors="replace").strip().partition(" ")
    return float(rest) if sign == "+" else rest or "the connection could not be tried"
