"""What the store has of a session while a launch uses it (docs/session.md)."""

from pathlib import Path

import pytest
from msgspec import Raw
from msgspec.structs import replace

from acp_launch.plan.model import LaunchPlan
from acp_launch.protocol.acp import Negotiated, read_negotiated
from acp_launch.session.events import Said, SessionEvent, TurnEnd
from acp_launch.session.store import Record, Registry, SessionKeeper, open_registry
from tests.session.store.test_choice import planned, record

AGENT: Negotiated = read_negotiated(Raw(b'{"protocolVersion": 1}'))


def ready(session_id: str = "abc") -> SessionEvent:
    return SessionEvent(session_id=session_id, name="fix-42", how="new", result=Raw(b"{}"))


def known(registry: Registry, plan: LaunchPlan) -> Record:
    found = registry.find(str(plan.project), plan.profile, "fix-42")
    assert found is not None
    return found


@pytest.mark.parametrize("is_new", [True, False])
def test_an_agent_that_is_started_again_leaves_the_session_its_title_and_turns(tmp_path: Path, is_new: bool) -> None:
    plan = planned(tmp_path)
    old = replace(record(plan, cwd=plan.cwd), title="")
    with open_registry(tmp_path / "state") as registry:
        keeper = SessionKeeper(registry, plan, None if is_new else old)
        keeper.opened(ready(), AGENT)
        keeper.store_turn("add 2 3", TurnEnd("end_turn", None, "", "", Said(answer="5")))
        first = known(registry, plan)
        keeper.opened(ready(), AGENT)
        again = known(registry, plan)
        assert (again.title, again.turns, again.created) == ("add 2 3", 1, first.created)
        assert [turn.answer for turn in registry.history.turns(again.key)] == ["5"]
        keeper.store_turn("add 3 4", TurnEnd("end_turn", None, "", "", Said(answer="7")))
        assert known(registry, plan).turns == 2
        assert [turn.answer for turn in registry.history.turns(again.key)] == ["5", "7"]


def test_a_new_session_begins_without_the_words_of_one_that_had_its_name(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    with open_registry(tmp_path / "state") as registry:
        for prompt in ("add 2 3", "add 3 4"):
            keeper = SessionKeeper(registry, plan, None)
            keeper.opened(ready(prompt), AGENT)
            keeper.store_turn(prompt, TurnEnd("end_turn", None, "", "", Said(answer=prompt)))
        only = known(registry, plan)
        assert (only.title, only.turns, only.session_id) == ("add 3 4", 1, "add 3 4")
        assert [turn.answer for turn in registry.history.turns(only.key)] == ["add 3 4"]
