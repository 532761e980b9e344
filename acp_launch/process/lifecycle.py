"""
The life of one supervised server, as a pure function: state and event → new state. `now` is in seconds of any clock.

                started              ready
      DECLARED ─────────▶ STARTING ──────────▶ READY
                            ▲ │ ended            │ ended
                    started │ ▼                  ▼
                            RESTING, FAILED or STOPPED, as judged below

      stop     DECLARED, RESTING ─▶ STOPPED       STARTING, READY ─▶ STOPPING ─ ended ─▶ STOPPED
      stuck    RESTING ─▶ FAILED
      needed   RESTING, with a shorter pause (remote servers only)
      renewed  RESTING, FAILED, STOPPED, ASLEEP ─▶ RESTING, without a pause
               STARTING, READY: the end of its process leads there, however it would be judged otherwise
      unused   STARTING, READY: its process is ended, and that leads to ASLEEP (where a lazy server may also begin)
      needed   ASLEEP ─▶ RESTING, without a pause

FAILED and STOPPED are final until the server is renewed. After `stop`, also of a FAILED or STOPPED server, nothing
renews it. A renewal gives the restarts back. How the end of a process is judged:

                   exit status 0    any other, a signal, condemned, could not be started
      always       RESTING          RESTING
      on-failure   STOPPED          RESTING
      never        STOPPED          FAILED

RESTING waits for the backoff: `initial * factor ** n` seconds before restart n (counted from 0), at most `max`. When
`restart.max` restarts are used up, the server is FAILED instead. Restarts are given back, and the backoff begins anew,
once a process held: it was READY for `min_uptime`, or it had answered something and its handshake was not awaited for
that long. Being alive is not enough: a server that dies in every slow handshake would be restarted for ever.

Where only the connection to a remote server ended and not the server (a session that timed out), and it had held, the
next is begun at once and not counted; so is one to the server host, whether it had held or not. Where every other
would end the same way (a wrong password), the server is FAILED at once; so is one that has answered other requests but
no handshake within `start`, as it had time to be busy. A remote server's restarts are not limited by default, as a
network may be away for hours.

A server of which no process has ever answered is started at most three times, with the first pauses: a wrong command
line is more likely than a bad moment, and the user who waits for it should know soon.

`Change` and `Standing` are what other packages read, `Life` is the state, `step` the function, `NEXT` its table.
"""

from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from acp_launch.profile.model import RemoteRestart, Restart

Fault = Literal["", "credentials", "protocol"]  # it refuses ours, or lacks them; it does not speak MCP
# The states drawn in this module's docstring.
State = Literal["declared", "starting", "ready", "resting", "asleep", "failed", "stopping", "stopped"]
OVERDUE = "did not answer within"  # begins the `exit` of a process that was killed for its silence
FETCHING = "downloading"  # the `reason` while STARTING, if its package runner is still at that
FETCHED = "downloaded"  # and after that
DOWNLOADING = f"{FETCHING}: its package runner fetches it for the first time"
DOWNLOAD_TIMEOUT = 600.0  # of a package runner


class Change(Struct, frozen=True, kw_only=True, tag_field="type", tag="server", rename="camel"):
    """One step in the life of one server. It is an event, too (`session/events`).

    `server` is its name in the profile, `github#2` for a second process of it. `pid` belongs to its process, if it has
    one. `after` is in seconds (`ready`: how long its start took, without the time it waited for the agent; `resting`,
    `failed`, `stopped`: how long its process lived). `exit` says in words how the process ended ("was killed by
    SIGKILL") or why it was killed ("did not answer within 30 s"), `reason` what else there is to say ("5 restarts are
    used up"), `retry` in how many seconds it starts again, `detail` holds its last stderr lines, redacted. `restarts`
    includes the one that `retry` announces, and `budget` is how many it may have, None if they are not counted.
    `by_hand`: the user asked for the next or the current process. `is_remote`: the process is a connection to a remote
    server; if only that ended, another begins and is not counted. `fault` is why a remote server is of no use.
    `ends_run`: an error that ends the run says the same.
    """

    time: str = ""
    server: str = field(name="name")
    state: State
    required: bool = True
    pid: int | None = None
    restarts: int = 0
    after: float | None = field(default=None, name="seconds")
    exit: str | None = None
    reason: str | None = None
    retry: float | None = None
    detail: tuple[str, ...] = ()
    budget: int | None = None
    by_hand: bool = False
    is_remote: bool = False
    ends_run: bool = False
    fault: Fault = ""


class Standing(Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of a server of the profile at one moment.

    `after` is how many seconds its start took, as in `Change`, None before it was READY; `tools` is how many the agent
    was shown, None while it has not asked a server that has tools; `opened` whether the agent has ever connected to it;
    `closed` whether it has closed all its connections since; `unread` whether it is READY and has tools that the agent
    does not know, since it neither listed nor called any; `silent` whether it runs and has never answered anything;
    `retry` is in how many seconds it starts again, if it does; `old_code` whether a process was started from files
    that have changed since.
    """

    server: str = field(name="name")
    state: State
    required: bool = True
    opened: bool = False
    unread: bool = False
    after: float | None = field(default=None, name="seconds")
    tools: int | None = None
    restarts: int = 0
    reason: str | None = None
    closed: bool = False
    silent: bool = False
    retry: float | None = None
    old_code: bool = False


UNPROVEN = 2  # restarts of a server that has never answered


class Life(Struct, frozen=True, kw_only=True):
    """The state of one supervised server. `start` is how many seconds STARTING may take while it is awaited.

    They begin when its package runner has downloaded it, for which it has `download` seconds.

    Times are on the clock of `now`.
    """

    restart: Restart | RemoteRestart
    start: float
    download: float = DOWNLOAD_TIMEOUT
    state: State = "declared"
    since: float = 0.0  # when it entered this state
    begun: float = 0.0  # when its latest process was started
    awaited: float | None = None  # since when it is awaited to be READY
    answered: float | None = None  # since when its process is known to be up
    is_fetching: bool = False  # its package runner is downloading
    fetched: float | None = None  # when it was last seen to do so
    is_proven: bool = False  # some process of it has answered, perhaps not the latest
    is_met: bool = False  # some process of it has been READY
    verdict: str = ""  # why its process was condemned
    wish: Literal["", "pending", "granted"] = ""  # the user's request for a process: not started yet, or the latest
    is_wanted: bool = True  # False once it was stopped
    is_unused: bool = False  # its process is being ended for that
    starts: int = 0  # all processes so far
    used: int = 0  # restarts since a process last held
    took: float | None = None  # seconds its process itself needed to be READY
    lived: float | None = None  # seconds its latest process lived
    pause: float | None = None  # seconds from `since` until the next start
    floor: float = 0.0  # of these, what the server asked for
    exit: str = ""  # how its latest process ended
    reason: str = ""  # why it is in this state, if `exit` does not say it
    fault: Fault = ""  # why the latest process of a remote server is of no use

    @property
    def is_final(self) -> bool:
        return self.state in ("failed", "stopped")

    @property
    def is_over(self) -> bool:
        """Whether it will never have a process again, even if the user asks for one."""
        return self.is_final and not self.is_wanted

    @property
    def has_answered(self) -> bool:
        """Whether it has answered: the handshake, if that is awaited or it has failed since."""
        return self.is_met or (self.is_proven and self.awaited is None and self.state != "failed")

    @property
    def is_doomed(self) -> bool:
        """Whether its process is about to be ended, and another may follow."""
        return bool(self.verdict) or self.wish == "pending" or self.is_unused

    @property
    def is_up(self) -> bool:
        """Whether it has a process that has answered and is not about to be ended."""
        return self.answered is not None and self.state in ("starting", "ready") and not self.is_doomed

    @property
    def budget(self) -> int | None:
        """Return how many restarts it may use in a row; None if they are not limited."""
        most = self.restart.max
        if self.is_proven:
            return most
        return UNPROVEN if most is None else min(most, UNPROVEN)

    @property
    def deadline(self) -> float | None:
        """Return when its process will be condemned for not being READY; None while it is neither awaited nor
        downloaded."""
        if self.state != "starting" or self.is_doomed:
            return None
        if self.is_fetching:  # this ends, whether the server is awaited or not
            return self.begun + self.download
        return None if self.awaited is None else self.expected

    @property
    def expected(self) -> float:
        """Return when the `start` seconds of its latest process are over."""
        return max(self.begun, self.awaited or self.begun, self.fetched or self.begun) + self.start

    def told(self, server: str, *, required: bool, pid: int | None = None, detail: tuple[str, ...] = ()) -> Change:
        """Return the state as a `Change` for other packages; `pid` and `detail` belong to its process."""
        fetch = FETCHING if self.is_fetching else "" if self.fetched is None else FETCHED
        return Change(
            server=server,
            state=self.state,
            required=required,
            pid=pid,
            restarts=self.used,
            budget=self.budget,
            after=self.took if self.state == "ready" else self.lived,
            exit=self.exit or None,
            reason=(fetch if self.state == "starting" and fetch else self.reason) or None,
            retry=self.pause,
            detail=detail,
            by_hand=bool(self.wish),
            is_remote=isinstance(self.restart, RemoteRestart),
            fault=self.fault,
        )


class Event(Struct, frozen=True):
    """What happens to a server."""

    def noted(self, life: Life, now: float) -> Life:
        """Return `life` with what this event tells, whatever state it leads to."""
        return life


class Fetching(Event, frozen=True):
    """Its package runner was seen to be downloading, or no longer."""

    is_so: bool

    def noted(self, life: Life, now: float) -> Life:
        return replace(life, is_fetching=self.is_so, fetched=now if self.is_so else life.fetched)


class Started(Event, frozen=True):
    """A process was started, or is about to be."""

    def noted(self, life: Life, now: float) -> Life:
        again = replace(life, begun=now, starts=life.starts + 1, wish="granted" if life.wish == "pending" else "")
        again = replace(again, is_fetching=False, fetched=None, is_unused=False)
        return replace(again, answered=None, verdict="", took=None, lived=None, exit="", reason="", fault="")


class Awaited(Event, frozen=True):
    """The server is awaited to be READY, or no longer."""

    is_so: bool

    def noted(self, life: Life, now: float) -> Life:
        since = now if life.awaited is None else life.awaited
        return replace(life, awaited=since if self.is_so else None)


class Answered(Event, frozen=True):
    """Its process has sent a valid message."""

    def noted(self, life: Life, now: float) -> Life:
        return life if life.answered is not None else replace(life, answered=now, is_proven=True)


class Ready(Answered, frozen=True):
    """Its process has answered the agent's handshake.

    `took`: the seconds of its start that the process itself needed; None: all of them.
    """

    took: float | None = None

    def noted(self, life: Life, now: float) -> Life:
        took = now - life.begun if self.took is None else self.took
        return replace(super().noted(life, now), took=took, is_met=True)


class Condemned(Event, frozen=True):
    """Its process is useless and will be killed; `why` completes "the server …"."""

    why: str

    def noted(self, life: Life, now: float) -> Life:
        return replace(life, verdict=life.verdict or self.why)


Follows = Literal["judged", "again", "anew", "needed", "never"]


class Ended(Event, frozen=True):
    """Its process has ended; `how` completes "the server …". Or it could not be started, and `reason` says why.

    `follows`: another process is started as its policy judges; again, because only the connection ended and not the
    server, and it had held; anew, also if it had not, because the server host has ended; once it is needed, because the
    user has ended it; or never, because that would end the same way. The next start comes `pause` seconds later or
    more, and `jitter` is how much longer any pause is, as a share of it. `fault` tells verbs why a remote server is of
    no use.
    """

    how: str = ""
    is_clean: bool = False
    reason: str = ""
    follows: Follows = "judged"
    pause: float = 0.0
    jitter: float = 0.0
    fault: Fault = ""

    def noted(self, life: Life, now: float) -> Life:
        life = replace(life, lived=now - life.begun if self.how else None)
        if life.wish == "pending":
            return replace(life, exit=BY_HAND)
        used, how = 0 if _held(life, now) else life.used, life.verdict or self.how
        return replace(life, used=used, exit=how, reason=self.reason, fault=self.fault, wish="")


class Stuck(Event, frozen=True):
    """Processes that it left behind cannot be killed, so a new one must not be started."""

    reason: str

    def noted(self, life: Life, now: float) -> Life:
        return replace(life, reason=self.reason, wish="")


class Renewed(Event, frozen=True):
    """The user wants a new process, whatever happened to the last one.

    A living process has to end first; without one, the end of the last is forgotten.
    """

    def noted(self, life: Life, now: float) -> Life:
        if life.wish == "pending":
            return life
        if life.state in ("starting", "ready"):
            return replace(life, wish="pending")
        return replace(life, wish="pending", lived=None, exit=BY_HAND, reason="", fault="")


class Needed(Event, frozen=True):
    """The agent waits for a server that is asleep, or for a remote one, which need not wait for the end of its pause,
    unless it asked for one. The pause becomes the first one from now on."""

    def noted(self, life: Life, now: float) -> Life:
        soon = max(life.floor, now - life.since + life.restart.backoff.initial)
        return life if life.pause is None or life.pause <= soon else replace(life, pause=soon)


class Unused(Event, frozen=True):
    """The agent has not used the server for a while; its process is ended until the server is needed."""

    def noted(self, life: Life, now: float) -> Life:
        return replace(life, is_unused=True)


class Stop(Event, frozen=True):
    """The server is no longer needed."""

    def noted(self, life: Life, now: float) -> Life:
        return replace(life, is_wanted=False, wish="") if life.is_wanted else life


Then = State | Literal["same", "judged", "renewed", ""]

BY_HAND = "was restarted by the user"  # for readers other than that user

# The result of an event: a state; "same": it is noted; "judged", "renewed": see above; "": it came too late, or changes
# nothing. A missing pair cannot happen.
_LATE: dict[type[Event], Then] = {Answered: "", Fetching: "", Ready: "", Condemned: "", Unused: ""}
_ALIVE: dict[type[Event], Then] = {
    **dict.fromkeys((Awaited, Condemned, Renewed, Unused), "same"),
    Ended: "judged",
    Stop: "stopping",
}
NEXT: dict[State, dict[type[Event], Then]] = {
    "declared": {Started: "starting", Awaited: "same", Condemned: "", Renewed: "", Stop: "stopped"},
    "starting": {**_ALIVE, Fetching: "same", Answered: "same", Ready: "ready"},
    "ready": {**_ALIVE, Fetching: "", Answered: "", Ready: ""},
    "asleep": {**_LATE, Awaited: "same", Stuck: "failed", Renewed: "renewed", Needed: "renewed", Stop: "stopped"},
    "resting": {
        **_LATE,
        Awaited: "same",
        Started: "starting",
        Stuck: "failed",
        Renewed: "renewed",
        Needed: "same",
        Stop: "stopped",
    },
    "failed": {**_LATE, Awaited: "same", Stuck: "", Renewed: "renewed", Stop: "same"},
    "stopping": {**_LATE, Awaited: "", Ended: "stopped", Renewed: "", Stop: ""},
    "stopped": {**_LATE, Awaited: "same", Stuck: "", Renewed: "renewed", Stop: "same"},
}


def step(life: Life, event: Event, now: float) -> Life:
    """Return `life` after `event`.

    Raises:
        ValueError: the event cannot happen in this state, which is our bug.
    """
    then = NEXT[life.state].get(type(event))
    if then is None:
        raise ValueError(f"{type(event).__name__} cannot happen to a server that is {life.state}")
    if then == "" or (then == "renewed" and (not life.is_wanted or life.wish == "pending")):
        return life
    noted = event.noted(life, now)
    if then == "same":
        return noted
    if then == "judged" and noted.wish != "pending":
        assert isinstance(event, Ended)
        return _judged(noted, event, now)
    if then in ("judged", "renewed"):
        return replace(noted, state="resting", since=now, pause=0.0, used=0)
    return replace(noted, state=then, since=now, pause=None)


def _held(life: Life, now: float) -> bool:
    if life.state == "ready":
        return now - life.since >= life.restart.min_uptime
    if life.answered is None or life.awaited is not None:
        return False
    return now - life.answered >= life.restart.min_uptime


def _judged(life: Life, end: Ended, now: float) -> Life:
    if (life.is_unused or end.follows == "needed") and not life.verdict:
        exit = "" if life.is_unused else life.exit
        return replace(life, state="asleep", since=now, pause=None, exit=exit, is_unused=False)
    policy, is_clean = life.restart.policy, end.is_clean and not life.verdict
    is_late = life.verdict.startswith(OVERDUE) and isinstance(life.restart, RemoteRestart)
    if end.follows == "never" or (is_late and life.is_proven and not life.is_met):
        return replace(life, state="failed", since=now)
    is_innocent = end.follows == "anew" or (end.follows == "again" and _held(life, now))
    if is_innocent and not life.verdict:
        return replace(life, state="resting", since=now, pause=end.pause)
    if policy == "never" or (policy == "on-failure" and is_clean):
        reason = life.reason or f"its restart policy is {policy}"
        return replace(life, state="stopped" if is_clean else "failed", since=now, reason=reason)
    if life.budget is not None and life.used >= life.budget:
        return replace(life, state="failed", since=now, reason=life.reason or _used_up(life))
    pause = max(_pause(life), end.pause) * (1 + end.jitter)
    return replace(life, state="resting", since=now, pause=pause, floor=end.pause, used=life.used + 1)


def _used_up(life: Life) -> str:
    if life.restart.max == 0:
        return "its profile allows no restart"
    if not life.is_proven:
        if isinstance(life.restart, RemoteRestart):  # it may have answered, by a refusal
            return f"it was tried {life.starts} times: try again later"
        return f"it was started {life.starts} times and never answered"
    return "its restart is used up" if life.used == 1 else f"{life.used} restarts are used up"


def _pause(life: Life) -> float:
    backoff = life.restart.backoff
    try:
        return float(min(backoff.max, backoff.initial * backoff.factor**life.used))
    except OverflowError:
        return float(backoff.max)
