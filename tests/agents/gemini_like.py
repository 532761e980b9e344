"""Like gemini-cli: one replayed update before the `session/load` response, the others after it.

Request ids start at 0; `tool_call_update` without a `tool_call` follows a permission. A mode that is set is told as
the agent's words, before any prompt.
argv: N replayed updates (default 21), then `stubborn` to outlive the end of input until KILL.
"""

import signal
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

arguments = [argument for argument in sys.argv[1:] if argument.isdigit()]
replayed = int(arguments[0]) if arguments else 21
identities = iter(range(1_000_000))
MODES = {"currentModeId": "default", "availableModes": [{"id": id, "name": id} for id in ("default", "autoEdit")]}


def load(request: script.Message) -> None:
    session = script.session_of(request)
    script.update(session, "user_message_chunk", content={"type": "text", "text": "replayed 1"})
    script.answer(request, {"modes": MODES})
    for number in range(2, replayed + 1):
        script.say(session, f"replayed {number} ")


def set_mode(request: script.Message) -> None:
    script.say(script.session_of(request), "[MODE_UPDATE] ")
    script.say(script.session_of(request), request["params"]["modeId"])
    script.answer(request, {})


def prompt(request: script.Message) -> None:
    session = script.session_of(request)
    options = [
        {"optionId": "proceed_always", "name": "Always", "kind": "allow_always"},
        {"optionId": "proceed_once", "name": "Yes", "kind": "allow_once"},
        {"optionId": "cancel", "name": "No", "kind": "reject_once"},
    ]
    call = {"toolCallId": "shell-1", "title": "ls", "kind": "execute", "status": "pending"}
    params = {"sessionId": session, "toolCall": call, "options": options}
    outcome = script.ask("session/request_permission", params, identity=next(identities))["result"]["outcome"]
    script.update(session, "tool_call_update", toolCallId="shell-1", status="completed")
    script.say(session, f"outcome: {outcome.get('optionId', 'cancelled')}")
    script.end(request, "cancelled" if outcome["outcome"] == "cancelled" else "end_turn")


if "stubborn" in sys.argv:
    script.ignore(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
script.serve(
    {
        "initialize": lambda request: script.initialize(request, loadSession=True),
        "session/new": lambda request: script.answer(request, {"sessionId": "session-1", "modes": MODES}),
        "session/load": load,
        "session/set_mode": set_mode,
        "session/prompt": prompt,
    }
)
if "stubborn" in sys.argv:
    script.hang()
