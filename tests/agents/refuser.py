"""Ends its turns for another reason. argv: a stop reason (default refusal), or `error CODE TEXT [JSON]`."""

import json
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

reason, *rest = sys.argv[1:] or ["refusal"]


def prompt(request: script.Message) -> None:
    script.say(script.session_of(request), "I would rather not.")
    if reason == "error":
        script.refuse(request, int(rest[0]), rest[1], **json.loads("".join(rest[2:]) or "{}"))
    else:
        script.end(request, reason)


script.serve({"session/prompt": prompt})
