"""Every optional field of `initialize` and `session/new` is of the wrong type; some auth methods are good."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

RESULT = {
    "protocolVersion": 1,
    "agentCapabilities": {
        "loadSession": "yes",
        "promptCapabilities": [],
        "mcpCapabilities": "all of them",
        "sessionCapabilities": {"list": True, "resume": 1, "close": None, "delete": "no"},
        "auth": 7,
        "_meta": 3,
        "somethingNew": {"deep": [1]},
    },
    "agentInfo": "just a string",
    "authMethods": [
        5,
        {"name": "no id"},
        None,
        {"id": "good", "name": "Good login"},
        {"id": 7, "name": "number"},
        "text",
    ],
}
SESSION = {"sessionId": "session-1", "modes": 4, "configOptions": [{"id": 1}, 3], "models": "gpt"}

script.serve(
    {
        "initialize": lambda request: script.answer(request, RESULT),
        "session/new": lambda request: script.answer(request, SESSION),
    }
)
