"""
Serving `elicitation/create` and hearing `elicitation/complete` (ACP v1 "Elicitation"; C-68, C-74, C-75).

Everything in an answer was said by a person: nothing is ever taken from the secrets of a launch, or decided alone. An
open question ends by being cancelled, as every service does.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from acp_launch.secret.redact import redactor
from acp_launch.session.elicitation.answer import Action, Filled, Form, Link
from acp_launch.session.elicitation.request import read
from acp_launch.session.service import Refusal, Services, invalid

REMEMBERED = 1000  # links that may be open at a time; the oldest is forgotten
_WORDS = 100  # characters


class Elicitation:
    """`forms` and `urls` are what the agent was told we can do. `note` gets words of the agent's: with no secret in
    them, and otherwise as they came."""

    def __init__(
        self,
        agent_name: str,
        *,
        fill: Callable[[Form], Awaitable[Filled]],
        visit: Callable[[Link], Awaitable[Action]],
        forms: bool,
        urls: bool,
        note: Callable[[str], None],
    ) -> None:
        self._agent_name = agent_name
        self._fill = fill
        self._visit = visit
        self._forms = forms
        self._urls = urls
        self._note = note
        self._open: dict[str, str] = {}  # links that may still be completed: what they were about, by id

    def services(self) -> Services:
        return {"elicitation/create": self._create} if self._forms or self._urls else {}

    def completed(self, elicitation_id: str) -> None:
        """The agent says so. An id that is not known, or was completed before, is nothing to anybody (C-75)."""
        about = self._open.pop(elicitation_id, None)
        if about is not None:
            self._note(f"{self._agent_name} says that this is done: {about}")

    async def _create(self, params: dict[str, Any]) -> object:
        asked = read(params)
        match asked:
            case Form() if self._forms:
                return _answer(await self._fill(asked))
            case Link() if self._urls:
                return {"action": await self._follow(asked)}
        raise _not_offered(params["mode"])

    async def _follow(self, link: Link) -> Action:
        """It may be completed while the question is still open; not once it is declined."""
        self._open[link.id] = _first_words(redactor.text(link.message))
        if len(self._open) > REMEMBERED:
            self._open.pop(next(iter(self._open)))
        action: Action = "cancel"
        try:
            action = await self._visit(link)
        finally:
            if action != "accept":
                self._open.pop(link.id, None)
        return action


def _answer(filled: Filled) -> dict[str, Any]:
    if filled.action != "accept":
        return {"action": filled.action}
    return {"action": "accept", "content": filled.content}


def _not_offered(mode: str) -> Refusal:
    return invalid(f'elicitations of the mode "{mode}" were not offered')


def _first_words(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WORDS else f"{line[: _WORDS - 1]}…"
