"""The verbs about MCP servers, and `doctor`, with remote servers: the handshake, its facts, and what went wrong."""

import json
import socket
import sys
from typing import Any

import pytest

from tests.cli.launcher import DEMO, ROOT, Ended, Launcher
from tests.patience import PATIENCE
from tests.remote.children import tempered

TOKEN = "hunter2-hunter2"
Json = dict[str, Any]


def profile(launch: Launcher, url: str, **more: Any) -> None:
    """A profile whose agent does not exist, and with one remote server."""
    docs = {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${secret:docs}"}, **more}
    launch.write({"agent": {"command": "no-such-agent"}, "mcp_servers": {"docs": docs}})
    launch.env["ACP_LAUNCH_SECRET_DOCS"] = TOKEN
    assert launch("trust", "p", "--yes").code == 0


def asked(launch: Launcher, verb: str, *words: str) -> Ended:
    return launch("mcp", verb, "p", "docs", *words)


@pytest.mark.promise("mcp")
@pytest.mark.sample(1)
@pytest.mark.parametrize(("era", "type"), [("legacy", "http"), ("sse", "sse")])
def test_the_tools_of_a_remote_server_are_listed_and_called(launch: Launcher, era: str, type: str) -> None:
    with tempered(era=era, bearer=TOKEN) as server:
        profile(launch, server.url, type=type, tools={"deny": ["add"]})
        listed = asked(launch, "tools", "--json")
        names = [tool["name"] for tool in json.loads(listed.out)["tools"]]
        assert (listed.code, "echo" in names, "add" in names) == (0, True, False)
        called = asked(launch, "call", "echo", 'text="a=b"')
        assert (called.code, called.out) == (0, b'"a=b"\n')
        denied = asked(launch, "call", "add", "a=1", "b=2")
        assert (denied.code, "not allowed by the profile (tools.deny: add)" in denied.err) == (2, True)


def test_inspect_tells_version_era_session_and_times(launch: Launcher) -> None:
    """M-50."""
    with tempered(bearer=TOKEN) as server:
        profile(launch, server.url, env={"TENANT": "acme"})
        found = json.loads(asked(launch, "inspect", "--json").out)
        text = asked(launch, "inspect").out.decode()
        sent = dict(server.requests[0]["headers"])
    assert found["connection"] == {"type": "http", "era": "legacy", "session": True, "tls": None}
    assert list(found["timings"])[:2] == ["initialize", "tools/list"]
    assert all(0 <= taken < PATIENCE for taken in found["timings"].values())
    assert found["client_info"]["env"] == {"TENANT": "***"}
    assert "connection    http, not encrypted, of the legacy era, with a session\n" in text
    assert "variables     TENANT\n" in text
    assert "inherited" not in text
    assert {name.lower(): value for name, value in sent.items()}["x-env-tenant"] == "acme"
    assert TOKEN not in text + json.dumps(found)


def test_a_server_of_the_era_without_handshake_is_used_like_any_other(launch: Launcher) -> None:
    """M-13, M-50. A program, too."""
    with tempered(era="modern") as server:
        profile(launch, server.url)
        found = json.loads(asked(launch, "inspect", "--json").out)
        text = asked(launch, "inspect").out.decode()
        called = asked(launch, "call", "echo", "text=hello")
    assert (called.code, called.out) == (0, b"hello\n")
    assert found["connection"] == {"type": "http", "era": "modern", "session": False, "tls": None}
    assert "protocol      MCP 2025-11-25, translated from 2026-07-28\n" in text
    assert "connection    http, not encrypted, of the modern era, without a session\n" in text
    program = {"command": sys.executable, "args": ["-I", "-S", str(ROOT / "tests" / "servers" / "modern.py")]}
    launch.extend(mcp_servers={"docs": program})
    assert json.loads(asked(launch, "inspect", "--json").out)["connection"] == {"type": "stdio", "era": "modern"}


def test_of_credentials_that_are_refused_the_secret_is_named_and_how_to_replace_it(launch: Launcher) -> None:
    launch.configure("secrets: {store: file, file: {key_file: key}}\n")
    for name in ("docs", "other"):
        assert launch("secret", "set", name, stdin=TOKEN.encode()).code == 0
    other = {"X-A": "${secret:docs}", "X-Key": "${secret:other} ${secret:docs}"}
    with tempered(bearer="other", challenge='ApiKey realm="docs"') as server:
        for headers, verb, why in (
            (
                {"Authorization": "Bearer ${secret:docs}", "X-Key": "${secret:other}"},
                ["run", "p", "hi"],
                "the secret docs",
            ),
            (other, ["doctor", "p"], "the secrets docs, other"),
            (other, ["mcp", "tools", "p", "docs"], "the secrets docs, other"),
        ):
            entry = {"type": "http", "url": server.url, "headers": headers}
            launch.write({"agent": DEMO, "mcp_servers": {"docs": entry}})
            done = launch(*verb)
            told = done.err + done.out.decode()
            assert (done.code, f"it does not accept {why}\n" in told) == (6, True), told
            assert "fix: acp-launch secret set docs" in told
        launch.env["ACP_LAUNCH_SECRET_DOCS"] = TOKEN
        assert "fix: export ACP_LAUNCH_SECRET_DOCS=...\n" in launch("mcp", "tools", "p", "docs").err


def test_streamable_http_under_the_type_of_the_older_transport_names_the_type(launch: Launcher) -> None:
    with tempered(faults=[{"on": "*", "do": "status", "status": 405}]) as server:
        profile(launch, server.url, type="sse")
        done = asked(launch, "tools")
    assert done.code == 5
    assert "not as MCP at this path" in done.err
    assert "fix: check mcp_servers.docs.url, mcp_servers.docs.type and" in done.err


def test_a_server_that_is_not_there_is_told_by_its_address(launch: Launcher) -> None:
    """M-50."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        where = f"http://127.0.0.1:{taken.getsockname()[1]}"
        profile(launch, f"{where}/mcp")
        done = asked(launch, "inspect")
    assert (done.code, done.out) == (8, b"")
    assert done.err == (
        'acp-launch: the MCP server "docs" could not be reached: connection refused\n'
        f"    fix: check that it runs, and mcp_servers.docs.url ({where})\n"
    )


def test_a_trace_has_the_messages_and_no_header(launch: Launcher) -> None:
    with tempered(bearer=TOKEN) as server:
        profile(launch, server.url)
        assert asked(launch, "call", "echo", "text=hello", "--trace", "t.jsonl").code == 0
    text = (launch.project / "t.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    said = [(line["from"], line["message"].get("method")) for line in lines if line["type"] == "message"]
    assert said[:3] == [
        ("acp-launch", "initialize"),
        ("server", None),
        ("acp-launch", "notifications/initialized"),
    ]
    assert ("acp-launch", "tools/call") in said
    assert not [word for word in (TOKEN, "Authorization", "Mcp-Session-Id") if word in text]
