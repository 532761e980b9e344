"""`fill N` reports N of 100 tokens of context in use; `work` thinks in lines and lists twenty files.

It can compact its context, and has the modes ask, edit and yolo.
"""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

MODES = [{"id": each, "name": each.capitalize()} for each in ("ask", "edit", "yolo")]


def new(request: script.Message) -> None:
    script.answer(request, {"sessionId": "one", "modes": {"currentModeId": "ask", "availableModes": MODES}})
    command = {"name": "compact", "description": "Shorten the context"}
    script.update("one", "available_commands_update", availableCommands=[command])


def fill(session: str, used: int) -> None:
    script.update(session, "usage_update", used=used, size=100)


def work(session: str) -> None:
    thought = {"type": "text", "text": "First I look.\nThen I think.\nThat is the end of my thought."}
    script.update(session, "agent_thought_chunk", content=thought)
    listed = "\n".join(f"file {number}" for number in range(20))
    content = [{"type": "content", "content": {"type": "text", "text": listed}}]
    call = {"toolCallId": "1", "title": "List the files", "status": "completed", "content": content}
    script.update(session, "tool_call", **call)


def prompt(request: script.Message) -> None:
    session, (word, _, rest) = script.session_of(request), script.said(request).partition(" ")
    if word == "fill":
        fill(session, int(rest))
    elif word == "work":
        work(session)
    script.say(session, f"done: {script.said(request)}")
    script.end(request)


script.serve(
    {
        "session/new": new,
        "session/prompt": prompt,
        "session/set_mode": lambda request: script.answer(request, {}),
    }
)
