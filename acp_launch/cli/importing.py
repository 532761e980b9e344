"""
Servers and agents of other tools become part of a profile.

The order is: read, draft, show the change, ask, store the secrets, write the profile. In this order nothing is lost.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.app.newprofile import ProfileFiles, named_agent
from acp_launch.app.spec import load_settings, usable_profiles
from acp_launch.app.stores import Vault
from acp_launch.cli.verb import Argument, Option, Yes
from acp_launch.console import interop
from acp_launch.console.ask.terminal import ask_yes_or_no
from acp_launch.console.interop import join_names, note, show_change, show_findings
from acp_launch.console.stderr import can_ask_user
from acp_launch.errors import SecretError, UsageError
from acp_launch.interop import merge
from acp_launch.interop.drafts import (
    Draft,
    DraftSet,
    Echo,
    Spot,
    Token,
    collect_drafts,
    difference,
    holes,
    used_secrets,
)
from acp_launch.interop.merge import Step, Target, target
from acp_launch.interop.read import survey
from acp_launch.interop.tools import Source, Tool, at_home, read, sources, this_machine
from acp_launch.profile.discover import HOLDER, here, project_of
from acp_launch.profile.load import shown
from acp_launch.profile.scaffold import without_servers
from acp_launch.secret.redact import Redactor, redactor
from acp_launch.secret.value import Outcome
from acp_launch.settings.model import Settings

MAX_NAME_ATTEMPTS = 50
Named = Sequence[tuple[str, Token]]  # credentials, each with its secret's name


AGENT = "NAME|COMMAND"


class ImportRequest(NamedTuple):
    """The arguments and options of `import`."""

    source: Annotated[str | None, Argument("[SOURCE]", "A tool's name, or a file's path.")] = None
    into: Annotated[str | None, Option("--into", "The profile to import into.", "PROFILE")] = None
    only: Annotated[tuple[str, ...], Option("--only", "Import only this server or agent; repeatable.", "NAME")] = ()
    called: Annotated[str | None, Option("--as", "The name for the imported server.", "NAME")] = None
    origin: Annotated[str | None, Option("--from", "The tool of the file, if its name does not tell.", "TOOL")] = None
    agent: Annotated[str | None, Option("--agent -a", "The agent of a new profile, as for init.", AGENT)] = None
    dry_run: Annotated[bool, Option("--dry-run", "Show what would change without changing it.")] = False
    yes: Yes = False
    force: Annotated[bool, Option("--force", "Replace servers of the same name.")] = False
    as_json: Annotated[bool, Option("--json", "Print the list as JSON.")] = False


class CredentialStore:
    """The store for imported credentials. It is opened at first use, and not by an import without credentials."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._opened: Vault | None = None
        self._states: dict[str, Outcome] = {}

    @property
    def label(self) -> str:
        return self._vault.store.label

    def names(self, incoming: DraftSet, needed: Iterable[int], taken: Iterable[str]) -> list[str]:
        """Choose a name for each token; the names of `needed` tokens do not hold another value in the store.

        Raises:
            SecretError: the store cannot be read.
        """
        used = set(taken)
        values = {index: secret for index in needed if (secret := incoming.tokens[index].secret) is not None}
        for _ in range(MAX_NAME_ATTEMPTS):
            names = incoming.names(used)
            if unknown := [names[index] for index in values if names[index] not in self._states]:
                self._states |= self._vault.states(*unknown)
            known = {names[index]: (self._states[names[index]], secret) for index, secret in values.items()}
            occupied = {name for name, (it, secret) in known.items() if it.state != "missing" and it.secret != secret}
            if not occupied:
                return names
            used |= occupied
        raise SecretError("all names for the secret are taken", fix="acp-launch secret list")

    def store(self, named: Named, found: Sequence[Source]) -> None:
        """Store the credentials that have a value, and say so, and which files of `found` hold them.

        Raises:
            SecretError: a secret cannot be stored.
        """
        valued = [(name, token.secret) for name, token in named if token.secret is not None]
        for name, secret in valued:
            if self._states[name].state != "found":  # else it is the same value
                self._vault.write(name, secret, f'cannot store secret "{name}"')
        if valued:
            imported = Redactor()
            imported.register(*(secret for _, secret in valued))
            holding = [one for one in found if imported.text(one.text) != one.text]  # none for a very short secret
            interop.tell_of_kept([name for name, _ in valued], self.label, [one.file for one in holding or found])

    @property
    def _vault(self) -> Vault:
        if self._opened is None:
            self._opened = Vault(self._settings, may_offer=True)
        return self._opened


class ImportPlan(Struct, frozen=True):
    """A planned import: how each draft compares to the profile, which are `taken`, and a name for each secret."""

    incoming: DraftSet
    drafts: tuple[Draft, ...]
    steps: tuple[Step, ...]
    taken: tuple[Step, ...]
    names: tuple[str, ...]

    @property
    def tokens(self) -> Named:
        """The credentials that the taken entries refer to, each with its secret's name."""
        needed = dict.fromkeys(index for step in self.taken for index in holes(step.draft.shape))
        return [(self.names[index], self.incoming.tokens[index]) for index in needed]

    @property
    def echoes(self) -> list[Echo]:
        owners = {step.draft.name for step in self.taken}
        return [one for one in self.incoming.echoes if one.owner in owners]


def read_drafts(found: Iterable[Source], *, spared: Iterable[Spot] = (), same: Iterable[Spot] = ()) -> DraftSet:
    """Draft all entries; from here on their credentials are masked in all output. `spared` and `same` as in
    `DraftBuilder`.

    A password that is an ordinary word is not: it is in no text that is shown, and the word may be in a secret's name.
    """
    files = [(one.tool, one.root) for one in found]
    incoming = collect_drafts(files, str(project_of(here())), spared=spared, same=same)
    redactor.register(*(one.secret for one in incoming.tokens if one.secret is not None and not one.is_word))
    return incoming


def list_sources(*, as_json: bool) -> None:
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
    if tool:
        return (read(here() / at_home(source), tool),)
    return sources(source, this_machine(), project_of(here()), here())


def import_source(
    source: str, into: str, tool: Tool | None, request: ImportRequest, credentials: CredentialStore | None = None
) -> None:
    """Import `source` into the profile `into`; `credentials` is the store if the caller has opened it already.

    Raises:
        LaunchError: the source, the profile or the store is not usable; nothing was written.
    """
    settings, found = load_settings(), find_sources(source, tool)
    goal = target(into, settings, start=here())
    files = None
    agent = named_agent(request.agent, is_users=False) if request.agent else None
    if agent and goal.text is not None:
        own = {"command": agent.command, **({"args": [*agent.args]} if agent.args else {})}
        if difference(goal.root, Draft(agent.name, agent.name, "agent", own), ()) != "same":
            fix = "leave --agent out, or choose another name for a new profile"
            raise UsageError(f"{shown(goal.file)} exists, and keeps its agent", fix=fix)
    elif agent:
        files = ProfileFiles(goal.file.parent, settings.state, is_shared=goal.file.parent.name == HOLDER)
        start = without_servers(agent, schema=files.schema)
        goal = replace(goal, root={"agent": {"command": agent.command}}, start=start)
    _Import(found, goal, credentials or CredentialStore(settings), request, files).run()


def own_profiles() -> list[str]:
    """Name the profiles of the project and of the user, which an import can write to."""
    return [one.name for one in usable_profiles(load_settings()) if one.origin in ("project", "user")]


class _Import(Struct):
    found: Sequence[Source]
    goal: Target
    credentials: CredentialStore
    request: ImportRequest
    new_files: ProfileFiles | None

    def run(self) -> None:
        goal, request = self.goal, self.request
        can_write = not request.dry_run and (request.yes or can_ask_user())
        plan = self._plan(self.credentials if can_write else None)
        interop.tell_of_files(self.found)
        lost = [one for one in plan.incoming.lost if not request.only or one[0] in request.only]
        interop.tell_of_lost(lost, [one.file for one in self.found])
        interop.tell_of_drafts(plan.drafts, plan.steps, forced=request.force)
        interop.tell_of_off(one for one in plan.incoming.drafts if not request.only)
        if not plan.taken:
            self._nothing_new(plan)
            return
        text = self._text(plan)
        show_change(goal.file, goal.text, text)
        interop.tell_of_tokens(plan.tokens)
        if not can_write or request.yes:
            interop.tell_of_echoes(plan.echoes, plan.incoming.tokens)
        if request.dry_run:
            note("nothing was written (--dry-run)")
            return
        if not can_write:
            raise UsageError("there is no terminal to ask on; nothing was written", fix="--yes imports all of it")
        declined, spared, same = (set[Spot](),) * 3 if request.yes else self._ask(plan)
        if spared or same:
            plan = self._plan(self.credentials, spared=spared, same=same)
            text = self._text(plan)
        kept = [(name, token) for name, token in plan.tokens if token.spot not in declined]
        self.credentials.store(kept, self.found)
        if self.new_files:
            self.new_files.write(goal.file, text)
        else:
            merge.replace_file(goal.file, text, instead_of=goal.text)
        interop.tell_of_missing([pair for pair in plan.tokens if pair not in kept or pair[1].secret is None])
        note(f"{shown(goal.file)}: {join_names(step.name for step in plan.taken)} imported")

    def _text(self, plan: ImportPlan) -> str:
        return merge.apply_steps(self.goal.start if self.goal.text is None else self.goal.text, plan.taken)

    def _ask(self, plan: ImportPlan) -> tuple[set[Spot], set[Spot], set[Spot]]:
        """Ask whether to write, which tokens to store, and which other texts are the same token. Return the places of
        declined tokens, of those among them that are not secrets, and of texts that are the same.

        Raises:
            UsageError: the user does not want the profile changed.
        """
        if not ask_yes_or_no("Change it?"):
            raise UsageError("nothing was imported")
        label = self.credentials.label
        valued = [(name, token) for name, token in plan.tokens if token.secret is not None]
        no = [token for name, token in valued if not ask_yes_or_no(*interop.question(name, token, label))]
        spared, tokens = {token.spot for token in no if not token.is_sure}, plan.incoming.tokens
        asked = [one for one in plan.echoes if tokens[one.token].spot not in spared]
        same = {one.spot for one in asked if ask_yes_or_no(*interop.echo_question(one, tokens[one.token]))}
        return {token.spot for token in no}, spared, same

    def _plan(
        self, credentials: CredentialStore | None, *, spared: Iterable[Spot] = (), same: Iterable[Spot] = ()
    ) -> ImportPlan:
        """Plan with the drafts that the options ask for; without `credentials` the names of secrets may be taken.

        Raises:
            SecretError: the store cannot be read.
            UsageError: a name is unknown, --as does not have exactly one server, or a new profile would lack an agent.
        """
        incoming = read_drafts(self.found, spared=spared, same=same)
        incoming = replace(incoming, drafts=merge.mark_unfit(incoming.drafts))
        is_parent = self.goal.file.name.startswith("_")  # made to be extended, and so needs no agent of its own
        wants_agent = not {"agent", "extends"} & self.goal.root.keys() and not is_parent
        drafts = merge.choose_drafts(incoming.drafts, self.request.only, wants_agent=wants_agent)
        fit = [one for one in drafts if not one.unfit]
        kinds = [one.kind for one in fit]
        is_new = self.goal.text is None
        if (not fit and (is_new or self.request.called)) or (is_new and wants_agent and "agent" not in kinds):
            asked = drafts if self.request.only else incoming.drafts
            reasons = [f"{one.original or one.name}: {one.unfit}" for one in asked if one.unfit]
            raise self._refusal(incoming.drafts, fit, reasons)
        if self.new_files and "agent" in kinds:
            raise UsageError("--agent and --only both name an agent", fix="leave one of them out")
        if self.request.called and kinds.count("server") != 1:
            raise UsageError("--as names one server", fix="say which: --only NAME --as OTHER")
        called, root = self.request.called or "", self.goal.root
        others = set(used_secrets(merge.without(root, fit, called)))
        steps = merge.steps(root, fit, incoming.names(others), called)
        takes = ("new", "other") if self.request.force else ("new",)
        wanted = [step.draft for step in steps if step.difference in takes]
        needed = {index for one in wanted for index in holes(one.shape)}
        names = credentials.names(incoming, needed, others) if credentials else incoming.names(others)
        return ImportPlan(incoming, drafts, steps, merge.steps(root, wanted, names, called), tuple(names))

    def _refusal(self, drafts: Sequence[Draft], fit: Sequence[Draft], reasons: Sequence[str] = ()) -> UsageError:
        """Explain that the source has nothing to import, or no agent for a new profile, or only agents.

        `fit` are those that were chosen and can be imported. A profile has one agent, which only --force replaces.
        """
        agents = join_names(one.original for one in drafts if one.kind == "agent" and not one.unfit)
        off = join_names(one.original for one in drafts if one.disabled and not one.unfit)
        missing = f"{shown(self.goal.file)} does not exist yet, and the source has"
        if self.request.only and not fit:
            what = f"{join_names(self.request.only)} cannot be imported"
            fix = f"--only also takes {agents}" if agents else "acp-launch import lists the sources on this machine"
        elif agents and self.new_files:
            what, fix = (
                f"the source has only agents: {agents}",
                "leave --agent out to take one of them, with --only NAME",
            )
        elif agents and self.goal.text is None:
            what, fix = f"{missing} several agents for it", f"name one with --only: {agents}"
        elif agents:
            what = f"a profile has one agent, and the source has only agents: {agents}"
            fix = "say which: --only NAME; --force replaces the one that is there"
        elif fit:
            what, fix = f"{missing} no agent for it", "name the agent of the new profile: --agent claude"
        else:
            what = f"nothing in {join_names(shown(one.file) for one in self.found)} can be imported"
            fix = "acp-launch import lists the sources on this machine"
            fix = f"--only takes what is switched off there: {off}" if off else fix
        return UsageError(what, fix=fix, detail=list(map(interop.discreet, reasons)))

    def _nothing_new(self, plan: ImportPlan) -> None:
        """Report that nothing was imported.

        Raises:
            UsageError: entries of the same name differ, or the source has nothing to import.
        """
        name, agents = shown(self.goal.file), [one for one in plan.incoming.drafts if one.kind == "agent"]
        is_there = (
            self.goal.text is not None
            and len(agents) == 1
            and difference(self.goal.root, agents[0], plan.names) == "same"
        )
        if not plan.steps and not is_there:
            raise self._refusal(plan.incoming.drafts, ())
        if any(step.difference == "other" for step in plan.steps):
            is_server = any(step.draft.kind == "server" for step in plan.steps)
            beside = ", --as NAME adds to it" if is_server else ""
            raise UsageError(f"nothing was written to {name}", fix=f"--force replaces the existing entries{beside}")
        note(f"{name} already has all of it; nothing was changed")


def require_tool(name: str, tools: Mapping[str, Tool]) -> Tool:
    if name not in tools:
        raise UsageError(f'unknown tool "{name}"', fix=f"choose one of {', '.join(tools)}")
    return tools[name]
