"""
Names only: which secrets a store holds, since most stores cannot be asked. Never a value.

The index is a memory, not the truth: whoever learns better (the store listed its names, a lookup found or missed one)
corrects it. One that cannot be read counts as empty and is made anew; one that cannot be written costs only the list.
"""

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from acp_launch.private import Unfit, make_private, read_bounded, replace
from acp_launch.secret.lock import locked
from acp_launch.secret.outcome import Outcome

LARGEST = 1024 * 1024  # bytes of the file
PATIENCE = 1.0  # seconds for others who write
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
