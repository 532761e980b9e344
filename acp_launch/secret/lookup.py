"""
Every secret that is needed, in one pass, before anything starts.

The environment comes first; the store is asked only for the rest, and not even opened when there is none. The store
works in a thread that is given up after `limit`. Whatever was found is registered with the redactor at once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from acp_launch.secret import environment
from acp_launch.secret.bounded import Late, NoThread, bounded
from acp_launch.secret.outcome import Outcome, Store, StoreFault
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Secret

Waiting = Callable[[str, float, float], None]  # what is awaited, seconds so far, seconds at which that is an error
LONGEST = 600.0  # seconds that can be chosen for a store
T = TypeVar("T")


def look_up(
    names: Iterable[str],
    *,
    environ: Mapping[str, str],
    store: Callable[[], Store],
    limit: float,
    waiting: Waiting,
) -> dict[str, Outcome]:
    """One outcome for each name, in the order of `names`. `store` is called in this thread, and only if need be."""
    wanted = tuple(dict.fromkeys(names))
    known = environment.look(wanted, environ)
    if rest := [name for name in wanted if name not in known]:
        known |= _asked(store, rest, limit, waiting)
    redactor.register(*secrets(known).values())
    return {name: _fit(known[name]) for name in wanted}


def _fit(outcome: Outcome) -> Outcome:
    """Found is what a variable can hold."""
    if outcome.secret is None or "\0" not in outcome.secret.expose():
        return outcome
    reason = f"what is in the {outcome.source} holds a NUL character, which no variable can"
    return Outcome("unavailable", outcome.source, None, reason)


def secrets(outcomes: Mapping[str, Outcome]) -> dict[str, Secret]:
    """The values of those that were found."""
    return {name: outcome.secret for name, outcome in outcomes.items() if outcome.secret is not None}


def within(store: Store, work: Callable[[], T], *, limit: float, waiting: Waiting) -> T:
    """One piece of work of a store that was prepared, in time.

    Raises:
        StoreFault: as the store says; `unavailable` when it did not answer within `limit` seconds, or cannot be asked.
    """
    try:
        return bounded(work, limit=limit, waiting=lambda waited: waiting(f"answer of the {store.label}", waited, limit))
    except Late:
        raise _late(store.label, limit) from None
    except NoThread:
        reason = f"the {store.label} cannot be asked: no more threads are allowed"
        raise StoreFault("unavailable", reason, fix="raise the limit with `ulimit -u`") from None


def _late(label: str, limit: float) -> StoreFault:
    is_desktop = label.startswith("keyring")
    dialog = "; it may be waiting for somebody to answer a dialog" if is_desktop else ""
    first = "answer it and try again" if is_desktop else "try again"
    longer = f", or wait longer: export ACP_LAUNCH_SECRETS__TIMEOUT={2 * limit:g}s" if 2 * limit <= LONGEST else ""
    return StoreFault("unavailable", f"the {label} did not answer within {limit:g} s{dialog}", fix=f"{first}{longer}")


def _asked(store: Callable[[], Store], names: Sequence[str], limit: float, waiting: Waiting) -> Mapping[str, Outcome]:
    source = "the store"
    try:
        opened = store()
        source = opened.label
        opened.prepare()
        return within(opened, lambda: opened.read(names), limit=limit, waiting=waiting)
    except StoreFault as fault:
        return dict.fromkeys(names, Outcome(fault.state, source, None, fault.reason, fault.fix))
