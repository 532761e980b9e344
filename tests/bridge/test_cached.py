"""A lazy server's answers of its last run, while it is asleep (docs/profiles.md "Lazy servers")."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from acp_launch.bridge import cached
from acp_launch.bridge.cached import CachedAnswers, client
from acp_launch.bridge.conversation import describe_gone
from acp_launch.plan.model import INHERITED, Origin, StdioPlan, Value
from acp_launch.process.lifecycle import Change
from acp_launch.profile.model import Tools
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Secret, SecretReference
from tests.bridge.talker import HELLO, INITIALIZE, INITIALIZED, Json, Talker, answer, ask, call, line, tell

ORIGIN = Origin("test")
PLAN = StdioPlan(name="github", command=Path("/bin/server"), args=(), env={}, cwd=Path("/"), start="lazy")
ABLE = {**HELLO, "capabilities": {"tools": {"listChanged": True}, "logging": {}}, "instructions": "be brief"}
ONE, TWO = {"name": "one", "weight": 1.0}, {"name": "two"}
AGENT = client(Raw(line(INITIALIZE["params"])))
CHANGED = "notifications/tools/list_changed"


def text(value: str) -> Value:
    return Value((value,), ORIGIN)


def first_run(known: CachedAnswers, *tools: Json) -> Talker:
    """The agent shakes hands and reads the tools, one on each page."""
    talker = Talker(cached=known).introducing()
    talker.server(answer(0, ABLE))
    talker.agent(INITIALIZED)
    for number, tool in enumerate(tools):
        talker.agent(ask(number, "tools/list", **({"cursor": str(number)} if number else {})))
        following = {"nextCursor": str(number + 1)} if number + 1 < len(tools) else {}
        talker.server(answer(number, {"tools": [tool], **following}))
    talker.agent_hears(), talker.server_hears()
    return talker


def asleep(known: CachedAnswers, **keys: Any) -> Talker:
    """The next run, in which the agent has shaken hands with a server that is asleep."""
    talker = Talker(cached=known, **keys)
    talker.agent(INITIALIZE, INITIALIZED)
    assert talker.agent_hears() == [answer(0, ABLE)]
    return talker


@pytest.fixture
def known() -> CachedAnswers:
    learned = CachedAnswers(PLAN, None)
    first_run(learned, ONE, TWO)
    return learned


def test_the_handshake_and_each_page_are_answered_without_a_process(known: CachedAnswers) -> None:
    talker = asleep(known)
    talker.agent(ask("a", "tools/list"), ask("b", "tools/list", cursor="1"), ask("c", "ping"))
    assert talker.agent_hears() == [
        answer("a", {"tools": [ONE], "nextCursor": "1"}),
        answer("b", {"tools": [TWO]}),
        answer("c", {}),
    ]
    assert talker.server_heard == []
    assert not talker.exchange.is_waiting
    assert talker.exchange.tools == 2


def test_a_question_for_the_other_era_wakes_no_server_whose_handshake_is_known(known: CachedAnswers) -> None:
    talker = Talker(cached=known)
    talker.agent(ask("d", "server/discover"))
    assert talker.agent_hears()[0]["error"]["code"] == -32601
    assert not talker.exchange.is_waiting


def test_what_is_not_known_waits_for_a_process_that_gets_the_agents_own_handshake_first(known: CachedAnswers) -> None:
    talker = asleep(known)
    talker.agent(ask(1, "tools/list"), call(2))
    talker.agent_hears()
    assert talker.exchange.is_waiting
    talker.exchange.attached()
    assert talker.server_hears() == [INITIALIZE]
    talker.server(answer(0, ABLE))
    initialized, listing, called = talker.server_hears()
    assert (initialized, listing["method"], called) == (INITIALIZED, "tools/list", call(2))
    talker.server(answer(listing["id"], {"tools": [ONE]}), answer(2, "done"))
    assert talker.agent_hears() == [answer(2, "done")], "the list is the one that the agent has seen"


def test_a_list_that_has_changed_since_the_last_run_is_told_and_kept(known: CachedAnswers) -> None:
    talker = asleep(known)
    talker.agent(ask(1, "tools/list"), ask(2, "tools/list", cursor="1"), call(3))
    talker.agent_hears()
    talker.exchange.attached()
    talker.server(answer(0, ABLE))
    listing = talker.server_hears()[2]
    talker.server(answer(listing["id"], {"tools": [TWO, ONE]}))
    assert talker.agent_hears() == [{"jsonrpc": "2.0", "method": CHANGED}]
    again = asleep(known)
    again.agent(ask(1, "tools/list"))
    assert again.agent_hears() == [answer(1, {"tools": [TWO, ONE]})]


def test_another_client_and_an_unknown_page_are_not_answered_from_the_last_run(known: CachedAnswers) -> None:
    other = json.loads(json.dumps(INITIALIZE))
    other["params"]["clientInfo"]["version"] = "8"
    talker = Talker(cached=known)
    talker.agent(other)
    assert (talker.agent_heard, talker.exchange.is_waiting) == ([], True)
    talker = asleep(known)
    talker.agent(ask(1, "tools/list", cursor="9"))
    assert (talker.agent_heard, talker.exchange.is_waiting) == ([], True)
    talker = asleep(known)
    talker.agent(ask(1, "prompts/list"))
    assert (talker.agent_heard, talker.exchange.is_waiting) == ([], True)


def test_an_agent_without_a_handshake_is_not_answered_from_the_last_run(known: CachedAnswers) -> None:
    talker = Talker(cached=known)
    talker.agent(ask(1, "tools/list", _meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"}))
    assert (talker.agent_heard, talker.exchange.is_waiting) == ([], True)


def test_a_logging_level_needs_no_process_and_is_not_lost(known: CachedAnswers) -> None:
    talker = asleep(known)
    talker.agent(ask(1, "logging/setLevel", level="warning"))
    assert (talker.agent_hears(), talker.exchange.is_waiting) == ([answer(1, {})], False)
    talker.agent(call(2))
    talker.back()
    level = talker.server_hears()[2]
    assert (level["method"], level["params"]) == ("logging/setLevel", {"level": "warning"})


def test_a_list_that_the_server_says_has_changed_is_forgotten(known: CachedAnswers) -> None:
    talker = first_run(known, ONE)
    talker.server(tell(CHANGED))
    talker = asleep(known)
    talker.agent(ask(1, "tools/list"))
    assert talker.exchange.is_waiting


def test_a_server_that_presents_itself_otherwise_is_known_by_that_alone(known: CachedAnswers) -> None:
    talker = asleep(known)
    talker.agent(call(1))
    talker.exchange.attached()
    talker.server(answer(0, {**ABLE, "instructions": "be verbose"}))
    assert known.find(AGENT, "tools/list") is None
    greeted = Talker(cached=known)
    greeted.agent(INITIALIZE)
    assert greeted.agent_hears() == [answer(0, {**ABLE, "instructions": "be verbose"})]


def test_the_profiles_tools_hide_those_of_the_last_run_too(known: CachedAnswers) -> None:
    talker = asleep(known, tools=Tools(deny=("one",)))
    talker.agent(ask(1, "tools/list"), call(2, "one"))
    listed, refused = talker.agent_hears()
    assert listed == answer(1, {"tools": [], "nextCursor": "1"})
    assert "not allowed by the profile" in refused["error"]["message"]
    assert not talker.exchange.is_waiting


def test_a_call_that_comes_while_the_process_is_ended_waits_and_a_subscription_keeps_it(known: CachedAnswers) -> None:
    talker = first_run(known, ONE)
    used = [talker.exchange.is_in_use]
    for number, method in enumerate(("resources/subscribe", "resources/unsubscribe")):
        talker.agent(ask(number, method, uri="test://one"))
        used.append(talker.exchange.is_in_use)
        talker.server(answer(number, {}))
        used.append(talker.exchange.is_in_use)
    assert used == [False, True, True, True, False]
    talker.exchange.detached()
    talker.agent(call(7))
    talker.exchange.on_gone(describe_gone(Change(server="github", state="asleep"), "github"), for_good=False)
    talker.exchange.fall_asleep()
    assert talker.exchange.is_waiting
    talker.agent_hears(), talker.server_hears()
    talker.back()
    assert talker.server_hears()[-1] == call(7)


def test_roots_that_change_wake_no_server(known: CachedAnswers) -> None:
    talker = asleep(known)
    talker.agent(tell("notifications/roots/list_changed"))
    assert not talker.exchange.is_waiting


# Between launches.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.lists(st.tuples(st.sampled_from(["tools/list", "prompts/list"]), st.text(max_size=3), JSON), max_size=5))
def test_what_is_written_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, learned: list[Any]) -> None:
    directory = tmp_path_factory.mktemp("cache")
    before = CachedAnswers(PLAN, directory)
    before.cache_answer(AGENT, "initialize", Raw(b'{"a": 1.0,"b":1e999}'))
    for method, cursor, value in learned:
        before.cache_answer(AGENT, method, Raw(json.dumps(value, ensure_ascii=True).encode()), cursor)
    before.save()
    after = CachedAnswers(PLAN, directory)
    assert after.is_known
    assert after.find(AGENT, "initialize") == Raw(b'{"a": 1.0,"b":1e999}')
    for method, cursor, _ in learned:
        assert after.find(AGENT, method, cursor) == before.find(AGENT, method, cursor)


def test_only_what_runs_exactly_so_is_known_and_only_to_its_user(tmp_path: Path) -> None:
    token = Value((SecretReference("token"),), ORIGIN)
    inherited = Value(("/bin",), INHERITED)
    plan = replace(PLAN, args=(text("--fast"),), env={"TOKEN": token, "PATH": inherited, "SET": text("a")})
    before = CachedAnswers(plan, tmp_path)
    before.cache_answer(AGENT, "initialize", Raw(line(ABLE)))
    before.save()
    (file,) = (tmp_path / "servers").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    same = replace(plan, env={**plan.env, "PATH": Value(("/usr/bin",), INHERITED)})
    assert CachedAnswers(same, tmp_path).is_known
    others = [
        replace(plan, args=(text("--slow"),)),
        replace(plan, command=Path("/bin/other")),
        replace(plan, cwd=Path("/tmp")),
        replace(plan, env={**plan.env, "SET": text("b")}),
        replace(plan, env={**plan.env, "MORE": text("")}),
        replace(plan, protocol="legacy"),
    ]
    assert not any(CachedAnswers(other, tmp_path).is_known for other in others)
    file.write_bytes(b'{"stamp":')
    assert not CachedAnswers(plan, tmp_path).is_known


def test_an_answer_with_a_secret_in_it_is_not_written(tmp_path: Path) -> None:
    redactor.register(Secret("canary-51d0c2aa9e"))
    before = CachedAnswers(PLAN, tmp_path)
    before.cache_answer(AGENT, "initialize", Raw(line({**ABLE, "instructions": "your token is canary-51d0c2aa9e"})))
    before.save()
    assert before.is_known
    assert not CachedAnswers(PLAN, tmp_path).is_known


def test_clients_answers_and_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = CachedAnswers(PLAN, None)
    for number in range(10):
        known.cache_answer(f"client {number}", "initialize", Raw(b"{}"))
    assert [number for number in range(10) if known.find(f"client {number}", "initialize")] == [6, 7, 8, 9]
    monkeypatch.setattr(cached, "MAX_CACHED_BYTES", 100)
    known.cache_answer("client 9", "tools/list", Raw(b'"' + b"x" * 200 + b'"'))
    assert known.find("client 9", "initialize") is None
    assert known.find("client 8", "initialize") is not None
    monkeypatch.setattr(cached, "MAX_CACHE_FILES", 3)
    for number in range(6):
        each = CachedAnswers(replace(PLAN, args=(text(str(number)),)), tmp_path)
        each.cache_answer(AGENT, "initialize", Raw(b"{}"))
        each.save()
    assert len(list((tmp_path / "servers").iterdir())) == 3


def test_a_directory_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "servers").write_text("in the way")
    known = CachedAnswers(PLAN, tmp_path)
    known.cache_answer(AGENT, "initialize", Raw(b"{}"))
    known.save()
    assert known.is_known
