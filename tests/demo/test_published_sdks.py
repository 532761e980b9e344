"""The published SDKs as judges: `agent-client-protocol` drives the demo agent, `mcp` the demo server."""

import asyncio
from pathlib import Path
from typing import Any

import acp
import mcp
import pytest
from acp import schema
from mcp.client.stdio import stdio_client

from tests.demo.client import command, server_entry
from tests.patience import PATIENCE


class Watcher:
    """An SDK client that collects what it is told and allows everything once."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[str] = []
        self.counting = asyncio.Event()

    def on_connect(self, conn: acp.Agent) -> None:
        self.connection = conn

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.append(update)
        if "3 " in self.text():
            self.counting.set()

    async def request_permission(
        self, options: list[schema.PermissionOption], session_id: str, tool_call: schema.ToolCallUpdate, **kwargs: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append(tool_call.title or "")
        chosen = next(option for option in options if option.kind == "allow_once")
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        )

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update.content.text for update in self.updates if update.session_update == kind)


async def converse(home: Path, cwd: Path) -> None:
    watcher = Watcher()
    program, *args = command("acp_launch.demo.agent")
    entry = server_entry()
    server = schema.McpServerStdio(name="notes", command=entry["command"], args=entry["args"], env=[])
    client: Any = watcher
    async with acp.spawn_agent_process(client, program, *args, env={"ACP_DEMO_HOME": str(home)}) as (agent, _):
        answer = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert answer.agent_info is not None
        assert answer.agent_info.name == "acp-launch-demo"
        session = (await agent.new_session(cwd=str(cwd), mcp_servers=[server])).session_id
        done = await agent.prompt(session_id=session, prompt=[acp.text_block("note from the SDK")])
        assert (done.stop_reason, watcher.asked) == ("end_turn", ["Note: from the SDK"])
        assert watcher.text() == "Noted: from the SDK"

        watcher.updates.clear()
        turn = asyncio.ensure_future(agent.prompt(session_id=session, prompt=[acp.text_block("count 1000")]))
        await watcher.counting.wait()
        await agent.cancel(session_id=session)
        assert (await turn).stop_reason == "cancelled"

        watcher.updates.clear()
        await agent.load_session(session_id=session, cwd=str(cwd), mcp_servers=[server])
        await agent.prompt(session_id=session, prompt=[acp.text_block("history")])
        assert watcher.text("user_message_chunk") == "note from the SDKcount 1000"
        assert "the session had 2 turns" in watcher.text()
        assert [item.session_id for item in (await agent.list_sessions()).sessions] == [session]
        await agent.close_session(session_id=session)


def test_the_acp_sdk_can_prompt_permit_cancel_load_list_and_close(tmp_path: Path) -> None:
    asyncio.run(asyncio.wait_for(converse(tmp_path / "home", tmp_path), PATIENCE))


async def use_server(home: Path) -> None:
    program, *args = command("acp_launch.demo.server")
    parameters = mcp.StdioServerParameters(command=program, args=args, env={"ACP_DEMO_HOME": str(home)})
    async with stdio_client(parameters) as (read, write), mcp.ClientSession(read, write) as session:
        opened = await session.initialize()
        assert opened.server_info.name == "acp-launch-notes"
        assert [tool.name for tool in (await session.list_tools()).tools] == ["add_note", "list_notes", "add"]
        added = await session.call_tool("add", {"a": 1.5, "b": 2})
        assert [getattr(block, "text", None) for block in added.content] == ["3.5"]
        failed = await session.call_tool("add_note", {"text": ""})
        assert failed.is_error is True
        with pytest.raises(mcp.MCPError):
            await session.call_tool("unknown", {})


def test_the_mcp_sdk_can_shake_hands_list_and_call(tmp_path: Path) -> None:
    asyncio.run(asyncio.wait_for(use_server(tmp_path / "home"), PATIENCE))
