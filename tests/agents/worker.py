"""Works in its session's directory: adds its prompt to the file `work` there, and says so.

argv: `recovers` writes `begun` and dies, unless an earlier process has; `wordless` does nothing and says nothing.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

temper = "".join(sys.argv[1:])
sessions: dict[str, str] = {}


def new(request: script.Message) -> None:
    sessions[f"s{len(sessions) + 1}"] = request["params"]["cwd"]
    script.answer(request, {"sessionId": f"s{len(sessions)}"})


def prompt(request: script.Message) -> None:
    session = script.session_of(request)
    begun = Path(sessions[session], "begun")
    if temper == "recovers" and not begun.exists():
        begun.touch()
        script.complain("worker: out of memory")
        os._exit(1)
    if temper != "wordless":
        with Path(sessions[session], "work").open("a") as file:
            file.write(f"{script.said(request)}\n")
        script.say(session, "done")
    script.end(request)


script.serve({"session/new": new, "session/prompt": prompt})
