"""
acp-launch, with signals that it sends to itself: `interrupted.py SIGNAL,CALL[,CALL...] ARGUMENTS...`.

The first signal comes at the CALL-th call or return of a function after signals are listened to, which is the first
thing we do (until then they are Python's), each other one so many after the one before; beyond the last one, none
comes. With `0,0` none is sent, and the last line on stderr says how many there were.
"""

import os
import sys
from types import FrameType


class Sender:
    def __init__(self, number: int, calls: list[int]) -> None:
        self.number, self.waits = number, calls
        self.count = 0
        self.all = 0

    def profile(self, frame: FrameType, event: str, argument: object) -> None:
        self.count += 1
        self.all += 1
        if self.waits and self.count >= self.waits[0]:
            self.count = 0
            self.waits.pop(0)
            if not self.waits:
                sys.setprofile(None)
            os.kill(os.getpid(), self.number)


number, *calls = map(int, sys.argv[1].split(","))
sys.argv[1:] = sys.argv[2:]
sender = Sender(number, calls if number else [])

from acp_launch import __main__, shutdown  # noqa: E402 - what Python does before us is not ours

if not number:  # count, and say so in the last moment there is
    at_once = shutdown.exit_now

    def counted(code: int) -> None:
        sys.setprofile(None)
        os.write(2, f"{sender.all}\n".encode())
        at_once(code)

    shutdown.exit_now = counted  # type: ignore[assignment]
    shutdown._is_watched = lambda: False
listen = shutdown.listen


def listened() -> None:
    listen()
    sys.setprofile(sender.profile)


shutdown.listen = listened
__main__.main()
