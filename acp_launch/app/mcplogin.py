"""
The logins to remote MCP servers, for the verbs of `mcp`: `login`, `logout`, `status`, and what `list` says of them.

A login belongs to a server's address and the client id of the profile. Its tokens are an item of the secret store, and
its record tells of it without opening the store.
"""

import asyncio
import os
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from acp_launch.app.credentials import forget_login_asked, headers_command_of, is_login_asked, record_of, secret_of
from acp_launch.app.operation import VerbProcesses, verb_processes
from acp_launch.app.planning import find_server, loaded_profile, prepare_plan, require_trust, resolved_from
from acp_launch.app.stores import Vault, say_waiting, saying_waiting
from acp_launch.console import logins
from acp_launch.console.ask import links
from acp_launch.console.logins import State, is_valid
from acp_launch.console.problems import show_error
from acp_launch.console.stderr import can_ask_user
from acp_launch.errors import (
    AuthRequired,
    LaunchError,
    ProfileError,
    SecretError,
    StateError,
    Stopped,
    UsageError,
)
from acp_launch.oauth.exchange import ClientSecret, Refused, revoke
from acp_launch.oauth.flow import LoginFlow, Waiting, Wanted
from acp_launch.oauth.grant import Grant, Login, Logins, decode_grant, encode_grant, item_prefix
from acp_launch.oauth.keeper import patience
from acp_launch.oauth.listener import LoopbackListener
from acp_launch.oauth.metadata import canonical, covers
from acp_launch.plan.model import LaunchPlan, LoginPlan, RemotePlan
from acp_launch.plan.resolve import reduce_to
from acp_launch.private import locked
from acp_launch.problem import ours
from acp_launch.profile.load import Loaded
from acp_launch.profile.model import RemoteServer
from acp_launch.secret.value import LOGINS, Secret
from acp_launch.settings.load import load as load_settings
from acp_launch.settings.model import Settings
from acp_launch.waits import stretch

if TYPE_CHECKING:
    Opener = tuple[str, ...] | None  # the command that opens a page

REVOKE_TIMEOUT = stretch(10.0)  # for a server to take a token back
BROWSER_TIMEOUT = 300.0  # for the user
TRIAL = f"{LOGINS}trial"  # the item that is stored to find out whether a login can be


class LoginTarget(Struct, frozen=True):
    """A remote server of a profile, and its login, if there is one.

    `client_secret` is a configured client's. `headers` are the profile's for requests to the server.
    """

    server: RemotePlan
    login: Login | None
    client_secret: ClientSecret | None = None
    headers: Mapping[str, Secret] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def oauth(self) -> LoginPlan:
        return self.server.oauth or LoginPlan()


def log_in(profile: str, name: str | None, *, every: bool, trust: bool, browser: bool, patience: float | None) -> int:
    """Log in to one server of a profile, or with `every` to those that have no valid login and want one.

    Return the highest exit code of a login that failed, each of which is shown.

    Raises:
        UsageError: the one server needs no login, as a command of the user prints headers for it.
    """
    settings, plan, targets = plan_targets(profile, name, every=every, trust=trust, is_login=True)
    now = time.time()
    known = [(each, _state(each, settings)) for each in targets]
    if not every and (program := known[0][1].program):
        what = f"{known[0][0].name} needs no login: {program} prints headers for it, as your settings say"
        raise UsageError(what, fix=f"to log in, remove its headers_command: {ours('config', 'edit')}")
    due = [each for each, state in known if not every or not (state.program or is_valid(state.login, now))]
    for each, state in known:
        if each not in due or (every and each.login is not None):
            logins.say_state(state, now, is_due=each in due)
    if not due:
        return 0
    limit = BROWSER_TIMEOUT if patience is None else patience
    vault = Vault(settings, may_offer=True)
    _rehearse(vault)
    with verb_processes(settings, plan, "mcp") as processes:
        return max(_log_in_to(each, profile, vault, processes, limit, browser=browser) for each in due)


def _rehearse(vault: "Vault") -> None:
    """Store and remove something, before the user goes to the browser: a login that cannot be kept would be in vain.

    Raises:
        SecretError: the store does not take it.
        StateError: the record of a login cannot be written.
    """
    what = "cannot store a login"
    Logins(vault.settings.state).rehearse()
    vault.do(what, lambda: vault.store.write(TRIAL, Secret("trial")), writing=LOGINS)
    vault.do(what, lambda: vault.store.remove(TRIAL))


def _log_in_to(
    target: LoginTarget, profile: str, vault: "Vault", processes: VerbProcesses, limit: float, *, browser: bool
) -> int:
    """Log in to one server; show why it failed. Return the exit code."""
    try:
        before = _read_grant(vault, target.login.item) if target.login and target.oauth.callback_port else None
        work = partial(_log_in, target, profile, before, limit, browser=browser)
        grant, login = processes.run(lambda interrupts: interrupts.watch(work()))
        _store(vault, grant, login, target)
    except Stopped:
        raise
    except LaunchError as error:
        show_error(error)
        return error.exit_code
    logins.say_logged_in(target.name, login, ours("run", profile))
    return 0


def log_out(profile: str, name: str | None, *, every: bool, trust: bool) -> None:
    """Log out: the server revokes the tokens, if it can, and acp-launch deletes them."""
    settings, _, targets = plan_targets(profile, name, every=every, trust=trust)
    vault, records = Vault(settings), Logins(settings.state)
    for each in targets:
        forget_login_asked(each.server, records)
        items = [each.login.item] if each.login is not None else _lost_items(vault, records, each)
        for item in items:
            with _lock(records, item, vault.settings):
                fault = _take_back(vault, item, each.client_secret)
                known = records.of(item)
                for login in known:
                    records.drop(login)
            logins.say_logged_out(each.name, fault, [login.url for login in known if login != each.login])
        if not items:
            logins.say_not_logged_in(each.name)


def _lost_items(vault: "Vault", records: Logins, target: LoginTarget) -> list[str]:
    """Return the items of a server's tokens that no record is about; none if the store cannot be listed."""
    url, client = target.server.url.reveal({}), target.oauth.client_id
    known = {login.item for login in records.all()}
    try:
        names = vault.do("cannot list the store", vault.store.names) or ()
        items = [name for name in names if name.startswith(item_prefix(canonical(url))) and name not in known]
        grants = {item: _read_grant(vault, item) for item in items}
    except SecretError:
        return []
    found = {item: grant.client.client_id for item, grant in grants.items() if grant and covers(grant.resource, url)}
    return [item for item, id in found.items() if client in ("", id)]


def status(profile: str, name: str | None, *, every: bool, as_json: bool) -> None:
    """Show the logins of a profile's servers, or of one. Neither the secret store nor a server is asked.

    Raises:
        UsageError: there is no such server.
        AuthRequired: a server that asks for a login has no valid one.
    """
    settings = load_settings()
    loaded = loaded_profile(profile, settings)
    _check_name(loaded, profile, name, every=every)
    found = [each for each in states(loaded, settings) if name in (None, each.name)]
    now = time.time()
    logins.show(found, now, as_json=as_json)
    if not found and not as_json:
        logins.say_none(f"{name} is not" if name else f"no MCP server of {loaded.found.name} is")
    lacking = [each.name for each in found if each.is_lacking(now)]
    if lacking:
        many = len(lacking) > 1
        raise AuthRequired(
            f"not logged in to {', '.join(lacking)}",
            fix=ours("mcp", "login", profile, *(["--all"] if many else lacking)),
        )


def login_states(plan: LaunchPlan, settings: Settings) -> dict[str, State]:
    """Return the states of the logins that the servers of a plan have or ask for, and of what takes their place."""
    records = Logins(settings.state)
    remotes = [server for server in plan.servers if isinstance(server, RemotePlan)]
    found = [_state(LoginTarget(server, record_of(server, records)), settings) for server in remotes]
    return {each.name: each for each in found if each.login is not None or each.is_asked or each.program}


def states(loaded: Loaded, settings: Settings) -> Iterator[State]:
    """Yield the same for the servers of a profile, each planned alone."""
    for name, server in loaded.profile.mcp_servers.items():
        if isinstance(server, RemoteServer):
            plan = resolved_from(reduce_to(loaded, [name])).plan
            if plan is not None:
                yield from login_states(plan, settings).values()
            elif server.oauth is not None:  # for instance a variable of its address is not set
                yield State(name, "", None, is_asked=True)


def _state(target: LoginTarget, settings: Settings) -> State:
    server, printer = target.server, headers_command_of(target.server, settings)
    program = PurePath(settings.headers_command[printer].command[0]).name if printer else ""
    is_asked = is_login_asked(server, Logins(settings.state))
    return State(server.name, server.url.display(), target.login, is_asked=is_asked, program=program)


def plan_targets(
    profile: str, name: str | None, *, every: bool, trust: bool, is_login: bool = False
) -> tuple[Settings, LaunchPlan, list[LoginTarget]]:
    """Plan the servers that the user has named. For a login they get requests with the headers of the profile.

    Raises:
        UsageError: there is no such server, or it is not clear which one is meant.
        NotTrusted: the profile is a project's, and not trusted.
        MachineError: a variable or a client's secret is not set.
        ProfileError: the address of a server comes from a secret.
    """
    settings = load_settings()
    loaded = loaded_profile(profile, settings)
    _check_name(loaded, profile, name, every=every)
    names = [name] if name is not None else _list_asking(loaded, profile, settings, every=every)
    require_trust(loaded, settings, allow_once=trust)
    resolved = resolved_from(reduce_to(loaded, names))
    places = tuple(f"mcp_servers.{each}.{'' if is_login else 'oauth.'}" for each in names)
    needs = tuple(need for need in resolved.needs if need.origin.path.startswith(places))
    plan, secrets, *_ = prepare_plan(replace(resolved, needs=needs), settings, with_logins=False)
    return settings, plan, list(_targets(plan, secrets, Logins(settings.state)))


def _targets(plan: LaunchPlan, secrets: Mapping[str, Secret], records: Logins) -> Iterator[LoginTarget]:
    for server in plan.servers:
        assert isinstance(server, RemotePlan)
        if server.url.secrets:  # the record of a login holds the address
            what = "the address of a server with a login cannot come from a secret"
            raise ProfileError([server.url.origin.problem(what, "write it as text, or use ${env:NAME}")])
        known = {
            name: value for name, value in server.sent.items() if {each.name for each in value.secrets} <= set(secrets)
        }
        login = record_of(server, records)
        yield LoginTarget(
            server,
            login,
            secret_of(server, login, secrets),
            {name: value.concealed(secrets) for name, value in known.items() if name.lower() != "authorization"},
        )


def _check_name(loaded: Loaded, profile: str, name: str | None, *, every: bool) -> None:
    """Refuse the name of a server that can have no login."""
    servers = loaded.profile.mcp_servers
    if every and name is not None:
        raise UsageError("--all takes no SERVER")
    if name is not None and not isinstance(servers[find_server(name, profile, servers)], RemoteServer):
        what = f'"{name}" is a program on this machine, which needs no login'
        raise UsageError(what, fix=f"{ours('mcp', 'list', profile)} lists the servers")


def _list_asking(loaded: Loaded, profile: str, settings: Settings, *, every: bool) -> list[str]:
    """List the servers that want a login, as far as it is known; if none does, the only one that may."""
    asking = [each.name for each in states(loaded, settings) if each.is_asked]
    remotes = [name for name, server in loaded.profile.mcp_servers.items() if isinstance(server, RemoteServer)]
    if not asking and len(remotes) == 1:
        return remotes
    if not asking:
        fix = f"name one that has a url; {ours('mcp', 'list', profile)} lists them"
        raise UsageError(f"no MCP server of {profile} is known to want a login", fix=fix)
    if len(asking) > 1 and not every:
        raise UsageError(f"no MCP server is given: {', '.join(asking)} ask for a login", fix="name one, or use --all")
    return asking


def _find_opener(*, browser: bool) -> tuple["Opener", str]:
    """Return the command that opens a page here; None if the user does that, and why there is none."""
    is_far = any(os.environ.get(variable) for variable in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"))
    found = links.command(os.environ) if browser and not is_far else None
    why = "this is an SSH session" if is_far else "--no-browser is given" if not browser else "no browser was found"
    return None if found is None else tuple(found), why


def _refuse_page(why: str, fix: str, address: str) -> None:
    """Refuse a login in which the user cannot come back from the page."""
    raise AuthRequired(f"a login needs a browser or a terminal: {why}, and stdin is not a terminal", fix=fix)


async def _log_in(
    target: LoginTarget, profile: str, before: Grant | None, limit: float, *, browser: bool
) -> tuple[Grant, Login]:
    """Log in with the command that opens a page, with a code for another machine, or on a terminal, within seconds."""
    url, oauth, secret = target.server.url.reveal({}), target.oauth, target.client_secret
    wanted = Wanted(
        name=target.name,
        url=url,
        type="sse" if target.server.type == "sse" else "http",
        scopes=oauth.scopes,
        client_id=oauth.client_id,
        client_secret=secret.value if secret else None,
        place=secret.place if secret else "",
        issuer=oauth.issuer,
        before=target.login,
        client_metadata_url=oauth.client_metadata_url,
        sends_resource=oauth.resource,
        headers=target.headers,
    )
    opener, why = _find_opener(browser=browser)
    show = partial(logins.show_page, target.name, url, opener)
    device, pasted = None, None
    if opener is None:
        device, pasted = partial(logins.show_code, target.name, url), partial(logins.ask_address, target.name)
        if not can_ask_user():  # a code needs no answer here
            fix = f"run it in a terminal: {ours('mcp', 'login', profile, target.name)}"
            show, pasted = partial(_refuse_page, why, fix), None
    quiet: Waiting = lambda what, waited, limit: None  # noqa: E731 - the question of the terminal is on the screen
    told = say_waiting if pasted is None else quiet
    listener = LoopbackListener(show, told, host=oauth.callback, pasted=pasted, patience=limit)
    known = target.login
    # What the server has demanded in runs is not asked for any more if logins do not bring it.
    more = () if known is None or known.is_hopeless or not known.demanded else (*known.scopes, *known.demanded)
    try:
        async with listener.listen(oauth.callback_port or 0):
            confirm = logins.confirm if can_ask_user() else None
            flow = LoginFlow(wanted, listener, device, confirm, say_waiting, limit)
            grant, login = await flow.log_in(more=more, registered=before)
    except Refused as refused:
        fix = refused.fix or "ask the operator of the server"
        raise AuthRequired(f"{target.name}: {refused.how}", fix=fix) from None
    except OSError as error:
        where = f"{oauth.callback}, port {oauth.callback_port or 'any'}"
        fix = "stop the program that listens there, or choose another oauth.callback_port"
        raise StateError(f"{target.name}: cannot listen on {where}: {error.strerror}", fix=fix) from None
    if known is not None and known.is_hopeless:
        logins.say_not_asked(target.name, known.demanded)
    return grant, login


def _read_grant(vault: "Vault", item: str) -> Grant | None:
    """Return the tokens in an item; None if the store has none that can be read.

    Raises:
        SecretError: the store cannot be read.
    """
    secret = vault.states(item)[item].secret
    return None if secret is None else decode_grant(secret)


def _store(vault: "Vault", grant: Grant, login: Login, target: LoginTarget) -> None:
    """Store the tokens, then the record. The tokens of the login before are removed, if no other address uses them.

    Raises:
        AuthRequired: they are too long.
        SecretError: the store does not take them.
        StateError: the record cannot be written.
    """
    records, before = Logins(vault.settings.state), target.login
    try:
        text = encode_grant(grant)
    except ValueError as error:
        raise AuthRequired(f"the login cannot be stored: {error}", fix="ask the operator of the server") from None
    with _lock(records, login.item, vault.settings):
        write = partial(vault.store.write, login.item, text)
        vault.do(f"cannot store the login to {login.url}", write, writing=login.item)
        records.put(login.after(records.find(login.url, login.client)))  # a run may have written it in the meantime
    if before is not None and before.item != login.item and not records.of(before.item):
        with _lock(records, before.item, vault.settings):
            _take_back(vault, before.item, target.client_secret)  # if the server does not, the new login counts


def _take_back(vault: "Vault", item: str, secret: ClientSecret | None) -> str:
    """Remove tokens, and let the server take them back. Return a remark for the user, empty if it did."""
    grant = _read_grant(vault, item)
    fault = "the store no longer had its tokens" if grant is None else _revoke(grant, secret)
    if vault.states(item)[item].state != "missing":
        vault.do("cannot remove the tokens", partial(vault.store.remove, item))
    return fault


@contextmanager
def _lock(records: Logins, item: str, settings: Settings) -> Iterator[None]:
    """Hold the lock of an item while the block runs, so that no run refreshes its tokens.

    Raises:
        StateError: another process holds it for longer than a renewal takes, or it cannot be made.
    """
    lock, limit = records.lock(item), patience(settings.secrets.timeout)
    with ExitStack() as held:
        try:
            with saying_waiting("the process that renews or changes this login", limit):
                held.enter_context(locked(lock, limit))
        except TimeoutError:
            what = f"another acp-launch has been changing this login for {limit:g} s"
            raise StateError(what, fix="try again later") from None
        except OSError as error:
            fix = f"check the owner and the mode of {shlex.quote(str(lock.parent))}"
            raise StateError(f"cannot lock {lock}: {(error.strerror or str(error)).lower()}", fix=fix) from None
        yield


def _revoke(grant: Grant, secret: ClientSecret | None) -> str:
    """Let the server take the tokens back. Return a remark for the user, empty if they are of no use now."""
    try:
        for hint, token in (("refresh_token", grant.refresh), ("access_token", grant.access)):
            if token is None:
                continue
            client_secret = grant.client_secret if secret is None else secret.reveal_to(grant.client)
            if not asyncio.run(revoke(grant.client, client_secret, token, hint=hint, limit=REVOKE_TIMEOUT)):
                return "the server cannot revoke tokens, so they stay valid until they expire"
    except Refused as refused:
        return f"the server did not revoke the tokens: {refused.how}"
    return ""
