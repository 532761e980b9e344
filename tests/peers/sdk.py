"""
An agent on PyPI `agent-client-protocol`, 0.12 or the 1.0 pre-release, whose models are built by hand, as 1.0 has no
helpers. Only 1.0 has `session/delete`.

    write NAME   asks permission, and writes the file only if it is given
    wait         waits until the turn is cancelled
    recall       says what it was asked before
    …            thinks, and says it back in two chunks

`ACP_TEST_HISTORY` names the directory of its sessions. When `ACP_TEST_TRANSCRIPT` names a file, every message is
appended to it, or to the one beside it for those that the peer sends, as `tests.oracle.check_transcript` wants it.

Discriminators are written out, which 1.0 does not ask for: so one type checker can read this file beside either SDK.
"""

import asyncio
import json
import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import acp
from acp import schema

VERSION = version("agent-client-protocol")
# Rejecting comes first: choosing by position would deny.
OPTIONS = [
    schema.PermissionOption(option_id="no", name="Do not write", kind="reject_once"),
    schema.PermissionOption(option_id="yes", name="Write", kind="allow_once"),
]


def text_block(text: str) -> schema.TextContentBlock:
    return schema.TextContentBlock(type="text", text=text)


def said_by_user(text: str) -> schema.UserMessageChunk:
    return schema.UserMessageChunk(session_update="user_message_chunk", content=text_block(text))


def said_by_agent(text: str) -> schema.AgentMessageChunk:
    return schema.AgentMessageChunk(session_update="agent_message_chunk", content=text_block(text))


class Said(NamedTuple):
    role: str  # user or agent
    text: str


class Memory:
    """One file a session: its directory, then one line for everything that was said."""

    def __init__(self) -> None:
        self._directory = Path(os.environ["ACP_TEST_HISTORY"])
        self._directory.mkdir(exist_ok=True)

    def create(self, cwd: str) -> str:
        session_id = uuid4().hex
        self._append(session_id, cwd)
        return session_id

    def add(self, session_id: str, role: str, text: str) -> None:
        self._append(session_id, [role, text])

    def cwd(self, session_id: str) -> str:
        return str(self._lines(session_id)[0])

    def recall(self, session_id: str) -> list[Said]:
        return [Said(*said) for said in self._lines(session_id)[1:]]

    def sessions(self) -> Iterator[str]:
        return (path.stem for path in sorted(self._directory.glob("*.jsonl")))

    def forget(self, session_id: str) -> None:
        self._file(session_id).unlink()

    def _file(self, session_id: str) -> Path:
        return self._directory / f"{session_id}.jsonl"

    def _lines(self, session_id: str) -> list[Any]:
        return [json.loads(line) for line in self._file(session_id).read_text().splitlines()]

    def _append(self, session_id: str, entry: object) -> None:
        with self._file(session_id).open("a") as file:
            file.write(json.dumps(entry) + "\n")


def record(event: Any) -> None:
    """A stream observer of either SDK."""
    if path := os.environ.get("ACP_TEST_TRANSCRIPT"):
        with Path(path + ("" if event.direction.value == "incoming" else ".sent")).open("a") as file:
            file.write(json.dumps(event.message) + "\n")


class Peer:
    def __init__(self) -> None:
        self._memory = Memory()
        self._cancelled: dict[str, asyncio.Event] = {}

    def on_connect(self, conn: acp.Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_info=schema.Implementation(name="peer", version=VERSION),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    delete=None if VERSION.startswith("0") else schema.SessionDeleteCapabilities(),
                ),
            ),
        )

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        return schema.NewSessionResponse(session_id=self._memory.create(cwd))

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        if session_id not in self._memory.sessions():
            raise acp.RequestError.resource_not_found(session_id)
        for role, text in self._memory.recall(session_id):
            update = said_by_user(text) if role == "user" else said_by_agent(text)
            await self._client.session_update(session_id, update)
        return schema.LoadSessionResponse()

    async def list_sessions(self, cwd: str | None = None, **_: Any) -> schema.ListSessionsResponse:
        places = ((session_id, self._memory.cwd(session_id)) for session_id in self._memory.sessions())
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(session_id=session_id, cwd=place)
                for session_id, place in places
                if cwd in (None, place)
            ]
        )

    async def delete_session(self, session_id: str, **_: Any) -> schema.DeleteSessionResponse:
        self._memory.forget(session_id)
        return schema.DeleteSessionResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
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
                return schema.PromptResponse(stop_reason="cancelled")
            case ["recall"]:
                await self._say(session_id, "\n".join(before))
            case _:
                await self._think(session_id, f"They said {text}")
                await self._say(session_id, "You said: ", text)
        return schema.PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        self._cancelled[session_id].set()

    async def _write(self, session_id: str, name: str) -> str:
        call = schema.ToolCallUpdate(tool_call_id="call-1", title=f"Write {name}", kind="edit", status="pending")
        start = schema.ToolCallStart(session_update="tool_call", **call.model_dump(exclude_none=True))
        await self._client.session_update(session_id, start)
        answer = await self._client.request_permission(session_id=session_id, tool_call=call, options=OPTIONS)
        allowed = isinstance(answer.outcome, schema.AllowedOutcome) and answer.outcome.option_id == "yes"
        if allowed:
            (Path(self._memory.cwd(session_id)) / name).write_text("written by the peer\n")
        end = schema.ToolCallProgress(
            session_update="tool_call_update", tool_call_id="call-1", status="completed" if allowed else "failed"
        )
        await self._client.session_update(session_id, end)
        return f"wrote {name}" if allowed else f"did not write {name}"

    async def _think(self, session_id: str, text: str) -> None:
        thought = schema.AgentThoughtChunk(session_update="agent_thought_chunk", content=text_block(text))
        await self._client.session_update(session_id, thought)

    async def _say(self, session_id: str, *chunks: str) -> None:
        for chunk in chunks:
            await self._client.session_update(session_id, said_by_agent(chunk))
        self._memory.add(session_id, "agent", "".join(chunks))


if __name__ == "__main__":
    peer: Any = Peer()
    asyncio.run(acp.run_agent(peer, observers=[record]))
