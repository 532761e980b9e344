"""Permission questions: the option is chosen by its kind, whatever the order, and exit 10 says nobody was there."""

import pytest

from tests.cli.launcher import Ended, Launcher

ALL = "reject_always,allow_always,reject_once,allow_once"
QUESTION = "acp-launch: %s: Change a file (%s)\n"


def outcomes(done: Ended) -> list[str]:
    """What the agent was answered, in the order of its ids."""
    answers = sorted((message for message in done.heard if "result" in message), key=lambda message: message["id"])
    found = [message["result"]["outcome"] for message in answers]
    return [outcome.get("optionId", outcome["outcome"]) for outcome in found]


@pytest.mark.parametrize(
    ("approve", "options", "chosen"),
    [
        ("all", ALL, "allow_once-3"),
        ("all", "allow_always,reject_always", "allow_always-0"),
        ("none", ALL, "reject_once-2"),
        ("none", "allow_always,reject_always", "reject_always-1"),
    ],
)
def test_the_command_line_answers_by_kind(launch: Launcher, approve: str, options: str, chosen: str) -> None:
    """C-60, C-64."""
    launch.profile("asker", options, permissions={"default": "deny" if approve == "all" else "allow"})
    done = launch("run", "p", "hi", "--approve", approve)
    assert (done.code, outcomes(done)) == (0, [chosen])
    word = "allowed" if approve == "all" else "denied"
    assert QUESTION % (word, f"--approve {approve}") in done.err


@pytest.mark.parametrize(("default", "chosen"), [("allow", "allow_once-1"), ("deny", "reject_once-3")])
def test_the_profile_answers_when_the_command_line_does_not(launch: Launcher, default: str, chosen: str) -> None:
    launch.profile("asker", permissions={"default": default})
    done = launch("run", "p", "hi")
    assert (done.code, outcomes(done)) == (0, [chosen])
    word = "allowed" if default == "allow" else "denied"
    assert QUESTION % (word, f"permissions.default: {default}") in done.err


@pytest.mark.parametrize(("kind", "code", "chosen"), [("read", 0, "allow_once-1"), ("edit", 10, "reject_once-3")])
def test_only_reads_are_approved_when_that_is_asked_for(launch: Launcher, kind: str, code: int, chosen: str) -> None:
    launch.profile("asker", f"kind={kind}")
    done = launch("run", "p", "hi", "--approve", "reads")
    assert (done.code, outcomes(done)) == (code, [chosen])


@pytest.mark.parametrize("stop", [[], ["refuse-stop"]])
def test_a_question_without_a_terminal_is_denied_and_ends_in_exit_10(launch: Launcher, stop: list[str]) -> None:
    launch.profile("asker", *stop)
    done = launch("run", "p", "hi")
    assert (done.code, done.out, outcomes(done)) == (10, b"outcomes: reject_once-3\n", ["reject_once-3"])
    assert "denied: Change a file (permissions.default: ask, and no terminal to ask on)\n" in done.err


def test_work_that_went_on_after_a_denial_is_no_failure(launch: Launcher) -> None:
    launch.profile("gemini_like")
    done = launch("run", "p", "hi")
    assert (done.code, done.out) == (0, b"outcome: cancel\n")
    assert done.err.endswith(
        "acp-launch: denied: ls (permissions.default: ask, and no terminal to ask on)\n"
        "acp-launch: ls ran although it was denied\nexecute: ls: completed\n"
    )


def test_several_questions_at_once_get_an_answer_each(launch: Launcher) -> None:
    """C-11."""
    launch.profile("asker", "allow_once,reject_once", "reject_once,allow_once", "allow_always,reject_always")
    done = launch("run", "p", "hi", "--approve", "all")
    assert (done.code, done.out) == (0, b"outcomes: allow_once-0, allow_once-1, allow_always-0\n")
    assert outcomes(done) == ["allow_once-0", "allow_once-1", "allow_always-0"]


def test_a_question_that_was_answered_before_it_was_withdrawn_keeps_its_one_answer(launch: Launcher) -> None:
    """C-65."""
    launch.profile("asker", "withdraw")
    done = launch("run", "p", "hi", "--approve", "none")
    assert (done.code, outcomes(done)) == (0, ["reject_once-3"])


@pytest.mark.parametrize(
    ("temper", "id", "chosen"),
    [("gemini_like", 0, "proceed_once"), ("uuid_ids", "2f1c1a52-6f0f-4d6f-9f3e-0a8f5d4f1b11", "yes")],
)
def test_answers_carry_the_id_of_their_question(launch: Launcher, temper: str, id: object, chosen: str) -> None:
    """C-6."""
    launch.profile(temper)
    done = launch("run", "p", "hi", "--approve", "all")
    assert done.code == 0
    (answer,) = [message for message in done.heard if "result" in message]
    assert answer == {"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "selected", "optionId": chosen}}}
