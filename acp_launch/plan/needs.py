"""
The secrets that a profile refers to: `needs` lists them, `unmet` reports those that were not found, and `unfit` those
that cannot be sent as a header.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from acp_launch.plan.model import LaunchPlan, Origin, RemotePlan
from acp_launch.problem import KeyPath, Problem, dotted
from acp_launch.profile.load import Loaded
from acp_launch.profile.values import header_fault, templates
from acp_launch.secret.reference import SecretReference, parse, place
from acp_launch.secret.value import MAX_VALUE, Outcome, Secret, State, variable


class Need(Struct, frozen=True):
    """One reference to a secret; `origin` is the place of its `${`."""

    name: str
    origin: Origin


def needs(loaded: Loaded, *, without: Iterable[str] = ()) -> tuple[Need, ...]:
    """List every reference to a secret in the profile, file by file in the order of lines; each once per text.

    `without` names servers that will not be started.
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
    """Return a problem for each reference whose secret was not found."""
    return tuple(_problem(need, outcomes[need.name]) for need in needs if outcomes[need.name].state != "found")


def unfit(plan: LaunchPlan | None, secrets: Mapping[str, Secret]) -> tuple[Problem, ...]:
    """Return a problem for each header or variable whose secret does not fit in a header; values are never quoted."""
    headers = [
        value
        for server in (plan.servers if plan else ())
        if isinstance(server, RemotePlan)
        for value in server.sent.values()
        if value.secrets and all(secret.name in secrets for secret in value.secrets)
    ]
    return tuple(
        value.origin.problem(
            f"{fault}, but the secret in this one does",
            f"keep it as one line of ASCII: acp-launch secret set {value.secrets[0].name}",
        )
        for value in headers
        if (fault := header_fault(value.reveal(secrets)))
    )


def _problem(need: Need, outcome: Outcome) -> Problem:
    if outcome.state == "missing":
        message = f'secret "{need.name}" is not set in the {outcome.source}'
    else:
        message = f'cannot read secret "{need.name}": {outcome.reason}'
    return need.origin.problem(message, outcome.fix or next_command(need.name, outcome.state))


def next_command(name: str, state: State) -> str:
    """Return the fix for a secret that was not found, if the store does not give one."""
    export = f"export {variable(name)}=..."
    return {
        "missing": f"acp-launch secret set {name}",
        "locked": f"unlock it and try again, or {export}",
        "denied": f"try again and allow it, or {export}",
        "too large": f"store at most {MAX_VALUE // 1024} KiB: acp-launch secret set {name}",
    }.get(state, f"acp-launch secret set {name} shows how to choose another store; or {export}")
