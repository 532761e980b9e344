"""Dies with last words on stderr.

argv: MOMENT [HOW]; MOMENT is start, initialize, new, prompt, mid-turn, permission or after-turn; HOW is an exit status
(default 3) or a signal's name such as SIGKILL.
"""

import os
import signal
import sys
from typing import NoReturn

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

moment, how = (*sys.argv[1:], "start", "3")[:2] if sys.argv[2:] else ((*sys.argv[1:], "start")[0], "3")


def die() -> NoReturn:
    script.complain(f"crasher: going down at {moment}")
    script.complain("crasher: last words")
    if how.isdigit():
        os._exit(int(how))
    os.kill(os.getpid(), signal.Signals[how])
    script.hang()


def dying(here: str, alive: script.Answer) -> script.Answer:
    def answer(request: script.Message) -> None:
        if moment == here:
            die()
        alive(request)

    return answer


def prompt(request: script.Message) -> None:
    session = script.session_of(request)
    script.say(session, "halfway ")
    if moment == "mid-turn":
        die()
    if moment == "permission":
        options = [{"optionId": "n", "name": "No", "kind": "reject_once"}]
        params = {"sessionId": session, "toolCall": {"toolCallId": "c1", "title": "Dangerous"}, "options": options}
        script.send({"id": 0, "method": "session/request_permission", "params": params})
        die()
    script.say(session, "there")
    script.end(request)
    if moment == "after-turn":
        die()


if moment == "start":
    die()
script.serve(
    {
        "initialize": dying("initialize", script.initialize),
        "session/new": dying("new", script.new),
        "session/prompt": dying("prompt", prompt),
    }
)
