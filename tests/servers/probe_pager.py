"""An MCP server with seven tools, three on a page. argv `circle`, `endless`, `many`: pages that never end;
`none`: no list."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

MODE = sys.argv[1] if len(sys.argv) > 1 else "pages"
NAMES = [f"tool{number}" for number in range(1, 8)]


def initialize(request: script.Message) -> None:
    about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "pager"}}
    script.answer(request, about)


def page(request: script.Message) -> None:
    begin = int(request.get("params", {}).get("cursor", 0))
    tools: list[object] = [{"name": name, "inputSchema": {}} for name in NAMES[begin : begin + 3]]
    following = {"nextCursor": str(begin + 3)} if begin + 3 < len(NAMES) else {}
    if MODE == "circle":
        following = {"nextCursor": "3"}
    if MODE == "endless":
        tools, following = [], {"nextCursor": str(begin + 1)}
    if MODE == "many":
        tools, following = [{"name": f"tool{begin}", "inputSchema": {}}], {"nextCursor": str(begin + 1)}
    script.answer(request, {"tools": [*tools, "no tool"], **following} if MODE != "none" else {"tools": None})


script.serve({"initialize": initialize, "tools/list": page})
