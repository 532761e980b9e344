"""Files named after projects, profiles and sessions: each has its own, also where an attacker chose the name."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zlib import crc32

import pytest

from acp_launch.document.cache import JsonCache
from acp_launch.process import logs
from acp_launch.profile import trust
from acp_launch.served import registry
from acp_launch.session import hold

A, B = "1ce5a315000074a5", "4490f84700009777"  # of the same length, so that what holds them collides too


def cached(name: str) -> object:
    return JsonCache(Path("/cache"), ())._entry(Path(f"/{name}/.acp-launch/work.yaml"))


def accepted(name: str) -> object:
    settings = cast(Any, SimpleNamespace(state=Path("/state")))
    return trust._find_place(settings, "trust", f"/{name}", Path(f"/{name}/.acp-launch/work.yaml"))


NAMED: dict[str, Callable[[str], object]] = {
    "host": lambda name: registry._path(Path("/state"), f"/{name}", "work"),
    "profile of a host": lambda name: registry.digest(f"command: {name}"),
    "session": lambda name: hold._place(Path("/state"), (f"/{name}", "work", "default")),
    "log": lambda name: logs.launch_in(Path(f"/{name}")),
    "long name in a log's": lambda name: logs.shortened("x" * 90 + name),
    "cache": cached,
    "trust": accepted,
}


@pytest.mark.parametrize("named", NAMED.values(), ids=NAMED)
def test_names_whose_checksums_collide_have_files_of_their_own(named: Callable[[str], object]) -> None:
    assert crc32(A.encode()) == crc32(B.encode())
    assert named(A) != named(B)
