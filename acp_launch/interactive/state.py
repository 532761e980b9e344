"""What the story and the `:` commands share."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack
from pathlib import Path

from msgspec import Struct, field

from acp_launch.console.failure import lines
from acp_launch.console.stderr import TYPED, harmless
from acp_launch.console.stream.redacted import Output
from acp_launch.errors import AgentError, AgentRefused, LaunchError, RemoteProtocolError, SessionError, WaitExpired
from acp_launch.interactive.front import Front, Mood, Status, Vocabulary, Word
from acp_launch.interactive.output import SessionOutput
from acp_launch.launch.run import Launch, OpenSession, SessionRequest
from acp_launch.plan.model import LaunchPlan
from acp_launch.process.lifecycle import Standing
from acp_launch.secret.redact import redactor
from acp_launch.session.client import Client
from acp_launch.session.connection import Connection
from acp_launch.session.observer import SessionReady, TurnEnd
from acp_launch.session.opening import Setting
from acp_launch.session.options import Option
from acp_launch.session.state import SessionState
from acp_launch.session.store import Record, Registry, SessionKeeper, continued, fresh_name, is_fresh

# The sessions of a project and profile that a person can go to and come from: each held while somebody is in it.


class HeldSession:
    """A session that is held by us."""

    def __init__(self, registry: Registry, plan: LaunchPlan, name: str, record: Record | None, held: ExitStack) -> None:
        """Leaving it closes `held`."""
        self.name = name
        self._registry, self._plan = registry, plan
        self._keeper = SessionKeeper(registry, plan, record, "")
        self._record = record
        self._held = held

    def request(self, wishes: Sequence[Setting], *, replay: bool) -> SessionRequest:
        """How it is opened now: anew the first time, continued afterwards."""
        return SessionRequest(
            name=self.name, continued=self._record, replay=replay, wishes=wishes, opened=self._keeper.opened
        )

    def opened(self) -> None:
        """It is open, and on record: from here on it is continued."""
        self._record = self._registry.find(str(self._plan.project), self._plan.profile, self.name)

    def used(self, title: str) -> None:
        """A turn is over. `title` as the agent names the session, or its first prompt; empty keeps the one there is."""
        self._keeper.ended(title)

    def leave(self) -> None:
        """Let others in."""
        self._held.close()


class HeldSessions:
    def __init__(
        self,
        registry: Registry,
        plan: LaunchPlan,
        hold: Callable[[str], AbstractContextManager[None]],
        *,
        check: Callable[[str], object] = lambda name: None,
    ) -> None:
        """`hold` is held while we are in the session of that name; `check` refuses what cannot be a name."""
        self._registry, self._plan = registry, plan
        self._hold, self._check = hold, check
        self._known: tuple[tuple[str, str], ...] = ()

    def enter(self, name: str, *, is_new: bool) -> HeldSession:
        """Go to the session of that name, or with `is_new` open it.

        Raises:
            SessionError: somebody else is in it, it works in another directory, there is none (or one, with `is_new`).
            UsageError: this is no name.
        """
        self._check(name)
        holding = ExitStack()
        holding.enter_context(self._hold(name))
        try:
            record = continued(self._registry, self._plan, name, latest=False)
            if is_new and record is not None:
                raise SessionError(f'there is a session "{name}" already', fix=f":switch {name} goes there")
            if not is_new and record is None:
                raise SessionError(f'there is no session "{name}"', fix=f":new {name} opens one; :sessions lists them")
        except BaseException:
            holding.close()
            raise
        return HeldSession(self._registry, self._plan, name, record, holding)

    def first(self, name: str, record: Record | None, held: ExitStack) -> HeldSession:
        """The one that the command line chose; `held` holds it already."""
        return HeldSession(self._registry, self._plan, name, record, held)

    def fresh(self) -> HeldSession:
        return self.enter(fresh_name(), is_new=True)

    def known(self) -> tuple[tuple[str, str], ...]:
        """Names and titles, as they were when they were last read; a file is not asked at every keystroke."""
        return self._known

    def records(self) -> Sequence[Record]:
        """Those of this project and profile, the latest first."""
        records = self._registry.list(str(self._plan.project), self._plan.profile)
        self._known = tuple((record.name, record.title) for record in records)
        return records


TAB, DIM = "\t", "2"


class CurrentSession(Struct, eq=False):
    """The session somebody is in."""

    session: OpenSession
    room: HeldSession
    leaving: AsyncExitStack  # ends what was served to it
    turns: int = 0
    first_prompt: str = ""  # the beginning of it, which stands in for a title
    last: TurnEnd | None = None

    @property
    def connection(self) -> Connection:
        return self.session.connection

    @property
    def client(self) -> Client:
        return self.session.client

    @property
    def ready(self) -> SessionReady:
        return self.session.ready


class InteractiveState(Struct, kw_only=True, eq=False):
    launch: Launch
    front: Front
    observer: Output
    heard: SessionOutput
    rooms: HeldSessions
    here: Path  # where the command was typed
    current: CurrentSession | None = None
    chosen: list[Setting] = field(default_factory=list)  # in this session: to be chosen again when its agent comes back

    def say(self, text: str, style: str = "") -> None:
        """Lines among what the agent says; not for text that may hold a secret, which is redacted first."""
        for line in text.splitlines():
            self.heard.tell(harmless(redactor.text(line), keep=TAB), style)

    def prompted(self, text: str) -> None:
        """A prompt is being sent: it stands above its answer."""
        shown = redactor.text(text)
        self.heard.transcript.prompt(shown)
        if not self.heard.is_drawn:
            return  # it stands where it was typed
        for number, line in enumerate(shown.splitlines()):
            mark = ">" if number == 0 else " "
            self.heard.tell(f"{mark} {harmless(line, keep=TAB)}", TYPED)

    def commanded(self, text: str) -> None:
        """A command of ours is carried out: it stands above what it says."""
        if self.heard.is_drawn:
            self.say(text, DIM)

    def failed(self, error: LaunchError) -> None:
        """A failure after which the session goes on; what was being drawn is left whole."""
        self.observer.failed(error)
        for text, style in lines(error):
            self.heard.tell(redactor.text(text), style)


def is_the_end(error: LaunchError) -> bool:
    """Whether the agent is gone, or as good as gone: not whether it refused something."""
    return isinstance(error, AgentError | WaitExpired | RemoteProtocolError) and not isinstance(error, AgentRefused)


class Leave(Struct, frozen=True):
    """The session is left, and acp-launch ends with this exit code."""

    code: int


class Move(Struct, frozen=True):
    """Another session is wanted."""

    room: HeldSession


Outcome = Leave | Move


# What the front is told of the session: its status line and what can be completed, at most ten times a second.


AT_MOST = 0.1  # seconds between two refreshes
DOWN = ("failed", "resting", "stopped")


class Showing:
    def __init__(self, desk: InteractiveState, commands: tuple[Word, ...]) -> None:
        self._desk = desk
        self._commands = commands
        self._mood: Mood = "starting"
        self._due: asyncio.TimerHandle | None = None
        self._agent = desk.launch.plan.agent.command.name  # until it says who it is
        self._session = ""  # the last there was: what is down has its name still

    @property
    def mood(self) -> Mood:
        return self._mood

    @mood.setter
    def mood(self, mood: Mood) -> None:
        self._mood = mood
        self.refresh()

    def changed(self) -> None:
        """Something of the session, or of a server, is not as it was."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(AT_MOST, self.refresh)

    def refresh(self) -> None:
        """Tell the front how things stand."""
        self.close()
        self._desk.front.status(self._status())
        self._desk.front.vocabulary(self._vocabulary())

    def close(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _status(self) -> Status:
        desk, current = self._desk, self._desk.current
        state = current.client.state if current else SessionState()
        if current is not None:
            self._agent = current.connection.agent.title or self._agent
            self._session = (
                "" if is_fresh(current.room.name) else current.room.name
            )  # one that nobody chose says little
        servers = desk.launch.servers.standings()
        usage = state.usage
        said = redactor.text
        return Status(
            agent=said(self._agent),
            profile=desk.launch.plan.profile,
            session=self._session,
            title=said(state.title),
            mode=said(state.mode),
            model=said(state.model),
            used=usage.used,
            size=usage.size,
            cost=str(usage.cost) if usage.cost else "",
            servers_up=sum(server.state in ("ready", "starting") for server in servers),
            servers_down=sum(server.state in DOWN for server in servers),
            mood=self._mood,
        )

    def _vocabulary(self) -> Vocabulary:
        desk, current = self._desk, self._desk.current
        state = current.client.state if current else SessionState()
        slash = (Word(f"/{each.name}", each.description, each.hint) for each in state.commands)
        return Vocabulary(
            commands=self._commands,
            slash=tuple(slash),
            values=_values(state, desk.launch.servers.standings(), self._sessions),
            directories=(desk.launch.plan.cwd, *desk.launch.plan.additional_directories),
        )

    @property
    def _sessions(self) -> tuple[Word, ...]:
        return tuple(Word(name, title) for name, title in self._desk.rooms.known())


def _values(
    state: SessionState, servers: list[Standing], sessions: tuple[Word, ...]
) -> Mapping[tuple[str, ...], tuple[Word, ...]]:
    values: dict[tuple[str, ...], tuple[Word, ...]] = {
        (":set",): tuple(Word(option.id, f"{option.name}: {option.shown}") for option in state.options),
        (":restart",): tuple(Word(server.server, server.state) for server in servers),
        (":switch",): sessions,
    }
    for option in state.options:
        values[":set", option.id] = _choices(option)
        if option.category == "mode" or option.id == "mode":
            values[":mode",] = _choices(option)
    return values


def _choices(option: Option) -> tuple[Word, ...]:
    if option.kind == "boolean":
        return Word("on"), Word("off")
    return tuple(Word(choice.value, choice.name) for choice in option.choices)
