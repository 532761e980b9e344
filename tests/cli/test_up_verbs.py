"""What else is done with a host: turns without a front, and what shows them (docs/up.md)."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.cli.hosted import brought_up, up
from tests.cli.launcher import Launcher, Running

# Says "one ", waits until the pipe GATE was opened by a writer unless the prompt is "free", says "two", and ends as the
# prompt says.
GATED = """
import os

def prompt(request):
    session = script.session_of(request)
    said = request["params"]["prompt"][0]["text"]
    script.say(session, "one ")
    if said != "free":
        open({gate!r}).close()
    if said == "die":
        os._exit(3)
    script.say(session, "two")
    script.end(request, "refusal" if said == "refuse" else "end_turn")

script.serve({{"session/prompt": prompt}})
"""

# Says "one", and waits for its end unless the prompt is "hi".
CANCELLED = """
def prompt(request):
    script.say(script.session_of(request), "one")
    if script.said(request) != "hi":
        script.expect("session/cancel")
    script.end(request, "cancelled" if script.said(request) != "hi" else "end_turn")

script.serve({"session/prompt": prompt})
"""


@pytest.fixture
def gate(launch: Launcher) -> Path:
    """A pipe; the profile p has an agent that waits for its other end in each turn."""
    pipe = launch.project.parent / "gate"
    os.mkfifo(pipe)
    launch.scripted(GATED.format(gate=str(pipe)))
    return pipe


def shows(running: Running, text: str) -> None:
    """Return once it has printed an event with this text."""
    while text not in running.shows('"type"'):
        pass


def let_go(gate: Path) -> None:
    """Let a turn go on; waits until the agent is there."""
    gate.open("wb").close()


@pytest.mark.promise("up")
def test_a_detached_turn_is_waited_for_from_elsewhere_and_after_its_end(launch: Launcher, gate: Path) -> None:
    with brought_up(launch, "run", "p", "hi", "--detach", "-s", "work") as host:
        assert "p is up now, until 10 min after its last use" in host.said
        assert "acp-launch session wait work" in host.said
        with launch.start("session", "wait", "work", "-o", "json") as waiting:
            shows(waiting, '"one "')
            let_go(gate)
            live = waiting.end()
        assert (live.code, [event["type"] for event in live.events]) == (0, ["update", "result"])
        again = launch.forked("session", "wait", "work")
        assert (again.code, again.out) == (0, b"one two\n")


def test_a_wait_ends_as_the_turn_ends(launch: Launcher, gate: Path) -> None:
    with up(launch) as host:
        assert host.run("refuse", "--detach", "-s", "a").code == 0
        late = launch.forked("session", "wait", "a", "--timeout", "100ms")
        assert (late.code, "the turn was not over within" in late.err) == (124, True)
        let_go(gate)
        assert launch.forked("session", "wait", "a", "-o", "quiet").code == 9
        assert host.run("die", "-d", "-s", "b").code == 0
        with launch.start("session", "wait", "b") as waiting:
            waiting.complains("resumed")
            let_go(gate)
            dead = waiting.end()
        assert (dead.code, "the agent exited with status 3" in dead.err) == (4, True), dead.err
        after = launch.forked("session", "wait", "b", "-o", "json")
        assert (after.code, [event["type"] for event in after.events][-2:]) == (4, ["update", "error"])
        assert "the agent exited with status 3" in after.event("error")["message"]
        ended = launch.forked("session", "wait", "a", "-o", "quiet")
        assert (ended.code, ended.out) == (9, b"one two\n"), "it ended with the agent, after its turn"
    gone = launch.forked("session", "wait", "b")
    assert (gone.code, 'no host has the session "b"' in gone.err) == (3, True)


def test_a_prompt_that_is_sent_in_a_turn_waits_for_its_end_and_is_shown(launch: Launcher, gate: Path) -> None:
    with up(launch) as host:
        with launch.start("run", "p", "first", "-s", "work", "-o", "json") as running:
            shows(running, '"one "')
            assert host.run("free", "-d", "-s", "work").code == 0
            shows(running, "queued after the turn that runs: free")
            (session,) = host.status.sessions
            assert (session.state, session.queued) == ("works", 1)
            let_go(gate)
            assert running.end().code == 0
        assert launch.forked("session", "wait", "work").code == 0
        assert host.methods.count("session/prompt") == 2


def test_what_cannot_be_detached_says_so(launch: Launcher, gate: Path) -> None:
    wrong = {
        ("--agent", "true", "hi", "--detach"): "--detach cannot be combined with --agent",
        ("p", "hi", "--detach", "--timeout", "2s"): "--timeout cannot be combined with --detach",
        ("p", "hi", "--keep=soon"): '--keep: expected a duration, found "soon"',
    }
    for words, why in wrong.items():
        refused = launch.forked("run", *words)
        assert (refused.code, why in refused.err) == (2, True), refused.err
    launch.write({"agent": {"command": "/not/there"}})
    absent = launch.forked("run", "p", "hi", "--detach", "-o", "json")
    assert (absent.code, [event["type"] for event in absent.events]) == (3, ["error"])


def test_a_question_without_a_terminal_waits_as_the_profile_says_and_the_user_is_notified(
    launch: Launcher,
) -> None:
    told = launch.project.parent / "told"
    config = launch.config
    config.mkdir(parents=True, exist_ok=True)
    notify = ["/bin/sh", "-c", 'echo "$0 $1" > "$2.part"; mv "$2.part" "$2"', "{profile}", "{session}", str(told)]
    (config / "config.yaml").write_text(json.dumps({"notify_command": notify}))
    os.mkfifo(f"{told}.part")
    launch.profile("asker", permissions={"unattended": "wait 300ms"})
    with up(launch) as host:
        assert host.run("hi", "-d", "-s", "work").code == 0
        assert Path(f"{told}.part").read_text() == "p work\n"
        waited = launch.forked("session", "wait", "work")
        assert (waited.code, waited.out) == (10, b"outcomes: reject_once-3\n")
        assert "denied: Change a file (permissions.unattended: wait 300ms, and no terminal attached)" in waited.err
    log = launch("permission", "log", "p", "--json").out
    assert b"permissions.unattended: wait 300ms, and no terminal attached" in log


@pytest.mark.sample(0, 2)
@pytest.mark.parametrize(
    ("unattended", "kind", "code", "answer"),
    [
        ("allow-reads", "read", 0, b"allow_once"),
        ("allow-reads", "edit", 10, b"reject_once"),
        ("deny", "read", 10, b"reject_once"),
    ],
)
def test_without_a_terminal_reads_may_be_allowed_and_all_may_be_denied(
    launch: Launcher, unattended: str, kind: str, code: int, answer: bytes
) -> None:
    launch.profile("asker", f"kind={kind}", permissions={"unattended": unattended})
    with up(launch) as host:
        assert host.run("hi", "-d", "-s", kind).code == 0
        ended = launch.forked("session", "wait", kind)
        assert (ended.code, answer in ended.out) == (code, True), ended
    log = launch("permission", "log", "p", "--json").out.decode()
    assert f'"permissions.unattended: {unattended}"' in log


def test_ps_and_the_list_of_sessions_show_what_the_sessions_of_a_host_do(launch: Launcher) -> None:
    """The agent asks in the session `asks`; `idle` had its turn, in which every question was allowed."""
    launch.profile("asker")
    with up(launch) as host:
        assert host.run("hi", "-s", "calm", "--approve", "all").code == 0
        assert host.run("hi", "-d", "-s", "busy").code == 0
        with launch.start("session", "wait", "busy", "-o", "json") as waiting:
            shows(waiting, "a question waits in session busy")
            states = {"calm": "idle", "busy": "asks"}
            (found,) = json.loads(launch("ps", "--json").out)["launches"]
            assert (found["verb"], found["pid"], found["session"]) == ("up", host.pid, None)
            assert {each["name"]: each["state"] for each in found["sessions"]} == states
            assert {each["name"]: each["fronts"] for each in found["sessions"]} == {"calm": 0, "busy": 1}
            assert "busy (asks, 1 attached)" in launch("ps").out.decode()
            listed = json.loads(launch.forked("session", "list", "--json").out)["sessions"]
            assert {each["name"]: each["state"] for each in listed} == states
            table = launch.forked("session", "list").out.decode().splitlines()
            assert [line.split()[-1] for line in table] == ["STATE", "asks", "idle"]
    assert b"STATE" not in launch.forked("session", "list").out


def test_the_log_of_a_host_can_be_followed(launch: Launcher) -> None:
    launch.scripted("script.serve({'session/new': lambda request: [script.complain('a word'), script.new(request)]})")
    with up(launch) as host, launch.start("logs", "-f", "p") as following:
        assert host.run("hi").code == 0
        while "a word" not in following.shows(""):
            pass


def test_a_host_that_a_run_has_left_takes_the_next_prompt_and_ends_a_turn_with_its_terminal(launch: Launcher) -> None:
    launch.scripted(CANCELLED)
    with brought_up(launch, "run", "p", "hi", "--keep", "20m", "-s", "work") as host:
        with launch.start("run", "p", "more", "-s", "work", "--no-replay", "-o", "json") as running:
            shows(running, '"one"')
            running.kill(signal.SIGHUP)
            assert running.end().code == 129
        assert launch.forked("session", "wait", "work").code == 9
        assert host.methods == ["initialize", "session/new", *["session/prompt"] * 2, "session/cancel"]
