#!/bin/sh
"exec" "$ACP_LAUNCH_PYTHON" "-I" "-S" "$0" "$@"  # fmt: skip
# The line above is for sh, as Python has no name that is the same everywhere. ssh runs this to ask the user:
# `askpass.py QUESTION` (SSH_ASKPASS). It has no terminal, as its session is not the user's, so ours is opened by its
# name, ACP_LAUNCH_TERMINAL, and locked during the question. The answer goes to stdout, which ssh reads, and nowhere
# else. Without one ssh ends; so it does after Ctrl-C, which reaches the job ACP_LAUNCH_JOB, or if that job is gone.

import fcntl
import os
import select
import signal
import sys
import termios
from contextlib import suppress

ANSWER_SECONDS = 100  # a little less than sshd and the default of `agent.timeouts.initialize`
LOOK_SECONDS = 1  # between two looks whether the job is there
MAX_LINE_BYTES = 4096  # of a terminal
MARK = "▐"  # of our own lines (`acp_launch.problem`)
CTRL_C = b"\3"  # `waits.is_asking` knows a question by it
LOCAL, CHARACTERS = 3, 6  # where tcgetattr stores the local flags and the special characters
OF_HOST_KEYS = ("The authenticity of host ", "Please type 'yes'")  # other questions may be a server's words


def read_answer(terminal: int, job: int) -> bytes:
    """Return the line, of at least its end; b"" if it does not come, or ssh has ended."""
    poll = select.poll()
    poll.register(terminal, select.POLLIN)
    poll.register(1, 0)  # tells when ssh has ended
    with suppress(OSError):  # the job is gone, or the terminal
        for _ in range(ANSWER_SECONDS // LOOK_SECONDS):
            if ready := dict(poll.poll(LOOK_SECONDS * 1000)):
                return b"" if 1 in ready else os.read(terminal, MAX_LINE_BYTES) or b"\n"
            os.killpg(job, 0)
    return b""


def ask(terminal: int, job: int, *, is_shown: bool) -> bytes:
    """Return what `read_answer` does, with the terminal in the modes for a question."""
    before, modes = termios.tcgetattr(terminal), termios.tcgetattr(terminal)
    modes[LOCAL] = modes[LOCAL] & ~(termios.ISIG | termios.ECHO) | termios.ICANON | (termios.ECHO if is_shown else 0)
    modes[CHARACTERS][termios.VEOL] = CTRL_C  # ends the line
    try:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, modes)  # what was typed before is no answer
        return read_answer(terminal, job)
    finally:
        with suppress(termios.error, OSError):  # it was closed
            termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
            os.write(terminal, b"" if is_shown else b"\r\n")


def main(question: str, kind: str, job: int) -> int:
    """Ask; `kind` is ssh's SSH_ASKPASS_PROMPT."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    ssh, terminal = os.getppid(), os.open(os.environ["ACP_LAUNCH_TERMINAL"], os.O_RDWR | os.O_NOCTTY)
    fcntl.flock(terminal, fcntl.LOCK_EX)
    question += {"confirm": " (yes/no)", "none": "\n"}.get(kind, "")
    shown = "".join(mark if (mark.isprintable() and mark != MARK) or mark == "\n" else "?" for mark in question.strip())
    os.write(terminal, f"\r{MARK} ssh asks: {shown} ".encode(errors="replace"))
    if kind == "none":  # which is only told: to touch a security key
        os.write(terminal, b"\r\n")
        return 0
    answer = ask(terminal, job, is_shown=kind == "confirm" or question.startswith(OF_HOST_KEYS))
    if answer.endswith(CTRL_C):
        os.killpg(job, signal.SIGINT)
    if (not answer or answer.endswith(CTRL_C)) and os.getppid() == ssh:
        os.kill(ssh, signal.SIGTERM)  # or it would ask again
        os.write(2, b"" if answer else b"acp-launch: ssh waited %d s for an answer\n" % ANSWER_SECONDS)
        return 1
    os.write(1, answer)
    return 0 if answer.strip() else 1  # to ssh an empty one may mean yes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], os.environ.get("SSH_ASKPASS_PROMPT", ""), int(os.environ["ACP_LAUNCH_JOB"])))
