"""The demo MCP server: handshake, tools, errors, end of input."""

import subprocess
from pathlib import Path

import pytest

from tests.demo.client import Client, command
from tests.patience import PATIENCE


def open_server(server: Client, version: str = "2025-11-25") -> dict[str, object]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    result = server.result("initialize", params)
    server.notify("notifications/initialized", {})
    return result


def call(server: Client, tool: str, **arguments: object) -> tuple[str, bool]:
    result = server.result("tools/call", {"name": tool, "arguments": arguments})
    return result["content"][0]["text"], result["isError"]


@pytest.mark.parametrize(("version", "answered"), [("2024-11-05", "2024-11-05"), ("2099-01-01", "2025-11-25")])
def test_a_known_version_is_kept_and_any_other_is_the_newest(server: Client, version: str, answered: str) -> None:
    assert open_server(server, version)["protocolVersion"] == answered


def test_notes_are_kept_one_to_a_line(server: Client, tmp_path: Path) -> None:
    open_server(server)
    assert call(server, "list_notes") == ("There are no notes yet.", False)
    assert call(server, "add_note", text="two\nlines, größer") == ("Noted: two lines, größer", False)
    assert call(server, "list_notes") == ("1. two lines, größer", False)
    assert (tmp_path / "home" / "notes.txt").read_text("utf-8") == "two lines, größer\n"


def test_what_a_tool_cannot_do_is_a_result_and_what_is_unknown_an_error(server: Client) -> None:
    open_server(server)
    tools = {tool["name"]: tool for tool in server.result("tools/list", {})["tools"]}
    reading = {name: tool["annotations"]["readOnlyHint"] for name, tool in tools.items()}
    assert reading == {"add_note": False, "list_notes": True, "add": True}
    assert tools["add"]["inputSchema"]["required"] == ["a", "b"]
    assert call(server, "add_note") == ("text must be a string that is not empty", True)
    assert call(server, "add", a=1) == ("b must be a number", True)
    assert call(server, "add", a=True, b=1) == ("a must be a number", True)
    assert server.code("tools/call", {"name": "rm"}) == -32602
    assert server.code("resources/list", {}) == -32601
    server.raw(b"not json\n")
    assert server.answer_to(None)["error"]["code"] == -32700


def test_it_ends_with_its_input() -> None:
    done = subprocess.run(
        command("acp_launch.demo.server"), input=b"", capture_output=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
