"""Says how many characters the prompt had. argv `slow`: first waits for USR1 without reading its input."""

import signal
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script


def prompt(request: script.Message) -> None:
    script.say(script.session_of(request), f"{len(script.said(request))} characters")
    script.end(request)


def new(request: script.Message) -> None:
    if sys.argv[1:] == ["slow"]:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        script.new(request)
        signal.sigwait({signal.SIGUSR1})
    else:
        script.new(request)


script.serve({"session/new": new, "session/prompt": prompt})
