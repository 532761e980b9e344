"""An MCP server whose one tool, `wait` (read only), never answers.

When the call is cancelled it writes the request id to the file argv[1].
"""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

LISTING = {"name": "wait", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}


def cancelled(message: script.Message) -> None:
    with open(sys.argv[1], "w") as file:  # noqa: PTH123
        file.write(str(message["params"]["requestId"]))


script.serve(
    {
        "initialize": lambda request: script.answer(
            request, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "slow"}}
        ),
        "tools/list": lambda request: script.answer(request, {"tools": [LISTING]}),
        "tools/call": lambda request: None,
        "notifications/cancelled": cancelled,
    }
)
