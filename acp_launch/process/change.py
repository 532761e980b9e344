"""What a supervised server tells about its life, as values. Whoever shows, counts or records it reads these."""

from typing import Literal

from msgspec import Struct

# The states of process/lifecycle.py, which draws them.
State = Literal["declared", "starting", "ready", "resting", "failed", "stopping", "stopped"]
OVERDUE = "did not answer within"  # begins the `exit` of a process that was killed for its silence


class Change(Struct, frozen=True, kw_only=True):
    """One step in the life of one server; `server` is its name in the profile, `github#2` for a second process of it.

    `pid` is its process's, while it has one. `after` is in seconds (`ready`: how long its start took, without the time
    in which it waited for the agent; `resting`, `failed`, `stopped`: how long its process lived). `exit` says in words
    how the process ended ("was killed by SIGKILL") or what it was killed for ("did not answer within 30 s"), `reason`
    what else there is to say ("5 restarts are used up"), `retry` in how many seconds it is started again, `detail`
    holds its last stderr lines, redacted. `restarts` counts the one that `retry` announces too, and `budget` is how
    many it may have, None where nobody counts. `by_hand`: a person has asked for the process that comes, or has come.
    """

    server: str
    state: State
    required: bool = True
    pid: int | None = None
    restarts: int = 0
    budget: int | None = None
    after: float | None = None
    exit: str = ""
    reason: str = ""
    retry: float | None = None
    detail: tuple[str, ...] = ()
    by_hand: bool = False


class Standing(Struct, frozen=True, kw_only=True):
    """How a server of the profile stands at one moment.

    `after` is how many seconds its start took, as in `Change`, None before it was READY; `tools` is how many the agent
    was shown, None while it has not asked; `opened` whether the agent has ever connected to it.
    """

    server: str
    state: State
    required: bool = True
    after: float | None = None
    tools: int | None = None
    opened: bool = False
    restarts: int = 0
    reason: str = ""
