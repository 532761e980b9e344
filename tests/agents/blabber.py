"""Says everything it was told, everywhere it can: the values of its own environment that begin with KNOWN_ and those of
the MCP servers it is given, whole, in pieces and encoded, in every kind of message and on stderr.

argv: `fail` answers the prompt with an error that holds them; `die` exits with them as its last words; `ask` asks for
permission with them in the question.
"""

import base64
import json
import os
import sys
import urllib.parse

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

known = [value for name, value in os.environ.items() if name.startswith("KNOWN_")]


def encoded(value: str) -> list[str]:
    token = base64.b64encode(f"user:{value}".encode()).decode()
    return [value, token, urllib.parse.quote(value, safe=""), json.dumps(value), repr(value)]


def everything() -> str:
    return " ".join(text for value in known for text in encoded(value))


def blab_on_stderr() -> None:
    for value in known:
        script.complain(f"the value is {value}!")
        for piece in (value[:3], value[3:7], value[7:], "\n"):
            os.write(2, piece.encode())
        script.complain(" ".join(encoded(value)))
        script.complain("x" * 1990 + value)  # where a tail of stderr would cut the line


def evasive(value: object) -> str:
    """JSON in which every character of every text is an escape."""
    if isinstance(value, str):
        return '"' + "".join(f"\\u{unit:04x}" for character in value for unit in units(character)) + '"'
    if isinstance(value, dict):
        return "{" + ",".join(f"{evasive(key)}:{evasive(member)}" for key, member in value.items()) + "}"
    return json.dumps(value)


def units(character: str) -> list[int]:
    data = character.encode("utf-16-be")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]


def blab(session: str) -> None:
    for value in known:
        script.say(session, f"[{value}]")
        for cut in (1, 2, 5, len(value) - 1):
            script.say(session, value[:cut])
            script.say(session, value[cut:])
        for character in value:
            script.say(session, character)
        for character in value[: len(value) // 2]:
            script.update(session, "agent_thought_chunk", content={"type": "text", "text": character})
        script.update(session, "agent_thought_chunk", content={"type": "text", "text": value[len(value) // 2 :] + "\n"})
    text = everything()
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    call = {"toolCallId": "call-1", "title": text, "rawInput": {text: [text]}, "content": content}
    script.update(session, "tool_call", **call, kind="execute", status="completed")
    script.update(session, "plan", entries=[{"content": text, "priority": "high", "status": "pending"}])
    script.update(session, "session_info_update", title=text)
    script.update(session, "usage_update", used=1, size=2, cost={"amount": 1, "currency": text})
    script.update(session, "from_the_future", anything={"deep": [text]})
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    params = evasive({"sessionId": session, "update": chunk})
    script.write(f'{{"jsonrpc":"2.0","method":"session/update","params":{params}}}\n'.encode())


def main() -> None:
    blab_on_stderr()
    request = script.expect("initialize")
    info = {"name": "blabber", "title": everything(), "version": everything()}
    capabilities = {"loadSession": True, "mcpCapabilities": {"http": True, "sse": True}}
    script.answer(request, {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities})
    request = script.expect("session/new")
    for server in request["params"]["mcpServers"]:
        known.extend(pair["value"] for pair in [*server.get("env", []), *server.get("headers", [])])
    script.answer(request, {"sessionId": "blabber-1", "_meta": {"seen": everything()}})
    blab_on_stderr()
    request = script.expect("session/prompt")
    blab("blabber-1")
    if "ask" in sys.argv:
        options = [{"optionId": "yes", "name": everything(), "kind": "allow_once"}]
        call = {"toolCallId": "call-2", "title": everything(), "rawInput": {"command": everything()}}
        script.ask("session/request_permission", {"sessionId": "blabber-1", "toolCall": call, "options": options})
    if "fail" in sys.argv:
        script.refuse(request, -32603, everything())
    elif "die" in sys.argv:
        blab_on_stderr()
        raise SystemExit(3)
    else:
        script.answer(request, {"stopReason": "end_turn", "_meta": {"last": everything()}})
    script.expect("nothing more, until the end")


main()
