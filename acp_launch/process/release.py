"""
The helper program of `detached`: starts another program and exits before that can be taken for our child.

Run as `python -I -S release.py PROGRAM ARG...`: prints `.` when it is ready, waits for a byte, forks and exits. Its
child becomes PROGRAM in its own session, with nothing on its three streams. An error is printed on stdout; end of file
means that it worked. Only the standard library, and little of it.
"""

import _signal as signal  # type: ignore[import-not-found]  # `signal` itself would take as long as all of this
import os
import sys


def main() -> None:
    os.write(1, b".")
    if not os.read(0, 1) or os.fork():
        os._exit(0)
    try:
        _become(sys.argv[1:])
    except OSError as error:
        os.write(3, (error.strerror or "unknown error").encode())
    os._exit(127)


def _become(argv: "list[str]") -> None:
    os.setsid()
    os.dup2(1, 3, inheritable=False)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main()
