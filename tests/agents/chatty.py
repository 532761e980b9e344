"""A megabyte of stderr before `initialize` is answered, and garbage on stdout between good messages.

argv[1]: bytes of stderr (default 1048576).
"""

import json
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

GARBAGE = [
    b"Welcome to chatty 1.0!\n",
    b"\n",
    b"   \r\n",
    b"42\n",
    b'"a string"\n',
    b"null\n",
    b"[1, 2, 3]\n",
    b'[{"jsonrpc":"2.0","id":1,"method":"session/update"}]\n',
    b"\xff\xfe not UTF-8 \x80\n",
    b'{"jsonrpc":"2.0","id":987654,"result":{}}\n',
    b'{"jsonrpc":"2.0","id":["unhashable"],"result":{}}\n',
    b'{"jsonrpc":"2.0","id":{"un":"hashable"},"result":{}}\n',
    b'{"jsonrpc":"2.0"}\n',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}\n',
    b'{"half": \n',
]


def crowded(request: script.Message, result: script.Message) -> None:
    """The answer between garbage, behind a BOM and with CRLF."""
    script.write(b"".join(GARBAGE))
    line = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
    script.write(b"\xef\xbb\xbf" + line + b"\r\n")
    script.write(b"".join(GARBAGE))


def prompt(request: script.Message) -> None:
    script.say(script.session_of(request), "loud ")
    script.write(b"".join(GARBAGE))
    script.say(script.session_of(request), "and clear")
    crowded(request, {"stopReason": "end_turn"})


amount = int(sys.argv[1]) if sys.argv[1:] else 1 << 20
line = "chatty: all work and no play makes a log line of one hundred bytes, which is neither short nor long"
for _ in range(amount // (len(line) + 1) + 1):
    script.complain(line)
script.serve(
    {
        "initialize": lambda request: crowded(request, {"protocolVersion": 1}),
        "session/new": lambda request: crowded(request, {"sessionId": "session-1"}),
        "session/prompt": prompt,
    }
)
