"""
The life of one supervised server: what it is, what happened → what it is now. Pure; `now` is in seconds of any clock.

                started              ready
      DECLARED ─────────▶ STARTING ──────────▶ READY
                            ▲ │ ended            │ ended
                    started │ ▼                  ▼
                            RESTING, FAILED or STOPPED, as it is judged

      stop     DECLARED, RESTING ─▶ STOPPED       STARTING, READY ─▶ STOPPING ─ ended ─▶ STOPPED
      stuck    RESTING ─▶ FAILED
      renewed  RESTING, FAILED, STOPPED ─▶ RESTING, without a pause
               STARTING, READY: the end of its process leads there, however it is judged else

FAILED and STOPPED are final, until it is renewed; after `stop`, which FAILED and STOPPED note, nothing renews it.
Whoever renews it has its restarts given back. How the end of a process is judged:

                   exit status 0    any other, a signal, condemned, could not be started
      always       RESTING          RESTING
      on-failure   STOPPED          RESTING
      never        STOPPED          FAILED

RESTING waits for the backoff: `initial * factor ** n` seconds before restart n (counted from 0), `max` at most. When
`restart.max` restarts are used up, it is FAILED instead. They are given back, and the backoff begins anew, once a
process held: it was READY for `min_uptime`, or it had answered something and nobody waited for its handshake for that
long. Being alive is not enough, or a server that dies of every slow handshake would be started for ever.

A server of which no process has ever answered is started three times at most, the pauses being the first ones: it is
a wrong command line more often than a bad moment, and whoever waits for it should hear so at once.
"""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.profile.model import Restart

# What a supervised server tells about its life, as values. Whoever shows, counts or records it reads these.


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


# What one supervised server is at one moment, as a value. Pure; lifecycle.py says what becomes of it.


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


class Started(Struct, frozen=True):
    """A process was, or is about to be."""


class Awaited(Struct, frozen=True):
    """Somebody waits for it to be READY, or nobody does any more."""

    is_so: bool


class Answered(Struct, frozen=True):
    """Its process has said something sensible."""


class Ready(Struct, frozen=True):
    """Its process has answered the agent's handshake. `took`: the seconds since its start in which that was its own
    doing; None: all of them."""

    took: float | None = None


class Condemned(Struct, frozen=True):
    """Its process is of no use any more and will be killed; `why` completes "the server …"."""

    why: str


class Ended(Struct, frozen=True):
    """Its process did; `how` completes "the server …". Or it could not even be started, and `reason` says why."""

    how: str = ""
    is_clean: bool = False
    reason: str = ""


class Stuck(Struct, frozen=True):
    """What its process left behind cannot be killed, so none may be started beside it."""

    reason: str


class Renewed(Struct, frozen=True):
    """A person wants a new process of it, whatever became of the last."""


class Stop(Struct, frozen=True):
    """It is not wanted any more."""


Event = Started | Awaited | Answered | Ready | Condemned | Ended | Stuck | Renewed | Stop

Then = State | Literal["same", "judged", "renewed", ""]

BY_HAND = "was restarted by the user"  # for whoever is not that user

# What comes of an event: a state; "same": it is noted; "judged", "renewed": see above; "": it came too late, or
# changes nothing. What is missing cannot happen.
_LATE: dict[type[Event], Then] = {Answered: "", Ready: "", Condemned: ""}
NEXT: dict[State, dict[type[Event], Then]] = {
    "declared": {Started: "starting", Awaited: "same", Condemned: "", Renewed: "", Stop: "stopped"},
    "starting": {
        Awaited: "same",
        Answered: "same",
        Ready: "ready",
        Condemned: "same",
        Ended: "judged",
        Renewed: "same",
        Stop: "stopping",
    },
    "ready": {
        Awaited: "same",
        Answered: "",
        Ready: "",
        Condemned: "same",
        Ended: "judged",
        Renewed: "same",
        Stop: "stopping",
    },
    "resting": {**_LATE, Awaited: "same", Started: "starting", Stuck: "failed", Renewed: "renewed", Stop: "stopped"},
    "failed": {**_LATE, Awaited: "same", Stuck: "", Renewed: "renewed", Stop: "same"},
    "stopping": {**_LATE, Awaited: "", Ended: "stopped", Renewed: "", Stop: ""},
    "stopped": {**_LATE, Awaited: "same", Stuck: "", Renewed: "renewed", Stop: "same"},
}


def step(life: Life, event: Event, now: float) -> Life:
    """`life` after `event`.

    Raises:
        ValueError: this cannot happen to it: a bug of ours.
    """
    then = NEXT[life.state].get(type(event))
    if then is None:
        raise ValueError(f"{type(event).__name__} cannot happen to a server that is {life.state}")
    if then == "" or (then == "renewed" and (not life.is_wanted or life.wish == "pending")):
        return life
    noted = _noted(life, event, now)
    if then == "same":
        return noted
    if then == "judged" and noted.wish != "pending":
        return _judged(noted, is_clean=isinstance(event, Ended) and event.is_clean and not life.verdict, now=now)
    if then in ("judged", "renewed"):
        return replace(noted, state="resting", since=now, pause=0.0, used=0)
    return replace(noted, state=then, since=now, pause=None)


def _noted(life: Life, event: Event, now: float) -> Life:
    """What an event tells, whatever state it leads to."""
    match event:
        case Started():
            return _begun(life, now)
        case Answered():
            return _up(life, now)
        case Ready(took):
            return replace(_up(life, now), took=now - life.begun if took is None else took)
        case Condemned(why):
            return replace(life, verdict=life.verdict or why)
        case Ended():
            return _over(life, event, now)
        case Stuck(reason):
            return replace(life, reason=reason, wish="")
        case Awaited() | Renewed() | Stop():
            return _asked(life, event, now)


def _asked(life: Life, event: Awaited | Renewed | Stop, now: float) -> Life:
    """What is wanted of it, as opposed to what its process does."""
    match event:
        case Awaited(is_so):
            return replace(life, awaited=_awaited(life, now) if is_so else None)
        case Renewed():
            return _wished(life)
        case Stop():
            return replace(life, is_wanted=False, wish="") if life.is_wanted else life


def _awaited(life: Life, now: float) -> float:
    return now if life.awaited is None else life.awaited


def _begun(life: Life, now: float) -> Life:
    again = replace(life, begun=now, starts=life.starts + 1, wish="granted" if life.wish == "pending" else "")
    return replace(again, answered=None, verdict="", took=None, lived=None, exit="", reason="")


def _up(life: Life, now: float) -> Life:
    return life if life.answered is not None else replace(life, answered=now, is_proven=True)


def _over(life: Life, end: Ended, now: float) -> Life:
    lived = now - life.begun if end.how else None
    if life.wish == "pending":
        return replace(life, lived=lived, exit=BY_HAND)
    used = 0 if _held(life, now) else life.used
    return replace(life, lived=lived, used=used, exit=life.verdict or end.how, reason=end.reason, wish="")


def _wished(life: Life) -> Life:
    """A process there is has its end before it; without one, nothing more is told of the last."""
    if life.wish == "pending":
        return life
    if life.state in ("starting", "ready"):
        return replace(life, wish="pending")
    return replace(life, wish="pending", lived=None, exit=BY_HAND, reason="")


def _held(life: Life, now: float) -> bool:
    if life.state == "ready":
        return now - life.since >= life.restart.min_uptime
    if life.answered is None or life.awaited is not None:
        return False
    return now - life.answered >= life.restart.min_uptime


def _judged(life: Life, *, is_clean: bool, now: float) -> Life:
    policy = life.restart.policy
    if policy == "never" or (policy == "on-failure" and is_clean):
        reason = life.reason or f"its restart policy is {policy}"
        return replace(life, state="stopped" if is_clean else "failed", since=now, reason=reason)
    if life.used >= life.budget:
        return replace(life, state="failed", since=now, reason=life.reason or _used_up(life))
    return replace(life, state="resting", since=now, pause=_pause(life), used=life.used + 1)


def _used_up(life: Life) -> str:
    if life.restart.max == 0:
        return "its profile allows no restart"
    if not life.is_proven:
        return f"it was started {life.starts} times and never answered"
    return "its restart is used up" if life.used == 1 else f"{life.used} restarts are used up"


def _pause(life: Life) -> float:
    backoff = life.restart.backoff
    try:
        return float(min(backoff.max, backoff.initial * backoff.factor**life.used))
    except OverflowError:
        return float(backoff.max)
