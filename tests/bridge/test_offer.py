"""Ring 1. What the agent is told about MCP servers (C-39, C-40, C-48); every entry judged by the oracle."""

from pathlib import Path

import pytest
from msgspec import Raw
from msgspec.structs import replace

from acp_launch.bridge.offer import HttpAddress, ShimCommand, entries, is_unable, transport, untakeable
from acp_launch.plan.model import LaunchPlan, Origin, ProcessPlan, RemotePlan, StdioPlan, Value
from acp_launch.profile.model import McpTransport, Timeouts
from acp_launch.protocol.acp import Capabilities
from acp_launch.protocol.conversation import Conversation
from acp_launch.secret.value import Secret, SecretReference
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
DOCS = RemotePlan(
    name="docs", type="http", url=Value(("https://x/mcp",), HERE), headers={"Authorization": TOKEN}, bridge=False
)
OLD = RemotePlan(name="old", type="sse", url=Value(("https://x/sse",), HERE), headers={}, bridge=False)
REGION = Value(("eu",), HERE)


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


def test_a_shim_elsewhere_is_started_by_what_there_is_and_told_to_copy() -> None:
    way = replace(WAY, python=Path("/bin/sh"), options=(), shim=Path("/run/seat/shim.sh"), copies=True)
    (entry,) = entries([BRIDGED], {}, way)
    assert (entry["command"], entry["args"]) == ("/bin/sh", ["/run/seat/shim.sh", "/run/s", "files"])
    assert entry["env"] == [
        {"name": "ACP_LAUNCH_SEAT", "value": "one-launch-token"},
        {"name": "ACP_LAUNCH_SEAT_COPY", "value": "1"},
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


def test_a_bridged_remote_server_is_a_shim_for_any_agent_without_its_address_and_headers() -> None:
    bridged = replace(DOCS, bridge=True)
    (entry,) = entries([bridged], {}, WAY)
    assert (entry["name"], entry["args"][-1]) == ("docs", "docs")
    assert set(entry) == {"name", "command", "args", "env"}
    assert [pair["name"] for pair in entry["env"]] == ["ACP_LAUNCH_SEAT"]
    assert untakeable([bridged], Capabilities()) == []


def test_the_variables_of_a_server_that_the_agent_connects_to_are_headers_of_its_entry() -> None:
    """M-46: `env` means the same on either side."""
    for spelling, headers in (
        ("exact", [{"name": "X-Env-API_KEY", "value": "eu"}]),
        ("dashes", [{"name": "X-Env-API-KEY", "value": "eu"}]),
        ("off", []),
    ):
        (entry,) = entries([replace(OLD, env={"API_KEY": REGION}, env_headers=spelling)], {}, None)
        assert entry["headers"] == headers


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


def launch(command: str, mcp: McpTransport) -> LaunchPlan:
    return LaunchPlan(
        profile="p",
        file=None,
        project=Path("/w"),
        description="",
        agent=ProcessPlan(name="agent", command=Path(command), args=(), env={}, cwd=Path("/w")),
        timeouts=Timeouts(),
        cwd=Path("/w"),
        additional_directories=(),
        session=None,
        permission="ask",
        servers=(BRIDGED,),
        mcp=mcp,
    )


def test_over_http_an_entry_is_an_address_and_a_token_and_nothing_of_the_server() -> None:
    """M-37: the token is in a header, not in the address, which agents write to their logs."""
    where = HttpAddress("http://127.0.0.1:4711/0123", "t0ken")
    assert entries([BRIDGED], {}, {"files": where}) == [
        {
            "type": "http",
            "name": "files",
            "url": "http://127.0.0.1:4711/0123",
            "headers": [{"name": "Authorization", "value": "Bearer t0ken"}],
        }
    ]
    assert "t0ken" not in repr(where)


@pytest.mark.parametrize(
    ("command", "mcp", "http", "expected"),
    [
        ("/bin/copilot", "auto", True, "http"),
        ("/bin/copilot", "auto", False, "stdio"),
        ("/bin/copilot", "stdio", True, "stdio"),
        ("/bin/codex-acp", "auto", True, "stdio"),
        ("/bin/unknown", "auto", True, "stdio"),
        ("/bin/unknown", "http", True, "http"),
        ("/bin/unknown", "http", False, "http"),
    ],
)
def test_servers_are_offered_as_the_profile_says_or_as_the_agent_is_known_to_take_them(
    command: str, mcp: McpTransport, http: bool, expected: str
) -> None:
    """M-36, M-37. An agent that cannot do what the profile wants is an error, not a session without servers."""
    plan, able = launch(command, mcp), Capabilities(http=http)
    assert transport(plan, able) == expected
    assert is_unable(plan, able) is (expected == "http" and not http)
