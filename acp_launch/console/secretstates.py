"""Whether each secret is there, and from where; shown beside a plan or a validated profile when somebody asked."""

from collections.abc import Iterable, Mapping

from acp_launch.secret.value import Outcome


def state_lines(outcomes: Mapping[str, Outcome]) -> Iterable[str]:
    """`github  found  keyring (Secret Service)`, a line each."""
    if not outcomes:
        return ()
    from acp_launch.console.columns import columns

    rows = [(name, outcome.state, outcome.source) for name, outcome in outcomes.items()]
    return columns(rows)


def states(outcomes: Mapping[str, Outcome]) -> dict[str, dict[str, str]]:
    """The same as data."""
    return {name: {"state": outcome.state, "source": outcome.source} for name, outcome in outcomes.items()}
