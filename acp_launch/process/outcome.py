"""What stopping came to, as a value."""

from msgspec import Struct

from acp_launch.process.exit import Exit
from acp_launch.process.identity import Process


class Rung(Struct, frozen=True):
    """One step of the ladder; `after` is in seconds since stopping began."""

    name: str
    after: float


class Outcome(Struct, frozen=True):
    """`exit` is None when there was no process, and, like full `survivors`, when the kernel would not let it go."""

    exit: Exit | None
    rungs: tuple[Rung, ...]
    survivors: tuple[Process, ...]
