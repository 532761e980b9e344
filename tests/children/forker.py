"""
Polite itself, but leaves something behind. By argument:

setsid    a stubborn grandchild in a session of its own
daemon    a stubborn double-forked daemon
respawn   a stubborn daemon that starts a new stubborn worker, in a new session, whenever one dies
hold      a stubborn daemon that holds stdout open; ends at once instead of reading
follow    a grandchild that ends by itself with stdin
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.children.hello import hello


def stay(name: str) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    hello(name)
    while True:
        signal.pause()


def in_session_of_its_own(name: str) -> int:
    if pid := os.fork():
        return pid
    os.setsid()
    stay(name)
    return 0


def daemon(name: str) -> None:
    if first := os.fork():
        os.waitpid(first, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    stay(name)


def respawn() -> None:
    if first := os.fork():
        os.waitpid(first, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hello("supervisor")
    while True:
        os.waitpid(in_session_of_its_own("worker"), 0)


def follow() -> None:
    if os.fork() == 0:
        hello("follower")
        sys.stdin.read()
        os._exit(0)


temper = sys.argv[1]
hello("forker")
match temper:
    case "setsid":
        in_session_of_its_own("loner")
    case "daemon" | "hold":
        daemon("daemon")
    case "respawn":
        respawn()
    case "follow":
        follow()
if temper != "hold":
    sys.stdin.read()
else:
    os.write(1, b"last words\n")
