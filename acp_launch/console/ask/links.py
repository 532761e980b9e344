"""Visiting a page for an agent: the whole address and its host are shown, and nothing is fetched without consent."""

import os
from collections.abc import Mapping

from acp_launch.console.ask import browser, webaddress
from acp_launch.console.ask.asked import quote, shown
from acp_launch.console.ask.webaddress import Address, Unfit
from acp_launch.session.elicitation.answer import Action, Link
from acp_launch.session.person import Choice, Person

OPEN = Choice("o", "open it in the browser")
MYSELF = Choice("m", "I open it myself")
DECLINE = Choice("d", "decline")
CANCEL = Choice("c", "cancel")


class Links:
    """Asks `person`; `env` is where the browser is looked for, and what it is given."""

    def __init__(self, person: Person, agent_name: str, *, env: Mapping[str, str] = os.environ) -> None:
        self._person = person
        self._agent_name = shown(agent_name)
        self._env = env

    async def visit(self, link: Link) -> Action:
        """`accept` is consent, and no word about what the page did. A link that is not fit to be opened is declined."""
        async with self._person.floor():
            self._person.say(f"The agent {self._agent_name} asks you to visit a page:", "heading")
            quote(self._person, link.message)
            match webaddress.read(link.url):
                case Unfit(reason):
                    self._decline(link.url, reason)
                    return "decline"
                case Address() as address:
                    return await self._consent(address)

    def _decline(self, url: str, reason: str) -> None:
        self._person.say(f"    {shown(url)}", "quote")
        self._person.say(f"The link {reason}: declined.", "warning")

    async def _consent(self, address: Address) -> Action:
        opener = browser.command(self._env)
        self._person.say(f"    {address.url}", "quote")
        self._person.say(f"    on the host {address.host}")
        for warning in address.warnings:
            self._person.say(warning, "warning")
        if opener is None:
            self._person.say("There is no browser here to open it with; it can be opened by hand.", "dim")
        choices = ([OPEN] if opener else []) + [MYSELF, DECLINE, CANCEL]
        match await self._person.choose("Visit it?", choices):
            case OPEN.key if opener:
                self._open(opener, address.url)
                return "accept"
            case MYSELF.key:
                return "accept"
            case DECLINE.key:
                return "decline"
        return "cancel"

    def _open(self, opener: list[str], url: str) -> None:
        problem = browser.start(opener, url, self._env)
        if problem:
            self._person.say(f"{opener[0]} could not be started ({problem}). Open the address by hand.", "warning")
        else:
            self._person.say(f"Opening it with {opener[0]}. If no page appears, open the address by hand.", "dim")
