"""Every reply of the demo agent that asks nothing of the client. The oracle judges each line."""

from pathlib import Path

from tests.demo.client import FULL, Client
from tests.patience import PATIENCE


def test_slowly_says_it_word_by_word_and_can_be_cancelled(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "slowly one two three")
    assert [chunk["content"]["text"] for chunk in agent.of_kind("agent_message_chunk")] == ["one ", "two ", "three "]
    request = agent.begin_prompt(session, "slowly " + "word " * 10_000)
    agent.until(lambda message: "word" in str(message.get("params", {}).get("update", {}).get("content")))
    agent.notify("session/cancel", {"sessionId": session})
    assert agent.answer_to(request)["result"]["stopReason"] == "cancelled"


def test_look_describes_what_is_attached(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(
        session,
        "look",
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a.py", "text": "pass\nx"}},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA", "mimeType": "application/pdf"}},
        {"type": "resource_link", "uri": "file:///c", "name": "c", "size": 7},
    )
    assert agent.said().splitlines() == [
        "1. image of type image/png, 4 characters of base64",
        "2. the text of file:///a.py (6 characters), which begins with: pass",
        "3. the bytes of file:///b (application/pdf)",
        "4. a link to file:///c (no type given)",
    ]
    agent.prompt(session, "look")
    assert agent.said() == "Nothing is attached to this prompt."


def test_a_crash_comes_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    with Client(FULL, home=tmp_path / "home") as agent:
        session = agent.open(tmp_path)
        agent.begin_prompt(session, "crash")
        agent.until(lambda message: "about to" in str(message))
        assert agent.process.wait(PATIENCE) == 3
        assert agent.process.stderr is not None
        assert agent.process.stderr.read() == b"demo agent: crashing as requested\n"
