"""Uses every method and kind of update of ACP: what it asks and tells in a turn is in `tests/editors/turn.json`.

A prompt of `everything` goes through all of it and says each answer; `wait` ends when it is cancelled, in either way;
`withdraw` asks, takes the question back, and says what it was answered. Its requests have ids of every shape.
"""

import json
import sys
from itertools import count

ROOT = __file__.rsplit("/", 3)[0]
sys.path.insert(0, ROOT)
from tests.agents import script  # noqa: E402

with open(f"{ROOT}/tests/editors/turn.json", encoding="utf-8") as file:  # noqa: PTH123 - every import costs each start
    STEPS = json.load(file)
IDS = [0, "0", -7, 2**63, 'ü " \\ /', 10**30, "", "null"]
SELECT = {
    "id": "model",
    "name": "Model",
    "type": "select",
    "currentValue": "a",
    "options": [{"value": "a", "name": "A"}],
}
MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
STATE = {"modes": MODES, "configOptions": [SELECT], "_meta": {"of": "the agent"}}
CAPABILITIES = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": False, "_meta": {"kept": True}},
    "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {}},
    "auth": {"logout": {}},
    "_meta": {"vendor": {"x": [1, 2]}},
}
AUTH = [
    {"id": "browser", "name": "Log in", "description": "In a browser"},
    {"type": "terminal", "id": "shell", "name": "In a terminal", "args": ["login", "--now"], "env": {"A": "b"}},
]
numbers = count()


def ask(method: str, params: script.Message) -> script.Message:
    number = next(numbers)
    identity = IDS[number] if number < len(IDS) else number
    script.send({"id": identity, "method": method, "params": params})
    return script.response(identity)


def initialize(request: script.Message) -> None:
    about = {"name": "every", "title": "Every method", "version": "1.0.0"}
    result = {"protocolVersion": 1, "agentCapabilities": CAPABILITIES, "agentInfo": about, "authMethods": AUTH}
    script.answer(request, {**result, "_meta": {"kept": [None, 1.50]}})


def authenticate(request: script.Message) -> None:
    """Ask for what belongs to this very request (ElicitationRequestScope)."""
    schema = {"type": "object", "properties": {"code": {"type": "string"}}}
    form = {"mode": "form", "message": "The code?", "requestedSchema": schema, "requestId": request["id"]}
    said = ask("elicitation/create", form)
    script.answer(request, {"_meta": {"answer": said.get("result")}})


def load(request: script.Message) -> None:
    script.update(script.session_of(request), "user_message_chunk", content={"type": "text", "text": "before"})
    script.say(script.session_of(request), "answered before")
    script.answer(request, STATE)


def new(request: script.Message) -> None:
    identity = f"session-{next(sessions)}"
    script.answer(request, {"sessionId": identity, **STATE})
    script.update(identity, "available_commands_update", availableCommands=[])


def everything(request: script.Message) -> None:
    session = script.session_of(request)
    for step in STEPS:
        if "notify" in step:
            script.send({"method": "session/update", "params": {"sessionId": session, "update": step["notify"]}})
        elif "tell" in step:
            script.send({"method": step["tell"], "params": step["params"]})
        else:
            answer = ask(step["ask"], {"sessionId": session, **step["params"]})
            script.say(session, json.dumps({key: answer[key] for key in sorted(answer) if key != "id"}))
    # Not as json.dumps writes it, and with an unknown member at each level.
    text = '"content":{"type":"text","text":"\\u00fc\\/"}'
    chunk = f'{{"x" : [ 1.0E+2,-0 ],"sessionUpdate":"agent_message_chunk" , {text}}}'
    params = f'{{"update" :{chunk},"sessionId":"{session}","y":null}}'
    line = f' {{ "params":{params}, "method":"session/update","jsonrpc":"2.0"}}\t'
    script.write(line.encode() + b"\n")
    script.answer(request, {"stopReason": "end_turn", "_meta": {"words": 12}})


def wait(request: script.Message) -> None:
    script.say(script.session_of(request), "waiting")
    while (message := script.read()) is not None:
        if message.get("method") == "session/cancel":
            script.end(request, "cancelled")
            return
        if message.get("method") == "$/cancel_request" and message["params"]["requestId"] == request["id"]:
            script.refuse(request, -32800, "cancelled", by="the editor")
            return
    raise SystemExit(0)


def withdraw(request: script.Message) -> None:
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    params = {"sessionId": script.session_of(request), "toolCall": {"toolCallId": "call-2"}, "options": options}
    script.send({"id": "withdrawn", "method": "session/request_permission", "params": params})
    script.send({"method": "$/cancel_request", "params": {"requestId": "withdrawn"}})
    script.say(script.session_of(request), json.dumps(script.response("withdrawn").get("error")))
    script.end(request)


def prompt(request: script.Message) -> None:
    turns = {"everything": everything, "wait": wait, "withdraw": withdraw}
    turns.get(script.said(request), script.prompt)(request)


def listed(request: script.Message) -> None:
    session = {"sessionId": "session-1", "cwd": "/tmp", "title": "One", "updatedAt": "2026-11-23T00:00:00Z"}
    script.answer(request, {"sessions": [session], "nextCursor": "more"})


sessions = count(1)
script.serve(
    {
        "initialize": initialize,
        "authenticate": authenticate,
        "logout": lambda request: script.answer(request, {}),
        "session/new": new,
        "session/load": load,
        "session/resume": lambda request: script.answer(request, STATE),
        "session/list": listed,
        "session/delete": lambda request: script.refuse(request, -32002, "no such session", uri="session-9"),
        "session/close": lambda request: script.answer(request, {"_meta": {"closed": True}}),
        "session/set_mode": lambda request: script.answer(request, {}),
        "session/set_config_option": lambda request: script.answer(request, {"configOptions": [SELECT]}),
        "session/prompt": prompt,
        "_vendor/ask": lambda request: script.answer(request, {"asked": request["params"]}),
    }
)
