"""
An agent the way its author would write it on PyPI `agent-client-protocol` 0.12: helpers build every update.

    write NAME   asks permission, and writes the file only if it is given
    wait         waits until the turn is cancelled
    recall       says what it was asked before
    …            thinks, and says it back in two chunks
"""

import asyncio
from importlib.metadata import version
from pathlib import Path
from typing import Any

import acp
from acp import schema

from tests.peers.memory import Memory, record

# Rejecting comes first: choosing by position would deny.
OPTIONS = [
    schema.PermissionOption(option_id="no", name="Do not write", kind="reject_once"),
    schema.PermissionOption(option_id="yes", name="Write", kind="allow_once"),
]


class Peer:
    def __init__(self) -> None:
        self._memory = Memory()
        self._cancelled: dict[str, asyncio.Event] = {}

    def on_connect(self, conn: acp.Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        return acp.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_info=schema.Implementation(name="peer", version=version("agent-client-protocol")),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                session_capabilities=schema.SessionCapabilities(list=schema.SessionListCapabilities()),
            ),
        )

    async def new_session(self, cwd: str, **_: Any) -> acp.NewSessionResponse:
        return acp.NewSessionResponse(session_id=self._memory.create(cwd))

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> acp.LoadSessionResponse:
        if session_id not in self._memory.sessions():
            raise acp.RequestError.resource_not_found(session_id)
        for role, text in self._memory.recall(session_id):
            update = acp.update_user_message_text if role == "user" else acp.update_agent_message_text
            await self._client.session_update(session_id, update(text))
        return acp.LoadSessionResponse()

    async def list_sessions(self, cwd: str | None = None, **_: Any) -> schema.ListSessionsResponse:
        places = ((session_id, self._memory.cwd(session_id)) for session_id in self._memory.sessions())
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(session_id=session_id, cwd=place)
                for session_id, place in places
                if cwd in (None, place)
            ]
        )

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> acp.PromptResponse:
        cancelled = self._cancelled[session_id] = asyncio.Event()
        text = "".join(block.text for block in prompt)
        before = [said.text for said in self._memory.recall(session_id) if said.role == "user"]
        self._memory.add(session_id, "user", text)
        match text.split():
            case ["write", name]:
                await self._say(session_id, await self._write(session_id, name))
            case ["wait"]:
                await self._say(session_id, "waiting")
                await cancelled.wait()
                return acp.PromptResponse(stop_reason="cancelled")
            case ["recall"]:
                await self._say(session_id, "\n".join(before))
            case _:
                await self._client.session_update(session_id, acp.update_agent_thought_text(f"They said {text}"))
                await self._say(session_id, "You said: ", text)
        return acp.PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        self._cancelled[session_id].set()

    async def _write(self, session_id: str, name: str) -> str:
        call = acp.start_tool_call("call-1", f"Write {name}", kind="edit", status="pending")
        await self._client.session_update(session_id, call)
        question = schema.ToolCallUpdate(tool_call_id="call-1", title=f"Write {name}", kind="edit", status="pending")
        answer = await self._client.request_permission(session_id=session_id, tool_call=question, options=OPTIONS)
        allowed = isinstance(answer.outcome, schema.AllowedOutcome) and answer.outcome.option_id == "yes"
        if allowed:
            (Path(self._memory.cwd(session_id)) / name).write_text("written by the peer\n")
        status: schema.ToolCallStatus = "completed" if allowed else "failed"
        await self._client.session_update(session_id, acp.update_tool_call("call-1", status=status))
        return f"wrote {name}" if allowed else f"did not write {name}"

    async def _say(self, session_id: str, *chunks: str) -> None:
        for chunk in chunks:
            await self._client.session_update(session_id, acp.update_agent_message_text(chunk))
        self._memory.add(session_id, "agent", "".join(chunks))


if __name__ == "__main__":
    peer: Any = Peer()
    asyncio.run(acp.run_agent(peer, observers=[record]))
