"""The demo MCP server over HTTP: its token and its sessions."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from urllib.error import HTTPError

import anyio

from tests.demo.client import Message, command
from tests.patience import PATIENCE

HELLO: Message = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


@contextmanager
def serving(*words: str, home: Path) -> Iterator[str]:
    """The address of a server with these arguments."""
    argv = [*command("acp_launch.demo.web"), *words]
    env = {"ACP_DEMO_HOME": str(home)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True) as running:
        try:
            assert running.stdout is not None
            yield running.stdout.readline().strip()
        finally:
            running.terminate()
            running.wait(PATIENCE)


def visit(url: str, method: str = "POST", body: object = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """The status, the headers and the body of an answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, named, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, dict(answer.headers.items()), answer.read()
    except HTTPError as error:
        with error:
            return error.code, dict(error.headers.items()), error.read()


def ask(number: int, method: str, params: Message) -> Message:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def test_a_session_begins_with_the_handshake_and_ends_with_delete(tmp_path: Path) -> None:
    with serving(home=tmp_path) as url:
        assert visit(url, body=ask(1, "tools/list", {}))[0] == 400
        status, headers, _ = visit(url, body=ask(1, "initialize", HELLO))
        session = headers["Mcp-Session-Id"]
        assert (status, headers["Content-Type"]) == (200, "application/json")
        told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert visit(url, body=told, Mcp_Session_Id=session)[::2] == (202, b"")
        listed = json.loads(visit(url, body=ask(2, "tools/list", {}), Mcp_Session_Id=session)[2])
        assert [tool["name"] for tool in listed["result"]["tools"]] == ["add_note", "list_notes", "add"]
        assert visit(url, "GET", Mcp_Session_Id=session)[0] == 405
        assert visit(url, "DELETE", Mcp_Session_Id=session)[0] == 204
        assert visit(url, body=ask(3, "tools/list", {}), Mcp_Session_Id=session)[0] == 404


def test_what_is_not_a_message_is_refused(tmp_path: Path) -> None:
    with serving(home=tmp_path) as url:
        for body, code in ((b"{", -32700), (b"[]", -32600)):
            status, _, answer = visit(url, body=body)
            assert (status, json.loads(answer)["error"]["code"]) == (400, code)
        assert visit(url.replace("/mcp", "/elsewhere"), body=ask(1, "ping", {}))[0] == 404


def test_without_its_token_nothing_is_served(tmp_path: Path) -> None:
    with serving("--token", "right", home=tmp_path) as url:
        for said, method in product(("", "Bearer wrong", "right"), ("POST", "GET", "DELETE")):
            body = ask(1, "initialize", HELLO) if method == "POST" else None
            status, headers, _ = visit(url, method, body, **({"Authorization": said} if said else {}))
            assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")


def test_the_published_client_takes_it(tmp_path: Path) -> None:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def talk(url: str) -> str:
        async with streamable_http_client(url) as (read, write, *_), ClientSession(read, write) as session:
            await session.initialize()
            result = await session.call_tool("add", {"a": 2, "b": 3})
            return str(result.content[0].text)  # type: ignore[union-attr]

    with serving(home=tmp_path) as url:
        assert anyio.run(talk, url) == "5"


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with serving(home=tmp_path) as url:
        port = url.rpartition(":")[2].removesuffix("/mcp")
        done = subprocess.run(
            [*command("acp_launch.demo.web"), port], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    assert done.returncode == 2
    assert f"cannot listen on port {port}: Address already in use" in done.stderr
    assert "Traceback" not in done.stderr
