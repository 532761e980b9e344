"""Things no version of ACP knows: update kinds, enum values, content types, methods both ways, odd request ids.

Says at the end what its own strange requests were answered.  argv `stop`: the stop reason is unknown as well.
"""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script


def prompt(request: script.Message) -> None:
    session = script.session_of(request)
    script.update(session, "hologram", payload={"anything": [1, 2]})
    script.update(session, "tool_call", toolCallId="c1", title="Odd", kind="teleport", status="quantum")
    script.update(session, "tool_call_update", toolCallId="c1", status="done?", content=[{"type": "smell"}])
    script.update(session, "agent_message_chunk", content={"type": "video", "data": "AAAA"})
    script.update(session, "plan", entries=[{"content": "Odd step", "priority": "urgent", "status": "stuck"}])
    script.send({"method": "session/update", "params": {"sessionId": session, "update": {"noKind": True}}})
    script.send({"method": "session/update", "params": {"sessionId": session}})
    script.send({"method": "session/update"})
    script.send({"method": "_vendor/notice", "params": {"a": 1}})
    script.send({"method": "$/progress", "params": {}})
    script.send({"method": "vendor/notice", "params": [1, 2]})
    script.send({"method": "$/cancel_request", "params": {"requestId": "never-sent"}})
    found = [
        script.ask("_vendor/ask", {"question": "?"}, identity="abc"),
        script.ask("craft/drainMidTurnQueue", {}, identity=0),
        script.ask("fs/read_text_file", {"sessionId": session, "path": "/etc/hostname"}, identity=None),
        script.ask("terminal/create", {"sessionId": session, "command": "true"}, identity=-1),
    ]
    codes = [str(response.get("error", {}).get("code", "no error")) for response in found]
    script.say(session, f"codes: {', '.join(codes)}")
    script.end(request, "bored" if sys.argv[1:] == ["stop"] else "end_turn")


script.serve({"session/prompt": prompt})
