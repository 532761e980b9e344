"""Its tool `stop` stops its process (SIGSTOP), as a debugger or a laptop's lid would."""

import signal
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox


def stop(arguments: script.Message) -> str:
    script.tell("stopping")
    signal.raise_signal(signal.SIGSTOP)
    return "continued"


script.hello(script.name("stopped"))
toolbox.serve(stop=stop)
