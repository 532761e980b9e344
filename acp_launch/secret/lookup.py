"""
Every secret that is needed, in one pass, before anything starts.

The environment comes first; the store is asked only for the rest, and not even opened when there is none. The store
works in a thread that is given up after `limit`. Whatever was found is registered with the redactor at once.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from acp_launch.private import Unfit, locked, make_private, read_bounded, replace
from acp_launch.secret.isolate import Late, NoThread, bounded
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Outcome, Secret, Store, StoreFault, look

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
    known = look(wanted, environ)
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


# Names only: which secrets a store holds, since most stores cannot be asked. Never a value.
#
# The index is a memory, not the truth: whoever learns better (the store listed its names, a lookup found or missed one)
# corrects it. One that cannot be read counts as empty and is made anew; one that cannot be written costs only the list.


LARGEST = 1024 * 1024  # bytes of the file
PATIENCE = 10.0  # seconds for others who write
FAR_FUTURE = 1e11  # Unix time
Names = dict[str, float | None]  # the Unix time each was set, None when that is not known


class Index:
    """Of one store; several share the file."""

    def __init__(self, state: Path, store: str) -> None:
        """`store` tells this store from others of the same user: `keyring`, `file /home/me/secrets.sealed`."""
        self._path = state / "secrets.json"
        self._store = store

    def names(self) -> Names:
        try:
            return _stores(self._path).get(self._store, {})
        except (OSError, Unfit):
            return {}

    def put(self, name: str) -> None:
        self._change({name: time.time()}, ())

    def drop(self, name: str) -> None:
        self._change({}, (name,))

    def correct(self, names: Mapping[str, float | None]) -> Names:
        """`names` are all the store has; gives them with the times we know better."""
        known = self.names()
        now = {name: known.get(name) or when for name, when in names.items()}
        if now != known:
            self._change(now, known.keys() - now.keys())
        return now

    def learn(self, outcomes: Mapping[str, Outcome], source: str) -> None:
        """Lookups of the store tell too; `source` is how its outcomes call it."""
        answers = {name: outcome.state for name, outcome in outcomes.items() if outcome.source == source}
        known = self.names()
        found: Names = {name: None for name, state in answers.items() if state == "found" and name not in known}
        gone = [name for name, state in answers.items() if state == "missing" and name in known]
        if found or gone:
            self._change(found, gone)

    def _change(self, put: Names, drop: Iterable[str]) -> None:
        # A disk that is full, a directory that is not ours, somebody stopped in the middle: the secret itself is safe.
        with suppress(OSError, Unfit):
            make_private(self._path.parent)
            with locked(self._path.with_suffix(".lock"), PATIENCE):
                stores = _stores(self._path)
                names = stores.get(self._store, {}) | put
                kept = {name: when for name, when in sorted(names.items()) if name not in set(drop)}
                content = json.dumps({"version": 1, "stores": {**stores, self._store: kept}}, indent=1) + "\n"
                replace(self._path, content.encode())


def _stores(path: Path) -> dict[str, Names]:
    """What the file says, as far as it can be understood.

    Raises:
        OSError, Unfit: it is there and cannot be read, which is no reason to write another.
    """
    found = read_bounded(path, LARGEST)
    try:
        stores = json.loads(found[0])["stores"] if found else {}
        return {store: _names(names) for store, names in stores.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _names(names: object) -> Names:
    return {name: _moment(when) for name, when in names.items()} if isinstance(names, dict) else {}


def _moment(when: object) -> float | None:
    return float(when) if isinstance(when, int | float) and 0 < when < FAR_FUTURE else None
