"""Wants a login first: three auth methods, and -32000.

argv: `new` (default) refuses session/new, `prompt` opens sessions and refuses prompts, `load` refuses session/load.
`none` advertises no methods.
"""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

METHODS = [
    {"id": "browser", "name": "Log in with a browser", "description": "Opens a page of the provider"},
    {"id": "tty", "name": "Terminal login", "type": "terminal", "args": ["--login"], "env": {"MODE": "login"}},
    {"id": "key", "name": "API key", "type": "env_var", "vars": [{"name": "TEST_API_KEY"}], "_meta": {"a": 1}},
]
arguments = sys.argv[1:]
moment = next((argument for argument in arguments if argument != "none"), "new")


def initialize(request: script.Message) -> None:
    methods = [] if "none" in arguments else METHODS
    script.answer(request, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}, "authMethods": methods})


def refuse(request: script.Message) -> None:
    script.refuse(request, -32000, "Authentication required")


script.serve({"initialize": initialize, f"session/{moment}": refuse})
