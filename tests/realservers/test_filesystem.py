"""@modelcontextprotocol/server-filesystem, directly and through the seat; its directories are arguments, or roots."""

import shutil
from pathlib import Path

from tests.realservers import filesystem
from tests.realservers.filesystem import BIG
from tests.realservers.npm import FILESYSTEM
from tests.realservers.published import needs_npm, server
from tests.realservers.recorder import Json, Recorder, Responder
from tests.realservers.seated import directly, seated, steady

pytestmark = needs_npm
LOOKS = 5000  # at a list that changes a moment later


def allowed(recorder: Recorder) -> list[str]:
    text = recorder.call("list_allowed_directories")["result"]["content"][0]["text"]
    header, *directories = text.split("\n")
    assert header == "Allowed directories:"
    return list(directories)


def becomes_allowed(recorder: Recorder, places: list[Path]) -> None:
    """Until the server has looked at the roots it was told: it takes a moment, and says nothing when it is done."""
    for _ in range(LOOKS):
        if (found := allowed(recorder)) == [str(place) for place in places]:
            return
    raise AssertionError(f"{found} instead of {places}")


def test_every_tool_is_the_same_through_the_seat(tmp_path: Path) -> None:
    """One after the other in the same directory, furnished anew, because it writes."""
    root = tmp_path / "root"
    files = server(FILESYSTEM, str(root), cwd=tmp_path)

    def played(recorder: Recorder) -> list[bytes]:
        with recorder:
            filesystem.everything(root)(recorder)
        return [steady(line) for line in recorder.lines]

    filesystem.furnish(root)
    direct = played(directly(files))
    shutil.rmtree(root)
    filesystem.furnish(root)
    with seated(server=files) as seats:
        assert played(seats.open()) == direct
    assert direct[-1].count(b"b" * BIG) == 2  # as text, and structured
    called = {tool for tool, _ in filesystem.calls(root)} - {"no_such_tool"}
    assert all(f'"name":"{tool}"'.encode() in direct[1] for tool in called)
    assert direct[1].count(b'"inputSchema"') == len(called)


def test_the_roots_of_an_agent_that_has_some_are_the_servers_directories_and_follow_them(tmp_path: Path) -> None:
    """M-47, M-49."""
    places = [tmp_path / name for name in ("a b", "ä%")]
    for place in places:
        place.mkdir()
    roots: list[Json] = [{"uri": places[0].as_uri()}]
    files = server(FILESYSTEM, cwd=tmp_path)
    answers: dict[str, Responder] = {"roots/list": lambda params: {"result": {"roots": roots}}}
    with seated(server=files) as seats, seats.open(answers=answers) as recorder:
        recorder.initialize(capabilities={"roots": {"listChanged": True}})
        recorder.expect("roots/list")
        becomes_allowed(recorder, places[:1])
        roots[:] = [{"uri": place.as_uri(), "name": place.name} for place in places]
        recorder.notify("notifications/roots/list_changed")
        recorder.expect("roots/list")
        becomes_allowed(recorder, places)
