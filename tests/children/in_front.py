"""
A program that wants the terminal. By argument:

ask         asks a word, and ends with status 3 unless it is `please`
untidy      the same as `ask`, and leaves the alternate screen, mouse reports and a hidden cursor behind
raw         puts the terminal into raw mode, and is killed
wait        says who it is, and waits for whatever ends it
deaf        the same, and TERM and Ctrl-C do not
leave       leaves a deaf process behind in its group, and ends
scatter     the same in a group of its own, and in a session of its own
"""

import os
import signal
import sys
import tty
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.children.hello import hello


def stay(name: str) -> None:
    hello(name)
    print(f"{name} waits", file=sys.stderr, flush=True)
    while True:
        signal.pause()


def deafly(name: str) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    stay(name)


def behind(name: str, before: object = None) -> None:
    """Return once the other process has said hello."""
    ready, told = os.pipe()
    if os.fork():
        os.close(told)
        os.read(ready, 1)
        return
    if callable(before):
        before()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    hello(name)
    os.write(told, b".")
    while True:
        signal.pause()


match sys.argv[1]:
    case "ask":
        own = os.tcgetpgrp(0) == os.getpgrp() == os.getpid()
        print(f"in front: {own}; terminals: {[os.isatty(number) for number in range(3)]}", file=sys.stderr)
        sys.stderr.write("word: ")
        sys.stderr.flush()
        word = sys.stdin.readline().strip()
        raise SystemExit(0 if word == "please" else 3)
    case "untidy":
        sys.stderr.write("\x1b[?1049h\x1b[?1000h\x1b[?1006h\x1b[?25lword: ")
        sys.stderr.flush()
        raise SystemExit(0 if sys.stdin.readline().strip() == "please" else 3)
    case "raw":
        tty.setraw(0)
        os.kill(os.getpid(), signal.SIGKILL)
    case "wait":
        stay("waiter")
    case "deaf":
        deafly("deaf")
    case "leave":
        behind("mate")
    case "scatter":
        behind("loner", lambda: os.setpgid(0, 0))
        behind("hermit", os.setsid)
