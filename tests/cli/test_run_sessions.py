"""`run` in a named session (docs/session.md): opened once, continued afterwards, never silently a new one."""

import re

import pytest

from tests.cli.launcher import Ended, Json, Launcher, names

OTHER_AGENT = """
about = {"name": "other-agent", "version": "2"}
answer = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}, "agentInfo": about}
script.serve({
    "initialize": lambda request: script.answer(request, answer),
    "session/load": lambda request: script.answer(request, {}),
})
"""


def replies(done: Ended) -> list[Json]:
    return [event for event in done.events if event["type"] in ("replay", "update")]


@pytest.mark.promise("session")
def test_a_named_session_is_opened_once_and_then_loaded_with_its_history_hidden(launch: Launcher) -> None:
    """C-31, C-38, C-44."""
    launch.profile("replayer")
    first = launch("run", "p", "hi", "--session", "work")
    assert (first.code, first.out, first.err) == (0, b"live 1\n", "")
    assert first.methods == ["initialize", "session/new", "session/prompt"]
    second = launch("run", "p", "again", "--session", "work")
    assert (second.code, second.out) == (0, b"live 1\n")
    assert second.err == "acp-launch: resumed work (3 turns)\n"
    load = {"sessionId": "session-1", "cwd": str(launch.project), "mcpServers": []}
    assert second.params("session/load") == load
    third = launch("run", "p", "more", "--session", "work", "--output", "json")
    assert [event["type"] for event in replies(third)] == ["replay"] * 5 + ["update"]
    assert (third.event("session")["how"], third.event("session")["replayed"]) == ("load", 5)


def test_continue_takes_the_latest_session_and_new_a_fresh_one(launch: Launcher) -> None:
    launch.profile("replayer", "2")
    nothing = launch.within("run", "p", "hi", "--continue")
    assert (nothing.code, nothing.err) == (
        3,
        f'acp-launch: there is no session of profile "p" in {launch.project} to continue\n'
        "    fix: run it once without --continue; acp-launch session list --all shows every session\n",
    )
    assert launch("run", "p", "hi", "--session", "old").code == 0
    assert launch("run", "p", "hi", "--session", "latest").code == 0
    continued = launch("run", "p", "hi", "--continue", "--output", "json")
    assert (continued.event("session")["name"], continued.event("session")["how"]) == ("latest", "load")
    fresh = launch("run", "p", "hi", "--session", "latest", "--new", "--output", "json")
    assert (fresh.event("session")["name"], fresh.event("session")["how"]) == ("latest", "new")
    assert names(launch) == ["latest", "old"]


def test_the_profile_names_the_session_when_the_command_line_does_not(launch: Launcher) -> None:
    launch.profile("replayer", "2", session={"name": "daily"})
    assert launch("run", "p", "hi", "--output", "json").event("session")["how"] == "new"
    second = launch("run", "p", "hi", "--output", "json").event("session")
    assert (second["name"], second["how"]) == ("daily", "load")
    other = launch("run", "p", "hi", "--session", "other", "--output", "json").event("session")
    assert (other["name"], other["how"]) == ("other", "new")


def test_runs_without_a_name_are_sessions_of_their_own(launch: Launcher) -> None:
    launch.profile("polite")
    assert launch("run", "p", "one").code == launch("run", "p", "two").code == 0
    found = names(launch)
    assert len(found) == 2
    assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", name) for name in found)


def test_another_agent_in_the_same_session_is_reported(launch: Launcher) -> None:
    launch.profile("replayer")
    assert launch("run", "p", "hi", "--session", "work").code == 0
    launch.scripted(OTHER_AGENT)
    done = launch("run", "p", "hi", "--session", "work")
    assert (done.code, done.out) == (0, b"You said: hi\n")
    assert 'acp-launch: the session "work" was created with test-agent, and this is other-agent\n' in done.err
