"""Ring 3. `serve PROFILE` while its host is up: an editor and a terminal share an agent, and a session."""

import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path

from tests.cli.hosted import up
from tests.cli.launcher import Launcher
from tests.cli.serving import Editor, serving
from tests.cli.test_serve_sessions import DELETING
from tests.cli.test_up_kills import until_gone


def test_an_editor_and_a_terminal_share_a_session(launch: Launcher, tmp_path: Path) -> None:
    launch.profile("replayer")
    with up(launch) as host, serving(launch) as editor:
        assert editor.begin()["agentCapabilities"]["mcpCapabilities"] == {"http": True, "sse": True}
        first, second = editor.open(), editor.open()
        assert editor.prompt(first, "one")["result"] == {"stopReason": "end_turn"}
        assert editor.prompt(second, "two")["result"] == {"stopReason": "end_turn"}
        assert (editor.said(), editor.heard("session/update")[-1]["params"]["sessionId"]) == ("live 1live 2", second)
        assert not editor.transcript.exists(), "an agent was started beside that of the host"
        (name,) = (each["name"] for each in listed(launch) if each["session_id"] == first)
        assert host.run("three", "-s", name).out == b"live 3\n"
        loaded = editor.request("session/load", {"sessionId": first, **editor.place()})
        assert "result" in loaded
        assert "live 3" in editor.said(), "the turn of the terminal is shown here, too"
        assert editor.request("session/close", {"sessionId": second})["result"] == {}
        assert "session/close" not in host.methods, "the host keeps it open"
        assert editor.prompt(first, "four")["result"] == {"stopReason": "end_turn"}
        unknown = editor.request("session/load", {"sessionId": "nothing", **editor.place()})
        assert "error" in unknown
        assert editor.request("session/fork", {"sessionId": first, **editor.place()})["error"]["code"] == -32601
        wrong = editor.prompt("nothing", "to whom?")["error"]["message"]
        assert wrong == "this session was not entered"
        elsewhere = editor.refused("session/new", **editor.place(tmp_path))
        assert f"p is up in {launch.project}" in elsewhere
        assert "acp-launch down p" in elsewhere
        assert host.methods.count("initialize") == 1


def test_an_editor_is_shown_the_prompts_of_others_and_not_its_own(launch: Launcher) -> None:
    launch.profile("replayer")
    with up(launch) as host, serving(launch) as editor:
        assert "fork" not in editor.begin()["agentCapabilities"].get("sessionCapabilities", {})
        session = editor.open()
        editor.prompt(session, "mine")
        assert prompts(editor) == []
        (name,) = (each["name"] for each in listed(launch))
        before = len(editor.lines)
        assert host.run("theirs", "-s", name).code == 0
        while "live 2" not in editor.said(before):
            editor.expect("session/update")
        assert prompts(editor) == ["theirs"]
        editor.prompt(session, "mine again")
        assert prompts(editor) == ["theirs"]


def prompts(editor: Editor) -> list[str]:
    told = (message["params"]["update"] for message in editor.heard("session/update"))
    return [update["content"]["text"] for update in told if update["sessionUpdate"] == "user_message_chunk"]


def test_a_session_that_another_front_of_the_host_has_open_is_not_deleted(launch: Launcher) -> None:
    launch.scripted(DELETING)
    with up(launch), serving(launch) as one, serving(launch) as other:
        one.begin()
        other.begin()
        session = one.open()
        one.prompt(session, "work")
        assert "is in use by the host" in other.refused("session/delete", sessionId=session)
        assert one.request("session/delete", {"sessionId": session})["result"] == {}


def test_the_editor_goes_on_when_its_host_has_ended_and_is_up_again(launch: Launcher) -> None:
    launch.profile("replayer")
    with ExitStack() as later, up(launch, is_killed=True) as host, serving(launch) as editor:
        editor.begin()
        session = editor.open()
        editor.prompt(session, "one")
        os.kill(host.pid, signal.SIGKILL)
        until_gone(host)
        gone = "the agent is gone with its host before it answered session/prompt; to go on: acp-launch up p"
        two = editor.request("session/prompt", editor.words(session, "two"))
        assert two["error"]["message"] in (gone, "the host of p has ended")
        three = editor.refused("session/prompt", **editor.words(session, "three"))
        assert three == "the host of p has ended\nfix: acp-launch up p"
        assert "started again" not in editor.told + str(two)
        again = later.enter_context(up(launch))
        assert editor.prompt(session, "four")["result"] == {"stopReason": "end_turn"}
        assert again.methods[:2] == ["initialize", "session/resume"]


def listed(launch: Launcher) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(launch("session", "list", "p", "--json").out)["sessions"]
    return found
