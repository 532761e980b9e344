"""
The eras of remote servers as they turned out, in a private file, so that the next launch asks the right question first.

A verdict only saves a request: one that has become wrong is noticed by the server's answer, and replaced. Servers are
named by a hash of their address, because an address may hold a credential.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from acp_launch.mcp.http.wire import Era
from acp_launch.private import Unfit, make_private, read_bounded, replace

VERSION = 1
NAME = "remote-servers.json"
MOST = 1000  # servers
SIZE = 256 * 1024  # bytes


class _Kept(Struct):
    version: int
    eras: dict[str, Era]


def _read(file: Path) -> dict[str, Era]:
    try:
        found = read_bounded(file, SIZE)
        kept = msgspec.json.decode(found[0], type=_Kept) if found else None
    except (OSError, Unfit, msgspec.MsgspecError):
        return {}
    return kept.eras if kept is not None and kept.version == VERSION else {}


def _name(url: str) -> str:
    from hashlib import blake2b

    return blake2b(os.fsencode(url), digest_size=12).hexdigest()


def recall(directory: Path, url: str) -> Era:
    """Return the era of a server, empty if it is unknown."""
    return _read(directory / NAME).get(_name(url), "")


def keep(directory: Path, url: str, era: Era) -> None:
    """Store the era of a server, or forget it if it is empty; a directory that cannot be written only costs time."""
    eras, name = _read(directory / NAME), _name(url)
    if eras.get(name, "") == era:
        return
    eras.pop(name, None)
    if era:
        eras[name] = era
    kept = dict(list(eras.items())[-MOST:])
    with suppress(OSError):
        make_private(directory)
        replace(directory / NAME, msgspec.json.encode(_Kept(VERSION, kept)))
