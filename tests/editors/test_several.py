"""Several sessions on one connection, and several editors on one profile."""

import sys
from contextlib import ExitStack

from tests.cli.launcher import ROOT, Launcher
from tests.editors.editor import edited, initialize, new, prompt, serving
from tests.realservers.recorder import Recorder

MANY = 10


def demo(launch: Launcher) -> None:
    """A profile of the demo agent with a server that can say where it works and what it was started with."""
    box = [str(ROOT / "tests" / "servers" / "polite.py"), "${cwd}"]
    launch.write(
        {
            "agent": {"command": sys.executable, "args": ["-I", "-m", "acp_launch.demo.agent"]},
            "permissions": {"default": "allow"},
            "mcp_servers": {"box": {"command": sys.executable, "args": ["-I", "-S", *box]}},
        }
    )


def said(editor: Recorder, session: str) -> str:
    """All that the agent has said in a session."""
    told = [update["params"] for update in editor.heard("session/update")]
    updates = [each["update"] for each in told if each["sessionId"] == session]
    chunks = [update for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
    return "".join(chunk["content"]["text"] for chunk in chunks)


def test_ten_sessions_on_one_connection_have_their_own_directories_and_servers(launch: Launcher) -> None:
    demo(launch)
    places = [launch.project / f"part{number}" for number in range(MANY)]
    for place in places:
        place.mkdir()
    with edited(serving("p"), launch) as found:
        editor = found.recorder
        initialize(editor)
        opening = [editor.start("session/new", {"cwd": str(place), "mcpServers": []}) for place in places]
        opened = [editor.answer(id) for id in opening]
        assert all("result" in each for each in opened), opened
        sessions = [str(each["result"]["sessionId"]) for each in opened]
        assert len(set(sessions)) == MANY
        for text in ("call box cwd {}", "call box argv {}"):
            turns = [editor.start("session/prompt", prompt(session, text)) for session in sessions]
            assert all(editor.answer(id)["result"]["stopReason"] == "end_turn" for id in turns)
        for session, place in zip(sessions, places, strict=True):
            words = said(editor, session)
            assert words.count(str(place)) == 2, words
            assert all(str(other) not in words for other in places if other != place), words


def test_two_editors_on_one_profile_do_not_meet(launch: Launcher) -> None:
    demo(launch)
    with ExitStack() as stack:
        both = [stack.enter_context(edited(serving("p"), launch)).recorder for _ in range(2)]
        for editor in both:
            initialize(editor)
        sessions = [new(editor, launch.project) for editor in both]
        for editor, session in zip(both, sessions, strict=True):
            assert "result" in editor.request("session/prompt", prompt(session, "call box cwd {}"))
        assert str(launch.project) in said(both[0], sessions[0])
        assert said(both[0], sessions[1]) == ""
        assert both[0].end() == 0
        assert "result" in both[1].request("session/prompt", prompt(sessions[1], "call box argv {}"))
        assert said(both[1], sessions[1]).count(str(launch.project)) == 2
