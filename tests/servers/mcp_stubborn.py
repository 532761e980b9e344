"""An MCP server that works, and outlives the end of its input, TERM, INT and HUP."""

import signal
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

script.ignore(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
script.serve(
    {
        "initialize": lambda request: script.answer(
            request,
            {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "stubborn"}},
        ),
        "tools/list": lambda request: script.answer(request, {"tools": []}),
    }
)
script.hang()
