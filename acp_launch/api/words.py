"""What a private host says to its program on the socket that both have from its start.

What happens outside of a session comes as it happens, each an `EVENT`. `UP` has an `Up`; `FAILED` has a `NamedError`,
and is the last.
"""

from collections.abc import Mapping

from msgspec import Raw, Struct

from acp_launch.served.registry import HostNote

EVENT, UP, FAILED = "event", "up", "failed"


class Up(Struct, frozen=True, kw_only=True):
    """The host is up. `initialized` is the agent's answer to `initialize`; `timeouts` are in seconds.

    `session` is the profile's, if it names one; `directories` are its sessions'; `machine` is the agent's if it is
    another one; `settings` are the mode and options of each: option, value and where that is written.
    """

    note: HostNote
    initialized: Raw
    max_line: int
    timeouts: Mapping[str, float]
    session: str | None
    directories: tuple[str, ...]
    machine: str
    settings: tuple[tuple[str, str | bool, str], ...]


class HostWord(Struct, frozen=True):
    name: str
    value: Raw
