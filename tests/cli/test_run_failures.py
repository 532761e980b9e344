"""The agent fails: whose fault it is, its last words, and an exit code that means something (docs/scripting.md)."""

import json
import shlex
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.cli.hosted import up
from tests.cli.launcher import Launcher

ACP_MODE = "    fix: is the command right? many agents speak ACP only with a flag or as an adapter of their own\n"
SEEN = "run it again with --trace FILE to see what was said"


@pytest.mark.promise("failure")
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("moment", "how", "method", "out"),
    [
        ("start", "3", "initialize", b""),
        ("initialize", "SIGKILL", "initialize", b""),
        ("new", "3", "session/new", b""),
        ("prompt", "SIGKILL", "session/prompt", b""),
        ("mid-turn", "3", "session/prompt", b"halfway \n"),
        ("permission", "SIGKILL", "session/prompt", b"halfway \n"),
    ],
)
def test_an_agent_that_dies_is_told_with_its_end_and_its_last_words(
    launch: Launcher, moment: str, how: str, method: str, out: bytes
) -> None:
    """C-12."""
    words = "exited with status 3" if how == "3" else "was killed by SIGKILL"
    launch.profile("crasher", moment, how)
    done = launch("run", "p", "hi", "--approve", "none")
    told = (
        f"acp-launch: the agent {words} before it answered {method}\n{launch.started()}"
        f"    crasher: going down at {moment}\n    crasher: last words\n"
    )
    fix = ACP_MODE if method == "initialize" else ""
    asked = "acp-launch: denied: Dangerous (--approve none)\n" if moment == "permission" else ""
    assert (done.code, done.out, done.err) == (4, out, f"{asked}{told}{fix}")


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (
            ["version", "2"],
            "the agent speaks ACP version 2, acp-launch speaks version 1\nCOMMAND"
            "    fix: use a release of the agent that speaks version 1; ",
        ),
        (["text-version"], "the agent's answer to initialize names no protocol version\nCOMMAND    fix: "),
        (["no-session"], "the agent opened a session without a sessionId\n    fix: "),
    ],
)
def test_a_broken_protocol_is_the_agents_fault_and_said_to_be(launch: Launcher, lie: list[str], said: str) -> None:
    """C-17."""
    launch.profile("liar", *lie)
    done = launch("run", "p", "hi")
    assert (done.code, done.out, done.err) == (
        5,
        b"",
        f"acp-launch: {said.replace('COMMAND', launch.started())}{SEEN}\n",
    )
    assert "session/prompt" not in done.methods


def test_an_agent_that_wants_a_login_first_lists_its_ways(launch: Launcher) -> None:
    """C-30."""
    launch.profile("auth", "new")
    done = launch("run", "p", "hi")
    assert (done.code, done.out, done.err) == (
        6,
        b"",
        "acp-launch: the agent wants a login first: Authentication required\n"
        "    it offers: Log in with a browser (browser): Opens a page of the provider\n"
        "    it offers: Terminal login (tty)\n"
        "    it offers: API key (key)\n"
        "    fix: acp-launch login p\n",
    )


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("max_turn_requests", "the agent stopped: its limit of model requests in one turn is reached"),
        ("cancelled", "the turn was cancelled"),
        ("bored_now", "the agent ended the turn for an unknown reason: bored_now"),
    ],
)
def test_a_turn_that_ends_short_is_exit_9_with_its_reason(launch: Launcher, reason: str, said: str) -> None:
    launch.profile("refuser", reason)
    done = launch("run", "p", "hi")
    assert (done.code, done.out, done.err) == (9, b"I would rather not.\n", f"acp-launch: {said}\n")
    if reason == "bored_now":
        assert launch("run", "p", "hi", "-o", "json").event("result")["stopReason"] == reason


def test_a_command_that_cannot_be_started_is_named(launch: Launcher) -> None:
    broken = launch.project / "broken"
    broken.write_bytes(b"\x7fELF and nothing")
    broken.chmod(0o700)
    done = launch("run", "--agent", "./broken", "hi")
    assert done.code == 4
    assert done.err.startswith(f"acp-launch: {broken} could not be started: ")


def test_a_command_is_named_without_the_secrets_in_it(launch: Launcher) -> None:
    """Neither what the profile refers to, nor what somebody typed."""
    launch.write({"agent": {"command": "sh", "args": ["-c", "exit 3", "--token", "${secret:github}", "${env:HOST}"]}})
    done = launch("run", "p", "hi", ACP_LAUNCH_SECRET_GITHUB="s3cret-of-mine", HOST="my-host")
    said = f"    command: {shutil.which('sh')} -c 'exit 3' --token '${{secret:github}}' '${{env:HOST}}'\n"
    assert said in done.err
    done = launch("run", "--agent", "sh -c 'exit 3' --api-key 9f3b27c1e8a4d5b6c7e8", "hi")
    assert f"    command: {shutil.which('sh')} -c 'exit 3' --api-key ***\n" in done.err


def test_every_verb_names_the_command_of_an_agent_that_dies(launch: Launcher) -> None:
    for verb, moment in (
        (["doctor", "p", "--session"], "new"),
        (["doctor", "p"], "initialize"),
        (["login", "p"], "initialize"),
        (["session", "list", "p", "--agent"], "initialize"),
    ):
        launch.profile("crasher", moment)
        done = launch(*verb)
        named = shlex.split((done.out.decode() + done.err).partition("command: ")[2].partition("\n")[0])
        assert [Path(word).name for word in named][-2:] == ["crasher.py", moment], verb


LIMITED = {"errorKind": "rate_limit", "retryAfter": 30, "key": "s3cret-of-mine"}
SHOWN = {"errorKind": "rate_limit", "retryAfter": 30, "key": "***"}


@pytest.mark.parametrize("is_hosted", [False, True])
def test_what_the_agent_adds_to_its_error_is_data_for_a_script(launch: Launcher, is_hosted: bool) -> None:
    """Without secrets, also through a host."""
    refusing = {"env": {"KEY": "${secret:github}"}}
    launch.profile("refuser", "error", "429", "too fast", json.dumps(LIMITED), agent=refusing)
    launch.env["ACP_LAUNCH_SECRET_GITHUB"] = "s3cret-of-mine"
    with up(launch) if is_hosted else nullcontext():
        done = launch("run", "p", "hi", "-o", "json")
    error = done.event("error")
    assert (done.code, error["exitCode"], error["code"], error["data"]) == (4, 4, 429, SHOWN)
    assert "s3cret" not in done.out.decode() + done.err


# codex: its turn ends well, and an update within says that it has failed. SAID: what becomes of each prompt.
ENDS_WELL = """
said = iter(SAID)
def status(session, kind):
    script.update(session, "session_info_update", _meta={"codex": {"threadStatus": {"type": kind}}})
def prompt(request):
    session = script.session_of(request)
    status(session, "active")
    script.say(session, "I begin. ")
    for kind in next(said).split("+"):
        if kind == "fails":
            status(session, "systemError")
            script.say(session, "exceeded retry limit, last status: 429 Too Many Requests")
        else:
            status(session, kind)
    script.end(request)
script.serve({"session/prompt": prompt})
"""
FAILED_TURN = "the agent ended its turn with an error: exceeded retry limit, last status: 429 Too Many Requests"


def test_a_turn_that_ends_well_although_the_agent_says_that_it_failed_is_an_error(launch: Launcher) -> None:
    launch.scripted(ENDS_WELL.replace("SAID", '["fails"] * 2'))
    done = launch("run", "p", "hi", "-o", "json")
    error = done.events[-1]
    assert (done.code, error["type"], error["message"]) == (4, "error", FAILED_TURN)
    assert error["data"] == {"codex": {"threadStatus": {"type": "systemError"}}}
    quiet = launch("run", "p", "hi", "-o", "quiet")
    assert (quiet.code, quiet.out, FAILED_TURN in quiet.err) == (4, b"", True)


def test_a_failed_turn_does_not_end_a_host_nor_the_next_turn_and_one_that_goes_on_has_not_failed(
    launch: Launcher,
) -> None:
    launch.scripted(ENDS_WELL.replace("SAID", '["fails", "idle", "fails+active"]'))
    with up(launch) as host:
        first = host.run("hi", "-s", "work")
        assert (first.code, "last status: 429" in first.err) == (4, True)
        assert host.run("again", "-s", "work").code == 0
        assert host.run("again", "-s", "work").code == 0
