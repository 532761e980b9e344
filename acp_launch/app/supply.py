"""What a plan needs besides the machine: its secrets, asked of the store or the user, and the logins of its servers."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from msgspec import Struct

from acp_launch.app.consent import ask_for_secrets
from acp_launch.app.credentials import CredentialFactory, MissingLogin, ServerLogin, list_lacking, print_headers
from acp_launch.app.stores import offer_sealed_file, open_store, open_unasked, outcomes, protect_secrets
from acp_launch.console.stderr import can_ask_user
from acp_launch.mcp.http.wire import Credentials
from acp_launch.plan.model import unfit, unmet
from acp_launch.plan.resolve import Resolved
from acp_launch.problem import Problem
from acp_launch.secret.lookup import Waiting, secrets
from acp_launch.secret.value import Secret, Store
from acp_launch.settings.model import Settings


class Supply(Struct, frozen=True):
    """The found secrets and credentials of servers, and the missing ones. `opening` opens the store."""

    settings: Settings
    opening: Callable[[], Store] | None = None
    secrets: Mapping[str, Secret] = {}
    credentials: Mapping[str, Credentials] = {}
    missing: tuple[Problem, ...] = ()
    lacks: Sequence[MissingLogin] = ()

    def later(self, others: Sequence[ServerLogin], called: str) -> Mapping[str, Credentials]:
        """Return the credentials of servers that the user may log in to once they have turned out to want it."""
        if not others:
            return {}
        protect_secrets()
        opening = self.opening or cache(partial(open_unasked, self.settings))
        factory = CredentialFactory(settings=self.settings, opening=opening, secrets=self.secrets, called=called)
        return factory.credentials(others, {})


def supply(
    resolved: Resolved,
    settings: Settings,
    logins: Sequence[ServerLogin],
    *,
    waiting: Waiting | None,
    asks_passphrase: bool,
) -> Supply:
    """Look up all that `planning.prepare_plan` says; nothing is raised for missing ones."""
    opening = cache(partial(open_store, settings, asks=asks_passphrase))  # once: so its question comes once
    names = [need.name for need in resolved.needs]
    wanted = [*names, *dict.fromkeys(login.item for login in logins if login.item)]
    found = outcomes(wanted, settings, waiting, opening)
    unset = [found[name].is_absent for name in names if found[name].state != "found"]
    if resolved.plan is not None and unset and all(unset) and (changed := offer_sealed_file(settings)) is not None:
        settings, opening = changed, cache(partial(open_store, changed, asks=asks_passphrase))
        found = outcomes(wanted, settings, waiting, opening)
    answers = {name: found[name] for name in names}
    may_ask = True
    if unset:
        may_ask = can_ask_user()
        answers = ask_for_secrets(resolved.needs, answers, settings, opening) if resolved.plan is not None else answers
    values = secrets(answers)
    missing = (*unmet(resolved.needs, answers, has_terminal=may_ask), *unfit(resolved.plan, values))
    if resolved.plan is None or not logins:
        return Supply(settings, None, values, {}, missing)
    factory = CredentialFactory(settings=settings, opening=opening, secrets=values, called=resolved.plan.called)
    credentials = factory.credentials(logins, found)
    lacks = [*list_lacking(logins, found, resolved.plan.called), *print_headers(logins, credentials, settings)]
    return Supply(settings, opening, values, credentials, missing, lacks)
