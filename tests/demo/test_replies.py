"""Every reply of the demo agent that asks nothing of the client. The oracle judges each line."""

import base64
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from acp_launch.demo import replies
from tests.demo.client import FULL, ROOT, Client
from tests.patience import PATIENCE


def test_every_reply_in_the_table_is_there() -> None:
    for name, reply in replies.REPLIES.items():
        module, _, function = str(reply.play).partition(".")
        assert callable(getattr(import_module(f"acp_launch.demo.{module}"), function)), name


def test_help_has_a_heading_for_each_group_and_a_line_for_each_reply(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "help")
    lines = agent.said().splitlines()
    assert [line for line in lines if line.startswith("**")] == [f"**{group}**" for group in replies.GROUPS]
    assert len([line for line in lines if line.startswith("- ")]) == len(replies.REPLIES)


def test_starting_loads_no_reply() -> None:
    """What is loaded later costs the start nothing."""
    code = "import sys; import acp_launch.demo.agent; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    ours = {
        name.removeprefix("acp_launch.demo.") for name in ended.stdout.split() if name.startswith("acp_launch.demo.")
    }
    late = {str(reply.play).partition(".")[0] for reply in replies.REPLIES.values()} - {"replies", "tools"}
    assert not ours & (late | {"login"})
    assert not {"subprocess", "asyncio", "tempfile", "http"} & set(ended.stdout.split())


def test_markdown_has_a_bit_of_everything(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "markdown")
    for piece in ("# Heading one", "|:------|", "```python\n", "- [x] ", "[a link](https://", "> A quotation", "~~"):
        assert piece in agent.said()


def test_slowly_says_it_word_by_word_and_can_be_cancelled(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "slowly one two three")
    assert [chunk["content"]["text"] for chunk in agent.of_kind("agent_message_chunk")] == ["one ", "two ", "three "]
    request = agent.begin_prompt(session, "slowly " + "word " * 10_000)
    agent.until(lambda message: "word" in str(message.get("params", {}).get("update", {}).get("content")))
    agent.notify("session/cancel", {"sessionId": session})
    assert agent.answer_to(request)["result"]["stopReason"] == "cancelled"


def test_look_describes_what_is_attached(agent: Client, tmp_path: Path) -> None:
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big")
    session = agent.open(tmp_path)
    agent.prompt(
        session,
        "look",
        {"type": "image", "data": base64.b64encode(png).decode(), "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "image", "data": "!", "mimeType": "image/gif"},
        {"type": "resource", "resource": {"uri": "file:///a.py", "text": "pass\nx"}},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA", "mimeType": "application/pdf"}},
        {"type": "resource_link", "uri": "file:///c", "name": "c", "size": 7},
    )
    seen = agent.said().splitlines()
    assert seen[0] == "1. image of type image/png, 24 bytes, 640×480 pixels"
    assert seen[1] == "2. audio of type audio/wav, 3 bytes"
    assert seen[2].startswith("3. image whose data is not base64: ")
    assert seen[3:] == [
        "4. the text of file:///a.py (6 characters), which begins with: pass",
        "5. the bytes of file:///b (application/pdf)",
        "6. a link to file:///c (no type given, 7 bytes)",
    ]
    agent.prompt(session, "look")
    assert agent.said() == "Nothing is attached to this prompt."


def test_a_flood_brings_every_update_and_is_replayed_as_one(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "flood 3000")
    chunks = agent.of_kind("agent_message_chunk")
    assert [chunk["content"]["text"] for chunk in chunks] == [f"{number} " for number in range(1, 3001)]
    assert len({chunk["messageId"] for chunk in chunks}) == 1
    agent.updates.clear()
    agent.result("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
    assert agent.said().split() == [str(number) for number in range(1, 3001)]
    agent.prompt(session, "flood")
    assert agent.said() == "I flood you with 1 to 10000000 updates: `flood 10000`."


def test_a_flood_can_be_cancelled(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    request = agent.begin_prompt(session, "flood 10000000")
    agent.until(lambda message: "1 " in str(message.get("params", {}).get("update", {}).get("content")))
    agent.notify("session/cancel", {"sessionId": session})
    assert agent.answer_to(request)["result"]["stopReason"] == "cancelled"


def test_what_is_hostile_comes_everywhere_a_terminal_could_show_it(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "hostile")
    for kind in ("agent_message_chunk", "agent_thought_chunk", "plan", "tool_call", "session_info_update"):
        told = json.dumps(agent.of_kind(kind), ensure_ascii=False)
        told = agent.said(kind) if kind.endswith("chunk") else told.encode().decode("unicode_escape")
        assert "\x1b[2J" in told, kind
    for character in ("\x9b", "\u202e", "\u200b", "\x07", "\r", "\b", "[bold red]", "\x1b]52;"):
        assert character in agent.said()


def test_a_crash_comes_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    with Client(FULL, home=tmp_path / "home") as agent:
        session = agent.open(tmp_path)
        agent.begin_prompt(session, "crash")
        agent.until(lambda message: "about to" in str(message))
        assert agent.process.wait(PATIENCE) == 3
        assert agent.process.stderr is not None
        assert agent.process.stderr.read() == b"demo agent: crashing as requested\n"


def test_a_turn_that_hangs_is_deaf_and_the_agent_still_ends_with_its_input(tmp_path: Path) -> None:
    with Client(FULL, home=tmp_path / "home") as agent:
        session = agent.open(tmp_path)
        request = agent.begin_prompt(session, "hang")
        agent.until(lambda message: "a signal" in agent.said())
        agent.notify("session/cancel", {"sessionId": session})
        agent.notify("$/cancel_request", {"requestId": request})
        listed = agent.begin("session/list", {})
        answered = agent.until(lambda message: "method" not in message)
        assert answered["id"] == listed  # and the prompt is not
        assert agent.finish() == 0


def test_the_cost_is_told_with_the_usage_once_it_is_known(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    agent.prompt(session, "hello")
    assert "cost" not in agent.of_kind("usage_update")[-1]
    agent.prompt(session, "cost")
    agent.prompt(session, "cost")
    assert agent.said() == "This session has cost 0.025 US dollars (or would have, if I cost anything)."
    agent.prompt(session, "hello")
    assert agent.of_kind("usage_update")[-1]["cost"] == {"amount": 0.025, "currency": "USD"}


@pytest.mark.parametrize(
    ("capabilities", "kinds", "said"),
    [
        ({}, [], "neither notices nor compaction"),
        ({"notices": {}}, ["notice"], "notices"),
        ({"notices": {}, "compaction": {}}, ["notice", *["compaction"] * 5], "notices and compaction"),
        ({"notices": None, "compaction": {}}, ["compaction"] * 5, "compaction"),
    ],
)
def test_notices_and_compaction_are_shown_to_a_client_that_shows_them(
    agent: Client, tmp_path: Path, capabilities: dict[str, object], kinds: list[str], said: str
) -> None:
    agent.capabilities = {"session": capabilities}
    session = agent.open(tmp_path)
    agent.prompt(session, "compact")
    told = [update["sessionUpdate"].partition("_")[0] for update in agent.updates]
    assert [kind for kind in told if kind in {"notice", "compaction"}] == kinds
    assert agent.said() == f"Your client shows {said}."
    agent.updates.clear()
    agent.result("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
    assert {update["sessionUpdate"] for update in agent.updates} == {"user_message_chunk", "agent_message_chunk"}


def test_a_compaction_that_is_cancelled_says_so(agent: Client, tmp_path: Path) -> None:
    agent.capabilities = {"session": {"compaction": {}}}
    session = agent.open(tmp_path)
    request = agent.begin_prompt(session, "compact")
    agent.until(lambda message: "in_progress" in str(message))
    agent.notify("session/cancel", {"sessionId": session})
    assert agent.answer_to(request)["result"]["stopReason"] == "cancelled"
    statuses = [update["status"] for update in agent.of_kind("compaction_update")]
    assert statuses == ["in_progress", "cancelled"]
