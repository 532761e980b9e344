"""Its request ids are strings, as codex-acp's are."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script


def prompt(request: script.Message) -> None:
    session = script.session_of(request)
    identity = "2f1c1a52-6f0f-4d6f-9f3e-0a8f5d4f1b11"
    options = [
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    params = {"sessionId": session, "toolCall": {"toolCallId": "c1", "title": "Edit"}, "options": options}
    outcome = script.ask("session/request_permission", params, identity=identity)["result"]["outcome"]
    script.say(session, f"outcome: {outcome.get('optionId', 'cancelled')}")
    script.end(request)


script.serve({"session/prompt": prompt})
