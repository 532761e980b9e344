"""kill -9 of a real server in mid-call, through the seat (docs/internals.md "Restart of a server", M-21)."""

import os
import signal
from pathlib import Path

from tests.realservers.everything import CAPABILITIES, answers
from tests.realservers.npm import EVERYTHING
from tests.realservers.published import needs_npm, server
from tests.realservers.recorder import Json, Recorder
from tests.realservers.seated import Seated, seated

LOST = -32010  # bridge/conversation.py
STATIC = "demo://resource/static/document/features.md"
LONG: Json = {"name": "trigger-long-running-operation", "arguments": {"duration": 60, "steps": 600}}
LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
CHANGED = [f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts")]


def told(recorder: Recorder, since: int) -> list[str]:
    """What nobody asked for, since so many lines."""
    return [message["method"] for method in CHANGED for message in recorder.heard(method, since)]


def killed(seats: Seated, pid: int) -> Json:
    os.kill(pid, signal.SIGKILL)
    return seats.state("resting")


@needs_npm
def test_a_server_killed_in_mid_call_is_back_with_all_it_knew_and_its_lists_unchanged(tmp_path: Path) -> None:
    everything = server(EVERYTHING, cwd=tmp_path)
    with seated(server=everything) as seats, seats.open(answers=answers()) as recorder:
        recorder.initialize(capabilities=CAPABILITIES)
        recorder.expect("notifications/message")  # the last it says of itself; its tools are all there
        listed = [recorder.request(method)["result"] for method in LISTS]
        recorder.request("logging/setLevel", {"level": "info"})
        recorder.request("resources/subscribe", {"uri": STATIC})
        pid = seats.state("ready")["pid"]
        id = recorder.start("tools/call", {**LONG, "_meta": {"progressToken": 1}})
        recorder.expect("notifications/progress")

        resting = killed(seats, pid)
        assert resting["exit"] == "was killed by SIGKILL"
        error = recorder.answer(id)["error"]
        said = 'MCP server "server" was killed by SIGKILL during tools/call, whose outcome is unknown;'
        assert (error["code"], error["message"]) == (LOST, f"{said} it is being started again")
        since = len(recorder.lines)
        answer = recorder.call("echo", {"message": "again"})
        assert answer["result"]["content"] == [{"type": "text", "text": "Echo: again"}]
        assert seats.state("ready")["pid"] != pid

        recorder.skip()
        recorder.call("toggle-subscriber-updates")  # says at once what is subscribed
        assert recorder.expect("notifications/resources/updated")["params"] == {"uri": STATIC}
        assert [recorder.request(method)["result"] for method in LISTS] == listed
        # By itself it announces each of the seven tools it adds after a handshake; there is no more than that.
        assert told(recorder, since) == ["notifications/tools/list_changed"] * 7
