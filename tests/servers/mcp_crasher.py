"""An MCP server with one tool, `crash`, which asks for no annotations, and kills it. argv `start`: dies at once."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script


def crash(request: script.Message) -> None:
    script.complain("mcp_crasher: last words")
    raise SystemExit(7)


if sys.argv[1:] == ["start"]:
    raise SystemExit(9)
script.serve(
    {
        "initialize": lambda request: script.answer(
            request, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "crasher"}}
        ),
        "tools/list": lambda request: script.answer(request, {"tools": [{"name": "crash", "inputSchema": {}}]}),
        "tools/call": crash,
    }
)
