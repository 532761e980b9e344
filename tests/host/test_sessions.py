"""Sessions of a host, without an agent (docs/up.md)."""

import asyncio
import json
import random
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import Raw
from msgspec.structs import replace

from acp_launch.process.lifecycle import Change
from acp_launch.protocol.conversation import Extension, Opened, PermissionAsked, ServiceAsked
from acp_launch.served import connections
from acp_launch.served.client import Attached
from acp_launch.served.connections import SessionEvents
from acp_launch.served.hostsession import HostSession
from acp_launch.served.wire import EVENT, AttachOptions, FrontNews, event_line, news_line
from acp_launch.session.client import AcpSession
from acp_launch.session.events import AnyEvent, FileEvent, encode
from tests.looped import looped

NOTHING = Raw(b"1")


@looped
async def test_what_a_front_knows_already_is_forgotten_with_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """A front that stays attached for years costs no more than one that came just now."""
    monkeypatch.setattr(connections, "MAX_EVENTS", 100)
    session = SessionEvents(lambda: 0.0, lambda: None)
    front = of_front(own_turns_only=False, is_first=True)
    for _ in range(1000):
        session.add(b"{}\n", front)
        session.add(b"{}\n")
    kept = session.window.since(session.window.lost, 0.0)
    assert kept is not None
    assert [session.is_hidden(id, front) for id, _ in kept] == [True, False] * 50
    assert not any(session.is_hidden(id, front) for id in range(1, session.window.lost))


@pytest.mark.parametrize("seed", range(20))
@looped
async def test_a_piece_is_looked_through_if_one_of_its_events_is_hidden(seed: int) -> None:
    """And mostly not if none is."""
    those = [
        of_front(own_turns_only=own_turns_only, is_first=is_first, acp_only=acp_only)
        for own_turns_only, is_first, acp_only in product((True, False), repeat=3)
    ]
    session = lived(those, random.Random(seed))
    newest, in_vain = session.window.newest, 0
    pieces = [(last, end) for last in range(newest) for end in range(last + 1, newest + 1)]
    for (last, end), front in product(pieces, those):
        hidden = any(session.is_hidden(id, front) for id in range(last + 1, end + 1))
        assert session.hides(last, end, front) >= hidden
        in_vain += session.hides(last, end, front) > hidden
    assert in_vain < len(pieces) / 4


def test_a_front_is_told_an_event_as_scripts_read_it_and_when_it_was_recorded() -> None:
    told, changes = list[AnyEvent](), list[Change]()
    connection: Any = SimpleNamespace()
    attached = Attached(connection, cast(Any, SimpleNamespace(show=told.append)))
    attached.changed = changes.append
    change = Change(server="s", state="resting", exit="was killed by SIGKILL", detail=("a",), retry=0.5)
    for event in (FileEvent(path="/a", how="write", outcome="done", old="\u202e", new="b"), change):
        line = event_line(event)
        params = line[line.index(b'"params":') + len(b'"params":') : -2]
        assert json.loads(line) == {"jsonrpc": "2.0", "method": EVENT, "params": json.loads(params)}
        connection.extension(Extension(EVENT, Raw(params)))
        assert encode(told[-1]) == params
        assert replace(told[-1], time="") == event
        assert told[-1].time.endswith("Z")
    assert changes == told[1:]


@looped
async def test_an_open_question_goes_to_the_front_that_takes_the_questions() -> None:
    """And all fronts hear that it is asked, and when no more."""
    asked, is_asked = list[str](), asyncio.Event()

    async def put(front: Any) -> str:
        asked.append(front.name)
        is_asked.set()
        try:
            await (asyncio.Event().wait() if front.name == "first" else asyncio.sleep(0))
        except asyncio.CancelledError:
            asked.append("withdrawn")
            raise
        return f"of {front.name}"

    host = SimpleNamespace(delays=False, gate=lambda: SimpleNamespace(ask=None))
    agent, nothing = cast(Any, SimpleNamespace(sessions=[])), cast(Any, None)
    session = HostSession(agent, cast(Any, host), nothing, "work", (), nothing)
    first, second = (cast(Any, FakeFront(name)) for name in ("first", "second"))
    for front in (first, second):
        session.enter(front, AttachOptions(name="work", can_ask=True))
    answering = asyncio.create_task(session._put(put))
    await is_asked.wait()
    session.drive(second)
    assert await answering == "of second"
    told = [line for _, line in session.events.window.since(0, 0.0) or ()]
    assert told == [news_line(FrontNews(is_asked=said)) for said in (True, False, True, False)]
    assert asked == ["first", "withdrawn", "second"]


@looped
async def test_an_id_that_the_agent_gives_twice_is_noted_and_the_earlier_session_is_left() -> None:
    notes: list[str] = []
    launch = SimpleNamespace(observer=SimpleNamespace(show=lambda event: notes.append(event.text)))
    agent = cast(Any, SimpleNamespace(sessions=[], by_id={}, launch=launch))
    host = cast(Any, SimpleNamespace(delays=False, gate=lambda: None))
    opened = Opened("a", "new", NOTHING, 0, b"")
    sessions = []
    for name in ("first", "second"):
        sessions.append(session := HostSession(agent, host, cast(Any, None), name, (), cast(Any, None)))
        session.client = cast(Any, SimpleNamespace(opened=lambda opened: None))
        session.begin(opened)
        agent.by_id["a"] = session
    assert [session.is_left for session in sessions] == [True, False]
    assert notes == ["the agent gave the id 'a' to two sessions; the latest one has it"]


@pytest.mark.parametrize(
    ("question", "is_asking"),
    [
        (PermissionAsked(NOTHING, "s", {}, [], b""), True),
        (ServiceAsked(NOTHING, "elicitation/create", "s", {}), True),
        (ServiceAsked(NOTHING, "fs/read_text_file", "s", {}), False),
    ],
)
def test_a_session_waits_for_the_user_while_a_permission_or_a_form_is_asked(question: Any, is_asking: bool) -> None:
    client = SimpleNamespace(_open={b"1": (question, None)})
    assert AcpSession.is_asking.fget(client) == is_asking  # type: ignore[attr-defined]


class FakeFront:
    """A front on which a user can be asked."""

    options = AttachOptions(name="work", can_ask=True)

    def __init__(self, name: str) -> None:
        self.name = name

    def is_held(self, events: SessionEvents) -> bool:
        return False

    def say(self, line: bytes) -> None:
        """Take a line."""

    def news(self) -> None:
        """Hear that there is something to read."""


def of_front(*, own_turns_only: bool, is_first: bool, acp_only: bool = False) -> Any:
    options = AttachOptions(name="work", can_ask=True, own_turns_only=own_turns_only, acp_only=acp_only)
    return SimpleNamespace(options=options, is_first=lambda stream: is_first)


def lived(fronts: list[Any], chance: random.Random) -> SessionEvents:
    """A session after some turns of these fronts, and of others."""
    session = SessionEvents(lambda: 0.0, lambda: None)
    for _ in range(60):
        match chance.randrange(6):
            case 0:
                session.mark(chance.choice([None, *fronts]))
            case 1:
                session.add(b"own", chance.choice(fronts))
            case 2:
                session.add(b"history", "here")
            case 3:
                session.add(b"of the host", "elsewhere")
            case _:
                session.add(b"for all")
    return session
