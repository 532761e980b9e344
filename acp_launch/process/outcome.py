"""What stopping came to, as a value."""

from dataclasses import dataclass

from acp_launch.process.exit import Exit
from acp_launch.process.identity import Process


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder; `after` is in seconds since stopping began."""

    name: str
    after: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """`exit` is None, and `survivors` not empty, only when the kernel would not let a process go."""

    exit: Exit | None
    rungs: tuple[Rung, ...]
    survivors: tuple[Process, ...]
