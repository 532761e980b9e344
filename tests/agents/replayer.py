"""`session/load` replays N updates before its response; `session/resume` none. argv: N (default 5).

argv[2] `null`: the result of load is null. A prompt is answered with the number of prompts since the start.
"""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

count = int((*sys.argv[1:], "5")[0])
prompts = 0


def load(request: script.Message) -> None:
    session = script.session_of(request)
    for number in range(1, count + 1):
        kind = "user_message_chunk" if number % 2 else "agent_message_chunk"
        script.update(session, kind, content={"type": "text", "text": f"replayed {number} "})
    script.answer(request, None if sys.argv[2:] == ["null"] else {})


def prompt(request: script.Message) -> None:
    global prompts
    prompts += 1
    script.say(script.session_of(request), f"live {prompts}")
    script.end(request)


script.serve(
    {
        "initialize": lambda request: script.initialize(
            request, loadSession=True, sessionCapabilities={"resume": {}, "close": {}}
        ),
        "session/load": load,
        "session/resume": lambda request: script.answer(request, {}),
        "session/close": lambda request: script.answer(request, {}),
        "session/prompt": prompt,
    }
)
