"""
Whether the store of secrets answers, and without a dialog: nobody is asked anything here.

Of a keyring a secret is read that nobody has, which is what unlocks one. A sealed file is opened if that takes no
passphrase. A command may do whatever it likes, so it is only looked for.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from acp_launch.checks.check import Check, ok, warning
from acp_launch.plan.executable import CannotRun, find
from acp_launch.secret.keyring import open_keyring
from acp_launch.secret.lookup import Waiting, look_up, within
from acp_launch.secret.value import Outcome, Store, StoreFault
from acp_launch.settings.model import Settings

ABSENT = "acp-launch-doctor.this-is-no-secret"
USABLE = ("found", "missing")
CHOOSE = "acp-launch secret set NAME says which other stores there are"


class Asked(Struct, frozen=True):
    """`fault` is why it is of no use now."""

    check: Check
    fault: StoreFault | None = None


def store(settings: Settings, opened: Callable[[Settings], Store], waiting: Waiting) -> Asked:
    """`opened` opens a store that is no keyring."""
    kind = settings.secrets.store
    if kind == "command":
        return _command(settings.secrets.command)
    label = str(kind)
    try:
        made = _keyring(settings) if kind == "keyring" else opened(settings)
        label = made.label
        text = (
            _tried(made, settings.secrets.timeout, waiting) if kind == "keyring" else _listed(made, settings, waiting)
        )
    except StoreFault as fault:
        check = warning("secrets", "", f"{label}: {fault.reason}", fault.fix or CHOOSE, store=kind, state=fault.state)
        return Asked(check, fault)
    return Asked(ok("secrets", "", f"{label}: {text}", store=kind, state="usable"))


def secrets(names: Sequence[str], settings: Settings, asked: Asked, waiting: Waiting) -> Mapping[str, Outcome]:
    """What became of each name, the keyring being asked without a dialog; not at all when it did not answer before."""

    def opened() -> Store:
        if asked.fault is not None:
            raise asked.fault
        return _keyring(settings)

    return look_up(names, environ=os.environ, store=opened, limit=settings.secrets.timeout, waiting=waiting)


def _keyring(settings: Settings) -> Store:
    return open_keyring(settings.secrets.keyring, os.environ, interactive=False)


def _tried(made: Store, limit: float, waiting: Waiting) -> str:
    made.prepare()
    outcome = within(made, lambda: made.read([ABSENT]), limit=limit, waiting=waiting)[ABSENT]
    if outcome.state not in USABLE:
        raise StoreFault(outcome.state, outcome.reason, fix=outcome.fix)
    return "it answers without a dialog"


def _listed(made: Store, settings: Settings, waiting: Waiting) -> str:
    names = within(made, made.names, limit=settings.secrets.timeout, waiting=waiting)
    if names is None:
        return "its passphrase is asked for when it is needed"
    return f"{len(names)} secret{'s' if len(names) != 1 else ''}"


def _command(command: Sequence[str]) -> Asked:
    """Its arguments are the user's own business; they may name a vault."""
    home = Path.home()
    found = find(command[0], project=home, path=os.environ.get("PATH"))
    if isinstance(found, CannotRun):
        fault = StoreFault("unavailable", found.message, fix=found.fix)
        return Asked(warning("secrets", "", f"command: {found.message}", found.fix, store="command"), fault)
    return Asked(ok("secrets", "", f"command ({found}): asked for each secret", store="command", state="not asked"))
