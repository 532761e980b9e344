"""
An agent on PyPI `agent-client-protocol` that uses all the SDK has: what `tests/agents/every.py` does, where it can.

The SDK reads and writes each message anew, so a value that passes through it is as another program would write it.
"""

import asyncio
import json
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

import acp
from acp import schema

OPTIONS = [
    schema.PermissionOption(option_id="no", name="Do not write", kind="reject_once"),
    schema.PermissionOption(option_id="yes", name="Write", kind="allow_once"),
]
MODES = schema.SessionModeState(
    current_mode_id="ask",
    available_modes=[schema.SessionMode(id="ask", name="Ask"), schema.SessionMode(id="code", name="Code")],
)
FORM = schema.ElicitationSchema.model_validate({"type": "object", "properties": {"which": {"type": "string"}}})
STEPS = json.loads(Path(__file__).with_name("turn.json").read_text())


class Agent:
    """The methods of the SDK; what it does not route is refused by it."""

    def __init__(self) -> None:
        self._sessions = count(1)
        self._cancelled = asyncio.Event()

    def on_connect(self, conn: acp.Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        return acp.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_info=schema.Implementation(name="sdk-agent", version=version("agent-client-protocol")),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
            ),
            auth_methods=[schema.AuthMethodAgent(id="browser", name="Log in")],
        )

    async def authenticate(self, method_id: str, **_: Any) -> acp.AuthenticateResponse:
        return acp.AuthenticateResponse()

    async def new_session(self, cwd: str, **_: Any) -> acp.NewSessionResponse:
        return acp.NewSessionResponse(session_id=f"session-{next(self._sessions)}", modes=MODES)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> acp.LoadSessionResponse:
        await self._client.session_update(session_id, acp.update_user_message_text("before"))
        return acp.LoadSessionResponse(modes=MODES)

    async def resume_session(self, session_id: str, cwd: str, **_: Any) -> schema.ResumeSessionResponse:
        return schema.ResumeSessionResponse(modes=MODES)

    async def list_sessions(self, cwd: str | None = None, **_: Any) -> schema.ListSessionsResponse:
        return schema.ListSessionsResponse(sessions=[schema.SessionInfo(session_id="session-1", cwd=cwd or "/")])

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        return schema.CloseSessionResponse()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> acp.SetSessionModeResponse:
        return acp.SetSessionModeResponse()

    async def set_config_option(self, config_id: str, **_: Any) -> acp.SetSessionConfigOptionResponse:
        raise acp.RequestError.invalid_params({"configId": config_id})

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method != "vendor/ask":
            raise acp.RequestError.method_not_found(method)
        return {"asked": params}

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Nothing follows from it."""

    async def cancel(self, session_id: str, **_: Any) -> None:
        self._cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> acp.PromptResponse:
        text = "".join(block.text for block in prompt)
        if text == "everything":
            await self._everything(session_id)
        elif text == "wait":
            self._cancelled.clear()
            await self._say(session_id, "waiting")
            await self._cancelled.wait()
            return acp.PromptResponse(stop_reason="cancelled")
        await self._say(session_id, f"You said: {text}")
        return acp.PromptResponse(stop_reason="end_turn")

    async def _everything(self, session: str) -> None:
        for step in STEPS:
            update = step.get("notify", {})
            if update and update["sessionUpdate"] not in {"notice", "compaction_update", "compaction_summary_chunk"}:
                told = schema.SessionNotification.model_validate({"sessionId": session, "update": update})
                await self._client.session_update(session, told.update)
        call = schema.ToolCallUpdate(tool_call_id="call-1", title="Write", kind="edit", status="pending")
        await self._tell(session, await self._client.request_permission(session, call, OPTIONS))
        await self._tell(session, await self._client.read_text_file(session, "/tmp/a", limit=10, line=3))
        await self._tell(session, await self._client.write_text_file(session, "/tmp/a", "new\r\n"))
        terminal = (await self._client.create_terminal(session, "make", args=["-j"], cwd="/tmp")).terminal_id
        await self._tell(session, await self._client.terminal_output(session, terminal))
        await self._tell(session, await self._client.wait_for_terminal_exit(session, terminal))
        try:
            await self._client.kill_terminal(session, terminal)
        except acp.RequestError as error:
            await self._say(session, f"{error.code} {error} {error.data}")
        await self._tell(session, await self._client.release_terminal(session, terminal))
        mode = schema.ElicitationFormSessionMode(session_id=session, requested_schema=FORM)
        await self._tell(session, await self._client.create_elicitation("Which?", mode))
        await self._client.complete_elicitation("e-1")
        await self._say(session, json.dumps(await self._client.ext_method("vendor/ask", {"x": 1})))
        await self._client.ext_notification("vendor/tell", {})

    async def _tell(self, session: str, answer: Any) -> None:
        await self._say(session, answer.model_dump_json() if answer is not None else "nothing")

    async def _say(self, session: str, text: str) -> None:
        await self._client.session_update(session, acp.update_agent_message_text(text))


if __name__ == "__main__":
    agent: Any = Agent()
    asyncio.run(acp.run_agent(agent, use_unstable_protocol=True))
