"""
Which secrets a profile needs, where it says so, and what is wrong when one cannot be had. Nothing is looked up here.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from acp_launch.document.keypath import KeyPath, dotted
from acp_launch.plan.model import LaunchPlan, Origin, RemotePlan
from acp_launch.problem import Problem
from acp_launch.profile.address import header_fault
from acp_launch.profile.load import Loaded
from acp_launch.profile.templates import templates
from acp_launch.secret.environment import variable
from acp_launch.secret.outcome import MAX_VALUE, Outcome, State
from acp_launch.secret.reference import SecretReference, parse, place
from acp_launch.secret.value import Secret


class Need(Struct, frozen=True):
    """One reference to a secret; `origin` is the place of its `${`."""

    name: str
    origin: Origin


def needs(loaded: Loaded, *, without: Iterable[str] = ()) -> tuple[Need, ...]:
    """Every reference to a secret in the profile, in the order of its lines, of one file after the other; twice in one
    text counts once.

    `without` names servers that nobody will start.
    """
    unused = {("mcp_servers", name) for name in without}
    used = ((path, template) for path, template in templates(loaded.profile) if path[:2] not in unused)
    found = [need for path, template in used for need in _within(loaded, path, template)]
    return tuple(sorted(found, key=lambda need: (need.origin.source, need.origin.line, need.origin.column)))


def _within(loaded: Loaded, path: KeyPath, template: str) -> Iterable[Need]:
    for part in dict.fromkeys(parse(template)):
        if isinstance(part, SecretReference):
            at = loaded.positions.where(path, offset=place(template, part))
            yield Need(part.name, Origin(at.file, at.line, at.column, dotted(path)))


def unmet(needs: Iterable[Need], outcomes: Mapping[str, Outcome]) -> tuple[Problem, ...]:
    """One problem for each reference whose secret was not found."""
    return tuple(_problem(need, outcomes[need.name]) for need in needs if outcomes[need.name].state != "found")


def unfit(plan: LaunchPlan | None, secrets: Mapping[str, Secret]) -> tuple[Problem, ...]:
    """A problem for each header that its secret would break into two; no value is repeated."""
    headers = [
        value
        for server in (plan.servers if plan else ())
        if isinstance(server, RemotePlan)
        for value in server.headers.values()
        if value.secrets and all(secret.name in secrets for secret in value.secrets)
    ]
    return tuple(
        value.origin.problem(
            f"{fault}, and the secret in this one does",
            f"keep it as one line: acp-launch secret set {value.secrets[0].name}",
        )
        for value in headers
        if (fault := header_fault(value.reveal(secrets)))
    )


def _problem(need: Need, outcome: Outcome) -> Problem:
    if outcome.state == "missing":
        message = f'no secret named "{need.name}" in the {outcome.source}'
    else:
        message = f'the secret "{need.name}" cannot be had: {outcome.reason}'
    return need.origin.problem(message, outcome.fix or next_command(need.name, outcome.state))


def next_command(name: str, state: State) -> str:
    """What to do about a secret that was not found, when the store does not know better."""
    export = f"export {variable(name)}=..."
    return {
        "missing": f"acp-launch secret set {name}",
        "locked": f"unlock it and try again, or {export}",
        "denied": f"try again and allow it, or {export}",
        "too large": f"keep at most {MAX_VALUE // 1024} KiB: acp-launch secret set {name}",
    }.get(state, f"acp-launch secret set {name} says how to choose another store; or {export}")
