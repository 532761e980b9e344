"""How the connection to a remote server is loaded."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from acp_launch.mcp.program import load_remote
from acp_launch.mcp.remote import Remote

from .test_transport import certificate

WHO_IMPORTS = """
import asyncio, sys, threading
from acp_launch.mcp.program import RemoteProgram

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "aiohttp":
            print(threading.current_thread().name, flush=True)

async def main():
    sys.meta_path.insert(0, Watch())
    async with RemoteProgram(name="docs", type="http", url="http://127.0.0.1:9/mcp").begin(restarts=0):
        pass

asyncio.run(main())
"""

CERTIFICATES = """
import ssl
import acp_launch.mcp.remote
import aiohttp

made = [each for each in vars(aiohttp.connector).values() if isinstance(each, ssl.SSLContext)]
print(len(made), *(len(each.get_ca_certs()) for each in [*made, ssl.create_default_context()]))
"""


def test_a_thread_imports_the_http_client_so_that_the_agent_is_greeted_meanwhile() -> None:
    done = subprocess.run([sys.executable, "-c", WHO_IMPORTS], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["http client", ""]


def test_without_a_further_thread_the_caller_imports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert load_remote.__wrapped__().result(0) is Remote


def test_only_a_context_that_is_used_reads_the_certificates(tmp_path: Path) -> None:
    """They take 35 ms, and aiohttp would read them twice when it is imported."""
    env = {**os.environ, "SSL_CERT_FILE": str(certificate(tmp_path))}
    done = subprocess.run([sys.executable, "-c", CERTIFICATES], capture_output=True, text=True, check=True, env=env)
    assert done.stdout == "2 0 0 1\n"
