"""Sends updates for a session whose id the client does not know yet: before the `session/new` response."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script


def new(request: script.Message) -> None:
    commands = [{"name": "plan", "description": "Make a plan"}]
    script.update("session-1", "available_commands_update", availableCommands=commands)
    script.update("session-1", "session_info_update", title="An early title")
    script.say("session-1", "I could not wait.")
    script.new(request)


script.serve({"session/new": new})
