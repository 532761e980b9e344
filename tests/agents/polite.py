"""Does everything right and nothing more: echoes the prompt in one chunk. argv: `http`, `sse`: the servers it takes."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script


def initialize(request: script.Message) -> None:
    script.initialize(request, **({"mcpCapabilities": dict.fromkeys(sys.argv[1:], True)} if sys.argv[1:] else {}))


script.serve({"initialize": initialize})
