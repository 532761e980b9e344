"""What the front is told of the session: its status line and what can be completed, at most ten times a second."""

import asyncio
from collections.abc import Mapping

from acp_launch.interactive.desk import Desk
from acp_launch.interactive.front import Mood, Status, Vocabulary, Word
from acp_launch.process.lifecycle import Standing
from acp_launch.secret.redact import redactor
from acp_launch.session.options.option import Option
from acp_launch.session.options.state import SessionState
from acp_launch.session.store.choice import is_fresh

AT_MOST = 0.1  # seconds between two refreshes
DOWN = ("failed", "resting", "stopped")


class Showing:
    def __init__(self, desk: Desk, commands: tuple[Word, ...]) -> None:
        self._desk = desk
        self._commands = commands
        self._mood: Mood = "starting"
        self._due: asyncio.TimerHandle | None = None
        self._agent = desk.plan.agent.command.name  # until it says who it is
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
        servers = desk.servers.standings()
        usage = state.usage
        said = redactor.text
        return Status(
            agent=said(self._agent),
            profile=desk.plan.profile,
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
            values=_values(state, desk.servers.standings(), self._sessions),
            directories=(desk.plan.cwd, *desk.plan.additional_directories),
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
