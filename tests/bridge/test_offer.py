"""Ring 1. What the agent is told about MCP servers (C-39, C-40, C-48); every entry judged by the oracle."""

from pathlib import Path

import pytest
from msgspec import Raw
from msgspec.structs import replace

from acp_launch.bridge.offer import ShimCommand, entries, untakeable
from acp_launch.plan.model import Origin, RemotePlan, StdioPlan, Value
from acp_launch.protocol.acp import Capabilities
from acp_launch.protocol.conversation import Conversation
from acp_launch.secret.reference import SecretReference
from acp_launch.secret.value import Secret
from tests.oracle import check_client_message

HERE = Origin("p.yaml", 3, 4)
TOKEN = Value(("Bearer ", SecretReference("token")), HERE)
FILES = StdioPlan(
    name="files",
    command=Path("/bin/files"),
    args=(Value(("--root",), HERE),),
    env={"TOKEN": TOKEN},
    cwd=Path("/w"),
    bridge=False,
)
BARE = StdioPlan(name="bare", command=Path("/bin/bare"), args=(), env={}, cwd=Path("/w"), bridge=False)
BRIDGED = replace(FILES, bridge=True)
WAY = ShimCommand(Path("/usr/bin/python3"), Path("/lib/shim.py"), Path("/run/s"), "one-launch-token")
DOCS = RemotePlan(name="docs", type="http", url=Value(("https://x/mcp",), HERE), headers={"Authorization": TOKEN})
OLD = RemotePlan(name="old", type="sse", url=Value(("https://x/sse",), HERE), headers={})


def test_a_stdio_entry_has_all_four_members_and_no_type() -> None:
    """C-39."""
    assert entries([FILES, BARE], {"token": Secret("s3cret")}, None) == [
        {
            "name": "files",
            "command": "/bin/files",
            "args": ["--root"],
            "env": [{"name": "TOKEN", "value": "Bearer s3cret"}],
        },
        {"name": "bare", "command": "/bin/bare", "args": [], "env": []},
    ]


def test_a_bridged_server_is_a_shim_that_knows_the_way_to_its_seat_and_nothing_of_the_server() -> None:
    """No command, argument, variable or secret of the server is in it."""
    assert entries([BRIDGED], {}, WAY) == [
        {
            "name": "files",
            "command": "/usr/bin/python3",
            "args": ["-I", "-S", "/lib/shim.py", "/run/s", "files"],
            "env": [{"name": "ACP_LAUNCH_SEAT", "value": "one-launch-token"}],
        }
    ]


def test_a_remote_entry_has_a_type_and_always_a_list_of_headers() -> None:
    """C-40."""
    assert entries([DOCS, OLD], {"token": Secret("s3cret")}, None) == [
        {
            "type": "http",
            "name": "docs",
            "url": "https://x/mcp",
            "headers": [{"name": "Authorization", "value": "Bearer s3cret"}],
        },
        {"type": "sse", "name": "old", "url": "https://x/sse", "headers": []},
    ]


def test_every_entry_is_valid_in_session_new() -> None:
    conversation = Conversation()
    conversation.initialize()
    conversation.negotiated(Raw(b'{"protocolVersion":1}'))
    offered = entries([FILES, BARE, BRIDGED, DOCS, OLD], {"token": Secret("x")}, WAY)
    line = conversation.open("new", "", cwd="/w", servers=offered, directories=[]).line
    assert check_client_message(line) == []


@pytest.mark.parametrize(
    ("able", "refused"),
    [
        (Capabilities(), ["docs", "old"]),
        (Capabilities(http=True), ["old"]),
        (Capabilities(sse=True), ["docs"]),
        (Capabilities(http=True, sse=True), []),
    ],
)
def test_http_and_sse_are_offered_only_to_agents_that_advertise_them(able: Capabilities, refused: list[str]) -> None:
    """C-40: omitted is unsupported; stdio every agent takes."""
    assert [server.name for server in untakeable([FILES, DOCS, OLD], able)] == refused


def test_a_secret_that_was_not_found_is_a_bug_not_an_empty_text() -> None:
    with pytest.raises(KeyError):
        entries([DOCS], {}, None)


def test_a_plan_never_shows_what_it_holds() -> None:
    """C-48."""
    shown = repr([FILES, DOCS])
    assert "Bearer" not in shown
    assert "s3cret" not in shown
