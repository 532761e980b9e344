"""The output of `secret`: names, places and times on stdout, never a value."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from acp_launch.console import problems as problem_lines
from acp_launch.console import stdout
from acp_launch.console.sessions import ago
from acp_launch.console.stderr import can_ask_user
from acp_launch.console.stdout import columns
from acp_launch.plan.model import Need, unmet
from acp_launch.secret.stores import STORES
from acp_launch.secret.value import Outcome, is_login, variable


class Listed(Struct, frozen=True):
    """A row of `secret list`. `set` is a Unix time, None if it is not known."""

    name: str
    store: str
    set: float | None
    profiles: tuple[str, ...]


class Checked(Struct, frozen=True):
    """A secret that profiles need, and the outcome of its lookup. `profiles` names each of them once."""

    name: str
    outcome: Outcome
    profiles: tuple[str, ...]


def show_list(rows: Sequence[Listed], remark: str, *, as_json: bool) -> None:
    """Print the stored secrets. `remark` says why the list may be wrong; empty if it comes from the store itself."""
    if as_json:
        stdout.put_json({"secrets": [asdict(row) for row in rows], "remark": remark})
    elif rows:
        now = time.time()
        ages = [ago(row.set, now=now) if row.set else "" for row in rows]
        table = [("NAME", "STORE", "SET", "USED BY")]
        table += [(row.name, row.store, age, ", ".join(row.profiles)) for row, age in zip(rows, ages, strict=True)]
        stdout.line("\n".join(columns(table)))


def show_check(rows: Sequence[Checked], needs: Sequence[Need], *, as_json: bool) -> None:
    """Print all on stdout; a problem on stderr for each secret that cannot be read."""
    problems = unmet(needs, {row.name: row.outcome for row in rows}, has_terminal=can_ask_user())
    if as_json:
        found = []
        for row in rows:
            outcome = {key: getattr(row.outcome, key) for key in ("state", "source", "reason")}
            found.append({"name": row.name, **outcome, "profiles": row.profiles})
        stdout.put_json({"secrets": found, "problems": [problem.as_json() for problem in problems]})
        return
    table = [("NAME", "STATE", "WHERE", "USED BY")]
    table += [(row.name, row.outcome.state, row.outcome.source, ", ".join(row.profiles)) for row in rows]
    stdout.line("\n".join(columns(table)))
    absent = sum(row.outcome.state != "found" for row in rows)
    problem_lines.show(problems, as_json=False, outcome=f"{absent} of {len(rows)} secrets are not available")


def choices(name: str, config: Path) -> tuple[str, ...]:
    """Describe the alternatives to a keyring; `config` is the configuration directory. Only a store that can be written
    takes the tokens of a login."""
    others = [row for row in STORES.values() if row.example and not (row.is_read_only and is_login(name))]
    lines = (
        f"to store secrets elsewhere, set one of these in {config / 'config.yaml'}:",
        *(f"    secrets: {row.example}        {row.is_called}" for row in others),
    )
    return (
        lines
        if is_login(name)
        else (*lines, f"or set it in the environment, for instance in CI: export {variable(name)}=...")
    )


# The states of a plan's or a profile's secrets, on request.


def state_lines(outcomes: Mapping[str, Outcome]) -> Iterable[str]:
    """Return a line per secret: `github  found  keyring (Secret Service)`."""
    rows = [(name, outcome.state, outcome.source) for name, outcome in outcomes.items()]
    return columns(rows)


def states(outcomes: Mapping[str, Outcome]) -> dict[str, dict[str, str]]:
    """Return the same as data."""
    return {name: {"state": outcome.state, "source": outcome.source} for name, outcome in outcomes.items()}
