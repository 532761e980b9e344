"""An editor on PyPI `agent-client-protocol`: `python sdk_client.py DIRECTORY COMMAND…` talks to the demo agent."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import acp
from acp import schema


class Client:
    """Serves files and one terminal, and allows all."""

    def on_connect(self, conn: acp.Agent) -> None:
        """Nothing is asked of the agent from here."""

    async def request_permission(self, options: list[schema.PermissionOption], **_: Any) -> Any:
        (allowed,) = (option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=allowed.option_id)
        return acp.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, **_: Any) -> None:
        """What it is told is kept by the tap before it."""

    async def read_text_file(self, path: str, **_: Any) -> acp.ReadTextFileResponse:
        if not Path(path).exists():  # noqa: ASYNC240 - a small local file
            raise acp.RequestError.resource_not_found(path)
        return acp.ReadTextFileResponse(content=Path(path).read_text())  # noqa: ASYNC240

    async def write_text_file(self, path: str, content: str, **_: Any) -> acp.WriteTextFileResponse:
        Path(path).write_text(content)  # noqa: ASYNC240
        return acp.WriteTextFileResponse()

    async def create_terminal(self, **_: Any) -> acp.CreateTerminalResponse:
        return acp.CreateTerminalResponse(terminal_id="t-1")

    async def wait_for_terminal_exit(self, **_: Any) -> acp.WaitForTerminalExitResponse:
        return acp.WaitForTerminalExitResponse(exit_code=0)

    async def terminal_output(self, **_: Any) -> acp.TerminalOutputResponse:
        return acp.TerminalOutputResponse(output="said\n", truncated=False)

    async def release_terminal(self, **_: Any) -> acp.ReleaseTerminalResponse:
        return acp.ReleaseTerminalResponse()


async def converse(cwd: str, command: list[str]) -> None:
    client: Any = Client()
    files = schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
    offers = schema.ClientCapabilities(fs=files, terminal=True)
    started = acp.spawn_agent_process(
        client, command[0], *command[1:], env=dict(os.environ), cwd=cwd, use_unstable_protocol=True
    )
    async with started as (agent, _):
        await agent.initialize(acp.PROTOCOL_VERSION, offers, schema.Implementation(name="sdk", version="1"))
        session = (await agent.new_session(cwd, mcp_servers=[])).session_id
        for text in ("hello", "edit note.txt a line", "edit note.txt more"):
            await agent.prompt(session, [acp.text_block(text)])
        await agent.set_session_mode(session, "code")
        await agent.set_config_option("model", session, "script-l")
        await agent.list_sessions(cwd)
        await agent.close_session(session)
        await agent.load_session(cwd, session, mcp_servers=[])
        for text in ("history", "shell echo said"):  # the command comes last: a replay is without its terminal
            await agent.prompt(session, [acp.text_block(text)])


asyncio.run(converse(sys.argv[1], sys.argv[2:]))
