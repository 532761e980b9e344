"""Dies in ways a test chooses. Its last words are on stderr.

argv: `start` dies before it reads anything; `while=FILE` does so when that file exists; `initialize` dies when it is
asked to; `after=N` dies in the call after the Nth, with status 3.
Tools: `crash` exits with {status} (default 3), `kill` dies by signal {number} (default KILL).
"""

import os
import signal
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox

options = dict(argument.partition("=")[::2] for argument in sys.argv[1:])


def die(arguments: script.Message) -> None:
    script.complain("crasher: going down")
    script.complain("crasher: last words")
    os._exit(arguments.get("status", 3))


def kill(arguments: script.Message) -> None:
    script.complain("crasher: last words")
    signal.raise_signal(arguments.get("number", signal.SIGKILL))


def call(request: script.Message) -> None:
    if "after" in options and toolbox.state["calls"] >= int(options["after"]):
        die({})
    answers["tools/call"](request)


script.hello(script.name("crasher"))
if "start" in options or ("while" in options and os.path.exists(options["while"])):  # noqa: PTH110
    die({})
answers = toolbox.answers(crash=die, kill=kill)
served = {**answers, "tools/call": call}
if "initialize" in options:
    served["initialize"] = die
script.serve(served)
