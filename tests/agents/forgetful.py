"""Advertises load, resume, list and delete and knows no session: -32002. argv: another error code."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

code = int((*sys.argv[1:], "-32002")[0])


def unknown(request: script.Message) -> None:
    script.refuse(request, code, f"session {script.session_of(request)} not found")


capabilities: dict[str, object] = {
    "loadSession": True,
    "sessionCapabilities": {"resume": {}, "delete": {}, "close": {}},
}
script.serve(
    {
        "initialize": lambda request: script.initialize(request, **capabilities),
        **dict.fromkeys(["session/load", "session/resume", "session/delete", "session/close"], unknown),
    }
)
