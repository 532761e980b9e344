"""
Reads every secret of a launch in one pass, before anything starts; the index of stored names.

The environment comes first. The store is asked only for the rest, and not even opened if there is no rest. The store
works in a thread that is abandoned after `limit` seconds. Every value found is registered with the redactor at once.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace as replace_fields

from acp_launch.private import Unfit, locked, make_private, read_bounded, replace
from acp_launch.secret.isolate import Late, NoThread, bounded
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Outcome, Secret, Store, StoreFault, read_environment, variable
from acp_launch.waits import stretch

Waiting = Callable[[str, float, float], None]  # the name of the wait, seconds so far, timeout in seconds
MAX_STORE_TIMEOUT = 600.0
T = TypeVar("T")


def look_up(
    names: Iterable[str], *, environ: Mapping[str, str], store: Callable[[], Store], limit: float, waiting: Waiting
) -> dict[str, Outcome]:
    """Return one outcome for each name, in the order of `names`.

    `store` is called in this thread, and only if needed.
    """
    wanted = tuple(dict.fromkeys(names))
    known = read_environment(wanted, environ)
    if rest := [name for name in wanted if name not in known]:
        known |= _asked(store, rest, limit, waiting)
    for name, secret in secrets(known).items():
        redactor.register(secret, name=name)
    return {name: _with_empty_variable(name, _fit(known[name]), environ) for name in wanted}


def _with_empty_variable(name: str, outcome: Outcome, environ: Mapping[str, str]) -> Outcome:
    """Add to a value that was not found that its variable is set: the user may take it for given."""
    if outcome.state == "found" or environ.get(variable(name)) != "":
        return outcome
    said = f"{variable(name)} is set, but empty"
    return replace_fields(outcome, reason=f"{outcome.reason}; {said}" if outcome.reason else said)


def _fit(outcome: Outcome) -> Outcome:
    """Turn a value that an environment variable cannot hold into a fault."""
    if outcome.secret is None or "\0" not in outcome.secret.expose():
        return outcome
    reason = f"the value from the {outcome.source} holds a NUL character; an environment variable cannot"
    return Outcome("unavailable", outcome.source, None, reason)


def secrets(outcomes: Mapping[str, Outcome]) -> dict[str, Secret]:
    """Return the values that were found."""
    return {name: outcome.secret for name, outcome in outcomes.items() if outcome.secret is not None}


def within(store: Store, work: Callable[[], T], *, limit: float, waiting: Waiting) -> T:
    """Do one piece of work with a prepared store, within the time limit.

    Raises:
        StoreFault: a fault of the store; `unavailable` after `limit` seconds, or if no thread could start.
    """
    try:
        return bounded(work, limit=limit, waiting=lambda waited: waiting(f"answer of the {store.label}", waited, limit))
    except Late:
        raise _late(store.label, limit) from None
    except NoThread:
        reason = f"cannot ask the {store.label}: no more threads are allowed"
        raise StoreFault("unavailable", reason, fix="raise the limit with `ulimit -u`") from None


def _late(label: str, limit: float) -> StoreFault:
    is_desktop = label.startswith("keyring")
    dialog = "; it may be showing a dialog" if is_desktop else ""
    first = "answer it and try again" if is_desktop else "try again"
    longer = (
        f", or wait longer: export ACP_LAUNCH_SECRETS__TIMEOUT={2 * limit:g}s" if 2 * limit <= MAX_STORE_TIMEOUT else ""
    )
    return StoreFault("unavailable", f"the {label} did not answer within {limit:g} s{dialog}", fix=f"{first}{longer}")


def _asked(store: Callable[[], Store], names: Sequence[str], limit: float, waiting: Waiting) -> Mapping[str, Outcome]:
    source = "the store"
    try:
        opened = store()
        source = opened.label
        opened.prepare()
        return within(opened, lambda: opened.read(names), limit=limit, waiting=waiting)
    except StoreFault as fault:
        return dict.fromkeys(names, Outcome(fault.state, source, None, fault.reason, fault.fix, fault.is_absent))


# The index: names only, never a value, because most stores cannot list their names.
#
# The index is a memory, not the truth. Better knowledge (the store listed its names, a lookup found or missed one)
# corrects it. An index that cannot be read counts as empty and is created anew; one that cannot be written costs only
# the list.


MAX_FILE_BYTES = 1024 * 1024
LOCK_TIMEOUT = stretch(10.0)
FAR_FUTURE = 1e11  # Unix time
Names = dict[str, float | None]  # the Unix time each was set, None if it is not known


class NameIndex:
    """The index of one store; several stores share the file."""

    def __init__(self, state: Path, store: str) -> None:
        """Open the index. `store` identifies the store for this user: `keyring`, `file /home/me/secrets.sealed`."""
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
        """Replace the names with the complete list of the store. Returns them with the times known here."""
        known = self.names()
        now = {name: known.get(name) or when for name, when in names.items()}
        if now != known:
            self._change(now, known.keys() - now.keys())
        return now

    def learn(self, outcomes: Mapping[str, Outcome], source: str) -> None:
        """Update the index from lookups. Only outcomes whose source is `source` (the store's label) count."""
        answers = {name: outcome.state for name, outcome in outcomes.items() if outcome.source == source}
        known = self.names()
        found: Names = {name: None for name, state in answers.items() if state == "found" and name not in known}
        gone = [name for name, state in answers.items() if state == "missing" and name in known]
        if found or gone:
            self._change(found, gone)

    def _change(self, put: Names, drop: Iterable[str]) -> None:
        # A full disk, a directory of another user, a signal in between: the secret itself is safe.
        with suppress(OSError, Unfit):
            make_private(self._path.parent)
            with locked(self._path.with_suffix(".lock"), LOCK_TIMEOUT):
                stores = _stores(self._path)
                names = stores.get(self._store, {}) | put
                kept = {name: when for name, when in sorted(names.items()) if name not in set(drop)}
                content = json.dumps({"version": 1, "stores": {**stores, self._store: kept}}, indent=1) + "\n"
                replace(self._path, content.encode())


def stored_names(state: Path) -> list[tuple[str, str]]:
    """Return the names in the index, and the store of each; no store is asked.

    Raises:
        OSError, Unfit: it cannot be read.
        ValueError: it makes no sense.
    """
    return [(name, store) for store, names in _read(state / "secrets.json").items() for name in names]


def _stores(path: Path) -> dict[str, Names]:
    """Read the file; it is empty if it makes no sense.

    Raises:
        OSError, Unfit: it exists but cannot be read, so it must not be replaced.
    """
    try:
        return _read(path)
    except ValueError:
        return {}


def _read(path: Path) -> dict[str, Names]:
    found = read_bounded(path, MAX_FILE_BYTES)
    try:
        stores = json.loads(found[0])["stores"] if found else {}
        return {
            store: {name: _moment(when) for name, when in names.items()} if isinstance(names, dict) else {}
            for store, names in stores.items()
        }
    except (KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise ValueError(str(fault)) from None


def _moment(when: object) -> float | None:
    return float(when) if isinstance(when, int | float) and 0 < when < FAR_FUTURE else None
