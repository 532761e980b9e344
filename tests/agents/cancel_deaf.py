"""Ignores `session/cancel`: the turn ends only on USR1, with end_turn. argv `never`: not even then."""

import signal
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})


def prompt(request: script.Message) -> None:
    script.say(script.session_of(request), "working")
    if sys.argv[1:] == ["never"]:
        return
    signal.sigwait({signal.SIGUSR1})
    script.say(script.session_of(request), " to the end")
    script.end(request)


script.serve({"session/prompt": prompt})
