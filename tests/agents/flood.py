"""N updates of SIZE bytes of text, then the end of the turn. argv: N (default 1000), SIZE (default 150).

Written in large blocks, so that the reader is what is measured. The last update says `done`.
"""

import json
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

count = int((*sys.argv[1:], "1000")[0])
size = int(sys.argv[2]) if sys.argv[2:] else 150


def prompt(request: script.Message) -> None:
    session = script.session_of(request)
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x" * size}}
    message = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": chunk}}
    line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
    together = max(1, 65536 // len(line))
    for _ in range(count // together):
        script.write(line * together)
    script.write(line * (count % together))
    script.say(session, "done")
    script.end(request)


script.serve({"session/prompt": prompt})
