"""
The secret store that the user chose.

`outcomes` looks up secrets for a launch; `Vault` is the store with its index, for the verbs of `secret`.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from acp_launch.console.secrets import choices
from acp_launch.console.stderr import can_ask_user, tell
from acp_launch.errors import SecretError
from acp_launch.plan.written import make_safe_environment
from acp_launch.problem import did_you_mean
from acp_launch.process.spawn import hide
from acp_launch.secret.lookup import NameIndex, Names, Waiting, look_up, within
from acp_launch.secret.redact import install
from acp_launch.secret.stores import Opening, chosen_kind
from acp_launch.secret.value import PROGRAMS_AT_ONCE, Outcome, Secret, Store, StoreFault, is_login
from acp_launch.session.events import WaitingEvent
from acp_launch.settings.load import FILE, load
from acp_launch.settings.model import Settings
from acp_launch.waits import FIRST_NOTICE

if TYPE_CHECKING:
    from acp_launch.process.capture import CaptureResult

STORE = "secrets.store"  # the setting
NO_KEYRING = "No desktop keyring here. Keep secrets in a sealed file with a passphrase?"
AT_HAND = 120.0  # seconds, if the user is at a terminal and may have to unlock the keyring first
T = TypeVar("T")


def protect_secrets() -> None:
    """Prepare this process for secrets: redact its output, and hide its memory from other processes."""
    hide()
    install()


def outcomes(
    names: Iterable[str],
    settings: Settings,
    waiting: Waiting | None = None,
    opening: Callable[[], Store] | None = None,
) -> dict[str, Outcome]:
    """Look up all names in one pass; return the outcome of each. `opening` opens the store, if it is needed."""

    protect_secrets()
    wanted, say_so = tuple(names), waiting or say_waiting
    limit: float = settings.secrets.timeout
    grace = 0.0  # seconds beyond the limit, in which a program that reaches its own is stopped
    if chosen_kind(settings.secrets).argv:
        limit, grace = limit * -(-len(wanted) // PROGRAMS_AT_ONCE), 2.0
    return look_up(
        wanted,
        environ=os.environ,
        store=opening or (lambda: open_store(settings)),
        limit=limit + grace,
        waiting=lambda what, waited, _: say_so(what, waited, limit) if waited < limit else None,
    )


def operate(settings: Settings, store: Store, work: Callable[[], T], *, patient: bool = False) -> T:
    """Run one operation of a prepared store; `patient` if the user has just asked for it and may answer a dialog.

    Raises:
        StoreFault: the store reports a fault, or did not answer in time.
    """
    limit = max(AT_HAND, settings.secrets.timeout) if patient and interactive() else settings.secrets.timeout
    return within(store, work, limit=limit, waiting=say_waiting)


def open_unasked(settings: Settings) -> Store:
    """Open and prepare the store in the midst of a session, when its passphrase cannot be asked for.

    Raises:
        StoreFault: it cannot be prepared.
    """
    store = open_store(settings, asks=False)
    store.prepare()
    return store


def open_store(settings: Settings, *, asks: bool = True, shows: bool = True) -> Store:
    """Open the store without reading anything yet.

    Without `asks`, it does without a passphrase that it needs; without `shows`, it shows no dialog of the desktop.
    """
    given = Opening(
        settings=settings.secrets,
        config=settings.config,
        environ=os.environ,
        ask=_ask_passphrase if asks else _refuse_passphrase,
        run=run_at_home,
        interactive=shows and interactive(),
    )
    return chosen_kind(settings.secrets).open(given)


def _ask_passphrase(prompt: str) -> str | None:
    from acp_launch.secret.hidden_input import ask_hidden  # with asyncio, and seldom needed

    return ask_hidden(prompt, fix="type it, or export ACP_LAUNCH_PASSPHRASE=...")


def _refuse_passphrase(prompt: str) -> None:
    fix = "export ACP_LAUNCH_PASSPHRASE=..., or use a key file: secrets.file.key_file"
    raise StoreFault("locked", "the sealed file needs its passphrase, which cannot be asked for here", fix=fix)


def interactive() -> bool:
    """Tell whether a user is there to answer a dialog of the desktop."""
    return sys.stderr is not None and sys.stderr.isatty()


def say_waiting(what: str, waited: float, limit: float) -> None:
    """Report a wait in the common words; the imports are made only after 3 s of waiting."""
    from acp_launch.console.stream.text import Notices

    Notices().show(WaitingEvent(what=what, seconds=waited, limit=limit))


@contextmanager
def saying_waiting(what: str, limit: float) -> Iterator[None]:
    """Report the block as a wait, if it takes long. A thread does it, so not while programs are started."""
    timer = threading.Timer(FIRST_NOTICE, say_waiting, (what, FIRST_NOTICE, limit))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def run_at_home(argv: Sequence[str], limit: float, cwd: Path | None = None) -> "CaptureResult":
    """Run a command in the home directory, or in `cwd`: the project must not replace its program or settings.

    Not while an event loop runs.
    """
    from acp_launch.process.capture import capture

    return capture(argv, limit, env=_environment(), cwd=cwd or Path.home())


async def run_at_home_in_loop(argv: Sequence[str], limit: float) -> "CaptureResult":
    """Do the same while an event loop runs."""
    from acp_launch.process.capture import captured

    return await captured(argv, limit, env=_environment(), cwd=Path.home())


def _environment() -> dict[str, str]:
    """Return our environment without secrets, and without folders of PATH that a confined agent could write."""
    return make_safe_environment()


def offer_sealed_file(settings: Settings) -> Settings | None:
    """Offer to keep secrets in a sealed file where there is no keyring; return the settings with it, None on a no.

    Nothing is offered if the user has chosen a store.

    Raises:
        UsageError, SettingsError: the settings cannot be written.
    """
    from acp_launch.app.config import choose
    from acp_launch.console.ask.terminal import ask_yes_or_no
    from acp_launch.settings.origin import DEFAULT, origins

    sources = {each.key: each.source for each in origins(settings.config / FILE)}
    if sources[STORE] != DEFAULT or not can_ask_user():
        return None

    if not ask_yes_or_no(NO_KEYRING):
        return None
    tell(f"{STORE}: file is now in {choose(STORE, 'file')}")
    return load()


class Vault:
    """The user's store together with its index. Every method may raise SecretError."""

    def __init__(
        self,
        settings: Settings,
        opening: Callable[[], Store] | None = None,
        *,
        may_offer: bool = False,
    ) -> None:
        """`opening` returns the store if the caller has opened it already.

        With `may_offer` a sealed file is offered if there is no such store on this machine.
        """
        protect_secrets()
        self._may_offer = may_offer
        self._use(settings, opening or (lambda: open_store(settings)))

    def _use(self, settings: Settings, opening: Callable[[], Store]) -> None:
        self.settings = settings
        try:
            self.store = opening()
        except StoreFault as fault:
            raise SecretError(f"cannot open the store: {fault.reason}", fix=fault.fix) from None
        name = chosen_kind(settings.secrets).index_name(settings.secrets, self.store.label)
        self.index = NameIndex(settings.state, name)

    def do(self, what: str, work: Callable[[], T], *, writing: str = "") -> T:
        """Run an operation that the user has just asked for; `what` begins the message if it fails.

        `writing` is the name of a secret to store; if there is no keyring for it, the error explains the choices.
        `work` is done again in a sealed file, if the user chooses that instead of a store that does not exist.
        """
        try:
            self.store.prepare(writing=bool(writing))
            return operate(self.settings, self.store, work, patient=True)
        except StoreFault as fault:
            settings = offer_sealed_file(self.settings) if self._may_offer and fault.is_absent else None
            if settings is None:
                raise self._refusal(what, fault, writing) from None
        self._use(settings, lambda: open_store(settings))
        return self.do(what, work, writing=writing)

    def _refusal(self, what: str, fault: StoreFault, writing: str) -> SecretError:
        is_replaceable = chosen_kind(self.settings.secrets).is_desktop and fault.state in ("unavailable", "locked")
        detail = choices(writing, self.settings.config) if writing and is_replaceable else ()
        return SecretError(f"{what}: {fault.reason}", fix=fault.fix, detail=detail)

    def states(self, *names: str) -> Mapping[str, Outcome]:
        """Read the secrets; return the outcome of each."""
        return self.do("cannot read the store", lambda: self.store.read(names))

    def require(self, *names: str) -> None:
        """Check that the secrets exist. A secret that exists but cannot be read, such as a damaged one, is accepted.

        Raises:
            SecretError: some are missing.
        """
        if missing := [name for name, outcome in self.states(*names).items() if outcome.state == "missing"]:
            raise self._not_found(missing)

    def read(self, name: str) -> Secret:
        """Read the secret of that name.

        Raises:
            SecretError: it does not exist, or cannot be read.
        """
        outcome = self.states(name)[name]
        if outcome.state == "missing":
            raise self._not_found([name])
        if outcome.secret is None:
            raise SecretError(f'cannot read secret "{name}": {outcome.reason}', fix=outcome.fix)
        return outcome.secret

    def write(self, name: str, secret: Secret, failed: str) -> None:
        """Store a secret; `failed` begins the message if that fails."""
        self.do(failed, lambda: self.store.write(name, secret), writing=name)
        self.index.put(name)

    def names(self) -> tuple[Names, str, bool]:
        """Return the names in the store, a remark for the user or "", and whether the store could not be read.

        The tokens of logins are left out: `mcp status` shows those.
        """
        try:
            actual = operate(self.settings, self.store, self.store.names)
        except StoreFault as fault:
            known = self.index.names()
            return known, f"{fault.reason}; {'showing what acp-launch has set' if known else fault.fix}", True
        before = self.index.names()
        if actual is None:  # the keyring library lists nothing: these are the names that acp-launch has set
            is_read_only = chosen_kind(self.settings.secrets).is_read_only
            return before, f"the {self.store.label} does not list its secrets" if is_read_only else "", False
        actual = {name: when for name, when in actual.items() if not is_login(name)}
        gone = sorted(before.keys() - actual.keys())
        remark = f"no longer in the {self.store.label}: {', '.join(gone)}" if gone else ""
        return self.index.correct(actual), remark, False

    def _not_found(self, names: Sequence[str]) -> SecretError:
        hint = did_you_mean(names[0], self.index.names())
        listed = ", ".join(f'"{name}"' for name in names)
        return SecretError(f"no secret named {listed} in the {self.store.label}{hint}", fix="acp-launch secret list")
