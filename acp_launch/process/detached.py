"""
Programs that are not part of the launch, for example the user's browser, which we must not end.

Everything that descends from us is ended with us, and orphans come to us as their subreaper. So such a program is
started in the background of a shell that ends while we are not a subreaper: then the program belongs to init, and so
does everything it starts. In that moment an orphan would get away from us too, but those of agents come to a guard.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence

from acp_launch.process import prepare
from acp_launch.waits import stretch

BACKGROUND = '"$@" &'
START_TIMEOUT = stretch(5.0)  # a shell takes milliseconds


def start(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """Start `argv` (its first element an absolute path) with exactly `env`, in another session, in `/`, without output.

    Call this where nothing else of ours lists processes or spawns meanwhile: on the thread of the event loop, which it
    blocks until the shell has ended. Returns why it could not be started; empty if it was.
    """
    if not os.access(argv[0], os.X_OK):
        return "it is not there, or not executable"
    try:
        with prepare.without_subreaper():
            subprocess.run(
                ["/bin/sh", "-c", prepare.limit_words() + BACKGROUND, "sh", *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=dict(env),
                cwd="/",
                start_new_session=True,
                timeout=START_TIMEOUT,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return "it did not start in time"
    except (OSError, ValueError) as error:
        return str(error)
    return ""
