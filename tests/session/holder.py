"""
A program that holds a session: `holder STATE_DIR NAME [child]`.

It says `ready`, waits for a line, tries, says `held` or the error, and holds until its stdin ends. With `child` it
starts a child that inherits all it can and echoes its stdin, and says `held` when the child has started.
"""

import os
import subprocess
import sys
from pathlib import Path

from acp_launch.errors import SessionError
from acp_launch.session.hold import hold

ECHO = "import sys; print('held', flush=True); [print(line, end='', flush=True) for line in sys.stdin]"
SINCE = 1_700_000_000.0


def main(state_dir: str, name: str, child: str = "") -> None:
    print("ready", flush=True)
    os.read(0, 3)  # "go\n" and no more: the rest is the child's
    try:
        with hold(Path(state_dir), ("/p", "demo", name), now=SINCE):
            if child:
                subprocess.run([sys.executable, "-c", ECHO], close_fds=False)
            else:
                print("held", flush=True)
                sys.stdin.read()
    except SessionError as error:
        print(error.message, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
