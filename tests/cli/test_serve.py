"""Ring 3. `serve PROFILE`: an editor, acp-launch and an agent, as processes."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.cli.launcher import DEMO, SERVERS, Json, Launcher, alive
from tests.cli.serving import Editor, serving
from tests.patience import PATIENCE


def capable(**more: object) -> str:
    """An agent that takes and repeats what opens its sessions."""
    return f"""
import json
sessions = []
def new(request):
    sessions.append(request["params"])
    script.answer(request, {{"sessionId": f"s{{len(sessions)}}", **{more!r}}})
def loaded(request):
    sessions.append(request["params"])
    script.answer(request, {{}})
def prompt(request):
    script.say(script.session_of(request), json.dumps(sessions[-1]))
    script.end(request)
able = {{"loadSession": True, "sessionCapabilities": {{"resume": {{}}, "close": {{}}, "additionalDirectories": {{}}}}}}
def done(request):
    script.answer(request, {{}})
script.serve({{
    "initialize": lambda request: script.initialize(request, **able),
    "session/new": new, "session/load": loaded, "session/resume": loaded, "session/close": done,
    "session/set_mode": done, "session/prompt": prompt,
}})
"""


def opened_with(editor: Editor, session: str) -> dict[str, object]:
    """What the agent was given with its latest session."""
    before = len(editor.lines)
    editor.prompt(session, "what")
    found: dict[str, object] = json.loads(editor.said(before))
    return found


@pytest.mark.promise("serve")
def test_an_editor_talks_to_the_agent_and_everything_ends_with_it(launch: Launcher) -> None:
    launch.profile("polite")
    with serving(launch, apart=True) as editor:
        said = editor.begin()
        assert said["agentInfo"] == {"name": "test-agent", "version": "1.0.0"}
        assert said["agentCapabilities"]["mcpCapabilities"] == {"http": True, "sse": True}
        session = editor.open()
        assert editor.prompt(session, "hello")["result"] == {"stopReason": "end_turn"}
        assert editor.said() == "You said: hello"
        assert "serve" in launch("ps").out.decode()
        assert len(alive(editor.mark)) > 1
    assert editor.told == ""


def test_what_nothing_here_knows_passes_both_ways(launch: Launcher) -> None:
    launch.profile("unknowns")
    answers = {"_vendor/ask": lambda params: {"result": {"you": "asked", **params}}}
    with serving(launch, answers=answers, is_valid=False) as editor:
        editor.begin()
        assert editor.prompt(editor.open(), "go")["result"] == {"stopReason": "end_turn"}
        assert editor.said() == "codes: no error, -32601, -32601, -32601"
        assert editor.heard("_vendor/notice")[0]["params"] == {"a": 1}
        assert editor.heard("vendor/notice")[0]["params"] == [1, 2]
        assert editor.request("_vendor/other", {"b": 2})["error"]["code"] == -32601


def test_a_signal_ends_it_and_leaves_nothing(launch: Launcher) -> None:
    launch.profile("polite")
    with serving(launch) as editor:
        editor.begin()
        editor.open()
        os.kill(editor.pid, signal.SIGTERM)
        assert editor.ended() == 143


# What it says in place of the agent.


def test_a_directory_that_is_not_there_is_named_as_what_the_editor_gave(launch: Launcher) -> None:
    launch.profile("polite")
    with serving(launch) as editor:
        editor.begin()
        text = editor.refused("session/new", **editor.place(launch.project / "gone"))
        gone = launch.project / "gone"
        assert text == f'cwd: the directory "{gone}" does not exist\nfix: mkdir -p {gone}'
    assert editor.told == "", "an editor shows the error, and each line of stderr"


def test_a_profile_that_is_not_trusted_answers_the_handshake_with_the_command_to_run(launch: Launcher) -> None:
    launch.profile("polite")
    with serving(launch, trusts=False) as editor:
        text = editor.refused()
        assert "not trusted" in text
        assert f"fix: in {launch.project}: to trust it: acp-launch trust p" in text
        assert editor.request("session/new", editor.place())["error"]["data"] == {"exitCode": 7, "details": text}
        assert editor.refused("session/new", **editor.place()) == text
        assert editor.end() == 7
    assert "not trusted" not in editor.told and "fix: " not in editor.told
    with serving(launch, trusts=False) as editor:
        assert editor.end() == 7
    assert editor.told.endswith(f"{text.partition(chr(10))[0]}\n    {text.rpartition(chr(10))[2]}\n"), (
        "without a request"
    )


@pytest.mark.parametrize(
    ("agent", "said", "code"),
    [
        ({"comand": "x"}, 'unknown key "comand"', 2),
        ({"command": "no-such-agent"}, "no-such-agent", 3),
        ({"command": "sh", "env": {"TOKEN": "${secret:token}"}}, 'cannot read secret "token"', 3),
        ({"command": "false"}, "the agent exited with status 1", 4),
    ],
)
def test_other_reasons_why_nothing_starts_answer_the_handshake_too(
    launch: Launcher, agent: Json, said: str, code: int
) -> None:
    launch.write({"agent": agent})
    with serving(launch) as editor:
        text = editor.refused()
        assert said in text and "fix: " in text
        assert editor.end() == code
    assert editor.told == "" or code != 4


def test_a_terminal_or_nothing_on_stdin_is_no_editor(launch: Launcher) -> None:
    launch.profile("polite")
    done = launch.apart("serve", "p")
    assert done.code == 2
    assert "started by an editor" in done.err


# Sessions.


@pytest.mark.promise("serve")
def test_servers_of_the_profile_and_of_the_editor_run_behind_the_seat(launch: Launcher) -> None:
    server = {"command": sys.executable, "args": ["-I", "-S", str(SERVERS / "polite.py")]}
    launch.scripted(capable())
    launch.extend(mcp_servers={"docs": server})
    sent = [
        {"name": name, "command": server["command"], "args": server["args"], "env": [{"name": "A", "value": "1"}]}
        for name in ("docs", "my server")
    ]
    with serving(launch, is_valid=False) as editor:  # the last entry is of a later schema
        editor.begin()
        session = editor.open(mcpServers=[*sent, {"type": "acp", "name": "other", "id": "x"}])
        listed = opened_with(editor, session)["mcpServers"]
        assert isinstance(listed, list)
        assert [entry["name"] for entry in listed] == ["docs", "docs-2", "my server", "other"]
        assert all(entry["args"][2].endswith("shim.py") for entry in listed[:3])
        assert listed[3] == {"type": "acp", "name": "other", "id": "x"}
    assert '"docs" is called "docs-2"' in editor.told


def test_each_session_is_planned_for_its_own_directory(launch: Launcher, tmp_path: Path) -> None:
    server = {"command": sys.executable, "args": ["-I", "-S", str(SERVERS / "polite.py"), "${cwd}"], "bridge": False}
    launch.scripted(capable())
    directories = {"additional_directories": [str(tmp_path)]}
    launch.extend(mcp_servers={"docs": server}, workspace=directories)
    here, there = launch.project / "here", launch.project / "there"
    here.mkdir()
    there.mkdir()
    with serving(launch) as editor:
        editor.begin()
        for directory in (here, there):
            said = opened_with(editor, editor.open(directory, additionalDirectories=[str(there.parent)]))
            assert said["cwd"] == str(directory)
            assert said["mcpServers"][0]["args"][-1] == str(directory)  # type: ignore[index]
            assert said["additionalDirectories"] == [str(there.parent), str(tmp_path)]


def test_a_session_in_a_directory_whose_profile_has_another_agent_is_refused(launch: Launcher, tmp_path: Path) -> None:
    launch.profile("polite")
    other = Launcher(tmp_path / "other", launch.env)
    (other.project / ".acp-launch").mkdir(parents=True)
    other.profile("chatty")
    with serving(launch) as editor:
        editor.begin()
        assert "is not the one that runs for" in editor.refused("session/new", **editor.place(other.project))
        empty = tmp_path / "empty"
        empty.mkdir()
        assert 'no profile named "p"' in editor.refused("session/new", **editor.place(empty))
        editor.prompt(editor.open(), "others go on")


def test_mode_and_options_of_the_profile_are_set_before_the_editor_hears_of_the_session(launch: Launcher) -> None:
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}]}
    launch.scripted(capable(modes=modes))
    launch.extend(session={"mode": "plan"})
    with serving(launch) as editor:
        editor.begin()
        opened = editor.request("session/new", editor.place())["result"]
        assert opened["modes"] == {**modes, "currentModeId": "plan"}
        assert [each["params"]["modeId"] for each in editor.agent_heard if each["method"] == "session/set_mode"] == [
            "plan"
        ]
        assert [line for line in editor.lines if b"set_mode" in line] == []
    launch.extend(session={"mode": "nonsense"})
    with serving(launch) as editor:
        editor.begin()
        assert "nonsense" in editor.refused("session/new", **editor.place())


def test_a_mode_that_is_an_option_shows_in_the_older_modes_too(launch: Launcher) -> None:
    launch.write({"agent": DEMO})
    launch.extend(session={"mode": "plan"})
    with serving(launch) as editor:
        editor.begin()
        opened = editor.request("session/new", editor.place())["result"]
        assert [each["currentValue"] for each in opened["configOptions"] if each["category"] == "mode"] == ["plan"]
        assert opened["modes"]["currentModeId"] == "plan"


def test_an_update_right_after_the_session_opens_stays_behind_the_answer(launch: Launcher) -> None:
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}]}
    body = capable(modes=modes).replace(
        "def loaded", "    script.update('s1', 'available_commands_update', availableCommands=[])\ndef loaded"
    )
    launch.scripted(body)
    launch.extend(session={"mode": "plan"})
    with serving(launch) as editor:
        editor.begin()
        editor.open()
        editor.expect("session/update")
        kinds = ["update" if b"session/update" in line else "answer" for line in editor.lines]
        assert kinds == ["answer", "answer", "update"]


def test_ten_sessions_live_on_one_connection_and_a_closed_one_takes_its_servers_along(launch: Launcher) -> None:
    server = {"command": sys.executable, "args": ["-I", "-S", str(SERVERS / "polite.py")], "inherit_env": "all"}
    launch.scripted(capable())
    launch.extend(mcp_servers={"docs": server})
    with serving(launch) as editor:
        editor.begin()
        asked = [editor.start("session/new", editor.place()) for _ in range(10)]
        sessions = [editor.answer(id)["result"]["sessionId"] for id in asked]
        assert len(set(sessions)) == 10
        assert _servers(editor) == 10
        for session in sessions[1:]:
            assert editor.request("session/close", {"sessionId": session})["result"] == {}
        deadline = time.monotonic() + PATIENCE
        while _servers(editor) != 1:
            assert time.monotonic() < deadline, alive(editor.mark)
            editor.request("_test/round", {})
        assert editor.request("session/load", {"sessionId": sessions[0], **editor.place()})["result"] == {}
        opened_with(editor, sessions[0])


def _servers(editor: Editor) -> int:
    return sum("servers/polite.py" in line for line in alive(editor.mark))
