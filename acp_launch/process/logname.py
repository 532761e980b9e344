"""
What log files are called.

    20261121T121300.123Z-4711+demo.log          an agent's
    20261121T121300.123Z-4711+demo+github.log   its server's; github#2 for a second process of it

Before the first `+` is the launch: when it began (UTC, so that names sort by age) and its pid. What is neither a
letter, a digit nor one of `_.-~#` in the two names is written `%2B`, so that a file's name can be read back.
"""

import os
import re
import time
from functools import cache
from urllib.parse import quote, unquote
from zlib import crc32

from msgspec import Struct

SUFFIX = ".log"
OLDER = ".1"  # after the suffix of a file that was full
LONGEST = 80  # characters of either name, as written; a file's name has room for 255 bytes
_STAMP = r"[1-9][0-9]{3}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3])[0-5][0-9][0-6][0-9]\.[0-9]{3}Z"
_SHAPE = re.compile(rf"({_STAMP}-[0-9]{{1,10}})\+([^+]+)(?:\+([^+]+))?\.log")
_EARLIER = re.compile(r"[0-9]{8}-[0-9]{6}-.*-[0-9]{1,10}\.log")  # what version 0.1 has left


class LogName(Struct, frozen=True):
    """`server` is empty for the agent's."""

    launch: str
    profile: str
    server: str = ""


@cache
def this_launch() -> str:
    """The launch that this process is."""
    now = time.time()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
    return f"{stamp}.{int(now * 1000) % 1000:03d}Z-{os.getpid()}"


def began(launch: str) -> float:
    """When a launch began, in Unix seconds; a 31st of February is a day in March."""
    from calendar import timegm

    date, clock, milliseconds = launch[:8], launch[9:15], launch[16:19]
    moment = (int(date[:4]), int(date[4:6]), int(date[6:]), int(clock[:2]), int(clock[2:4]), int(clock[4:]))
    return timegm(moment) + int(milliseconds) / 1000


def written(name: LogName) -> str:
    return "+".join([name.launch, *map(_quoted, filter(None, (name.profile, name.server)))]) + SUFFIX


def read(file: str) -> LogName | None:
    """The other way round; None for a file that is no log of ours. A very long name comes back as `kept` gives it."""
    if not (found := _SHAPE.fullmatch(file)):
        return None
    launch, profile, server = found.groups(default="")
    return LogName(launch, _unquoted(profile), _unquoted(server))


def launch_of(file: str) -> str | None:
    """The launch whose log it is; what an earlier version left is one of its own. None for what is no log of ours."""
    if name := read(file):
        return name.launch
    return file if _EARLIER.fullmatch(file) else None


def kept(name: str) -> str:
    """`name` as a file's name keeps it: cut, with a checksum, when it is very long."""
    return _unquoted(_quoted(name))


def _quoted(name: str) -> str:
    text = quote(name, safe="#", errors="surrogateescape")
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 9]}~{crc32(text.encode()):08x}"


def _unquoted(text: str) -> str:
    return unquote(text, errors="surrogateescape")
