"""As much of a shell as job control takes: runs a program, says when it was stopped, `fg` lets it go on."""

import os
import signal
import sys
import termios
from collections.abc import Sequence


def main(argv: Sequence[str]) -> None:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    ours = termios.tcgetattr(0)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(sys.executable, [sys.executable, *argv])
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        os.tcsetpgrp(0, os.getpgrp())
        if not os.WIFSTOPPED(status):
            break
        is_cooked = bool(termios.tcgetattr(0)[3] & termios.ICANON)
        termios.tcsetattr(0, termios.TCSANOW, ours)
        print(f"stopped, cooked: {is_cooked}\n$ ", end="", flush=True)
        assert sys.stdin.readline().strip() == "fg"
        os.tcsetpgrp(0, job)
        os.killpg(job, signal.SIGCONT)
    print(f"ended: {os.waitstatus_to_exitcode(status)}")


main(sys.argv[1:])
