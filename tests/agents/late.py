"""Sends updates after the prompt's response, and between turns; the next turn says how many were sent."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

sent = 0


def prompt(request: script.Message) -> None:
    global sent
    session = script.session_of(request)
    script.say(session, f"in the turn ({sent} late updates so far)")
    script.end(request)
    script.update(session, "session_info_update", title="A title after the fact")
    script.say(session, "after the turn")
    script.update(session, "usage_update", used=10, size=100)
    sent += 3


script.serve({"session/prompt": prompt})
