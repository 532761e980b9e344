"""
A plan for users and for scripts: exactly what would start, and the origin of each value.

Values of environment variables and headers are never shown, only their names, because plans are pasted into issues and
stored by CI. Arguments and addresses are shown with references in place of secrets and shell variables, and with `***`
in place of credentials written in the profile.
"""

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import to_builtins
from msgspec.structs import asdict

from acp_launch.bridge.offer import is_bridged, wanted_transport
from acp_launch.console import problems, stdout
from acp_launch.console.processes import describe_users
from acp_launch.console.stderr import harmless_line
from acp_launch.console.trust import describe_client, write_value
from acp_launch.plan.model import (
    INHERITED,
    InContainer,
    LaunchPlan,
    LoginPlan,
    OverSsh,
    Place,
    ProcessPlan,
    Reason,
    RemotePlan,
    RulePlan,
    ServerPlan,
    StdioPlan,
    Value,
)
from acp_launch.plan.place import place
from acp_launch.plan.resolve import Resolved
from acp_launch.plan.shared import compared_options
from acp_launch.problem import KeyPath, dotted
from acp_launch.profile.keys import SERVER, find_others
from acp_launch.profile.model import (
    UNATTENDED_WAIT,
    USER_IDLE,
    LoginOptions,
    Match,
    RemoteOptions,
    RemoteRestart,
    Restart,
    StdioOptions,
    Tools,
)
from acp_launch.secret.detect import masked
from acp_launch.secret.value import Outcome

if TYPE_CHECKING:
    from acp_launch.console.logins import State


class SharedNow(NamedTuple):
    """A process that launches share, beside a server of a plan; `differences` keep the two apart. What needs secrets
    that were not looked up is `unknown`."""

    server: str
    pid: int | None
    labels: Sequence[str]
    differences: Sequence[str]
    unknown: Sequence[str]

    def __str__(self) -> str:
        different = [each for each in self.differences if each not in self.unknown]
        unless = f"; --secrets compares {', '.join(self.unknown)}, too" if self.unknown else ""
        how = f"is another: {', '.join(different)}" if different else f"is the same{unless}"
        return f"{self.server}: process {self.pid}, {describe_users(self.labels)}, {how}"


def show(
    resolved: Resolved,
    *,
    as_json: bool,
    verbose: bool = False,
    secrets: Mapping[str, Outcome] | None = None,
    logins: "Mapping[str, State] | None" = None,
    shared: Sequence["SharedNow"] = (),
) -> None:
    """
    Print the plan on stdout; the profile's problems go to stderr, or into the JSON. There must be a plan, or a draft,
    in which commands that are not installed are marked.

    `secrets` are the outcomes of a lookup; None if the user did not ask for one. `logins` are the known states of those
    that servers ask for. `shared` are the processes that launches share now.
    """
    plan = resolved.draft or resolved.plan
    assert plan is not None
    said = _states(logins or {}, as_json=False)
    if secrets is not None:
        from acp_launch.console.secrets import state_lines, states
    if as_json:
        found = [problem.as_json() for problem in resolved.problems]
        looked_up = {} if secrets is None else {"secret_states": states(secrets)}
        stdout.put_json({**plan_json(plan, logins or {}), **looked_up, "problems": found})
        return
    problems.show(resolved.problems, as_json=False, outcome="a run would not start")
    stdout.line(as_text(plan, verbose=verbose, logins=said))
    for index, each in enumerate(shared):
        stdout.line(harmless_line(f"{'' if index else 'shared now':12} {each}"))
    for index, line in enumerate(state_lines(secrets) if secrets else ()):
        stdout.line(f"{'' if index else 'secrets':12} {line}")


def as_text(plan: LaunchPlan, *, verbose: bool = False, logins: Mapping[str, str] | None = None) -> str:
    """Return the plan as text. `verbose` lists the inherited variables instead of counting them; `logins` are the
    states of logins, in words."""
    return "\n".join(map(harmless_line, [*_lines(plan, verbose, logins or {}), *_other_lines(plan)]))


def plan_json(plan: LaunchPlan, logins: "Mapping[str, State] | None" = None) -> dict[str, Any]:
    """Return the plan as data, with all inherited variables."""
    states = _states(logins or {}, as_json=True)
    others = {dotted(path): write_value(value) for path, value in find_others(plan.written)}
    return {
        "profile": plan.profile,
        "file": str(plan.file) if plan.file else None,
        "description": plan.description,
        "project": str(plan.project),
        "cwd": str(plan.cwd),
        "additional_directories": [str(directory) for directory in plan.additional_directories],
        "session": plan.session,
        "mode": plan.mode,
        "config": {
            masked(name): masked(value) if isinstance(value, str) else value for name, value in plan.config.items()
        },
        "permissions": {
            "default": plan.permission,
            "rules": [
                {"answer": rule.answer, "match": _globs(rule.match), "origin": str(rule.origin)} for rule in plan.rules
            ],
            "unattended": plan.unattended,
        },
        "client": asdict(plan.client),
        "timeouts": {name: float(getattr(plan.timeouts, name)) for name in plan.timeouts.__struct_fields__},
        "agent": {
            **_program(plan.agent),
            "registry": plan.agent.registry or None,
            "cwd": str(plan.agent.cwd),
            "place": None if plan.place is None else _place_json(plan.agent, plan.place),
            "mcp": plan.mcp,
            "mcp_over": wanted_transport(plan),
        },
        "mcp_servers": [_server(server, plan, states) for server in plan.servers],
        "secrets": [secret.name for secret in plan.secrets],
        **({"others": others} if others else {}),
        "origins": {masked(origin.path): str(origin) for origin in plan.origins.values() if origin.path},
    }


def _other_lines(plan: LaunchPlan) -> Iterator[str]:
    """Yield the keys that have no line of their own."""
    found = [*find_others(plan.written)]
    for server in plan.servers:
        at = ("mcp_servers", server.name)
        found += find_others(server, _options(server), at, SERVER)
        if isinstance(server, RemotePlan) and server.oauth is not None:
            found += find_others(server.oauth, LoginOptions, (*at, "oauth"), f"{SERVER}oauth.")
    for path, value in found:
        yield f"{dotted(path):12} {write_value(value)}{_at(plan, path)}"


def _globs(match: Match) -> dict[str, list[str]]:
    return {key: [masked(glob) for glob in globs] for key, globs in asdict(match).items() if globs}


def _program(program: ProcessPlan | StdioPlan) -> dict[str, Any]:
    return {
        "command": str(program.command),
        "missing": program.missing or None,
        "args": [masked(argument.display()) for argument in program.args],
        "env": _origins(program.env),
    }


def _server(server: ServerPlan, plan: LaunchPlan, logins: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(server, StdioPlan):
        return {
            "name": server.name,
            "type": "stdio",
            **_program(server),
            "cwd": None if server.cwd is None else str(server.cwd),
            "cwd_from": _chosen_by(server, plan),
            **({"data": [str(path) for path in server.data]} if server.bridge else {}),
            **_supervision(server),
        }
    sent = {"headers": _origins(server.headers), "env": _origins(server.env)}
    return {
        "name": server.name,
        "type": server.type,
        "url": masked(server.url.display()),
        **sent,
        "env_headers": server.env_headers,
        "insecure": server.insecure,
        "oauth": None if server.oauth is None else _login(server.oauth),
        **({"login": logins[server.name]} if server.name in logins else {}),
        **_supervision(server),
    }


def _states(logins: "Mapping[str, State]", *, as_json: bool) -> dict[str, Any]:
    """Return the states of logins, as data or in words."""
    if not logins:
        return {}

    from acp_launch.console.logins import data, describe_state

    describe: Callable[[State, float], Any] = data if as_json else describe_state
    return {name: describe(each, time.time()) for name, each in logins.items()}


def _login(oauth: LoginPlan) -> dict[str, Any]:
    secret = {} if oauth.client_secret is None else _origins({"client_secret": oauth.client_secret})
    return {
        "client_id": masked(oauth.client_id) or None,
        "client_secret": secret.get("client_secret"),
        "issuer": masked(oauth.issuer) or None,
        "client_metadata_url": masked(oauth.client_metadata_url) or None,
        **to_builtins({key: getattr(oauth, key) for key in LoginOptions.__struct_fields__}),
    }


def _supervision(server: ServerPlan) -> dict[str, Any]:
    """Describe what acp-launch decides about a server. Without a bridge the agent decides the rest."""
    if not server.bridge:
        return {"required": server.required, "bridge": server.bridge}
    said = {key: getattr(server, key) for key in _options(server).__struct_fields__}
    return {**to_builtins(said, enc_hook=float), "share": True if server.share == "launch" else server.share}


def _options(server: ServerPlan) -> type[StdioOptions | RemoteOptions]:
    return StdioOptions if isinstance(server, StdioPlan) else RemoteOptions


def _chosen_by(server: StdioPlan, plan: LaunchPlan) -> Literal["private", "profile", "session"]:
    if server.cwd is None:
        return "private"
    return "profile" if server.bridge and ("mcp_servers", server.name, "cwd") in plan.origins else "session"


def _origins(values: Mapping[str, Value]) -> dict[str, dict[str, Any]]:
    return {
        name: {"origin": str(value.origin), "secrets": [secret.name for secret in value.secrets]}
        for name, value in sorted(values.items())
    }


def _lines(plan: LaunchPlan, verbose: bool, logins: Mapping[str, str]) -> Iterator[str]:
    yield f"profile      {plan.profile}" + (f"  ({plan.file})" if plan.file else "")
    if plan.description:
        yield f"             {plan.description}{_at(plan, ('description',))}"
    yield f"project      {plan.project}"
    yield f"directory    {plan.cwd}{_at(plan, ('workspace', 'cwd'))}"
    for directory in plan.additional_directories:
        yield f"also         {directory}{_at(plan, ('workspace', 'additional_directories'))}"
    yield f"session      {plan.session or '(a new one)'}{_at(plan, ('session', 'name'))}"
    yield from _chosen_lines(plan)
    yield f"permissions  {plan.permission}{_at(plan, ('permissions', 'default'))}"
    yield from map(_rule_line, plan.rules)
    if plan.unattended != UNATTENDED_WAIT:
        yield f"unattended   {plan.unattended}{_at(plan, ('permissions', 'unattended'))}"
    if does := describe_client(plan.client):
        yield f"client       {does}{_at(plan, ('client',))}"
    timeouts = ", ".join(f"{name} {getattr(plan.timeouts, name)}" for name in plan.timeouts.__struct_fields__)
    yield f"timeouts     {timeouts}{_at(plan, ('agent', 'timeouts'))}"
    yield "agent"
    yield from _program_lines(plan.agent, ("agent",), plan, verbose)
    if plan.place is not None:
        yield from _place_lines(plan.place, plan, verbose)
    if any(map(is_bridged, plan.servers)) and (plan.mcp != "auto" or wanted_transport(plan) == "http"):
        yield f"  mcp        {_over(plan)}{_at(plan, ('agent', 'mcp'))}"
    for server in plan.servers:
        yield from _server_lines(server, plan, verbose, logins.get(server.name, ""))


def _chosen_lines(plan: LaunchPlan) -> Iterator[str]:
    if plan.mode is not None:
        yield f"mode         {masked(plan.mode)}{_at(plan, ('session', 'mode'))}"
    for index, (name, value) in enumerate(plan.config.items()):
        shown = value if isinstance(value, str) else str(value).lower()
        yield f"{'' if index else 'config':12} {masked(name)}: {masked(shown)}{_at(plan, ('session', 'config', name))}"


def _place_lines(where: Place, plan: LaunchPlan, verbose: bool) -> Iterator[str]:
    match where.elsewhere:
        case OverSsh() as there:
            yield f"  ssh        {there.host}, in {there.directory}{_at(plan, ('runtime', 'ssh'))}"
            yield f"  python     {there.python}"
        case InContainer() as there:
            yield f"  container  {there.image}, by {where.program}{_at(plan, ('runtime', 'container'))}"
            yield f"  pull       {there.pull}"
            yield f"  user       {' '.join(there.user) or 'as the image says'}"
        case None:
            at = _at(plan, ("runtime", "confined"))
            yield f"  confined   it sees what follows, and nothing else of this machine{at}"
    kinds: tuple[tuple[str, tuple[Reason, ...]], ...] = (
        ("writes", ("session", "write")),
        ("state", ("state",)),
        ("reads", ("read",)),
        ("git writes", ("git",)),
        ("runs", ("agent", "acp-launch", "system")),
    )
    for title, reasons in kinds:
        hidden = ("empty", "read") if title == "git writes" else ("empty",)
        paths = [str(mount.path) for mount in where.mounts if mount.reason in reasons and mount.access not in hidden]
        if title == "state" and not paths and where.elsewhere is None:
            yield f"  {title:10} none: what it stores in your home is gone when it ends"
        elif paths:
            yield f"  {title:10} {', '.join(paths)}"
    shared = "shared: it reaches all that listens on this machine, abstract sockets too"
    if where.elsewhere is None:
        yield f"  network    {shared if where.network == 'shared' else 'none'}"
    elif isinstance(where.elsewhere, InContainer):
        yield f"  network    {where.elsewhere.network}"
    if verbose or where.elsewhere is not None:
        yield f"  starts as  {_place_argv(plan.agent, where)}"


def _place_json(agent: ProcessPlan, where: Place) -> dict[str, Any]:
    return {
        "elsewhere": to_builtins(where.elsewhere, enc_hook=str),  # null: on this machine, confined
        "network": where.network,
        "mounts": [{"path": str(each.path), "access": each.access, "reason": each.reason} for each in where.mounts],
        "command": _place_argv(agent, where),
    }


def _place_argv(agent: ProcessPlan, where: Place) -> str:
    """Return the command line that starts the agent in its place, without the directory for sockets of a launch."""
    return place(agent, where).display()


def _over(plan: LaunchPlan) -> str:
    if wanted_transport(plan) == "stdio":
        return "it reaches bridged servers over stdio"
    why = " (it is known to take no others)" if plan.mcp == "auto" else ""
    return f"it reaches bridged servers over http, at addresses on 127.0.0.1{why}"


def _rule_line(rule: RulePlan) -> str:
    match = "; ".join(f"{key} {', '.join(globs)}" for key, globs in _globs(rule.match).items())
    return f"  {rule.answer:10} {match}  {rule.origin}"


def _server_lines(server: ServerPlan, plan: LaunchPlan, verbose: bool, login: str) -> Iterator[str]:
    path = ("mcp_servers", server.name)
    if isinstance(server, StdioPlan):
        kind, given = "stdio", "starts this server and gets its secrets"
        lines = [*_program_lines(server, path, plan, verbose), f"  directory  {_directory(server, plan)}"]
        if server.data:
            data = ", ".join(map(str, server.data))
            lines.append(f"  data       {data}: it runs nothing from there{_at(plan, (*path, 'data'))}")
    else:
        kind, given = server.type, "connects to this server and gets its address, headers and secrets"
        lines = [*_remote_lines(server, plan, verbose, login)]
    declared = _at(plan, (*path, "type"), (*path, "required"))
    yield f"mcp server {server.name} ({kind}{'' if server.required else ', not required'}){declared}"
    yield from lines
    if server.bridge:
        yield from _bridged_lines(server, plan, verbose)
    else:
        yield f"  bridge     none: the agent {given}{_at(plan, (*path, 'bridge'))}"


def _bridged_lines(server: ServerPlan, plan: LaunchPlan, verbose: bool) -> Iterator[str]:
    path, limits = ("mcp_servers", server.name), server.timeouts
    yield f"  restart    {_restart(server.restart)}{_at(plan, (*path, 'restart'))}"
    timeouts = ", ".join(f"{key} {getattr(limits, key) or 'none'}" for key in limits.__struct_fields__)
    yield f"  timeouts   {timeouts}{_at(plan, (*path, 'timeouts'))}"
    if server.start == "lazy":
        yield f"  lazy       started at its first use{_at(plan, (*path, 'start'))}"
    if server.share == "user" and isinstance(server, StdioPlan):
        yield from _shared_lines(server, plan, verbose)
    else:
        yield from _own_lines(server, plan)
    if server.tools != Tools():
        yield f"  tools      {_tools(server.tools)}{_at(plan, (*path, 'tools'))}"
    if server.roots == "session":
        yield f"  roots      the session's directories, whatever the agent declares{_at(plan, (*path, 'roots'))}"
    if server.protocol != "auto":
        yield f"  protocol   {server.protocol}{_at(plan, (*path, 'protocol'))}"
    if server.session_elevation != "off":
        yield f"  elevation  {server.session_elevation}{_at(plan, (*path, 'session_elevation'))}"


def _own_lines(server: ServerPlan, plan: LaunchPlan) -> Iterator[str]:
    path = ("mcp_servers", server.name)
    if server.idle:
        yield f"  idle       stopped after {server.idle} without use, until its next use{_at(plan, (*path, 'idle'))}"
    if server.share:
        what = "process" if isinstance(server, StdioPlan) else "connection"
        yield f"  shared     one {what} for all sessions of the agent{_at(plan, (*path, 'share'))}"


def _shared_lines(server: StdioPlan, plan: LaunchPlan, verbose: bool) -> Iterator[str]:
    path, idle = ("mcp_servers", server.name), server.idle or USER_IDLE
    is_bound = _chosen_by(server, plan) == "session"
    where = " in this directory; with cwd in those of any" if is_bound else ""
    yield f"  shared     one process for all your launches with this server{where}{_at(plan, (*path, 'share'))}"
    if verbose:
        roots = ", the session's directories" if server.roots == "session" else ""
        options = ", ".join(".".join(path) for path in compared_options() if path != ("roots",))
        yield f"             the same are command, arguments, directory{roots}, {options},"
        others = [name for name in sorted(server.env) if name not in server.compared]
        yield f"             and all variables{' but ' if others else ''}{', '.join(others)}"
    yield f"  idle       it ends {idle} after the last launch has left it{_at(plan, (*path, 'idle'))}"


def _directory(server: StdioPlan, plan: LaunchPlan) -> str:
    where = _at(plan, ("mcp_servers", server.name, "cwd"))
    return {
        "private": "(a private, empty one; set cwd to choose another)",
        "profile": f"{server.cwd}{where}",
        "session": f"{server.cwd}  (the session's)",
    }[_chosen_by(server, plan)]


def _restart(restart: Restart | RemoteRestart) -> str:
    if restart.policy == "never" or restart.max == 0:
        return "never"
    backoff = restart.backoff
    pauses = f"after {backoff.initial} to {backoff.max} (x{backoff.factor:g})"
    times = "no limit once it has answered" if restart.max is None else f"{restart.max} in a row"
    return f"{restart.policy}, {times}, {pauses}; the count resets after {restart.min_uptime}"


def _tools(tools: Tools) -> str:
    allowed = f"allow {', '.join(tools.allow) or 'none'}"
    return f"{allowed}; deny {', '.join(tools.deny)}" if tools.deny else allowed


def _remote_lines(server: RemotePlan, plan: LaunchPlan, verbose: bool, login: str) -> Iterator[str]:
    path = ("mcp_servers", server.name)
    yield f"  url        {masked(server.url.display())}{_at(plan, (*path, 'url'))}"
    yield from _value_lines("headers", server.headers, verbose)
    yield from _value_lines("variables", server.env, verbose)
    if server.env_headers != "exact":
        spelled = "headers with - for _" if server.env_headers == "dashes" else "none is sent"
        yield f"  sent as    {spelled}{_at(plan, (*path, 'env_headers'))}"
    if server.oauth is not None:
        yield f"  login      {_login_text(server.oauth)}{_at(plan, (*path, 'oauth'))}"
        if login:
            yield f"             {login}"
    elif login:
        yield f"  login      {login}"
    if server.insecure:
        yield f"  insecure   headers and variables may be sent unencrypted{_at(plan, (*path, 'insecure'))}"


def _login_text(oauth: LoginPlan) -> str:
    """Describe a login: `OAuth, for the scopes read, write, as the client docs with ${secret:docs}`."""
    at = f" at {masked(oauth.issuer)}" if oauth.issuer else ""
    scopes = f"the scopes {', '.join(oauth.scopes)}" if oauth.scopes else "the scopes that the server names"
    known_as = oauth.client_id or oauth.client_metadata_url
    client = f", as the client {masked(known_as)}" if known_as else ""
    secrets = ", ".join(map(str, oauth.client_secret.secrets)) if oauth.client_secret else ""
    client += f" with {secrets}" if secrets else ""
    host = "" if oauth.callback == LoginPlan().callback else f" {oauth.callback}"
    port = f" port {oauth.callback_port}" if oauth.callback_port else ""
    answered = f", answered at{host}{',' if host and port else ''}{port}" if host or port else ""
    return f"OAuth{at}, for {scopes}{client}{answered}{'' if oauth.resource else ', without `resource`'}"


def _program_lines(program: ProcessPlan | StdioPlan, path: KeyPath, plan: LaunchPlan, verbose: bool) -> Iterator[str]:
    if isinstance(program, ProcessPlan) and program.registry:
        yield f"  registry   {program.registry}{_at(plan, (*path, 'registry'))}"
    yield f"  command    {program.command}{_at(plan, (*path, 'command'))}"
    if program.missing:
        yield f"  missing    {program.missing}"
    if program.args:
        arguments = " ".join(_quote(masked(argument.display())) for argument in program.args)
        yield f"  arguments  {arguments}{_at(plan, (*path, 'args'))}"
    yield from _value_lines("variables", program.env, verbose, inherited=_at(plan, (*path, "inherit_env")))


def _value_lines(title: str, values: Mapping[str, Value], verbose: bool, *, inherited: str = "") -> Iterator[str]:
    shown = {name: value for name, value in values.items() if verbose or value.origin != INHERITED}
    rows = [f"{name}  {', '.join(map(str, (value.origin, *value.secrets)))}" for name, value in sorted(shown.items())]
    if hidden := len(values) - len(shown):
        rows.append(f"{hidden} inherited{inherited}")
    for index, row in enumerate(rows):
        yield f"  {'' if index else title:10} {row}"


def _at(plan: LaunchPlan, *paths: KeyPath) -> str:
    """Return the end of a line: the places where these keys are written; empty for keys that no file sets."""
    found = [origin for path, origin in plan.origins.items() if any(path[: len(each)] == each for each in paths)]
    if len(found) < 2:
        return "".join(f"  {origin}" for origin in found)
    lines: dict[str, dict[str, None]] = {}
    for origin in found:
        lines.setdefault(origin.source, {})[str(origin.line)] = None
    return "  " + ", ".join(f"{source}:{','.join(numbers)}" for source, numbers in lines.items())


def _quote(argument: str) -> str:
    """Quote as a shell needs it, so that empty arguments and arguments with spaces are visible."""
    return argument if argument.startswith("${") else shlex.quote(argument)
