"""
A program on its own pseudo-terminal; input and output are copied from and to ours.

It is started as `python -I -S pseudoterminal.py ARGV...`. A confined program must not get a descriptor of the user's
terminal, since what it types there would be read by the shell. Keys go through as bytes, Ctrl-C too: the inner terminal
makes a signal of it, for the program alone.
"""

import fcntl
import os
import pty
import select
import signal
import sys
import termios
import tty

STDIN, STDOUT, STDERR = 0, 1, 2
CHUNK_BYTES = 16 * 1024


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resized, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGWINCH, lambda *_: None)
    size = _measure()
    pid, inner = pty.fork()
    if pid == 0:
        fcntl.ioctl(STDIN, termios.TIOCSWINSZ, size)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores, and exec keeps ignored
        try:
            os.execv(argv[0], argv)
        except OSError as error:
            os.write(STDERR, f"cannot start {argv[0]}: {error.strerror}\n".encode(errors="replace"))
            os._exit(127)
    before = termios.tcgetattr(STDIN)
    try:
        tty.setraw(STDIN)
        _copy(inner, resized)
    finally:
        termios.tcsetattr(STDIN, termios.TCSADRAIN, before)
    os.close(inner)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


def _measure() -> bytes:
    return fcntl.ioctl(STDIN, termios.TIOCGWINSZ, bytes(8))


def _copy(inner: int, resized: int) -> None:
    """Copy until the program has closed its terminal. `resized` has a byte for each change of our terminal's size."""
    typed, is_open = b"", True
    while True:
        wanted = [inner, resized, STDIN] if is_open and not typed else [inner, resized]
        ready, free, _ = select.select(wanted, [inner] if typed else [], [])
        if resized in ready and _read(resized):
            fcntl.ioctl(inner, termios.TIOCSWINSZ, _measure())
        if inner in ready:
            if not (shown := _read(inner)):
                return
            while shown:
                shown = shown[os.write(STDOUT, shown) :]
        if free:
            typed = typed[os.write(inner, typed) :]
        if STDIN in ready:
            typed = _read(STDIN)
            is_open = bool(typed)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except OSError:  # EIO: the other end is closed
        return b""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
