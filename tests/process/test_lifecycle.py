"""The life of a server, without one: the whole table, the policies, the budget, the backoff, the deadline."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from acp_launch.document.scalars import Duration
from acp_launch.process.lifecycle import (
    BY_HAND,
    FETCHED,
    FETCHING,
    UNPROVEN,
    Answered,
    Awaited,
    Change,
    Condemned,
    Ended,
    Event,
    Fetching,
    Life,
    Needed,
    Ready,
    Renewed,
    Started,
    State,
    Stop,
    Stuck,
    Unused,
    step,
)
from acp_launch.profile.model import Backoff, RemoteRestart, Restart, RestartPolicy

START = 30.0
CRASH = Ended("was killed by SIGKILL")
CLEAN = Ended("exited with status 0", is_clean=True)
UNSTARTABLE = Ended(reason="/bin/nothing could not be started: there is no such file")


def life(restart: Restart | RemoteRestart | None = None) -> Life:
    return Life(restart=restart or Restart(), start=START)


def after(events: Sequence[tuple[float, Event]], restart: Restart | None = None) -> Life:
    """A new server, to which each event happens at its moment."""
    now = life(restart)
    for moment, event in events:
        now = step(now, event, moment)
    return now


SAMPLES: dict[State, Life] = {
    "declared": life(),
    "starting": after([(0, Started())]),
    "ready": after([(0, Started()), (1, Ready())]),
    "resting": after([(0, Started()), (1, CRASH)]),
    "failed": after([(0, Started()), (1, CRASH)], Restart(policy="never")),
    "stopping": after([(0, Started()), (1, Stop())]),
    "stopped": after([(0, Started()), (1, CLEAN)]),
    "asleep": after([(0, Started()), (1, Unused()), (1, CLEAN)]),
}
EVENTS: dict[str, Event] = {
    "started": Started(),
    "awaited": Awaited(True),
    "fetching": Fetching(True),
    "answered": Answered(),
    "ready": Ready(),
    "condemned": Condemned("is wedged"),
    "ended": CRASH,
    "stuck": Stuck("cannot kill processes that it left behind: 7"),
    "renewed": Renewed(),
    "stop": Stop(),
    "needed": Needed(),
    "unused": Unused(),
}
# "=": the state stays and it is noted; "-": nothing changes at all; "!": a bug of ours, refused.
TABLE = """
            started   awaited  fetching  answered  ready  condemned  ended    stuck   renewed  stop      needed   unused
declared    starting  =        !         !         !      -          !        !       -        stopped   !        !
starting    !         =        =         =         ready  =          resting  !       =        stopping  !        =
ready       !         =        -         -         -      =          resting  !       =        stopping  !        =
asleep      !         =        -         -         -      -          !        failed  resting  stopped   resting  -
resting     starting  =        -         -         -      -          !        failed  resting  stopped   -        -
failed      !         =        -         -         -      -          !        -       resting  =         !        -
stopping    !         -        -         -         -      -          stopped  !       -        -         !        -
stopped     !         =        -         -         -      -          !        -       resting  =         !        -
"""


def cells() -> list[tuple[State, str, str]]:
    head, *rows = [line.split() for line in TABLE.strip().splitlines()]
    states = {str(state): state for state in SAMPLES}
    return [(states[row[0]], event, then) for row in rows for event, then in zip(head, row[1:], strict=True)]


def test_what_comes_of_each_event_in_each_state() -> None:
    assert {(state, event) for state, event, _ in cells()} == {(state, event) for state in SAMPLES for event in EVENTS}
    assert all(sample.state == state for state, sample in SAMPLES.items())
    for state, event, then in cells():
        sample = SAMPLES[state]
        if then == "!":
            with pytest.raises(ValueError, match=f"^{event.capitalize()} cannot happen to a server that is {state}$"):
                step(sample, EVENTS[event], 2)
            continue
        following = step(sample, EVENTS[event], 2)
        where = (following.state, following.since)
        expected = {"-": (state, sample.since), "=": (state, sample.since)}.get(then, (then, 2))
        assert (where, following is sample) == (expected, then == "-"), (state, event)


# It is not used.


@pytest.mark.parametrize("end", [CRASH, CLEAN])
@pytest.mark.parametrize("policy", ["always", "on-failure", "never"])
def test_however_an_unused_process_ends_it_is_asleep_until_it_is_needed_and_that_is_no_restart(
    policy: RestartPolicy, end: Ended
) -> None:
    events: list[tuple[float, Event]] = [(0, Started()), (1, Ready()), (2, Unused()), (3, end)]
    asleep = after(events, Restart(policy=policy))
    assert (asleep.state, asleep.pause, asleep.exit, asleep.lived) == ("asleep", None, "", 3)
    assert not after(events[:3]).is_up, "nothing is sent to a process that is being ended"
    again = step(step(asleep, Needed(), 4), Started(), 4)
    assert (again.state, again.used, again.is_doomed) == ("starting", 0, False)
    assert step(again, CRASH, 5).state == ("failed" if policy == "never" else "resting")


# A person has it started anew.


def renewed_while(state: State, restart: Restart | None = None) -> Life:
    """It was renewed at 2, with restarts used; a process there was has had its end at 3."""
    now = step(replace(SAMPLES[state], used=3, restart=restart or Restart(max=3)), Renewed(), 2)
    return step(now, CLEAN, 3) if now.state in ("starting", "ready") else now


@pytest.mark.parametrize("policy", ["always", "on-failure", "never"])
@pytest.mark.parametrize("state", ["starting", "ready", "resting", "failed", "stopped"])
def test_what_is_renewed_is_started_without_a_pause_and_has_its_restarts_back(
    state: State, policy: RestartPolicy
) -> None:
    now = renewed_while(state, Restart(policy=policy, max=3))
    assert (now.state, now.pause, now.used, now.exit, now.reason) == ("resting", 0, 0, BY_HAND, "")
    again = step(now, Started(), 4)
    assert (again.state, again.pause, again.exit) == ("starting", None, "")


def test_a_process_that_is_about_to_be_ended_is_not_up_and_has_no_deadline() -> None:
    waiting = after([(0, Started()), (0, Awaited(True)), (1, Answered())])
    assert (waiting.is_up, waiting.deadline) == (True, START)
    now = step(waiting, Renewed(), 2)
    assert (now.is_up, now.deadline) == (False, None)
    following = step(step(now, CLEAN, 3), Started(), 4)
    assert following.deadline == 4 + START


@pytest.mark.parametrize("state", ["starting", "ready", "resting", "failed", "stopped"])
def test_a_second_wish_before_the_new_process_changes_nothing(state: State) -> None:
    now = step(SAMPLES[state], Renewed(), 2)
    assert step(now, Renewed(), 3) is now
    there = renewed_while(state)
    assert step(there, Renewed(), 4) is there


def test_a_wish_for_another_process_than_the_new_one_is_another_wish() -> None:
    started = step(renewed_while("ready"), Started(), 4)
    again = step(step(started, Renewed(), 5), CLEAN, 6)
    assert (again.state, again.pause, again.starts) == ("resting", 0, 2)


@pytest.mark.parametrize("state", list(SAMPLES))
def test_what_was_stopped_is_not_renewed(state: State) -> None:
    stopped = step(SAMPLES[state], Stop(), 2)
    assert step(stopped, Renewed(), 3) is stopped
    over = step(stopped, CLEAN, 4) if stopped.state == "stopping" else stopped
    assert step(over, Renewed(), 5) is over
    assert over.is_over
    assert over.state == ("failed" if state == "failed" else "stopped")


@pytest.mark.parametrize("state", ["starting", "ready", "resting", "failed", "stopped"])
def test_a_stop_after_the_wish_counts(state: State) -> None:
    now = step(step(SAMPLES[state], Renewed(), 2), Stop(), 3)
    over = step(now, CLEAN, 4) if now.state == "stopping" else now
    assert (over.state, over.is_over, over.pause, over.wish) == ("stopped", True, None, "")


def test_what_ended_without_a_stop_is_final_but_not_over() -> None:
    assert [(SAMPLES[state].is_final, SAMPLES[state].is_over) for state in ("failed", "stopped")] == [(True, False)] * 2


def test_the_new_process_is_judged_like_any_other() -> None:
    started = step(renewed_while("failed", Restart(policy="never")), Started(), 4)
    assert (step(started, CRASH, 5).state, step(started, CRASH, 5).reason) == ("failed", "its restart policy is never")
    started = step(renewed_while("failed", Restart(max=2)), Started(), 4)
    once = step(step(started, Ready(), 4.5), CRASH, 5)
    assert (once.state, once.used, once.pause, once.exit) == ("resting", 1, 0.2, "was killed by SIGKILL")


def test_what_is_stuck_is_not_renewed_by_a_wish_of_before() -> None:
    stuck = step(renewed_while("ready"), Stuck("cannot kill processes that it left behind: 7"), 4)
    assert (stuck.state, stuck.pause, stuck.wish) == ("failed", None, "")
    assert step(stuck, Renewed(), 5).state == "resting", "but by one of a person who knows that"


def test_a_person_is_told_of_the_new_process_until_it_ends() -> None:
    def by_hand(life: Life) -> bool:
        return life.told("github", required=True).by_hand

    resting = renewed_while("ready")
    assert resting.told("github", required=True) == Change(
        server="github", state="resting", budget=3, after=3, exit=BY_HAND, retry=0, by_hand=True
    )
    started = step(resting, Started(), 4)
    ready = step(started, Ready(), 5)
    assert [by_hand(started), by_hand(ready)] == [True, True]
    crashed = step(ready, CRASH, 6)
    assert [by_hand(crashed), by_hand(step(crashed, Started(), 7)), by_hand(step(ready, Stop(), 6))] == [False] * 3


def test_nothing_of_an_old_end_is_told_of_a_wish_without_a_process() -> None:
    assert renewed_while("failed").told("github", required=True) == Change(
        server="github", state="resting", budget=2, exit=BY_HAND, retry=0, by_hand=True
    )


HELD = 10.0  # seconds, the default of min_uptime
EXPIRED = Ended("closed the session", follows="again")
REFUSED = Ended("does not accept the key (401)", follows="never")
LOST = Ended("lost its server host", follows="anew")
WEDGED = Condemned("is wedged")
Events = Sequence[tuple[float, Event]]
ENDS: list[tuple[Events, State, str, float | None, int]] = [
    # What happens after the start; the state, the end that is told, the pause, and the restarts that are used.
    ([(1, Unused()), (2, WEDGED), (3, CRASH)], "resting", "is wedged", 0.2, 1),
    ([(1, Unused()), (2, Renewed()), (3, CLEAN)], "resting", BY_HAND, 0, 0),
    ([(1, Unused()), (2, Stop()), (3, CLEAN)], "stopped", "exited with status 0", None, 0),
    ([(1, WEDGED), (2, Condemned("is slow")), (3, CRASH)], "resting", "is wedged", 0.2, 1),
    ([(1, WEDGED), (2, Condemned("is slow")), (3, CLEAN)], "resting", "is wedged", 0.2, 1),
    ([(1, WEDGED), (2, Stop()), (3, CRASH)], "stopped", "is wedged", None, 0),
    ([(1, WEDGED), (2, Renewed()), (3, CRASH)], "resting", BY_HAND, 0, 0),
    ([(0, Ready()), (HELD + 1, Condemned("is mute")), (HELD + 2, EXPIRED)], "resting", "is mute", 0.2, 1),
    ([(1, Renewed()), (2, CRASH)], "resting", BY_HAND, 0, 0),
    ([(0, Ready()), (1, Renewed()), (2, Ended("was killed by SIGTERM"))], "resting", BY_HAND, 0, 0),
    ([(1, Renewed()), (2, REFUSED)], "resting", BY_HAND, 0, 0),
    ([(1, REFUSED), (2, Renewed())], "resting", BY_HAND, 0, 0),
    ([(1, Ready()), (50, REFUSED)], "failed", REFUSED.how, None, 0),
    ([(0, Ready()), (1, LOST)], "resting", LOST.how, 0, 0),
    ([(0, Ready()), (1, EXPIRED)], "resting", EXPIRED.how, 0.2, 1),
    ([(0, Ready()), (1 + HELD, EXPIRED)], "resting", EXPIRED.how, 0, 0),
    ([(0, Ready()), (1, Ended("was ended", follows="needed"))], "asleep", "was ended", None, 0),
    ([(0, Answered()), (1, Ended("answered 503", pause=0.1))], "resting", "answered 503", 0.2, 1),
    ([(0, Answered()), (1, Ended("answered 503", pause=30))], "resting", "answered 503", 30, 1),
    ([(0, Answered()), (1, Ended("answered 503", pause=2, jitter=0.25))], "resting", "answered 503", 2.5, 1),
]


@pytest.mark.parametrize(("events", "state", "exit_", "pause", "used"), ENDS)
def test_what_the_end_of_a_process_means_after_what_was_wanted_of_it(
    events: Events, state: State, exit_: str, pause: float | None, used: int
) -> None:
    now = after([(0, Started()), *events])
    assert (now.state, now.exit, now.pause, now.used, now.reason) == (state, exit_, pause, used, "")


@pytest.mark.parametrize("policy", ["always", "on-failure", "never"])
def test_a_policy_judges_neither_the_end_of_a_mere_connection_nor_what_every_process_would_suffer(
    policy: RestartPolicy,
) -> None:
    ends = [
        after([(0, Started()), (0, Ready()), (1 + HELD, end)], Restart(policy=policy)) for end in (EXPIRED, REFUSED)
    ]
    assert [now.state for now in ends] == ["resting", "failed"]


@pytest.mark.parametrize(
    ("policy", "end", "state", "exit_", "reason"),
    [
        ("always", CLEAN, "resting", "exited with status 0", ""),
        ("always", CRASH, "resting", "was killed by SIGKILL", ""),
        ("on-failure", CLEAN, "stopped", "exited with status 0", "its restart policy is on-failure"),
        ("on-failure", CRASH, "resting", "was killed by SIGKILL", ""),
        ("never", CLEAN, "stopped", "exited with status 0", "its restart policy is never"),
        ("never", CRASH, "failed", "was killed by SIGKILL", "its restart policy is never"),
        ("never", UNSTARTABLE, "failed", "", UNSTARTABLE.reason),
        ("on-failure", UNSTARTABLE, "resting", "", UNSTARTABLE.reason),
    ],
)
@pytest.mark.parametrize("was_ready", [False, True])
def test_the_policy_judges_each_end(
    policy: RestartPolicy, end: Ended, state: State, exit_: str, reason: str, was_ready: bool
) -> None:
    events: list[tuple[float, Event]] = [(0, Started()), *([(1.0, Ready())] if was_ready else []), (2, end)]
    judged = after(events, Restart(policy=policy))
    assert (judged.state, judged.exit, judged.reason) == (state, exit_, reason)


def crashing(restart: Restart | RemoteRestart, *, answers: bool = True) -> tuple[Life, list[float]]:
    """Processes that all die after 0.1 s, until it is final; and the pauses between them."""
    now, moment = life(restart), 0.0
    pauses: list[float] = []
    for _ in range(1000):
        now = step(now, Started(), moment)
        if answers:
            now = step(now, Ready(), moment)
        moment += 0.1
        now = step(now, CRASH, moment)
        if now.pause is None:
            return now, pauses
        pauses.append(now.pause)
        moment += now.pause
    raise AssertionError("it was started 1000 times")


def test_the_backoff_grows_to_its_maximum_and_the_budget_ends_it() -> None:
    assert sum(crashing(Restart(), answers=False)[1]) < 1, "a wrong command line is told soon"
    ended, pauses = crashing(Restart(max=7))
    assert pauses == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10])
    assert (ended.state, ended.starts, ended.reason) == ("failed", 8, "7 restarts are used up")


@pytest.mark.parametrize(
    ("most", "answers", "starts", "reason"),
    [
        (0, True, 1, "its profile allows no restart"),
        (0, False, 1, "its profile allows no restart"),
        (1, True, 2, "its restart is used up"),
        (1, False, 2, "it was started 2 times and never answered"),
        (5, True, 6, "5 restarts are used up"),
        (5, False, 3, "it was started 3 times and never answered"),
    ],
)
def test_the_budget_is_said_when_it_is_spent_and_is_small_for_what_never_answered(
    most: int, answers: bool, starts: int, reason: str
) -> None:
    ended, _ = crashing(Restart(max=most), answers=answers)
    assert (ended.state, ended.starts, ended.reason) == ("failed", starts, reason)


def test_a_remote_server_that_was_refused_each_time_is_not_said_to_have_never_answered() -> None:
    ended, _ = crashing(RemoteRestart(), answers=False)
    assert (ended.state, ended.reason) == ("failed", "it was tried 3 times: try again later")


def test_what_could_not_be_started_to_the_end_says_why() -> None:
    now = life()
    for moment in range(3):
        now = step(step(now, Started(), moment), UNSTARTABLE, moment)
    assert (now.state, now.starts, now.reason, now.lived) == ("failed", 3, UNSTARTABLE.reason, None)


def test_one_answer_of_any_process_gives_the_whole_budget() -> None:
    events: list[tuple[float, Event]] = [(0, Started()), (0, CRASH), (1, Started()), (1, Answered()), (1, CRASH)]
    assert after(events).budget == 5
    assert after(events[:2]).budget == 2


def test_a_clean_exit_that_is_always_restarted_spends_the_budget_too() -> None:
    now = life(Restart(policy="always", max=1))
    for moment in range(2):
        now = step(step(step(now, Started(), moment), Ready(), moment), CLEAN, moment)
    assert (now.state, now.exit, now.reason) == ("failed", "exited with status 0", "its restart is used up")


def test_the_pause_of_a_backoff_beyond_all_numbers_is_its_maximum() -> None:
    steep = Restart(max=500, backoff=Backoff(initial=Duration(1), max=Duration(60), factor=1e10))
    assert crashing(steep)[1][-1] == 60


@pytest.mark.parametrize(
    ("events", "used"),
    [
        pytest.param([(0, Ready()), (HELD, CRASH)], 1, id="ready for long enough"),
        pytest.param([(1, Ready()), (HELD, CRASH)], 3, id="alive for long enough, ready for less"),
        pytest.param([(0, Answered()), (HELD, CRASH)], 1, id="answered, and not awaited"),
        pytest.param([(1, Answered()), (HELD, CRASH)], 3, id="answered not long ago"),
        pytest.param([(0, Answered()), (1, Awaited(True)), (HELD, CRASH)], 3, id="answered, then died of a handshake"),
        pytest.param(
            [(0, Answered()), (1, Awaited(True)), (2, Awaited(False)), (HELD, CRASH)], 1, id="no longer awaited"
        ),
        pytest.param([(2 * HELD, CRASH)], 3, id="alive and silent"),
        pytest.param([(0, Ready()), (1, Condemned("is wedged")), (HELD, CRASH)], 1, id="condemned after a long life"),
    ],
)
def test_restarts_are_given_back_to_a_process_that_held(events: list[tuple[float, Event]], used: int) -> None:
    """`used` counts the restart that follows."""
    now = replace(SAMPLES["declared"], is_proven=True, used=2)
    for moment, event in [(0.0, Started()), *events]:
        now = step(now, event, moment)
    assert (now.state, now.used) == ("resting", used)
    assert now.pause == pytest.approx(0.2 * 2 ** (used - 1))


def test_the_deadline_runs_while_it_is_awaited_and_anew_for_each_process() -> None:
    assert after([(0, Started()), (0, Awaited(True)), (3, Awaited(True))]).deadline == START, "from the clock's zero"
    now = after([(5, Started())])
    assert now.deadline is None
    now = step(now, Awaited(True), 7)
    assert now.deadline == 7 + START
    now = step(now, Awaited(True), 8)
    assert now.deadline == 7 + START, "a second word of the same wait"
    now = step(now, Answered(), 9)
    assert now.deadline == 7 + START, "an answer to a ping is no handshake"
    now = step(now, CRASH, 10)
    assert now.deadline is None
    now = step(now, Started(), 11)
    assert now.deadline == 11 + START
    assert step(now, Ready(), 12).deadline is None
    assert step(now, Condemned("is wedged"), 12).deadline is None
    assert step(now, Stop(), 12).deadline is None
    assert step(now, Awaited(False), 12).deadline is None


def test_a_process_is_up_from_its_first_answer_until_it_is_condemned_stopped_or_gone() -> None:
    up = after([(0, Started()), (1, Answered())])
    assert up.is_up
    assert step(up, Ready(), 2).is_up
    for event in (Condemned("is wedged"), Stop(), CRASH):
        assert not step(up, event, 2).is_up
    assert not step(step(up, CRASH, 2), Started(), 3).is_up


def test_a_ready_server_tells_how_long_its_start_took() -> None:
    assert after([(2, Started()), (2.5, Ready())]).told("github", required=True, pid=7) == Change(
        server="github", state="ready", pid=7, budget=5, after=0.5
    )


def test_a_resting_server_tells_how_it_ended_how_long_it_lived_and_when_it_comes_back() -> None:
    resting = after([(1, Started()), (2, Ready()), (4, CRASH)])
    assert resting.told("github#2", required=False, detail=("last words",)) == Change(
        server="github#2",
        state="resting",
        required=False,
        restarts=1,
        budget=5,
        after=3,
        exit="was killed by SIGKILL",
        retry=0.2,
        detail=("last words",),
    )


def test_nothing_of_an_end_is_told_of_the_next_process() -> None:
    again = after([(1, Started()), (2, Ready()), (4, CRASH), (5, Started())])
    assert again.told("github", required=True) == Change(server="github", state="starting", restarts=1, budget=5)


def test_what_is_stuck_says_so_and_is_not_announced_again() -> None:
    stuck = after([(1, Started()), (2, CRASH), (7, Stuck("cannot kill processes that it left behind: 7"))])
    told = stuck.told("github", required=True)
    assert (told.state, told.reason, told.retry) == ("failed", "cannot kill processes that it left behind: 7", None)


FATES = st.lists(
    st.tuples(
        st.sampled_from(["silent", "answered", "ready"]),
        st.sampled_from(
            [0.0, 0.05, HELD + 1, 100.0]
        ),  # seconds it lives after that; exactly HELD is a matter of rounding
        st.sampled_from([CRASH, CLEAN, UNSTARTABLE, Condemned("is wedged"), Renewed()]),
    ),
    max_size=40,
)


def ended(life: Life, end: Ended | Condemned | Renewed, moment: float) -> Life:
    return step(life, end, moment) if isinstance(end, Ended) else step(step(life, end, moment), CRASH, moment)


@given(FATES, st.sampled_from(["always", "on-failure", "never"]), st.integers(0, 6), st.booleans())
def test_whatever_happens_the_budget_holds_and_is_given_back_only_to_what_held(
    fates: list[tuple[str, float, Ended | Condemned | Renewed]], policy: RestartPolicy, most: int, awaited: bool
) -> None:
    """Counted here once more, in the simplest way: restarts in a row without a process that held."""
    now, moment, in_a_row, was_up = life(Restart(policy=policy, max=most)), 0.0, 0, False
    now = step(now, Awaited(awaited), 0)
    for promise, lives, end in fates:
        now = step(now, Started(), moment)
        if promise != "silent":
            now = step(now, Answered() if promise == "answered" else Ready(), moment)
            was_up = True
        moment += lives
        if lives >= HELD and (promise == "ready" or (promise == "answered" and not awaited)):
            in_a_row = 0
        now = ended(now, end, moment)
        if now.state != "resting":
            break
        in_a_row = 0 if now.exit == BY_HAND else in_a_row + 1
        assert in_a_row == now.used <= (most if was_up else min(most, UNPROVEN))
        assert now.pause is not None
        assert now.pause == 0 if now.exit == BY_HAND else 0.2 <= now.pause <= 10
        moment += now.pause
    if now.state == "failed" and policy != "never":
        assert in_a_row == now.used == now.budget
    if now.state == "stopped":
        assert policy != "always"
        assert now.exit == "exited with status 0"


def test_a_download_has_its_own_limit_and_the_start_timeout_counts_from_its_end() -> None:
    now = Life(restart=Restart(), start=30, download=600)
    now = step(step(now, Started(), 100), Awaited(True), 101)
    assert now.deadline == 131
    now = step(now, Fetching(True), 130)
    assert (now.deadline, now.told("s", required=True).reason) == (700, FETCHING)
    now = step(step(now, Fetching(True), 190), Fetching(False), 191)
    assert (now.deadline, now.told("s", required=True).reason) == (220, FETCHED)
    now = step(Life(restart=Restart(), start=30, download=600), Started(), 100)
    assert (now.deadline, step(now, Fetching(True), 130).deadline) == (None, 700), "it is not awaited"


def test_the_next_process_has_not_downloaded_anything_yet() -> None:
    now = step(step(Life(restart=Restart(), start=30), Started(), 0), Fetching(True), 1)
    now = step(step(now, Ended("was killed"), 2), Started(), 3)
    assert (now.is_fetching, now.fetched) == (False, None)


def test_connections_that_end_at_once_again_and_again_are_judged_like_crashes() -> None:
    now = after([(0, Started()), (0, Ready()), (1, EXPIRED)])
    assert (now.state, now.pause, now.used) == ("resting", 0.2, 1)
    now = step(step(step(now, Started(), 2), Ready(), 2), EXPIRED, 3)
    assert (now.pause, now.used) == (0.4, 2)


def test_a_pause_is_cut_for_a_waiting_request_but_not_below_what_the_server_asked_for() -> None:
    tired = Restart(backoff=Backoff(initial=Duration(0.2), max=Duration(30), factor=100))
    down: list[tuple[float, Event]] = [
        (0.0, Started()),
        (0.0, Answered()),
        (1.0, CRASH),
        (1.2, Started()),
        (2.0, CRASH),
    ]
    now = after(down, tired)
    assert now.pause == 20
    now = step(now, Needed(), 5)
    assert now.pause == pytest.approx(3.2), "the first pause, from now"
    assert step(now, Needed(), 5.1) is now, "once"
    asked = after([*down[:4], (2.0, Ended("answered 503", pause=10.0))], tired)
    assert step(asked, Needed(), 5).pause == 10
