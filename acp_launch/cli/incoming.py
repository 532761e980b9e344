"""
The verb `import`: servers and agents of other tools become part of a profile.

The order is: read, draft, show the change, ask, store the secrets, write the profile. In this order nothing is lost.
"""

import asyncio
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from acp_launch.cli.planning import here
from acp_launch.cli.shelving import Shelving
from acp_launch.console import interop
from acp_launch.console.ask.terminal import possible
from acp_launch.console.interop import agreed, listed, note, show_change, show_findings
from acp_launch.errors import UsageError
from acp_launch.interop import files, merge
from acp_launch.interop.drafts import Draft, DraftSet, Spot, Token, collect_drafts, holes, used_secrets
from acp_launch.interop.merge import Step, Target, target
from acp_launch.interop.read import survey
from acp_launch.interop.tools import Host, Source, Tool, at_home, read, sources
from acp_launch.problem import ours
from acp_launch.profile.discover import HOLDER, project_of
from acp_launch.profile.load import shown
from acp_launch.secret.redact import redactor
from acp_launch.settings.load import load


class Wish(Struct, frozen=True):
    """The options of `import`; `called` is the name for the one server that is imported."""

    only: tuple[str, ...]
    called: str
    dry_run: bool
    yes: bool
    force: bool


class Offer(Struct, frozen=True):
    """A planned import: how each draft compares to the profile, and the profile's `text` with the `taken` ones."""

    incoming: DraftSet
    drafts: tuple[Draft, ...]
    steps: tuple[Step, ...]
    taken: tuple[Step, ...]
    names: tuple[str, ...]
    text: str

    @property
    def tokens(self) -> tuple[tuple[str, Token], ...]:
        """The credentials that the taken entries refer to, each with its secret's name."""
        needed = dict.fromkeys(index for step in self.taken for index in holes(step.draft.shape))
        return tuple((self.names[index], self.incoming.tokens[index]) for index in needed)


def machine() -> Host:
    return Host(Path.home(), os.environ, sys.platform)


def list_(*, as_json: bool) -> None:
    """List the sources of an import on this machine."""
    found = list(survey(machine(), project_of(here())))
    show_findings(found, as_json=as_json)
    if not found and not as_json:
        note("no configuration of another tool was found; to import a file: acp-launch import FILE --into PROFILE")


def found(source: str, tool: Tool | None) -> tuple[Source, ...]:
    """Return the files of `source`; with `tool` it is the path of a file of that tool.

    Raises:
        LaunchError: it is neither a tool nor a file, or the file is not valid.
    """
    return (read(here() / at_home(source), tool),) if tool else sources(source, machine(), project_of(here()), here())


def take(source: str, into: str, tool: Tool | None, wish: Wish) -> None:
    """Import `source` into the profile `into`.

    Raises:
        LaunchError: the source, the profile or the store is not usable; nothing was written.
    """
    settings, files_found = load(), found(source, tool)
    goal = target(into, settings, start=here())
    _Import(files_found, project_of(here()), goal, Shelving(settings), wish).run()


class _Import:
    def __init__(self, found: Sequence[Source], project: Path, goal: Target, shelving: Shelving, wish: Wish) -> None:
        self._found = found
        self._project = project
        self._goal = goal
        self._shelving = shelving
        self._wish = wish

    def run(self) -> None:
        can_write = not self._wish.dry_run and (self._wish.yes or possible())
        offer = self._offer(ask_store=can_write)
        interop.tell_of_files(self._found)
        interop.tell_of_drafts(offer.drafts, offer.steps, forced=self._wish.force)
        if not offer.taken:
            self._nothing_new(offer)
            return
        show_change(self._goal.file, self._goal.text, offer.text)
        interop.tell_of_tokens(offer.tokens)
        if self._wish.dry_run:
            note("nothing was written (--dry-run)")
            return
        if not can_write:
            raise UsageError("there is no terminal to ask on; nothing was written", fix="--yes imports all of it")
        self._carry_out(offer)

    def _carry_out(self, offer: Offer) -> None:
        declined = set() if self._wish.yes else self._asked(offer)
        if declined:
            unsure = [token.spot for _, token in offer.tokens if token.spot in declined and not token.is_sure]
            offer = self._offer(ask_store=True, spared=unsure)
        wanted = [(name, token.secret) for name, token in offer.tokens if token.spot not in declined]
        kept = [(name, secret) for name, secret in wanted if secret is not None]
        self._shelving.keep(kept)
        files.put(self._goal.file, offer.text, instead_of=self._goal.text)
        if kept:
            interop.tell_of_kept([name for name, _ in kept], self._shelving.label, [one.file for one in self._found])
        interop.tell_of_missing([pair for pair in offer.tokens if pair[0] not in dict(kept)])
        note(f"{shown(self._goal.file)}: {listed(step.name for step in offer.taken)} imported")

    def _asked(self, offer: Offer) -> set[Spot]:
        """Ask whether to write, and which tokens to store; return the tokens that the user declined.

        Raises:
            UsageError: the user does not want the profile changed.
        """
        if not asyncio.run(agreed("Change it?", "Yes", "No")):
            raise UsageError("nothing was written")
        valued = [(name, token) for name, token in offer.tokens if token.secret is not None]
        return {
            token.spot
            for name, token in valued
            if not asyncio.run(agreed(*interop.question(name, token, self._shelving.label)))
        }

    def _offer(self, *, ask_store: bool, spared: Iterable[Spot] = ()) -> Offer:
        incoming = collect_drafts([(one.tool, one.root) for one in self._found], str(self._project), spared=spared)
        redactor.register(*(token.secret for token in incoming.tokens if token.secret is not None))
        drafts = self._chosen(incoming)
        fit = [one for one in drafts if not one.unfit]
        others = set(used_secrets(merge.without(self._goal.root, fit, self._wish.called)))
        steps = merge.steps(self._goal.root, fit, incoming.names(others), self._wish.called)
        drafted = [
            step.draft
            for step in steps
            if step.difference == "new" or (step.difference == "other" and self._wish.force)
        ]
        needed = {index for one in drafted for index in holes(one.shape)}
        names = self._shelving.names(incoming, needed, others) if ask_store else incoming.names(others)
        taken = merge.steps(self._goal.root, drafted, names, self._wish.called)
        text = merge.applied(merge.EMPTY if self._goal.text is None else self._goal.text, taken)
        return Offer(incoming, drafts, steps, taken, tuple(names), text)

    def _chosen(self, incoming: DraftSet) -> tuple[Draft, ...]:
        """Choose the drafts that the options ask for.

        Raises:
            UsageError: a name is unknown, --as does not have exactly one server, or a new profile would lack an agent.
        """
        wants_agent = not {"agent", "extends"} & self._goal.root.keys() and not self._is_parent
        drafts = merge.fitting(merge.chosen(incoming.drafts, self._wish.only, wants_agent=wants_agent))
        fit = [one for one in drafts if not one.unfit]
        if self._wish.called and sum(one.kind == "server" for one in fit) != 1:
            raise UsageError("--as names one server", fix="say which: --only NAME --as OTHER")
        if self._goal.text is None and wants_agent and not any(one.kind == "agent" for one in fit):
            raise self._no_agent(incoming.drafts)
        return drafts

    @property
    def _is_parent(self) -> bool:
        """Whether the file is made to be extended, and so needs no agent of its own."""
        return self._goal.file.name.startswith("_")

    def _no_agent(self, drafts: Sequence[Draft]) -> UsageError:
        agents = [one.original for one in drafts if one.kind == "agent" and not one.unfit]
        what = f"{shown(self._goal.file)} does not exist yet, and the source has no agent for it"
        if agents:
            return UsageError(what, fix=f"name the agent, and the servers you want: --only {listed(agents)}")
        name, is_named = self._goal.file.stem, self._goal.file.parent.name == HOLDER
        return UsageError(
            what, fix=f"create it first: {ours('init', name)}{'' if is_named else f', and --into {name}'}"
        )

    def _only_agents(self, drafts: Sequence[Draft]) -> UsageError | None:
        """Explain that the source has only agents. A profile has one agent, which is not replaced without --force."""
        agents = [one.original for one in drafts if one.kind == "agent" and not one.unfit]
        if not agents:
            return None
        there = f"{shown(self._goal.file)} has an agent" if "agent" in self._goal.root else "a profile has one agent"
        replaces = " --force" if "agent" in self._goal.root else ""
        one = agents[0] if len(agents) == 1 else "NAME"
        what = f"{there}, and the source has only agents: {listed(agents)}"
        return UsageError(what, fix=f"say which: --only {shlex.quote(one)}{replaces}")

    def _nothing_new(self, offer: Offer) -> None:
        """Report that nothing was imported.

        Raises:
            UsageError: entries of the same name differ, or the source has nothing to import.
        """
        name = shown(self._goal.file)
        if any(step.difference == "other" for step in offer.steps):
            is_server = any(step.draft.kind == "server" for step in offer.steps)
            beside = ", --as NAME adds to it" if is_server else ""
            raise UsageError(f"nothing was written to {name}", fix=f"--force replaces the existing entries{beside}")
        if not offer.steps:
            raise self._only_agents(offer.incoming.drafts) or UsageError(
                "nothing to import", fix="acp-launch import lists the sources on this machine"
            )
        note(f"{name} already has all of it; nothing was changed")
