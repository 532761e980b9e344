"""Each secret of a profile: there, and from where. Never a value."""

from collections.abc import Iterator, Mapping, Sequence

from acp_launch.checks.check import MACHINE, Check, of_problem, ok, problem
from acp_launch.checks.parts import Part
from acp_launch.plan.resolve import next_command, unfit
from acp_launch.secret.lookup import secrets
from acp_launch.secret.value import Outcome


def secret_checks(outcomes: Mapping[str, Outcome]) -> Iterator[Check]:
    for name, outcome in outcomes.items():
        facts = {"state": outcome.state, "source": outcome.source}
        if outcome.state == "found":
            yield ok("secret", name, f"found: {outcome.source}", **facts)
        else:
            why = outcome.reason or f"not in the {outcome.source}"
            yield problem("secret", name, why, way_out(name, outcome), **facts)


def way_out(name: str, outcome: Outcome) -> str:
    """What to do about one that was not found."""
    return outcome.fix or next_command(name, outcome.state)


def unfit_checks(parts: Sequence[Part], outcomes: Mapping[str, Outcome]) -> Iterator[Check]:
    """Those that their place cannot hold: a header is one line."""
    values = secrets(outcomes)
    for part in parts:
        if part.remote is not None:
            yield from (of_problem("server", part.server, found, MACHINE) for found in unfit(part.whole, values))
