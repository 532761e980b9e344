"""
The decision about a tool call: policy and call → allow, deny or ask, and by which rule (ACP v1 "Requesting
permission").

Pure. The first of these that applies decides:

1. `--approve none` denies everything.
2. A `deny` rule of the profile, if it is the first rule that matches, or the first of the file it is written in: a
   profile cannot allow what one that it extends denies. It overrides `--approve all` too.
3. `--approve all` allows; `--approve reads` allows calls of kind read or search, and nothing else without a question.
4. The user's remembered answers (`Remembered`); the latest one that matches.
5. The first rule of the profile that matches, and `permissions.default` if none does.

A call is judged with everything that is known: merged with earlier updates (C-56). A call without a kind is of kind
`other`, never of a harmless kind; and a harmless kind is trusted only if the user wrote it down (docs/agents.md: plans
are approved as `switch_mode`, URLs as `fetch`). A call that claims to read, but runs a command or brings a change, is
of those kinds too: a rule that allows must allow them all, and a rule that denies needs to name one.

An option is chosen by its kind, never by its position: gemini lists `allow_always` first, qwen lists two `allow_once`
(docs/agents.md). Denying selects a reject option; `cancelled` is not a denial, and some agents abort the whole turn on
it (C-64), so it is used only if nothing can be rejected. Allowing prefers `allow_once`: a choice that the agent
remembers is beyond any later policy.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from acp_launch.descent import find_links
from acp_launch.plan.model import LaunchPlan, Origin, RulePlan
from acp_launch.profile.model import Approval
from acp_launch.protocol import acp
from acp_launch.regex import regex
from acp_launch.session.events import Holds
from acp_launch.session.permission.globs import Links, in_path, in_text, is_allowed, is_caught, real, spellings, within
from acp_launch.session.permission.subject import NOTHING, UNKNOWN, Subject, input_digest, subject

# Answers that hold longer than once: how long, and for which tool calls.


READS = frozenset({"read", "search"})  # not fetch, think or switch_mode: adapters hide real decisions behind those
VAGUE = frozenset({"edit", "delete", "move", "fetch", "execute"})  # a tool's name alone does not say what it would do
_FUTURE = regex(r"\b(?:all|any|every|the)?\s*future(?:\s+sessions?)?\b|\b(?:all|any|every)\s+sessions?\b")
_ALWAYS = regex(r"\b(?:always|never|forever|permanently|for good)\b")
_ENDS = regex(
    r"session|conversation|restart|reload|today|tonight|temporar"
    r"|\b(?:until|till|for now|hours?|minutes?|days?|weeks?)\b"
    r"|\b(?:this|the|current|per)\s+(?:chat|thread|task|turn|prompt|run|request|time)\b"
)


def holds(kind: str, name: str) -> Holds:
    """Return how long an answer holds, from the kind and the name of its option.

    Agents call options "always" that they forget when they end, so an answer is permanent only if the name says so, and
    names no end.
    """
    if not kind.endswith("_always"):
        return "once"
    said = _FUTURE.sub(" always ", name.casefold())
    return "always" if _ALWAYS.search(said) and not _ENDS.search(said) else "session"


class Remembered(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored answer, and the call it was given to.

    It holds for calls with the same kind, tool, command, directory, address and other relevant input (`input_digest`),
    which name no other file. The title counts if the tool has no name, or if nothing else says what would be done.
    `session` is the one it holds in, by our name; None if it is permanent.
    """

    answer: Literal["allow", "deny"]
    kind: str
    tool: str
    title: str
    paths: tuple[str, ...]
    commands: tuple[str, ...]
    directories: tuple[str, ...]
    addresses: tuple[str, ...]
    since: float  # Unix seconds
    input: str = NOTHING
    session: str | None = None

    def __str__(self) -> str:
        return f"always {self.answer}" if self.session is None else f"{self.answer} in this session"

    @property
    def scope(self) -> str:
        """Say in words which calls it holds for."""
        what = [f"`{text}`" for text in (*self.commands, *self.paths, *self.addresses) if text]
        titled = [f'"{self.title}"'] if self.title and self.title not in self.commands else []
        where = [f"in {place}" for place in self.directories if place]
        inputs = ["with this input"] if self.input and not (self.commands or self.paths) else []
        return " ".join([self.tool or self.kind or "other", *what, *titled, *where, *inputs])


def covers(kept: Remembered, about: Subject, input: str) -> bool:
    """Whether an answer holds for this call; `input` is its `input_digest`."""
    is_no = kept.answer == "deny"  # given before we knew where an agent names its tools: it holds for any
    return (
        kept.kind == about.kind
        and (kept.tool == about.tool or (is_no and not kept.tool))
        and kept.commands == _commands(about)
        and kept.directories == about.directories
        and kept.addresses == about.addresses
        and bool(kept.paths) == bool(about.paths)
        and set(about.paths) <= set(kept.paths)
        and (not kept.title or kept.title == about.title)
        and kept.input == input
    )


def covers_service(kept: Remembered, about: Subject, *, cwd: str) -> bool:
    """Whether an answer to a call of the agent's also holds for the file or command that we serve to carry it out.

    That request comes without the agent's title and tool: its kind, its file or its command in the same directory must
    do.
    """
    if kept.answer != "allow" or kept.kind != about.kind or about.addresses:
        return False
    if kept.kind == "edit":
        return bool(about.paths) and set(about.paths) <= set(kept.paths) and not about.commands
    places = {cwd, *kept.directories}
    is_known = all(any(reading in kept.commands for reading in readings) for readings in about.commands)
    return kept.kind == "execute" and bool(about.commands) and is_known and set(about.directories) <= places


def remember(call: dict[str, Any], allowed: bool, about: Subject, *, since: float) -> Remembered | None:
    """Return the answer to store; None for a call that does not say enough to be recognized again. `about` is its
    subject.

    Allowing a change of mode is never stored: every plan is different, and they all look alike. The name of a tool
    alone is not enough: without an input, or a title of a call with a kind, nothing identifies the call.
    """
    is_clear = UNKNOWN not in (*about.paths, *about.directories) and all(about.commands)
    if not is_clear or (allowed and about.kind in ("switch_mode", "think")):
        return None
    is_specific = bool(about.paths or about.commands or about.addresses)
    input = input_digest(call, about)
    is_titled = about.kind in VAGUE | READS and about.title not in ("", about.tool)
    if not (is_specific or input or is_titled):
        return None
    is_named = bool(about.tool) and (is_specific or (bool(input) and about.kind not in VAGUE))
    return Remembered(
        answer="allow" if allowed else "deny",
        kind=about.kind,
        tool=about.tool,
        title="" if is_named else about.title,
        paths=about.paths,
        commands=_commands(about),
        directories=about.directories,
        addresses=about.addresses,
        since=since,
        input=input,
    )


def _commands(about: Subject) -> tuple[str, ...]:
    return tuple(readings[0] if readings else "" for readings in about.commands)


Approve = Literal["all", "reads", "none"]
RUNS = "execute"
ACTS = {RUNS: "runs a command", "edit": "changes files"}

OVERRULED = "overruled: "  # begins why a rule that matches does not decide
ALLOW = ("allow_once", "allow_always")
DENY = ("reject_once", "reject_always")


class Policy(Struct, frozen=True):
    """The rules of one launch.

    `default` and `rules` from the profile, `approve` from the command line; `cwd` is the session's. An allow rule about
    commands is about those that run there, or in `further` directories, and below.
    """

    default: Approval
    approve: Approve | None = None
    rules: tuple[RulePlan, ...] = ()
    remembered: tuple[Remembered, ...] = ()  # the oldest first
    cwd: str = "/"
    further: tuple[str, ...] = ()
    home: str = ""  # the meaning of `~`; without it no rule allows such a path
    links: Links = ()  # of the session's directories and the home
    session: str = ""  # by our name; its answers hold besides the permanent ones

    @property
    def kept(self) -> tuple[Remembered, ...]:
        """Return the answers that hold here, the oldest first."""
        return tuple(answer for answer in self.remembered if answer.session in (None, self.session))

    def about(self, call: dict[str, Any]) -> Subject:
        return subject(call, cwd=self.cwd, home=self.home, links=self.links)


class Verdict(Struct, frozen=True):
    """The decision.

    `by` names its cause for the user; `origin` is where that is written; `is_default`: no rule matched.
    """

    answer: Approval
    by: str
    origin: Origin | None = None
    is_default: bool = False


def policy(
    plan: LaunchPlan, *, approve: Approve | None = None, remembered: tuple[Remembered, ...] = (), home: str = ""
) -> Policy:
    if plan.machine:  # the files that calls name are on another machine
        return Policy(plan.permission, approve, plan.rules, remembered, str(plan.directory), (), "", ())
    further = (str(plan.project), *map(str, plan.additional_directories))
    linked = find_links((str(plan.directory), *further, *([home] if home else [])))
    return Policy(plan.permission, approve, plan.rules, remembered, str(plan.directory), further, home, linked)


def judge(policy: Policy, call: dict[str, Any], about: Subject | None = None) -> Verdict:
    """Judge a tool call with all that is known of it: allow, deny or ask. `about` is its subject, if known."""
    if policy.approve == "none":
        return Verdict("deny", "--approve none")
    about = about or policy.about(call)
    rule = _deciding(policy, about)
    if rule is not None and rule.answer == "deny":
        return Verdict("deny", str(rule), rule.origin)
    if policy.approve is not None:
        return _approve(policy, about)
    if (kept := _kept_answer(policy, call, about)) is not None:
        return Verdict(kept.answer, f"your earlier answer: {kept}")
    if rule is not None:
        return Verdict(rule.answer, str(rule), rule.origin)
    return Verdict(policy.default, f"permissions.default: {policy.default}", is_default=True)


def _deciding(policy: Policy, about: Subject) -> RulePlan | None:
    """Return the first rule that matches; but a file whose own first one denies is not overruled by one above it."""
    firsts: dict[str, RulePlan] = {}
    for rule in policy.rules:
        if rule.origin.source not in firsts and not _mismatch(policy, rule, about):
            firsts[rule.origin.source] = rule
    denying = (rule for rule in firsts.values() if rule.answer == "deny")
    return next(denying, None) or next(iter(firsts.values()), None)


def _kept_answer(policy: Policy, call: dict[str, Any], about: Subject) -> Remembered | None:
    """Return the latest answer that holds for this call."""
    input = input_digest(call, about) if policy.remembered else NOTHING
    return next((kept for kept in reversed(policy.kept) if covers(kept, about, input)), None)


def consider(policy: Policy, call: dict[str, Any]) -> Iterator[tuple[RulePlan, str]]:
    """Yield every rule up to the one that decides, and why it does not; an empty text for the one that does."""
    about = policy.about(call)
    deciding = _deciding(policy, about)
    for rule in policy.rules:
        if rule is deciding:
            yield rule, ""
            return
        why = _mismatch(policy, rule, about)
        yield rule, why or f"{OVERRULED}{deciding} denies"


def _approve(policy: Policy, about: Subject) -> Verdict:
    by = f"--approve {policy.approve}"
    if policy.approve == "all" or (about.kind in READS and not about.acts):
        return Verdict("allow", by)
    return Verdict("deny" if policy.default == "deny" else "ask", by)


def _mismatch(policy: Policy, rule: RulePlan, about: Subject) -> str:
    """Return why the rule does not match, continuing "no match: "; empty if it does."""
    match = rule.match
    if why := _other_kind(rule, about):
        return why
    if match.tool and not in_text(match.tool, about.tool):
        return f"its tool is {about.tool}" if about.tool else "it names no tool"
    if match.title and not in_text(match.title, about.title):
        return f'its title is "{about.title}"'
    return _other_paths(policy, rule, about) or _other_commands(rule, about) or _elsewhere(policy, rule, about)


def _other_kind(rule: RulePlan, about: Subject) -> str:
    globs = rule.match.kind
    if not globs:
        return ""
    is_named = in_text(globs, about.kind or "other")
    acts = about.acts if about.kind in READS else frozenset()
    if rule.answer != "allow" and any(in_text(globs, act) for act in acts):
        return ""
    if not is_named:
        return f"its kind is {about.kind or 'not said'}"
    beyond = [act for act in ("execute", "edit") if act in acts and not in_text(globs, act)]
    if rule.match.command and RUNS in beyond:
        beyond.remove(RUNS)  # the rule names it
    if rule.answer != "allow" or not beyond:
        return ""
    return f"its kind is {about.kind}, and it {ACTS[beyond[0]]}"


def _other_paths(policy: Policy, rule: RulePlan, about: Subject) -> str:
    globs = rule.match.path
    if not globs:
        return ""
    if not about.paths:
        return "it names no file"
    outside = [path for path in about.paths if not any(in_path(globs, each) for each in spellings(path, policy.links))]
    if rule.answer != "allow":
        return f"no glob matches {_list_paths(about.paths)}" if len(outside) == len(about.paths) else ""
    if outside:
        return f"no glob matches {_list_paths(outside)}"
    if (about.commands or about.kind == RUNS) and not (rule.match.command or rule.match.kind):
        return "it runs a command, and the rule is only about files"
    return ""


def _other_commands(rule: RulePlan, about: Subject) -> str:
    globs = rule.match.command
    if not globs:
        return ""
    if not about.commands:
        return "it names no command"
    if rule.answer != "allow":
        return "" if any(is_caught(globs, readings) for readings in about.commands) else "no glob matches its command"
    if all(is_allowed(globs, readings) for readings in about.commands):
        return ""
    if any(in_text(globs, reading) for readings in about.commands for reading in readings):
        return "the command holds a shell operator that no glob has"
    return "no glob matches its command"


def _elsewhere(policy: Policy, rule: RulePlan, about: Subject) -> str:
    """Return why the command's directory does not match. `npm test` is a different command in another directory."""
    if rule.answer != "allow" or not rule.match.command:
        return ""
    roots = [real(root, policy.links) for root in (policy.cwd, *policy.further)]
    outside = [place for place in about.directories if all(within(place, root) is None for root in roots)]
    return f"it runs in {_list_paths(outside)}, outside the session's directories" if outside else ""


def _list_paths(paths: Sequence[str]) -> str:
    return ", ".join(path or "an unreadable path" for path in paths)


def choose(allow: bool, options: Sequence[Any], always: bool = False) -> str | None:
    """Return the id of the option to select, or None if none of that kind was offered.

    `always` prefers one that the agent itself remembers.
    """
    offered: dict[str, object] = {}
    for option in options:
        if isinstance(option, dict) and isinstance(kind := option.get("kind"), str):
            offered.setdefault(kind, option.get("optionId"))
    kinds = ALLOW if allow else DENY
    for kind in reversed(kinds) if always else kinds:
        if isinstance(found := offered.get(kind), str):
            return found
    return None


def distinct(options: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the options that can be chosen; of several with the same id only the first counts."""
    found: dict[str, dict[str, Any]] = {}
    for option in options:
        if isinstance(option, dict) and isinstance(id := option.get("optionId"), str):
            found.setdefault(id, option)
    return list(found.values())


def is_choice(options: Sequence[Any]) -> bool:
    """Whether to allow would be to choose for the user: several options of a kind allow, and none rejects."""
    kinds = [option.get("kind") for option in distinct(options)]
    return any(kinds.count(kind) > 1 for kind in ALLOW) and not any(kind in DENY for kind in kinds)


def chosen_name(option_id: str | None, options: Sequence[Any]) -> str:
    """Return the name of an option that was chosen; empty if no other of its kind was offered."""
    offered = distinct(options)
    option = next((each for each in offered if each["optionId"] == option_id), {})
    is_one_of_several = sum(each.get("kind") == option.get("kind") for each in offered) > 1
    return acp.text(option.get("name")) if option and is_one_of_several else ""
