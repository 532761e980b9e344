"""Speaks MCP 2026-07-28 only: `server/discover`, `tools/list` and `tools/call` with the version in `_meta`.

No handshake, no ping. A request without a version is refused with -32022 and the list of what it speaks.
"""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox
from tests.servers.script import Message


def discover(request: Message) -> None:
    about = {"name": "modern", "version": "1.0.0"}
    script.answer(request, {"supportedVersions": [toolbox.VERSION], "capabilities": {"tools": {}}, "serverInfo": about})


script.hello(script.name("modern"))
polite = toolbox.answers()
methods = {"server/discover": discover, "tools/list": polite["tools/list"], "tools/call": polite["tools/call"]}
script.serve(toolbox.modern(methods))
