"""What is asked for on the command line, and what was found out about it before anything starts."""

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from acp_launch.cli.timeout import Limit
    from acp_launch.document.duration import Duration
    from acp_launch.secret.value import Secret
    from acp_launch.session.permission.policy import Approve
    from acp_launch.session.store.registry import Record, Registry


class Wish(Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    words: tuple[str, ...]
    file: Path | None
    agent: str | None
    session: str | None
    latest: bool
    new: bool
    replay: bool
    cwd: Path | None
    output: str
    approve: "Approve | None"
    verbose: bool
    attach: tuple[Path, ...] = ()
    sets: tuple[str, ...] = ()
    trust: bool = False
    timeouts: "tuple[Limit, ...]" = ()

    @property
    def timeout(self) -> float | None:
        """Seconds for the whole run; the last that was given counts."""
        return dict(self.timeouts).get("")

    @property
    def limits(self) -> "dict[str, Duration]":
        """Of the waits that were named."""
        return {wait: length for wait, length in self.timeouts if wait}


class Kept(Struct, frozen=True):
    """What was found out before the start. `secrets` by name; `record` of the session that is continued."""

    settings: Settings
    secrets: "Mapping[str, Secret]"
    registry: "Registry"
    name: str
    record: "Record | None"
