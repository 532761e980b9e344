"""
The verb `import`: servers and agents of other tools become part of a profile.

The order is: read, draft, show the change, ask, store the secrets, write the profile. In this order nothing is lost.
"""

import shlex
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.cli.drafting import CredentialStore, ProfileFiles, installed_schema, named_agent
from acp_launch.cli.planning import here
from acp_launch.console import interop
from acp_launch.console.ask.terminal import agreed, possible
from acp_launch.console.interop import listed, note, show_change, show_findings
from acp_launch.errors import UsageError
from acp_launch.interop import merge
from acp_launch.interop.drafts import Draft, DraftSet, Spot, Token, collect_drafts, holes, used_secrets
from acp_launch.interop.merge import Step, Target, replace_file, target
from acp_launch.interop.read import survey
from acp_launch.interop.tools import Source, Tool, at_home, read, sources, this_machine
from acp_launch.profile.discover import HOLDER, discover, project_of
from acp_launch.profile.load import shown
from acp_launch.profile.scaffold import without_servers
from acp_launch.secret.redact import redactor
from acp_launch.settings.load import load
from acp_launch.settings.model import Settings


class ImportRequest(Struct, frozen=True):
    """The options of `import`; `called` names the one server that is imported, `agent` the agent of a new profile."""

    only: tuple[str, ...]
    called: str
    agent: str
    dry_run: bool
    yes: bool
    force: bool


class ImportPlan(Struct, frozen=True):
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


def list_(*, as_json: bool) -> None:
    """List the sources of an import on this machine."""
    found = list(survey(this_machine(), project_of(here())))
    show_findings(found, as_json=as_json, is_first=not own_profiles())
    if not found and not as_json:
        note("no configuration of another tool was found; to import a file: acp-launch import FILE --into PROFILE")


def find_sources(source: str, tool: Tool | None) -> tuple[Source, ...]:
    """Return the files of `source`; with `tool` it is the path of a file of that tool.

    Raises:
        LaunchError: it is neither a tool nor a file, or the file is not valid.
    """
    return (
        (read(here() / at_home(source), tool),) if tool else sources(source, this_machine(), project_of(here()), here())
    )


def import_source(
    source: str, into: str, tool: Tool | None, request: ImportRequest, credentials: CredentialStore | None = None
) -> None:
    """Import `source` into the profile `into`; `credentials` is the store if the caller has opened it already.

    Raises:
        LaunchError: the source, the profile or the store is not usable; nothing was written.
    """
    settings, files_found = load(), find_sources(source, tool)
    goal, new_files = target(into, settings, start=here()), None
    if request.agent:
        new_files = _new_files(goal, settings)
        goal = _with_agent(goal, request.agent, new_files)
    _Import(files_found, goal, credentials or CredentialStore(settings), request, new_files).run()


def own_profiles() -> list[str]:
    """Name the profiles of the project and of the user, which an import can write to."""
    found = discover(start=here(), settings=load())
    return [one.name for one in found if one.origin in ("project", "user") and not one.shadowed_by]


def _new_files(goal: Target, settings: Settings) -> ProfileFiles:
    """Return the files beside a new profile; a profile at a path of its own has none.

    Raises:
        UsageError: the profile exists.
    """
    if goal.text is not None:
        what = f"{shown(goal.file)} exists, and keeps its agent"
        raise UsageError(what, fix="leave --agent out, or choose another name for a new profile")
    is_shared = goal.file.parent.name == HOLDER
    return ProfileFiles(
        goal.file.parent, installed_schema(settings.state) if is_shared else None, is_shared=is_shared, copies=False
    )


def _with_agent(goal: Target, agent: str, new_files: ProfileFiles) -> Target:
    """Let a new profile begin with a known agent, or with one of this command line."""
    known = named_agent(agent, is_users=False)
    start = without_servers(known, schema=new_files.schema)
    return replace(goal, root={"agent": {"command": known.command}}, start=start)


class _Import:
    def __init__(
        self,
        found: Sequence[Source],
        goal: Target,
        credentials: CredentialStore,
        request: ImportRequest,
        new_files: ProfileFiles | None,
    ) -> None:
        self._found = found
        self._project = project_of(here())
        self._goal = goal
        self._credentials = credentials
        self._request = request
        self._new_files = new_files

    def run(self) -> None:
        can_write = not self._request.dry_run and (self._request.yes or possible())
        plan = self._plan(ask_store=can_write)
        interop.tell_of_files(self._found)
        interop.tell_of_drafts(plan.drafts, plan.steps, forced=self._request.force)
        if not plan.taken:
            self._nothing_new(plan)
            return
        show_change(self._goal.file, self._goal.text, plan.text)
        interop.tell_of_tokens(plan.tokens)
        if self._request.dry_run:
            note("nothing was written (--dry-run)")
            return
        if not can_write:
            raise UsageError("there is no terminal to ask on; nothing was written", fix="--yes imports all of it")
        self._carry_out(plan)

    def _carry_out(self, plan: ImportPlan) -> None:
        declined = set() if self._request.yes else self._asked(plan)
        if declined:
            unsure = [token.spot for _, token in plan.tokens if token.spot in declined and not token.is_sure]
            plan = self._plan(ask_store=True, spared=unsure)
        wanted = [(name, token.secret) for name, token in plan.tokens if token.spot not in declined]
        kept = [(name, secret) for name, secret in wanted if secret is not None]
        self._credentials.store(kept)
        if self._new_files is None:
            replace_file(self._goal.file, plan.text, instead_of=self._goal.text)
        else:
            self._new_files.write(self._goal.file, plan.text)
        if kept:
            interop.tell_of_kept([name for name, _ in kept], self._credentials.label, [one.file for one in self._found])
        interop.tell_of_missing([pair for pair in plan.tokens if pair[0] not in dict(kept)])
        note(f"{shown(self._goal.file)}: {listed(step.name for step in plan.taken)} imported")

    def _asked(self, plan: ImportPlan) -> set[Spot]:
        """Ask whether to write, and which tokens to store; return the tokens that the user declined.

        Raises:
            UsageError: the user does not want the profile changed.
        """
        if not agreed("Change it?"):
            raise UsageError("nothing was written")
        valued = [(name, token) for name, token in plan.tokens if token.secret is not None]
        return {
            token.spot for name, token in valued if not agreed(*interop.question(name, token, self._credentials.label))
        }

    def _plan(self, *, ask_store: bool, spared: Iterable[Spot] = ()) -> ImportPlan:
        incoming = collect_drafts([(one.tool, one.root) for one in self._found], str(self._project), spared=spared)
        redactor.register(*(token.secret for token in incoming.tokens if token.secret is not None))
        drafts = self._chosen(incoming)
        fit = [one for one in drafts if not one.unfit]
        others = set(used_secrets(merge.without(self._goal.root, fit, self._request.called)))
        steps = merge.steps(self._goal.root, fit, incoming.names(others), self._request.called)
        drafted = [
            step.draft
            for step in steps
            if step.difference == "new" or (step.difference == "other" and self._request.force)
        ]
        needed = {index for one in drafted for index in holes(one.shape)}
        names = self._credentials.names(incoming, needed, others) if ask_store else incoming.names(others)
        taken = merge.steps(self._goal.root, drafted, names, self._request.called)
        text = merge.apply_steps(self._goal.start if self._goal.text is None else self._goal.text, taken)
        return ImportPlan(incoming, drafts, steps, taken, tuple(names), text)

    def _chosen(self, incoming: DraftSet) -> tuple[Draft, ...]:
        """Choose the drafts that the options ask for.

        Raises:
            UsageError: a name is unknown, --as does not have exactly one server, or a new profile would lack an agent.
        """
        wants_agent = not {"agent", "extends"} & self._goal.root.keys() and not self._is_parent
        drafts = merge.mark_unfit(merge.choose_drafts(incoming.drafts, self._request.only, wants_agent=wants_agent))
        fit = [one for one in drafts if not one.unfit]
        if self._request.called and sum(one.kind == "server" for one in fit) != 1:
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
        return UsageError(what, fix="name the agent of the new profile: --agent claude", detail=_unfit_agents(drafts))

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

    def _nothing_new(self, plan: ImportPlan) -> None:
        """Report that nothing was imported.

        Raises:
            UsageError: entries of the same name differ, or the source has nothing to import.
        """
        name = shown(self._goal.file)
        if any(step.difference == "other" for step in plan.steps):
            is_server = any(step.draft.kind == "server" for step in plan.steps)
            beside = ", --as NAME adds to it" if is_server else ""
            raise UsageError(f"nothing was written to {name}", fix=f"--force replaces the existing entries{beside}")
        if not plan.steps:
            raise self._only_agents(plan.incoming.drafts) or UsageError(
                "nothing to import",
                fix="acp-launch import lists the sources on this machine",
                detail=_unfit_agents(plan.incoming.drafts),
            )
        note(f"{name} already has all of it; nothing was changed")


def _unfit_agents(drafts: Sequence[Draft]) -> list[str]:
    """Say why agents of the source cannot be imported, if they were not asked for by name."""
    return [interop.discreet(f"{one.original}: {one.unfit}") for one in drafts if one.kind == "agent" and one.unfit]
