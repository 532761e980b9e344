"""Ring 2. Mode, options and --set, one after the other, over a wire whose every line the oracle judges."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from acp_launch.errors import SessionError, UsageError
from acp_launch.problem import KeyPath, dotted
from acp_launch.protocol import acp
from acp_launch.protocol.conversation import Opened, Updated
from acp_launch.session.connection import AgentMessage, Connection, connect, negotiate
from acp_launch.session.opening import AppliedOption, Setting, apply_option, configure, parse_setting, wanted_options
from acp_launch.session.options import NotOffered, config_options
from acp_launch.session.state import SessionState
from tests.looped import looped
from tests.patience import PATIENCE
from tests.session.options.test_option import MODELS, MODES, select
from tests.session.recording import Agent, Recorder
from tests.transport.memory import MemoryTransport, pair

MODE = select("mode", "ask", "ask", "plan", category="mode")
MODEL = select("m", "opus", "opus", "sonnet", category="model", name="Model")
EFFORT = select("effort", "low", "low", "high")
WEB = {"id": "web", "name": "Web", "type": "boolean", "currentValue": False}


class Scene:
    """An open connection to an agent that offered something, and what was told of it."""

    def __init__(self, connection: Connection, agent: Agent, theirs: MemoryTransport, recorder: Recorder) -> None:
        self.connection = connection
        self.agent = agent
        self.theirs = theirs
        self.recorder = recorder
        self.state = SessionState()

    def configured(self, *wanted: Setting, limit: float = 5) -> asyncio.Task[list[AppliedOption]]:
        return asyncio.create_task(configure(self.connection, self.state, "s1", wanted, limit=limit))

    async def is_asked(self, config: str, value: object, listed: Sequence[object], **more: object) -> None:
        """The next request sets one option; the answer is this list."""
        request = await self.agent.hears("session/set_config_option")
        assert request["params"] == {"sessionId": "s1", "configId": config, "value": value, **more}
        await self.agent.answers(request, {"configOptions": listed})

    @property
    def values(self) -> dict[str, str | bool]:
        return {option.id: option.current for option in self.state.options}


@asynccontextmanager
async def offering(result: object) -> AsyncIterator[Scene]:
    recorder = Recorder()
    ours, theirs = pair()
    async with asyncio.timeout(PATIENCE), connect(ours, recorder, max_line=1 << 20) as connection:
        agent = Agent(theirs)
        handshake = asyncio.create_task(negotiate(connection, limit=5))
        await agent.answers(await agent.hears("initialize"), {"protocolVersion": 1})
        await handshake
        scene = Scene(connection, agent, theirs, recorder)
        scene.state.opened(result)
        yield scene


def now(option: dict[str, Any], value: object) -> dict[str, Any]:
    return {**option, "currentValue": value}


def place(path: KeyPath) -> str:
    return f"review.yaml:12:9 {dotted(path)}"


MODE_PLAN = Setting("mode", "plan", place(("session", "mode")))


def test_mode_config_and_set_are_wished_in_that_order() -> None:
    wanted = wanted_options("plan", {"model": "opus", "web": True}, ["effort=high"], place=place)
    assert wanted == [
        Setting("mode", "plan", "review.yaml:12:9 session.mode"),
        Setting("model", "opus", "review.yaml:12:9 session.config.model"),
        Setting("web", True, "review.yaml:12:9 session.config.web"),
        Setting("effort", "high", "--set effort=high"),
    ]
    assert wanted_options(None, {}, [], place=place) == []


def test_a_set_is_split_at_its_first_equals_sign() -> None:
    assert parse_setting("a = b=c ") == Setting("a", " b=c ", "--set a = b=c ")
    assert parse_setting("a=") == Setting("a", "", "--set a=")


@pytest.mark.parametrize("text", ["fast", "", "=x", " =x"])
def test_a_set_without_an_option_or_a_value_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_setting(text)
    assert caught.value.message == f'--set takes option=value, not "{text}"'
    assert caught.value.fix == "for example: --set model=opus"


@looped
async def test_options_are_set_one_after_the_other_each_in_the_list_of_the_last_answer() -> None:
    """C-51, C-52: effort comes only with the other model, and a boolean says that it is one."""
    async with offering({"configOptions": [MODE, MODEL]}) as scene:
        task = scene.configured(
            MODE_PLAN, Setting("model", "Sonnet", "b"), Setting("effort", "HIGH", "c"), Setting("web", True, "d")
        )
        await scene.is_asked("mode", "plan", [now(MODE, "plan"), MODEL])
        await scene.is_asked("m", "sonnet", [now(MODE, "plan"), now(MODEL, "sonnet"), EFFORT, WEB])
        final = [now(MODE, "plan"), now(MODEL, "sonnet"), now(EFFORT, "high"), WEB]
        await scene.is_asked("effort", "high", final)
        await scene.is_asked("web", True, [*final[:3], now(WEB, True)], type="boolean")
        await task
        assert scene.values == {"mode": "plan", "m": "sonnet", "effort": "high", "web": True}
    assert scene.recorder.of("note") == []


@looped
async def test_what_holds_already_is_not_sent() -> None:
    async with offering({"configOptions": [MODE, WEB, MODEL]}) as scene:
        await scene.configured(Setting("mode", "Ask", "a"), Setting("web", False, "b"), Setting("model", "opus", "c"))


@looped
async def test_the_command_line_goes_before_the_profile_and_keeps_its_place() -> None:
    """The profile's value is not even looked up: it may be one the agent does not offer any more."""
    async with offering({"configOptions": [MODE, MODEL]}) as scene:
        task = scene.configured(
            Setting("mode", "gone", "p"), Setting("model", "sonnet", "p"), Setting("Mode", "plan", "--set Mode=plan")
        )
        await scene.is_asked("mode", "plan", [now(MODE, "plan"), MODEL])
        await scene.is_asked("m", "sonnet", [now(MODE, "plan"), now(MODEL, "sonnet")])
        await task


@looped
async def test_modes_are_set_by_set_mode_where_there_are_no_config_options() -> None:
    """C-53."""
    async with offering({"modes": MODES}) as scene:
        task = scene.configured(MODE_PLAN)
        request = await scene.agent.hears("session/set_mode")
        assert request["params"] == {"sessionId": "s1", "modeId": "plan"}
        await scene.agent.answers(request, {})
        await task
        assert scene.state.mode == "Plan"


@looped
async def test_a_model_is_set_by_the_removed_call_where_there_are_no_config_options() -> None:
    """ACP does not know session/set_model any more, so the oracle has no say."""
    async with offering({"modes": MODES, "models": MODELS}) as scene:
        task = scene.configured(Setting("model", "m2", "--set model=m2"))
        request = json.loads(await scene.theirs.read())
        assert request["method"] == "session/set_model"
        assert request["params"] == {"sessionId": "s1", "modelId": "m2"}
        await scene.agent.answers(request, None)
        await task
        assert scene.state.model == "m2"


@pytest.mark.parametrize(
    ("result", "wish", "message", "fix"),
    [
        (
            {"configOptions": [MODE]},
            Setting("mode", "plam", place(("session", "mode"))),
            'review.yaml:12:9 session.mode: the agent offers no mode "plam"; did you mean "plan"?',
            "use one of ask, plan",
        ),
        (
            {"configOptions": [MODE]},
            Setting("model", "opus", place(("session", "config", "model"))),
            "review.yaml:12:9 session.config.model: the agent offers no models to choose from",
            "leave it out; it offers mode",
        ),
        (None, parse_setting("model=x"), "--set model=x: the agent has no options to set", "leave it out"),
    ],
)
@looped
async def test_what_the_agent_does_not_offer_is_an_error_that_says_who_wished_it(
    result: object, wish: Setting, message: str, fix: str
) -> None:
    async with offering(result) as scene:
        with pytest.raises(NotOffered) as caught:
            await scene.configured(wish)
        assert (caught.value.message, caught.value.fix, caught.value.exit_code) == (message, fix, 3)


@looped
async def test_a_refusal_says_who_wished_it_and_what_the_agent_said() -> None:
    async with offering({"configOptions": [MODE, MODEL]}) as scene:
        task = scene.configured(MODE_PLAN, Setting("model", "sonnet", "b"))
        request = await scene.agent.hears("session/set_config_option")
        await scene.agent.refuses(request, -32602, "not today", data={"why": "rain"})
        with pytest.raises(SessionError) as caught:
            await task
        assert caught.value.message == (
            "review.yaml:12:9 session.mode: the agent answered session/set_config_option with an error:"
            " not today (-32602)"
        )
        assert caught.value.detail == ('data: {"why":"rain"}',)
        assert scene.values == {"mode": "ask", "m": "opus"}


@looped
async def test_an_agent_that_agrees_and_does_otherwise_is_told_of() -> None:
    """Not an error: agents make another of a value, an alias of a model for instance."""
    async with offering({"configOptions": [MODE]}) as scene:
        task = scene.configured(MODE_PLAN)
        await scene.is_asked("mode", "plan", [MODE])
        await task
    assert scene.recorder.of("note") == ['review.yaml:12:9 session.mode: the agent has "mode" at "ASK", not "plan"']


@looped
async def test_an_option_that_a_later_one_changed_back_is_told_of() -> None:
    """Also when it held from the start and nothing was sent for it."""
    async with offering({"configOptions": [MODE, MODEL, WEB]}) as scene:
        task = scene.configured(Setting("web", False, "w"), MODE_PLAN, Setting("model", "sonnet", "c"))
        await scene.is_asked("mode", "plan", [now(MODE, "plan"), MODEL, WEB])
        await scene.is_asked("m", "sonnet", [MODE, now(MODEL, "sonnet"), now(WEB, True)])
        await task
    assert scene.recorder.of("note") == [
        'w: the agent has "web" at "on", not "false"',
        'review.yaml:12:9 session.mode: the agent has "mode" at "ASK", not "plan"',
    ]


@looped
async def test_one_wish_alone_gives_the_option_as_it_was_and_the_value_that_was_sent() -> None:
    """What a command of an interactive session needs."""
    async with offering({"configOptions": [MODEL]}) as scene:
        wish = Setting("model", "SONNET", ":set model SONNET")
        task = asyncio.create_task(apply_option(scene.connection, scene.state, "s1", wish, limit=5))
        await scene.is_asked("m", "sonnet", [now(MODEL, "sonnet")])
        made = await task
        assert (made.option, made.value) == (config_options([MODEL])[0], "sonnet")


def follow(state: SessionState, message: AgentMessage) -> None:
    """Take updates in, as the client does; nothing else comes in this story."""
    if isinstance(message, Updated):
        state.apply(message.kind, acp.decoded(message.update))
    else:
        assert isinstance(message, Opened) and message.session_id == "s1"


@looped
async def test_an_update_that_arrives_with_the_answer_is_not_undone_by_it() -> None:
    """Both in one chunk: the pump has handled both before `configure` runs again."""
    async with offering({"configOptions": [MODEL]}) as scene:
        scene.connection.listen(partial(follow, scene.state))
        opening = asyncio.create_task(
            scene.connection.call(
                scene.connection.conversation.open("new", "", cwd="/w", servers=[], directories=[]), what="x", limit=5
            )
        )
        await scene.agent.answers(await scene.agent.hears("session/new"), {"sessionId": "s1"})
        await opening
        task = scene.configured(Setting("model", "sonnet", "a"), Setting("effort", "high", "b"))
        request = await scene.agent.hears("session/set_config_option")
        newer = {"sessionUpdate": "config_option_update", "configOptions": [now(MODEL, "sonnet"), EFFORT]}
        await scene.agent.says(
            {"id": request["id"], "result": {"configOptions": [now(MODEL, "sonnet")]}},
            {"method": "session/update", "params": {"sessionId": "s1", "update": newer}},
        )
        await scene.is_asked("effort", "high", [now(MODEL, "sonnet"), now(EFFORT, "high")])
        await task
