"""Which start of which machine this is: a pid and a time of start mean nothing after the next one."""

import os
import sys
from functools import cache


@cache
def boot_id() -> str:
    """The same until this machine is started again; empty where it does not tell."""
    if sys.platform == "darwin":
        return _by_sysctl(b"kern.bootsessionuuid")
    return _content("/proc/sys/kernel/random/boot_id").strip()


@cache
def pid_namespace() -> str:
    """Pids count within this alone (Linux containers); empty where there is but one."""
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        return ""


def _content(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123 - it is asked for at every start
            return file.read()
    except OSError:
        return ""


def _by_sysctl(name: bytes) -> str:
    import ctypes

    library = ctypes.CDLL(None)
    size = ctypes.c_size_t(64)
    value = ctypes.create_string_buffer(size.value)
    failed = library.sysctlbyname(name, value, ctypes.byref(size), None, 0)
    return "" if failed else value.value.decode(errors="replace")
