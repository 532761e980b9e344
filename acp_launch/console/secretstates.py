"""The state of each secret and where it comes from, shown with a plan or a validated profile on request."""

from collections.abc import Iterable, Mapping

from acp_launch.secret.value import Outcome


def state_lines(outcomes: Mapping[str, Outcome]) -> Iterable[str]:
    """Return a line per secret: `github  found  keyring (Secret Service)`."""
    if not outcomes:
        return ()
    from acp_launch.console.columns import columns  # for plan and validate --secrets only

    rows = [(name, outcome.state, outcome.source) for name, outcome in outcomes.items()]
    return columns(rows)


def states(outcomes: Mapping[str, Outcome]) -> dict[str, dict[str, str]]:
    """Return the same as data."""
    return {name: {"state": outcome.state, "source": outcome.source} for name, outcome in outcomes.items()}
