"""The state of an interactive session: its held session, the means that `:` commands use, and the status line."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack
from pathlib import Path

from msgspec import Struct, field

from acp_launch.console.problems import error_lines
from acp_launch.console.stderr import TYPED, YELLOW, harmless
from acp_launch.console.stream.redacted import RunOutput
from acp_launch.engine.run import Launch, OpenSession, SessionRequest
from acp_launch.errors import AgentError, AgentRefused, LaunchError, RemoteProtocolError, SessionError, WaitExpired
from acp_launch.interactive.output import SessionOutput
from acp_launch.interactive.terminal import Front, Phase, Status, Vocabulary, Word
from acp_launch.plan.model import LaunchPlan
from acp_launch.private import create, make_private
from acp_launch.process.lifecycle import Standing
from acp_launch.protocol.acp import Capabilities
from acp_launch.secret.redact import redactor
from acp_launch.session.attachments import Block
from acp_launch.session.client import AcpSession
from acp_launch.session.connection import Connection
from acp_launch.session.events import TurnEnd, describe_error
from acp_launch.session.hold import fresh_name, is_fresh
from acp_launch.session.opening import Setting
from acp_launch.session.options import Option
from acp_launch.session.permission.policy import Policy
from acp_launch.session.state import SessionState
from acp_launch.session.store import Record, Registry, SessionKeeper, continued

# The sessions of a project and profile that the user can switch to. Each is locked while it is in use.


class LockedSession:
    """A session that this process holds."""

    def __init__(
        self,
        registry: Registry,
        plan: LaunchPlan,
        name: str,
        record: Record | None,
        held: ExitStack,
    ) -> None:
        """Leaving it closes `held`."""
        self.name = name
        self.is_used = record is not None  # there is something to come back to
        self._registry, self._plan = registry, plan
        self.keeper = SessionKeeper(registry, plan, record)
        self._record = record
        self._held = held

    def request(self, wanted_options: Sequence[Setting], *, replay: bool) -> SessionRequest:
        """Return how to open it now: as a new session the first time, resumed afterwards."""
        name, record, opened = self.name, self._record, self.keeper.opened
        return SessionRequest(name=name, continued=record, replay=replay, wanted_options=wanted_options, opened=opened)

    def note_open(self) -> None:
        """Note that it is open and on record: from now on it is resumed."""
        self._record = self._registry.find(str(self._plan.project), self._plan.profile, self.name)

    def leave(self) -> None:
        """Release it for other processes."""
        self._held.close()


class LockedSessions:
    """The sessions of a project and profile."""

    def __init__(
        self,
        registry: Registry,
        plan: LaunchPlan,
        hold: Callable[[str], AbstractContextManager[None]],
        *,
        check: Callable[[str], object],
    ) -> None:
        """`hold` locks the session with a name; `check` raises for an invalid name."""
        self._registry, self._plan = registry, plan
        self._hold, self._check = hold, check
        self.names: tuple[tuple[str, str], ...] = ()  # and titles as last read: the file is not read at every key

    def enter(self, name: str, *, is_new: bool) -> LockedSession:
        """Hold an existing session, or with `is_new` create it.

        Raises:
            SessionError: another process holds it, it belongs to another directory, or it does not exist (exists).
            UsageError: the name is not valid.
        """
        self._check(name)
        with ExitStack() as holding:
            holding.enter_context(self._hold(name))
            record = continued(self._registry, self._plan, name, latest=False)
            if is_new and record is not None:
                raise SessionError(f'session "{name}" already exists', fix=f"to go there: :switch {name}")
            if not is_new and record is None:
                raise SessionError(
                    f'there is no session "{name}"', fix=f"to open it: :new {name}; for a list: :sessions"
                )
            return self.first(name, record, holding.pop_all())

    def first(self, name: str, record: Record | None, held: ExitStack) -> LockedSession:
        """Return the session chosen on the command line; `held` holds it already."""
        return LockedSession(self._registry, self._plan, name, record, held)

    def fresh(self) -> LockedSession:
        return self.enter(fresh_name(), is_new=True)

    def records(self) -> Sequence[Record]:
        """Return the records of this project and profile, the latest first."""
        records = self._registry.list(str(self._plan.project), self._plan.profile)
        self.names = tuple((record.name, record.title) for record in records)
        return records


TAB, DIM = "\t", "2"


class ActiveSession(Struct, eq=False):
    """The current session."""

    session: OpenSession
    held_session: LockedSession
    leaving: AsyncExitStack  # ends the services for it
    turns: int = 0
    first_prompt: str = ""  # its beginning, as a title if the agent gives none
    last: TurnEnd | None = None
    attached: list[str] = field(default_factory=list)  # what went along with prompts here, in words
    is_full: bool = False  # the user was told that its context is nearly full

    @property
    def connection(self) -> Connection:
        return self.session.connection

    @property
    def client(self) -> AcpSession:
        return self.session.client


class SessionSetup(Struct, kw_only=True, eq=False):
    """The means of an interactive session besides its launch."""

    front: Front
    observer: RunOutput
    output: SessionOutput
    held_sessions: LockedSessions
    held_session: LockedSession  # the one to be in, at first and after a restart of the agent
    replay: bool
    wanted_options: Sequence[Setting]
    blocks: Callable[[str, Capabilities], Sequence[Block]]  # a prompt with what it mentions
    here: Path  # where the command was typed
    log_in: Callable[[str], Awaitable[bool]]  # logs in to an MCP server on the terminal; whether that worked
    policy: Callable[[], Policy]  # what answers permission questions now
    resume: Callable[[str], str]  # the command that comes back to a session, by its name
    seen: Path  # exists once the user was told what the first keys do
    shown: asyncio.Event  # once the front may have the terminal


class InteractiveState(SessionSetup, kw_only=True, eq=False):
    """The state and means that the session and its commands share."""

    launch: Launch
    current: ActiveSession | None = None
    chosen: list[Setting] = field(default_factory=list)  # set again after a restart of the agent
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while a key changes an option

    def say(self, text: str, style: str = "") -> None:
        """Print lines among the agent's output, redacted."""
        for line in text.splitlines():
            self.output.tell(harmless(redactor.text(line), keep=TAB), style)

    def show_prompt(self, text: str) -> None:
        """Print a prompt above its answer, and record it."""
        shown = redactor.text(text)
        self.output.transcript.prompt(shown)
        self.output.folded.begin()
        if not self.output.is_drawn:
            return  # it is visible where the user typed it
        self.output.tell(harmless(shown), TYPED)

    def show_command(self, text: str) -> None:
        if self.output.is_drawn:
            self.say(text, DIM)

    def show_error(self, error: LaunchError) -> None:
        """Print an error after which the session continues; unfinished drawings are completed first."""
        self.observer.show(describe_error(error))
        for text, style in error_lines(error):
            self.output.tell(redactor.text(text), style)


def is_first_time(file: Path) -> bool:
    """Return whether `file` did not exist, and create it; False where that is not possible."""
    try:
        make_private(file.parent)
        create(file, b"")
    except OSError:
        return False
    return True


def is_the_end(error: LaunchError) -> bool:
    """Return whether the agent is gone or unusable, rather than having refused a request."""
    return isinstance(error, AgentError | WaitExpired | RemoteProtocolError) and not isinstance(error, AgentRefused)


class Leave(Struct, frozen=True):
    """The end of the session; acp-launch exits with `code`."""

    code: int


class Move(Struct, frozen=True):
    """A switch to another session."""

    held_session: LockedSession


Outcome = Leave | Move


# The status line and the completions, sent to the front at most ten times a second.


AT_MOST = 0.1  # seconds between two refreshes
UP, DOWN = ("ready", "starting", "asleep"), ("failed", "resting", "stopped")
FULL_SHARE = 0.8  # of the context, from which the user is warned; the status line highlights it from there, too
SHORTEN = ("compact", "compress", "summarize")  # commands of agents that shorten their context


class FrontUpdates:
    """Keeps the front up to date."""

    def __init__(self, interactive: InteractiveState, commands: tuple[Word, ...]) -> None:
        self._interactive = interactive
        interactive.front.watch(interactive.output.activity)
        self._commands = commands
        self._phase: Phase = "starting"
        self._due: asyncio.TimerHandle | None = None
        self._agent = interactive.launch.plan.agent.command.name  # until the agent sends its name
        self._session = ""  # the last one, also shown while the agent is down

    @property
    def phase(self) -> Phase:
        return self._phase

    @phase.setter
    def phase(self, phase: Phase) -> None:
        self._phase = phase
        self._interactive.output.tracker.begin(phase, is_open=self._interactive.current is not None)
        self.refresh()

    def refresh_soon(self) -> None:
        """Refresh soon, because the session or a server has changed."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(AT_MOST, self.refresh)

    def refresh(self) -> None:
        """Send status and completions to the front."""
        self.close()
        if self._phase == "idle" and self._interactive.current is not None:
            current = self._interactive.current
            state, was_full = current.client.state, current.is_full
            usage = state.usage
            current.is_full = bool(usage.used is not None and usage.size and usage.used >= FULL_SHARE * usage.size)
            if current.is_full and not was_full:
                share = (usage.used or 0) / (usage.size or 1)
                shorten = next((f"/{each.name} shortens it; " for each in state.commands if each.name in SHORTEN), "")
                self._interactive.say(f"{share:.0%} of the context is used; {shorten}:context says more", YELLOW)
        self._interactive.front.status(self._status())
        self._interactive.front.vocabulary(self._vocabulary())

    def close(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _status(self) -> Status:
        interactive, current = self._interactive, self._interactive.current
        state = current.client.state if current else SessionState()
        if current is not None:
            self._agent = current.connection.agent.title or self._agent
            self._session = (
                "" if is_fresh(current.held_session.name) else current.held_session.name
            )  # generated names are not shown
        servers = interactive.launch.servers.standings()
        usage = state.usage
        said = redactor.text
        return Status(
            agent=said(self._agent),
            profile=interactive.launch.plan.profile,
            session=self._session,
            title=said(state.title),
            mode=said(state.mode),
            model=said(state.model),
            used=usage.used,
            size=usage.size,
            cost=str(usage.cost) if usage.cost else "",
            servers_up=sum(server.state in UP and not server.silent for server in servers),
            servers_silent=sum(server.silent for server in servers),
            servers_down=sum(server.state in DOWN for server in servers),
            phase=self._phase,
        )

    def _vocabulary(self) -> Vocabulary:
        interactive, current = self._interactive, self._interactive.current
        state = current.client.state if current else SessionState()
        slash = (Word(f"/{each.name}", each.description, each.hint) for each in state.commands)
        sessions = tuple(Word(name, title) for name, title in interactive.held_sessions.names)
        logins = [name for name, each in self._interactive.launch.context.prepared.credentials.items() if each.is_login]
        return Vocabulary(
            commands=self._commands,
            slash=tuple(slash),
            values=_values(state, interactive.launch.servers.standings(), sessions, logins),
            directories=(interactive.launch.plan.cwd, *interactive.launch.plan.additional_directories),
        )


def _values(
    state: SessionState, servers: list[Standing], sessions: tuple[Word, ...], logins: Iterable[str]
) -> Mapping[tuple[str, ...], tuple[Word, ...]]:
    values: dict[tuple[str, ...], tuple[Word, ...]] = {
        (":set",): tuple(Word(option.id, f"{option.name}: {option.shown}") for option in state.options),
        (":restart",): tuple(Word(server.server, server.state) for server in servers),
        (":login",): tuple(Word(name) for name in logins),
        (":switch",): sessions,
    }
    for option in state.options:
        values[":set", option.id] = option_values(option)
        for name in {option.category, option.id} & {"mode", "model"}:
            values[f":{name}",] = option_values(option)
    return values


def option_values(option: Option) -> tuple[Word, ...]:
    """Return the values of an option as a user types them."""
    if option.kind == "boolean":
        return Word("on"), Word("off")
    return tuple(Word(choice.value, choice.name) for choice in option.choices)
