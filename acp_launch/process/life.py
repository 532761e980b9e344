"""What one supervised server is at one moment, as a value. Pure; lifecycle.py says what becomes of it."""

from typing import Literal

from msgspec import Struct

from acp_launch.process.change import Change, State
from acp_launch.profile.model import Restart

UNPROVEN = 2  # restarts of a server that has never answered anything


class Life(Struct, frozen=True, kw_only=True):
    """`start` is how many seconds of STARTING somebody who waits for it bears. Times are those of `now`."""

    restart: Restart
    start: float
    state: State = "declared"
    since: float = 0.0  # when it entered this state
    begun: float = 0.0  # when its latest process was started
    awaited: float | None = None  # since when somebody waits for it to be READY
    answered: float | None = None  # since when its process is known to be up
    is_proven: bool = False  # a process of it has answered, if not the latest
    verdict: str = ""  # what its process was condemned for
    wish: Literal["", "pending", "granted"] = ""  # a person's, for a new process: not started yet; or it is the latest
    is_wanted: bool = True  # nobody has stopped it
    starts: int = 0  # processes, in all
    used: int = 0  # restarts, since a process last held
    took: float | None = None  # seconds its process needed itself to be READY
    lived: float | None = None  # seconds its latest process lived
    pause: float | None = None  # seconds from `since` until it is started again
    exit: str = ""  # how its latest process ended
    reason: str = ""  # why it is in this state, where `exit` does not say it

    @property
    def is_final(self) -> bool:
        return self.state in ("failed", "stopped")

    @property
    def is_over(self) -> bool:
        """There will be no process any more, whoever wishes for one."""
        return self.is_final and not self.is_wanted

    @property
    def is_doomed(self) -> bool:
        """Its process is about to be ended, and another may come."""
        return bool(self.verdict) or self.wish == "pending"

    @property
    def is_up(self) -> bool:
        """It has a process that has answered and is not about to be ended."""
        return self.answered is not None and self.state in ("starting", "ready") and not self.is_doomed

    @property
    def budget(self) -> int:
        """How many restarts it may use in a row."""
        return self.restart.max if self.is_proven else min(self.restart.max, UNPROVEN)

    @property
    def deadline(self) -> float | None:
        """When its process is to be condemned for not being READY; None while nobody waits for that."""
        if self.state != "starting" or self.awaited is None or self.is_doomed:
            return None
        return max(self.begun, self.awaited) + self.start

    def told(self, server: str, *, required: bool, pid: int | None = None, detail: tuple[str, ...] = ()) -> Change:
        """For others to read; `pid` and `detail` are its process's."""
        return Change(
            server=server,
            state=self.state,
            required=required,
            pid=pid,
            restarts=self.used,
            budget=self.budget,
            after=self.took if self.state == "ready" else self.lived,
            exit=self.exit,
            reason=self.reason,
            retry=self.pause,
            detail=detail,
            by_hand=bool(self.wish),
        )
