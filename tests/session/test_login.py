"""Ring 2. Which way to log in, what it takes, and that nothing is asked of an agent that it did not advertise."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from acp_launch.errors import AgentError, AuthRequired, SessionError, UsageError, WaitExpired
from acp_launch.process.program import LocalProgram
from acp_launch.process.tree import Exit
from acp_launch.protocol.acp import AuthMethod, read
from acp_launch.session import login
from acp_launch.session.connection import Connection, negotiate
from acp_launch.session.login import LoginContext, StartedLogin, begin, log_in, log_out, prepare, run_on_terminal
from tests.looped import looped
from tests.secret.canaries import knowing
from tests.session.recording import Agent, connected

BROWSER = {"id": "browser", "name": "Browser"}
TTY = {"id": "tty", "name": "Terminal", "type": "terminal", "args": ["--login"], "env": {"MODE": "login"}}
KEY = {"id": "key", "name": "Key", "type": "env_var", "vars": [{"name": "KEY"}, {"name": "HOST", "secret": False}]}
OLD = {"id": "old", "name": "Old", "_meta": {"terminal-auth": {"command": "true", "env": {"MODE": "old"}}}}
AGENT = LocalProgram("agent", ("/opt/agent", "--acp"), {"MODE": "acp", "PATH": "/usr/bin:/bin"}, Path("/w"))
WANTED = AuthRequired("the agent wants a login first: no", fix="of old", detail=["it offers: this"])


@dataclass
class Part:
    """A user who picks a method by its id, and allows what they are asked to allow, or not."""

    picks: str | None = None
    allows: bool = False
    heard: list[object] = field(default_factory=list)

    async def which(self, agent: str, methods: Sequence[AuthMethod]) -> AuthMethod | None:
        self.heard.append(("which", agent, [method.id for method in methods]))
        return next((method for method in methods if method.id == self.picks), None)

    async def consents(self, method: AuthMethod, program: LocalProgram) -> bool:
        self.heard.append(("consents", method.id, program.argv))
        return self.allows

    @asynccontextmanager
    async def waiting(self, method: AuthMethod) -> AsyncIterator[None]:
        self.heard.append(("waiting", method.id))
        yield
        self.heard.append("over")


@dataclass
class Terminal:
    """Runs nothing, and says how it ended."""

    ended: Exit = field(default_factory=lambda: Exit(0, None))
    ran: list[LocalProgram] = field(default_factory=list)

    async def __call__(self, program: LocalProgram) -> Exit:
        self.ran.append(program)
        return self.ended


def place(adviser: Part | None = None, terminal: Terminal | None = None, program: LocalProgram = AGENT) -> LoginContext:
    return LoginContext(program=program, profile="my p", adviser=adviser, in_front=terminal)


@asynccontextmanager
async def offering(*methods: object, **capabilities: object) -> AsyncIterator[tuple[Connection, Agent]]:
    async with connected() as (connection, agent, _):
        handshake = asyncio.create_task(negotiate(connection, limit=5))
        said = {"protocolVersion": 1, "authMethods": list(methods), "agentCapabilities": capabilities}
        await agent.answers(await agent.hears("initialize"), said)
        await handshake
        yield connection, agent


def failure(error: AuthRequired) -> tuple[str, str, tuple[str, ...]]:
    return error.message, error.fix, error.detail


@looped
async def test_in_a_run_a_person_is_asked_first_even_if_there_is_one_way_only() -> None:
    """C-23, C-30: "done" means that the request may be tried again on this connection."""
    person = Part(picks="browser")
    async with offering(BROWSER) as (connection, agent):
        logging = asyncio.create_task(log_in(connection, place(person), WANTED))
        request = await agent.hears("authenticate")
        assert request["params"] == {"methodId": "browser"}
        await agent.answers(request, {})
        assert await logging == "done"
    assert person.heard == [("which", "the agent", ["browser"]), ("waiting", "browser"), "over"]


@looped
async def test_in_a_run_a_program_on_the_terminal_means_reconnecting() -> None:
    """C-24, C-26, C-27: nothing is sent to the agent."""
    terminal = Terminal()
    async with offering(BROWSER, TTY) as (connection, _):
        assert await log_in(connection, place(Part(picks="tty"), terminal), WANTED) == "reconnect"
    (program,) = terminal.ran
    assert program.argv == ("/opt/agent", "--acp", "--login")
    assert program.env == {"MODE": "login", "PATH": "/usr/bin:/bin"}
    assert program.cwd == Path("/w")


@pytest.mark.parametrize(
    ("adviser", "methods", "fix"),
    [
        (None, [BROWSER], "acp-launch login 'my p'"),
        (Part(picks=None), [BROWSER, TTY], "acp-launch login 'my p'"),
        (Part(), [], "log in with the agent's own command, then run this again"),
    ],
    ids=["no user", "declined", "no way"],
)
@looped
async def test_in_a_run_where_nothing_can_be_done_the_way_out_is_named(
    adviser: Part | None, methods: list[object], fix: str
) -> None:
    async with offering(*methods) as (connection, _):
        with pytest.raises(AuthRequired) as raised:
            await log_in(connection, place(adviser, Terminal()), WANTED)
        assert failure(raised.value) == ("the agent wants a login first: no", fix, ("it offers: this",))


@looped
async def test_without_a_profile_there_is_no_command_of_ours_to_advise() -> None:
    async with offering(BROWSER) as (connection, _):
        adhoc = LoginContext(program=AGENT, profile="", adviser=None, in_front=None)
        with pytest.raises(AuthRequired) as raised:
            await log_in(connection, adhoc, WANTED)
        assert raised.value.fix == "log in with the agent's own command, then run this again"


@looped
async def test_a_login_that_was_asked_for_by_name_asks_no_user() -> None:
    person, terminal = Part(), Terminal()
    async with offering(BROWSER, TTY) as (connection, agent):
        begun = await begin(connection, "tty", place(person, terminal))
        assert (begun.method.id, begun.program and begun.program.argv[-1]) == ("tty", "--login")
        beginning = asyncio.create_task(begin(connection, "browser", place(person, terminal)))
        await agent.answers(await agent.hears("authenticate"), {})
        assert await beginning == StartedLogin(connection.agent.auth_methods[0], None)
        with pytest.raises(UsageError, match='the agent has no login "Browser"; did you mean "browser"'):
            await begin(connection, "Browser", place(person, terminal))
    assert person.heard == [("waiting", "browser"), "over"]
    assert terminal.ran == []


@pytest.mark.parametrize("ended", [Exit(1, None), Exit(None, 2), Exit(None, None)], ids=str)
def test_only_status_0_is_success(ended: Exit) -> None:
    """C-27."""
    method = AuthMethod("tty", "Terminal", type="terminal")

    async def story() -> None:
        there = place(terminal=Terminal(ended))
        program = await prepare(method, there)
        assert program is not None
        await run_on_terminal(method, program, there)

    with pytest.raises(AuthRequired) as raised:
        asyncio.run(story())
    assert failure(raised.value) == (
        f'the login "Terminal" failed: agent {ended}',
        "try again, or another way: acp-launch login 'my p'",
        (),
    )


@looped
async def test_a_refusal_says_what_the_agent_said_and_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "redactor", knowing("hunter2-hunter2"))
    named = {"id": "x", "name": "With\nhunter2-hunter2"}
    async with offering(named) as (connection, agent):
        beginning = asyncio.create_task(begin(connection, None, place()))
        await agent.refuses(await agent.hears("authenticate"), -32603, "closed", data={"until": "monday"})
        with pytest.raises(AuthRequired) as raised:
            await beginning
        assert failure(raised.value) == (
            'the login "With ***" failed: the agent answered authenticate with an error: closed (-32603)',
            "try again, or another way: acp-launch login 'my p'",
            ('data: {"until":"monday"}',),
        )


@looped
async def test_an_agent_that_dies_or_stays_silent_in_its_login_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    async with offering(BROWSER) as (connection, agent):
        beginning = asyncio.create_task(begin(connection, None, place()))
        await agent.hears("authenticate")
        monkeypatch.setattr(login, "LOGIN_TIMEOUT", 0.01)
        with pytest.raises(WaitExpired) as silent:
            await begin(connection, None, place())
        assert silent.value.message == 'no end of the login "Browser" within 0.01 s'
        assert silent.value.fix == "try again: acp-launch login 'my p' browser"
        await agent.dies("was killed by SIGKILL", "ouch")
        with pytest.raises(AgentError, match="was killed by SIGKILL before it answered authenticate"):
            await beginning


def prepared(method: object, there: LoginContext) -> LocalProgram | None:
    (found,) = read([method])
    return asyncio.run(prepare(found, there))


def test_variables_that_are_missing_become_a_secret_and_a_line_of_the_profile_each() -> None:
    with pytest.raises(AuthRequired) as raised:
        prepared(KEY, place())
    assert failure(raised.value) == (
        '"Key" is not a login: the agent reads KEY, HOST from its environment',
        "acp-launch secret set key; and add the above to the profile",
        ("in the profile, under agent.env: KEY: ${secret:key}", "in the profile, under agent.env: HOST: …"),
    )
    whole = LocalProgram("agent", AGENT.argv, {"KEY": "k", "HOST": "h"}, AGENT.cwd)
    assert prepared(KEY, place(program=whole)) is None  # C-28: then it is the agent's, like any other


def test_a_command_of_the_agents_choosing_needs_a_user_who_allows_it() -> None:
    allowing, refusing = Part(allows=True), Part(allows=False)
    program = prepared(OLD, place(allowing, Terminal()))
    assert program is not None
    assert (program.argv, program.env["MODE"]) == (("/usr/bin/true",), "old")
    assert allowing.heard == [("consents", "old", ("/usr/bin/true",))]
    for adviser, terminal, said in [
        (refusing, Terminal(), 'the login "Old" was not run'),
        (None, Terminal(), 'the login "Old" is a command that the agent chose: it needs your permission'),
        (allowing, None, 'the login "Old" needs a terminal, with nothing redirected'),
    ]:
        with pytest.raises(AuthRequired) as raised:
            prepared(OLD, place(adviser, terminal))
        assert raised.value.message == said


def test_a_command_of_the_agents_choosing_that_is_not_there_is_said_before_the_user_is_asked() -> None:
    person = Part(allows=True)
    gone = {"id": "old", "name": "Old", "_meta": {"terminal-auth": {"command": "no-such-agent"}}}
    with pytest.raises(AuthRequired) as raised:
        prepared(gone, place(person, Terminal()))
    assert raised.value.message == ('the login "Old" failed: "no-such-agent" is not on PATH (looked in 2 folders)')
    assert person.heard == []


@looped
async def test_logging_out_is_asked_of_an_agent_that_offers_it_only() -> None:
    """C-29."""
    async with offering(BROWSER) as (connection, _):
        with pytest.raises(SessionError, match="the agent does not offer to log out"):
            await log_out(connection, limit=5)
    async with offering(auth={"logout": {}}) as (connection, agent):
        leaving = asyncio.create_task(log_out(connection, limit=5))
        await agent.answers(await agent.hears("logout"), {})
        assert await leaving
        leaving = asyncio.create_task(log_out(connection, limit=5))
        await agent.refuses(await agent.hears("logout"), -32000, "who are you?")
        assert not await leaving


def test_the_program_of_a_login_shows_neither_its_arguments_nor_its_environment() -> None:
    program = prepared(TTY, place(terminal=Terminal()))
    assert repr(program) == "LocalProgram('login')"
    assert "acp" not in repr(StartedLogin(AuthMethod("a", "A"), program))
    assert "acp" not in repr(place())
