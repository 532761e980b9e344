"""Works until it is cancelled, then says so and ends the turn `cancelled`.

argv `error CODE`: answers the prompt with that error instead. `quiet`: says nothing more after the cancel.
"""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

arguments = sys.argv[1:]


def prompt(request: script.Message) -> None:
    session = script.session_of(request)
    script.update(session, "tool_call", toolCallId="c1", title="Long work", kind="execute", status="in_progress")
    script.say(session, "working")
    script.expect("session/cancel")
    if "quiet" not in arguments:
        script.update(session, "tool_call_update", toolCallId="c1", status="failed")
        script.say(session, " stopped")
    if arguments[:1] == ["error"]:
        script.refuse(request, int(arguments[1]), "aborted")
    else:
        script.end(request, "cancelled")


script.serve({"session/prompt": prompt})
