"""
Policy, and a tool call → allow, deny or ask, and by which rule: a pure function (ACP v1 "Requesting permission").

Who decides, the first that has something to say:

1. `--approve none` denies everything.
2. A `deny` rule of the profile, where it is the first rule that matches: it stands against `--approve all` too.
3. `--approve all` allows; `--approve reads` allows what is of kind read or search, and nothing else unasked.
4. What the person answered before, to be kept (`Remembered`); the latest such answer.
5. The first rule of the profile that matches, and `permissions.default` where none does.

A call is judged as it is known: merged with all that was told of it before (C-56). One without a kind is of kind
`other` and of no kind that sounds harmless; and what sounds harmless is believed only where the user wrote it down
(facts/acp.md 3.4: plans are approved as `switch_mode`, URLs as `fetch`).

An option is chosen by its kind, never by its position: gemini lists `allow_always` first, qwen lists two
`allow_once` (facts/agents.md). Denying selects a reject option; `cancelled` is not a denial, some agents abort the
whole turn on it (C-64), so it is used only when nothing can be rejected. Allowing prefers `allow_once`: a remembered
choice lives in the agent, beyond any later policy.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from acp_launch.plan.model import LaunchPlan, Origin, RulePlan
from acp_launch.profile.model import Approval
from acp_launch.session.permission.globs import in_path, in_text, is_allowed, is_caught
from acp_launch.session.permission.subject import UNKNOWN, Subject, command, paths, subject

__all__ = ["Policy", "Remembered", "Verdict", "choose", "command", "considered", "judge", "paths", "policy"]

Approve = Literal["all", "reads", "none"]
READS = frozenset({"read", "search"})  # not fetch, think or switch_mode: adapters hide real decisions behind those
RUNS = "execute"
VAGUE = frozenset({"edit", "delete", "move", "fetch", "execute"})  # a tool's name alone does not say what it would do

ALLOW = ("allow_once", "allow_always")
DENY = ("reject_once", "reject_always")


class Remembered(Struct, frozen=True, kw_only=True):
    """
    An answer that was given to be kept, and the call it was given to: it holds for calls that are the same in kind,
    tool, command, place and address, and name no other file. The title counts where the tool has no name, or where
    nothing else says what would be done.
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


class Policy(Struct, frozen=True):
    """
    `default` and `rules` from the profile, `approve` from the command line; `cwd` is the session's. An allow rule about
    commands is about those that are run there, or in `further` directories, and below.
    """

    default: Approval
    approve: Approve | None = None
    rules: tuple[RulePlan, ...] = ()
    remembered: tuple[Remembered, ...] = ()  # the oldest first
    cwd: str = "/"
    further: tuple[str, ...] = ()
    home: str = ""  # what `~` stands for; without it no rule allows such a path


class Verdict(Struct, frozen=True):
    """`by` says who decided, for people; `origin` where that is written; `is_default` when no rule had a say."""

    answer: Approval
    by: str
    origin: Origin | None = None
    is_default: bool = False


def policy(
    plan: LaunchPlan, *, approve: Approve | None = None, remembered: tuple[Remembered, ...] = (), home: str = ""
) -> Policy:
    """The policy of one launch."""
    further = (str(plan.project), *map(str, plan.additional_directories))
    return Policy(plan.permission, approve, plan.rules, remembered, str(plan.cwd), further, home)


def judge(policy: Policy, call: dict[str, Any]) -> Verdict:
    """Allow, deny or ask, for a tool call with all that is known of it."""
    if policy.approve == "none":
        return Verdict("deny", "--approve none")
    about = subject(call, cwd=policy.cwd, home=policy.home)
    rule = next((rule for rule in policy.rules if not _mismatch(policy, rule, about)), None)
    if rule is not None and rule.answer == "deny":
        return Verdict("deny", str(rule), rule.origin)
    if policy.approve is not None:
        return _approved(policy, about)
    if (kept := next((kept for kept in reversed(policy.remembered) if covers(kept, about)), None)) is not None:
        return Verdict(kept.answer, f"your earlier answer: always {kept.answer}")
    if rule is not None:
        return Verdict(rule.answer, str(rule), rule.origin)
    return Verdict(policy.default, f"permissions.default: {policy.default}", is_default=True)


def considered(policy: Policy, call: dict[str, Any]) -> Iterator[tuple[RulePlan, str]]:
    """Every rule up to the first that matches, and why it does not; the empty text for the one that does."""
    about = subject(call, cwd=policy.cwd, home=policy.home)
    for rule in policy.rules:
        why = _mismatch(policy, rule, about)
        yield rule, why
        if not why:
            return


def _approved(policy: Policy, about: Subject) -> Verdict:
    by = f"--approve {policy.approve}"
    if policy.approve == "all" or about.kind in READS:
        return Verdict("allow", by)
    return Verdict("deny" if policy.default == "deny" else "ask", by)


def _mismatch(policy: Policy, rule: RulePlan, about: Subject) -> str:
    """Why the rule does not match, continuing "no match: "; empty when it does."""
    match = rule.match
    if match.kind and not in_text(match.kind, about.kind or "other"):
        return f"its kind is {about.kind or 'not said'}"
    if match.tool and not in_text(match.tool, about.tool):
        return f"its tool is {about.tool}" if about.tool else "it names no tool"
    if match.title and not in_text(match.title, about.title):
        return f'its title is "{about.title}"'
    return _other_paths(rule, about) or _other_commands(rule, about) or _elsewhere(policy, rule, about)


def _other_paths(rule: RulePlan, about: Subject) -> str:
    globs = rule.match.path
    if not globs:
        return ""
    if not about.paths:
        return "it names no file"
    outside = [path for path in about.paths if not in_path(globs, path)]
    if rule.answer != "allow":
        return f"no glob matches {_listed(about.paths)}" if len(outside) == len(about.paths) else ""
    if outside:
        return f"no glob matches {_listed(outside)}"
    if (about.commands or about.kind == RUNS) and not (rule.match.command or rule.match.kind):
        return "it runs a command, and the rule speaks of files only"
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
    """`npm test` is another command in another directory."""
    if rule.answer != "allow" or not rule.match.command:
        return ""
    roots = (policy.cwd, *policy.further)
    outside = [place for place in about.directories if not any(_is_within(place, root) for root in roots)]
    return f"it runs in {_listed(outside)}, outside the session's directories" if outside else ""


def _is_within(path: str, root: str) -> bool:
    return f"{path}/".startswith(f"{root.rstrip('/')}/")


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(path or "a path that cannot be told" for path in paths)


def covers(kept: Remembered, about: Subject) -> bool:
    """Whether an answer holds for this call."""
    return (
        (kept.kind, kept.tool) == (about.kind, about.tool)
        and kept.commands == _commands(about)
        and kept.directories == about.directories
        and kept.addresses == about.addresses
        and bool(kept.paths) == bool(about.paths)
        and set(about.paths) <= set(kept.paths)
        and (not kept.title or kept.title == about.title)
    )


def remember(call: dict[str, Any], allowed: bool, *, cwd: str, home: str, since: float) -> Remembered | None:
    """
    The answer as it may be kept; None for a call that does not say enough to be known again.

    Allowing a change of mode is never kept: every plan is another, and they all look alike.
    """
    about = subject(call, cwd=cwd, home=home)
    is_clear = UNKNOWN not in (*about.paths, *about.directories) and all(about.commands)
    if not is_clear or (allowed and about.kind in ("switch_mode", "think")):
        return None
    is_specific = bool(about.paths or about.commands or about.addresses)
    is_named = bool(about.tool) and (is_specific or about.kind not in VAGUE)
    if not (is_named or is_specific or about.title):
        return None
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
    )


def _commands(about: Subject) -> tuple[str, ...]:
    return tuple(readings[0] if readings else "" for readings in about.commands)


def choose(allow: bool, options: Sequence[Any], always: bool = False) -> str | None:
    """
    The id of the option to select, or None when none of that kind was offered.

    `always` prefers one that the agent itself is to remember.
    """
    offered: dict[object, object] = {}
    for option in options:
        if isinstance(option, dict):
            offered.setdefault(option.get("kind"), option.get("optionId"))
    kinds = ALLOW if allow else DENY
    for kind in reversed(kinds) if always else kinds:
        if isinstance(found := offered.get(kind), str):
            return found
    return None
