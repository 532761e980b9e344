"""
The logins to remote MCP servers, for the verbs of `mcp`: `login`, `logout`, `status`, and what `list` says of them.

A login belongs to a server's address and the client id of the profile. Its tokens are an item of the secret store, and
its record says what is known of it without opening the store.
"""

import os
import shlex
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.cli.credentials import printer_of, record_of
from acp_launch.cli.planning import loaded_profile, named, planned, reduced, require, resolved_from
from acp_launch.console.logins import State, is_valid
from acp_launch.errors import (
    AuthRequired,
    LaunchError,
    MachineError,
    ProfileError,
    SecretError,
    StateError,
    Stopped,
    UsageError,
)
from acp_launch.oauth.grant import Grant, Login, decoded, encoded, item_prefix
from acp_launch.oauth.records import Logins
from acp_launch.plan.model import LaunchPlan, LoginPlan, Origin, RemotePlan
from acp_launch.private import locked
from acp_launch.problem import ours
from acp_launch.profile.load import Loaded
from acp_launch.profile.model import RemoteServer
from acp_launch.secret.value import LOGINS, Secret
from acp_launch.settings.load import load as load_settings
from acp_launch.settings.model import Settings
from acp_launch.waits import FIRST_WORD, stretch

if TYPE_CHECKING:
    from acp_launch.cli.stores import Vault
    from acp_launch.launch.loop import Interrupts

PARTING = stretch(10.0)  # seconds for a server to take a token back
BROWSER = 300.0  # seconds for the user in the browser


class Target(Struct, frozen=True):
    """A remote server of a profile, and its login, if there is one."""

    server: RemotePlan
    login: Login | None

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def oauth(self) -> LoginPlan:
        return self.server.oauth or LoginPlan()


class Chosen(Struct, frozen=True):
    """The servers that a verb is about: a plan of them alone, and the secrets of their clients."""

    settings: Settings
    plan: LaunchPlan
    secrets: Mapping[str, Secret]
    targets: tuple[Target, ...]

    def client_secret(self, target: Target) -> Secret | None:
        secret = target.oauth.client_secret
        return None if secret is None else secret.concealed(self.secrets)

    def headers(self, target: Target) -> Mapping[str, Secret]:
        """Return the headers of the profile for requests to the server; a token takes the place of `Authorization`."""
        sent = target.server.sent.items()
        return {name: value.concealed(self.secrets) for name, value in sent if name.lower() != "authorization"}


class Browsing(Struct, frozen=True):
    """How the user gets to a page: `opener` is the command that opens one, None for a browser on another machine."""

    opener: tuple[str, ...] | None
    patience: float


def log_in(profile: str, name: str | None, *, every: bool, trust: bool, browser: bool, patience: float | None) -> int:
    """Log in to one server of a profile, or with `every` to those that have no valid login and need one.

    Return the exit code.

    Raises:
        UsageError: the one server needs no login, as a command of the user prints headers for it.
        AuthRequired: a login failed, or there is neither a browser nor a terminal.
        WaitExpired: the browser did not come back in time.
    """
    from acp_launch.cli.start import verb_processes
    from acp_launch.cli.stores import Vault
    from acp_launch.cli.supply import sealed_file
    from acp_launch.console import logins
    from acp_launch.process.spawn import require_platform

    require_platform()
    chosen = _chosen(profile, name, every=every, trust=trust, is_asked=True)
    now = time.time()
    known = [(each, _state(each, chosen.settings)) for each in chosen.targets]
    if not every and (program := known[0][1].program):
        what = f"{known[0][0].name} needs no login: {program} prints headers for it, as your settings say"
        raise UsageError(what, fix=f"to log in, remove its headers_command: {ours('config', 'edit')}")
    due = [each for each, state in known if not every or not (state.program or is_valid(state.login, now))]
    for each, state in known:
        if each not in due:
            logins.say_valid(state, now)
    if not due:
        return 0
    browsing = Browsing(_opener(profile, due[0].name, browser=browser), BROWSER if patience is None else patience)
    vault = Vault(chosen.settings, instead=sealed_file)
    vault.do("cannot store a login", vault.store.names, writing=LOGINS)  # before the user goes to the browser
    with verb_processes(chosen.settings, chosen.plan, "mcp") as processes:

        def logged_in(target: Target) -> None:
            before = _stored(vault, target.login) if target.login and target.oauth.callback_port else None
            grant, login = processes.run(partial(_logged_in, chosen, target, before, browsing))
            _keep(vault, grant, login, target.login, chosen.client_secret(target))
            logins.say_logged_in(target.name, login, ours("run", profile))

        return _worst(due, logged_in)


def _worst(targets: Sequence[Target], log_in: Callable[[Target], None]) -> int:
    """Log in to each; show all failures but that of a single one, which is raised. Return the highest exit code."""
    from acp_launch.console.failure import show

    if len(targets) == 1:
        log_in(targets[0])
        return 0
    codes = [0]
    for each in targets:
        try:
            log_in(each)
        except Stopped:
            raise
        except LaunchError as error:
            show(error)
            codes.append(error.exit_code)
    return max(codes)


def log_out(profile: str, name: str | None, *, every: bool, trust: bool) -> None:
    """Remove a login: its tokens are taken back by the server, if it can, and removed with their record."""
    import asyncio

    from acp_launch.cli.stores import Vault
    from acp_launch.console import logins

    chosen = _chosen(profile, name, every=every, trust=trust)
    vault: Vault | None = None
    for each in chosen.targets:
        records = Logins(chosen.settings.state)
        if each.login is None:
            vault = _without_record(chosen, each, records, vault)
            continue
        vault = vault or Vault(chosen.settings)
        with _held(records, each.login.item, chosen.settings):
            grant = _stored(vault, each.login)
            said = asyncio.run(_revoked(grant, grant.client_secret or chosen.client_secret(each))) if grant else ""
            if grant is not None:
                _remove(vault, each.login.item)
            others = [login.url for login in records.of(each.login.item) if login != each.login]
            for login in (each.login, *records.of(each.login.item)):
                records.drop(login)
        logins.say_logged_out(each.name, said, others, had_tokens=grant is not None)


def _without_record(chosen: Chosen, target: Target, records: Logins, vault: "Vault | None") -> "Vault | None":
    """Remove the tokens of a server whose record is lost, if the store can say what it has; return the opened store."""
    import asyncio

    from acp_launch.cli.stores import Vault
    from acp_launch.console import logins

    try:
        vault = vault or Vault(chosen.settings)
        names = vault.do("cannot list the store", vault.store.names)
        found = _lost(vault, target, names or (), {login.item for login in records.all()})
    except SecretError as error:
        logins.say_not_logged_in(target.name, f"tokens without a record cannot be looked for: {error.message}")
        return vault
    if not found:
        said = "" if names is not None else "tokens without a record cannot be looked for, as this store has no list"
        logins.say_not_logged_in(target.name, said)
    for item, grant in found.items():
        with _held(records, item, chosen.settings):
            said = asyncio.run(_revoked(grant, grant.client_secret or chosen.client_secret(target)))
            _remove(vault, item)
        logins.say_logged_out(target.name, said, (), had_tokens=True)
    return vault


def _lost(vault: "Vault", target: Target, names: Iterable[str], known: Collection[str]) -> Mapping[str, Grant]:
    """Return the tokens of a server that no record is about, by their items."""
    from acp_launch.oauth.metadata import canonical, covers

    url, client = target.server.url.reveal({}), target.oauth.client_id
    items = [name for name in names if name.startswith(item_prefix(canonical(url))) and name not in known]
    secrets = {item: outcome.secret for item, outcome in (vault.states(*items) if items else {}).items()}
    grants = {item: grant for item, secret in secrets.items() if secret is not None and (grant := decoded(secret))}
    return {
        item: grant
        for item, grant in grants.items()
        if covers(grant.resource, url) and client in ("", grant.client.client_id)
    }


def status(profile: str, *, as_json: bool) -> None:
    """Show the logins of a profile's servers. Neither the secret store nor a server is asked.

    Raises:
        AuthRequired: a server that asks for a login has no valid one.
    """
    from acp_launch.console import logins

    settings = load_settings()
    loaded = loaded_profile(profile, settings)
    found = states(loaded, settings)
    now = time.time()
    logins.show(found, now, as_json=as_json)
    if not found and not as_json:
        logins.say_none(loaded.found.name)
    lacking = [each.name for each in found if each.is_lacking(now)]
    if lacking:
        many = len(lacking) > 1
        raise AuthRequired(
            f"not logged in to {', '.join(lacking)}",
            fix=ours("mcp", "login", profile, *(["--all"] if many else lacking)),
        )


def planned_states(plan: LaunchPlan, settings: Settings) -> dict[str, State]:
    """Return what is known of the logins that the servers of a plan ask for, and of what takes their place, by the
    servers' names."""
    remotes = replace(plan, servers=tuple(server for server in plan.servers if isinstance(server, RemotePlan)))
    found = [_state(each, settings) for each in _targets(remotes, Logins(settings.state))]
    return {each.name: each for each in found if each.is_asked or each.program}


def states(loaded: Loaded, settings: Settings) -> tuple[State, ...]:
    """Return what is known of the login to each remote server that asks for one, or has one, or needs none as a command
    of the user prints headers for it."""
    return tuple(_states(loaded, settings))


def _state(target: Target, settings: Settings) -> State:
    server, printer = target.server, printer_of(target.server, settings)
    program = PurePath(settings.headers_command[printer].command[0]).name if printer else ""
    return State(server.name, server.url.display(), target.login, is_asked=server.oauth is not None, program=program)


def _states(loaded: Loaded, settings: Settings) -> Iterator[State]:
    records = Logins(settings.state)
    for name, server in loaded.profile.mcp_servers.items():
        if not isinstance(server, RemoteServer):
            continue
        plan = resolved_from(reduced(loaded, [name]), cwd=None).plan
        if plan is None:  # for instance a variable of its address is not set
            if server.oauth is not None:
                yield State(name, "", None, is_asked=True)
            continue
        (target,) = _targets(plan, records)
        state = _state(target, settings)
        if state.login is not None or state.is_asked or state.program:
            yield state


def _chosen(profile: str, name: str | None, *, every: bool, trust: bool, is_asked: bool = False) -> Chosen:
    """Plan the servers that the user has named. `is_asked`: they get requests with the headers of the profile.

    Raises:
        UsageError: there is no such server, or it is not clear which one is meant.
        NotTrusted: the profile is a project's, and not trusted.
        MachineError: a variable or a client's secret is not set.
        ProfileError: the address of a server comes from a secret.
    """
    settings = load_settings()
    loaded = loaded_profile(profile, settings)
    names = _names(loaded, profile, name, every=every)
    require(loaded, resolved_from(loaded, cwd=None).found, settings, is_waved=trust)
    resolved = resolved_from(reduced(loaded, names), cwd=None)
    places = tuple(f"mcp_servers.{each}.{'' if is_asked else 'oauth.'}" for each in names)
    needs = tuple(need for need in resolved.needs if need.origin.path.startswith(places))
    plan, secrets = planned(replace(resolved, needs=needs), settings)
    for server in plan.servers:
        if isinstance(server, RemotePlan) and server.url.secrets:  # the record of a login holds the address
            what = "the address of a server with a login cannot come from a secret"
            raise ProfileError([server.url.origin.problem(what, "write it as text, or use ${env:NAME}")])
    return Chosen(settings, plan, secrets, tuple(_targets(plan, Logins(settings.state))))


def _names(loaded: Loaded, profile: str, name: str | None, *, every: bool) -> list[str]:
    servers = loaded.profile.mcp_servers
    asking = [each for each, server in servers.items() if isinstance(server, RemoteServer) and server.oauth is not None]
    if every and name is not None:
        raise UsageError("--all takes no SERVER")
    if name is not None:
        if not isinstance(servers[named(name, profile, servers)], RemoteServer):
            what = f'"{name}" is a program of this machine, which has no login'
            raise UsageError(what, fix=f"{ours('mcp', 'list', profile)} lists the servers")
        return [name]
    if not asking:
        fix = f"write oauth: true for a server with a url, or name one; {ours('mcp', 'list', profile)} lists them"
        raise UsageError(f"no MCP server of {profile} asks for a login", fix=fix)
    if len(asking) > 1 and not every:
        raise UsageError(f"no MCP server is given: {', '.join(asking)} ask for a login", fix="name one, or use --all")
    return asking


def _targets(plan: LaunchPlan, records: Logins) -> Iterator[Target]:
    for server in plan.servers:
        assert isinstance(server, RemotePlan)
        yield Target(server, record_of(server, records))


def _opener(profile: str, name: str, *, browser: bool) -> tuple[str, ...] | None:
    """Return the command that opens a page here; None if the user does that, and pastes the address that follows.

    Raises:
        AuthRequired: neither is possible.
    """
    from acp_launch.console.ask import links
    from acp_launch.console.ask.terminal import possible

    is_far = any(os.environ.get(variable) for variable in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"))
    found = links.command(os.environ) if browser and not is_far else None
    if found is None and not possible():
        why = "this is an SSH session" if is_far else "--no-browser is given" if not browser else "no browser was found"
        fix = f"run it in a terminal: {ours('mcp', 'login', profile, name)}"
        raise AuthRequired(f"a login needs a browser or a terminal: {why}, and stdin is not a terminal", fix=fix)
    return None if found is None else tuple(found)


async def _logged_in(
    chosen: Chosen, target: Target, before: Grant | None, browsing: Browsing, interrupts: "Interrupts"
) -> tuple[Grant, Login]:
    return await interrupts.watch(_login(chosen, target, before, browsing))


async def _login(chosen: Chosen, target: Target, before: Grant | None, browsing: Browsing) -> tuple[Grant, Login]:
    from acp_launch.cli.stores import say_waiting
    from acp_launch.console import logins
    from acp_launch.oauth.exchange import Refused
    from acp_launch.oauth.flow import Wanted, log_in
    from acp_launch.oauth.listener import LoopbackListener

    url, oauth = target.server.url.reveal({}), target.oauth
    wanted = Wanted(
        name=target.name,
        url=url,
        type="sse" if target.server.type == "sse" else "http",
        scopes=oauth.scopes,
        client_id=oauth.client_id,
        client_secret=chosen.client_secret(target),
        client_metadata_url=oauth.client_metadata_url,
        headers=chosen.headers(target),
    )
    show = partial(logins.show_page, target.name, url, browsing.opener)
    device = None
    if browsing.opener is None:
        device = partial(logins.show_code, target.name, url)
        pasted = partial(logins.pasted, target.name)
        browser = LoopbackListener(show, _unsaid, pasted=pasted, patience=browsing.patience)
    else:
        browser = LoopbackListener(show, say_waiting, patience=browsing.patience)
    known = target.login
    # What the server has demanded in runs is not asked for any more if logins do not bring it.
    more = () if known is None or known.is_hopeless or not known.demanded else (*known.scopes, *known.demanded)
    try:
        async with browser.listening(oauth.callback_port or 0):
            grant, login = await log_in(
                wanted,
                browser,
                more=more,
                registered=before,
                device=device,
                waiting=say_waiting,
                patience=browsing.patience,
            )
    except Refused as refused:
        fix = refused.fix or "ask the operator of the server"
        raise AuthRequired(f"{target.name}: {refused.how}", fix=fix) from None
    except OSError as error:
        raise _no_door(chosen.plan, target, error) from None
    if known is not None and known.is_hopeless:
        logins.say_not_asked(target.name, known.demanded)
    return grant, login


def _unsaid(what: str, waited: float, limit: float) -> None:
    """Say nothing of a wait: the question of the terminal is on the screen."""


def _no_door(plan: LaunchPlan, target: Target, error: OSError) -> LaunchError:
    port, reason = target.oauth.callback_port, (error.strerror or str(error)).lower()
    if port is None:
        return StateError(f"cannot listen on 127.0.0.1: {reason}", fix="check the limits of this machine")
    path = ("mcp_servers", target.name, "oauth", "callback_port")
    origin = plan.origins.get(path, Origin(target.name))
    fix = f"end what listens there, or choose another port: ss -ltnp 'sport = :{port}' shows it"
    return MachineError([origin.problem(f"cannot listen at port {port} of 127.0.0.1: {reason}", fix)])


def _stored(vault: "Vault", login: Login) -> Grant | None:
    """Return the tokens of a login; None if the store has none that can be read.

    Raises:
        SecretError: the store cannot be read.
    """
    secret = vault.states(login.item)[login.item].secret
    return None if secret is None else decoded(secret)


def _keep(vault: "Vault", grant: Grant, login: Login, before: Login | None, secret: Secret | None) -> None:
    """Store the tokens, then the record. The tokens of the login before are removed, if no other address uses them.

    They are taken back, too, but not those of the same client, as some servers then end all its logins. `secret` is
    that of a configured client.

    Raises:
        SecretError: the store does not take them.
        StateError: the record cannot be written.
    """
    import asyncio

    records = Logins(vault.settings.state)
    with _held(records, login.item, vault.settings):
        write = partial(vault.store.write, login.item, _encoded(grant))
        vault.do(f"cannot store the login to {login.url}", write, writing=login.item)
        records.put(login.after(records.find(login.url, login.client)))  # a run may have written it meanwhile
    if before is not None and before.item != login.item and not records.of(before.item):
        with _held(records, before.item, vault.settings):
            old = _stored(vault, before)
            if old is not None or vault.states(before.item)[before.item].state != "missing":
                _remove(vault, before.item)
            if old is not None:  # whether the server does that or not: the new login is what counts
                asyncio.run(_revoked(old, old.client_secret or secret))


def _encoded(grant: Grant) -> Secret:
    try:
        return encoded(grant)
    except ValueError as error:
        raise AuthRequired(f"the login cannot be stored: {error}", fix="ask the operator of the server") from None


def _remove(vault: "Vault", item: str) -> None:
    vault.do("cannot remove the tokens", partial(vault.store.remove, item))


@contextmanager
def _held(records: Logins, item: str, settings: Settings) -> Iterator[None]:
    """Hold the lock of an item while the block runs, so that no run refreshes its tokens meanwhile.

    Raises:
        StateError: another process holds it for longer than a renewal takes, or it cannot be made.
    """
    from acp_launch.cli.stores import say_waiting
    from acp_launch.oauth.keeper import patience

    lock, limit = records.lock(item), patience(settings.secrets.timeout)
    with ExitStack() as held:
        try:
            try:
                held.enter_context(locked(lock, FIRST_WORD))
            except TimeoutError:
                say_waiting("the process that renews or changes this login", FIRST_WORD, limit)
                held.enter_context(locked(lock, limit - FIRST_WORD))
        except TimeoutError:
            said = f"another acp-launch has been changing this login for {limit:g} s"
            raise StateError(said, fix="try again later") from None
        except OSError as error:
            fix = f"check the owner and the mode of {shlex.quote(str(lock.parent))}"
            raise StateError(f"cannot lock {lock}: {(error.strerror or str(error)).lower()}", fix=fix) from None
        yield


async def _revoked(grant: Grant, secret: Secret | None) -> str:
    """Let the server take the tokens back. Return what is left to say of it, or empty if they are of no use now."""
    from acp_launch.oauth.exchange import Refused, revoke

    try:
        if grant.refresh is not None:
            await revoke(grant.client, secret, grant.refresh, hint="refresh_token", limit=PARTING)
        is_done = await revoke(grant.client, secret, grant.access, hint="access_token", limit=PARTING)
    except Refused as refused:
        return f"the server did not take the tokens back: {refused.how}"
    return "" if is_done else "the server cannot take tokens back, so they are valid there until they expire"
