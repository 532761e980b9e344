"""
The resolution of a profile: together with this machine it becomes a `LaunchPlan`, or every Problem at once.

`resolve` reads the machine (environment, files, PATH) and changes nothing. Secrets stay references; they are looked up
once, when something is about to start; `needs` in `model` lists them.

The steps are: `Substitution` fills in references, `Machine` finds directories and programs, `servers` and `rules`
plan those, and `_Walk` puts everything together. Each records problems at their places and goes on, so that all are
reported at once.
"""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from glob import escape
from pathlib import Path
from typing import Any
from zlib import crc32

from msgspec import Struct, field
from msgspec.structs import replace

from acp_launch.document.nodes import Plain
from acp_launch.document.shape import Shape
from acp_launch.errors import UsageError
from acp_launch.plan.executable import (
    CannotRun,
    distinct,
    environment,
    find,
    is_of_session,
    kept_out,
    list_compared,
    names_project,
    search_path,
    speaks_for,
    taken_over,
    usable,
    words,
)
from acp_launch.plan.model import (
    Inherited,
    LaunchPlan,
    LoginPlan,
    Named,
    Need,
    Origin,
    ProcessPlan,
    RemotePlan,
    RulePlan,
    ServerPlan,
    StdioPlan,
    Value,
    needs,
)
from acp_launch.problem import KeyPath, Problem, about, dotted, errors
from acp_launch.profile.discover import project_of
from acp_launch.profile.layers import ordered
from acp_launch.profile.load import Loaded
from acp_launch.profile.model import (
    Agent,
    Approval,
    HttpServer,
    LoginOptions,
    Match,
    OAuth,
    RemoteOptions,
    Rule,
    Servers,
    SseServer,
    StdioOptions,
    StdioServer,
    Timeouts,
)
from acp_launch.profile.values import (
    CLEAR,
    CLEAR_FIX,
    HEADER_FIX,
    LOGIN_CLEAR_FIX,
    SESSION_NAME_FIX,
    URL_FIX,
    USER_FIX,
    Inherit,
    Template,
    header_fault,
    host,
    is_in_the_clear,
    session_name_fault,
    url_fault,
    user_fault,
    variable_headers,
)
from acp_launch.secret.detect import noun
from acp_launch.secret.value import EnvironmentReference, Part, SecretReference, VariableReference, parse, place


class Substitution(Struct):
    """Fills in the references of one profile; secrets stay references. `variables` are the values of `${project}` and
    the like."""

    loaded: Loaded
    environ: Mapping[str, str]
    variables: Mapping[str, str]
    problems: list[Problem] = field(default_factory=list)

    def origin(self, path: KeyPath, *, offset: int = 0) -> Origin:
        """Return where the value at `path` is written."""
        at = self.loaded.positions.where(path, offset=offset)
        return Origin(at.file, at.line, at.column, dotted(path))

    def origins(self) -> dict[KeyPath, Origin]:
        """Return where each value of the merged profile is written; a list is one value."""
        return {path: self.origin(path) for path in _leaves(self.loaded.merged, ())}

    def value(self, path: KeyPath, template: str) -> Value | None:
        """Resolve one value; None if part of it cannot be resolved, which is recorded as a problem."""
        value, complete = self._substitute(path, template)
        return value if complete else None

    def values(self, path: KeyPath, templates: Mapping[str, str]) -> dict[str, Value]:
        found = {name: self.value((*path, name), template) for name, template in templates.items()}
        return {name: value for name, value in found.items() if value is not None}

    def sequence(self, path: KeyPath, templates: tuple[str, ...]) -> tuple[Value, ...]:
        found = (self.value((*path, index), template) for index, template in enumerate(templates))
        return tuple(value for value in found if value is not None)

    def text(self, path: KeyPath, template: str) -> str | None:
        """Resolve a value that is needed now, such as a path; a checked profile has no secret there."""
        value, complete = self._substitute(path, template)
        return value.reveal({}) if complete else None

    def problem(self, path: KeyPath, message: str, fix: str) -> None:
        self.problems.append(self.origin(path).problem(message, fix))

    def refuse(self, path: KeyPath, reason: CannotRun) -> None:
        self.problem(path, reason.message, reason.fix)

    def _substitute(self, path: KeyPath, template: str) -> tuple[Value, bool]:
        """Resolve the parts of a value; also return whether all of them could be resolved."""
        parts = [self._resolve_part(path, template, part) for part in parse(template)]
        known = tuple(part for part in parts if part is not None)
        return Value(known, self.origin(path)), len(known) == len(parts)

    def _resolve_part(self, path: KeyPath, template: str, part: Part) -> str | SecretReference | None:
        if isinstance(part, VariableReference):
            return self._variable(path, template, part)
        if isinstance(part, EnvironmentReference):
            return self._environment(path, template, part)
        return part

    def _variable(self, path: KeyPath, template: str, part: VariableReference) -> str | None:
        if text := self.variables.get(part.name):
            return text
        where = self.origin(path, offset=place(template, part))
        self.problems.append(where.problem(f"{part} is not known on this machine", "write the path instead"))
        return None

    def _environment(self, path: KeyPath, template: str, part: EnvironmentReference) -> str | None:
        if (found := self.environ.get(part.name)) and "\0" not in found:
            return Inherited(found, part)
        if part.default is not None:
            return part.default
        if part.name in self.environ:  # deliberately set to an empty value
            return ""
        where = self.origin(path, offset=place(template, part))
        if found:
            self.problems.append(where.problem(f"{part.name} holds a NUL character", "set it to text"))
            return None
        fix = f"export {part.name}=..., or write ${{env:{part.name}:-default}}"
        self.problems.append(where.problem(f"the environment variable {part.name} is not set", fix))
        return None


def _leaves(value: Plain, path: KeyPath) -> Iterator[KeyPath]:
    if not isinstance(value, Mapping) or (not value and path):
        yield path
        return
    for key, inner in value.items():
        yield from _leaves(inner, (*path, key))


class Machine(Substitution):
    """
    Finds the directories and programs that a profile names.

    A missing one is a problem at its place, or only a warning if it is not `required`, because the session opens
    without it. `found` holds the results by their paths in the profile, `missing` the reasons for commands without a
    program.
    """

    found: dict[KeyPath, Path] = field(default_factory=dict)
    missing: dict[KeyPath, CannotRun] = field(default_factory=dict)

    @property
    def project(self) -> Path:
        """The directory for relative paths."""
        return self.loaded.found.project

    def directory(self, path: KeyPath, written: str, *, required: bool = True) -> Path | None:
        """Find the directory that the text at `path` names; None if there is a problem, which is recorded."""
        text = self.text(path, written)
        return None if text is None else self._record(usable(text, base=self.project), path, required)

    def command(self, path: KeyPath, written: str, *, search: str | None, required: bool = True) -> Path | None:
        """Find the program that the text at `path` names; `search` is its PATH.

        If there is none, the text itself is returned for a draft, and the reason goes into `missing`.
        """
        text = self.text(path, written)
        if text is None:
            return None
        program = find(text, project=self.project, path=search)
        if isinstance(program, CannotRun):
            self.missing[path] = program
        return self._record(program, path, required) or Path(text)

    def why_missing(self, path: KeyPath) -> str:
        """Say why the command at `path` cannot be run; empty if it can."""
        return self.missing[path].message if path in self.missing else ""

    def unless_shadowed(
        self, path: KeyPath, program: Path, args: Sequence[Value], *, cwd: Path, required: bool = True
    ) -> Path | None:
        """Return the program; None and a problem if files in `cwd` would run instead of what it names."""
        return self._record(taken_over(words(program, args), cwd) or program, path, required)

    def _record(self, found: Path | CannotRun, path: KeyPath, required: bool) -> Path | None:
        if isinstance(found, Path):
            self.found[path] = found
            return found
        if required:
            self.refuse(path, found)
            return None
        self.warn(path, f"{found.message}; the session opens without this server", found.fix)
        return None

    def warn(self, path: KeyPath, message: str, fix: str) -> None:
        problem = self.origin(path).problem(message, fix)
        self.problems.append(problem._replace(severity="warning"))


class SessionContext(Struct, frozen=True):
    """The session of the servers. `agent_env` is what the profile sets for the agent, which starts some servers itself.
    `is_accepted`: the user accepted the session's project together with the profile."""

    cwd: Path
    agent_env: Mapping[str, Value]
    is_accepted: bool


def servers(machine: Machine, session: SessionContext) -> Iterator[ServerPlan]:
    """Plan the MCP servers that this machine can start; problems of the others are recorded."""
    for name, server in machine.loaded.profile.mcp_servers.items():
        if isinstance(server, StdioServer):
            made: ServerPlan | None = _stdio(machine, name, server, session)
        else:
            made = _remote(machine, name, server)
        if made is not None:
            yield made


def _as_written(options: type[Shape], said: Shape) -> dict[str, Any]:
    """Return the keys without references, which a plan has as they are."""
    return {key: getattr(said, key) for key in options.__struct_fields__}


def process(server: StdioPlan, environ: Mapping[str, str]) -> ProcessPlan:
    """Plan the process of a server without an agent. A server that the agent would start gets the usual environment.

    A server with an empty directory of its own gets the root directory until that is created.
    """
    env = server.env if server.bridge else environment(environ, "minimal", server.env)
    cwd = server.cwd or Path("/")
    return ProcessPlan(name=server.name, command=server.command, args=server.args, env=env, cwd=cwd)


def _stdio(machine: Machine, name: str, server: StdioServer, session: SessionContext) -> StdioPlan | None:
    path = ("mcp_servers", name)
    own = machine.values((*path, "env"), server.env)
    args = machine.sequence((*path, "args"), server.args)
    is_apart = _is_apart(machine, server, session)
    cwd = None if is_apart else _directory(machine, name, server, session.cwd)
    command = machine.command(
        (*path, "command"),
        server.command,
        search=_search(machine, server, session, own),
        required=server.required,
    )
    if command is None or (cwd is None and not is_apart):
        return None
    if is_apart:
        _warn(machine, args, session.cwd)
    missing = machine.why_missing((*path, "command"))
    if cwd is not None and not missing and _is_exposed(machine, server, session):
        own = {**kept_out(command, args), **own}
        command = machine.unless_shadowed((*path, "command"), command, args, cwd=cwd, required=server.required)
    if command is None:
        return None
    env = environment(machine.environ, server.inherit_env, own) if server.bridge else own
    return StdioPlan(
        name=name,
        command=command,
        args=args,
        env=env,
        cwd=cwd,
        data=tuple(_data(machine, path, server)),
        compared=list_compared(env, server.inherit_env) if server.share == "user" else (),
        missing=missing,
        **_as_written(StdioOptions, server),
    )


def _data(machine: Machine, path: KeyPath, server: StdioServer) -> Iterator[Path]:
    for index, written in enumerate(server.data):
        if (text := machine.text((*path, "data", index), written)) is not None:
            yield Path(os.path.normpath(machine.project / text))


def _warn(machine: Machine, args: Sequence[Value], session: Path) -> None:
    """Warn about arguments that name files of the session's directory, because the server does not run there."""
    for argument in args:
        text = argument.display()
        if is_of_session(text, session):
            what = f'the server runs in an empty directory of its own, but "{text}" is a relative path'
            problem = argument.origin.problem(what, "begin it with ${project}/, or set cwd: ${project}")
            machine.problems.append(problem._replace(severity="warning"))


def _is_apart(machine: Machine, server: StdioServer, session: SessionContext) -> bool:
    """Whether a server runs in an empty directory of its own."""
    if not server.bridge or server.cwd is not None:
        return False
    runtime = machine.loaded.profile.runtime
    if runtime.confined is not None or runtime.container is not None:  # the agent can write the session's directory
        return True
    return not session.is_accepted and not _is_of_project(machine, server.command)


def _is_exposed(machine: Machine, server: StdioServer, session: SessionContext) -> bool:
    """Whether a server runs in a project that the user has not accepted, without being a program of that project."""
    if session.is_accepted:
        return False
    if server.bridge and server.cwd is not None:
        return names_project(server.cwd, machine.loaded.found)
    return not _is_of_project(machine, server.command)


def _is_of_project(machine: Machine, command: str) -> bool:
    return ("/" in command or os.sep in command) and names_project(command, machine.loaded.found)


def _directory(machine: Machine, name: str, server: StdioServer, session: Path) -> Path | None:
    path = ("mcp_servers", name, "cwd")
    if server.cwd is None or not server.bridge:
        machine.found[path] = session
        return session
    return machine.directory(path, server.cwd, required=server.required)


def _search(machine: Machine, server: StdioServer, session: SessionContext, own: Mapping[str, Value]) -> str | None:
    """Return the PATH for finding a server: its own, else the starting process's."""
    if server.bridge:
        return search_path(machine.environ, server.inherit_env, own)
    return search_path(machine.environ, machine.loaded.profile.agent_inherits, session.agent_env, own)


def _remote(machine: Machine, name: str, server: HttpServer | SseServer) -> RemotePlan | None:
    path = ("mcp_servers", name)
    url = machine.value((*path, "url"), server.url)
    headers = machine.values((*path, "headers"), server.headers)
    env = machine.values((*path, "env"), server.env)
    if url is not None:
        _address(machine, (*path, "url"), url)
    for key, values in (("headers", headers), ("env", env)):
        for header, value in values.items():
            if fault := next(filter(None, (header_fault(part) for part in value.parts if isinstance(part, str))), ""):
                sent = "it is sent as a header, and " if key == "env" else ""
                machine.problem((*path, key, header), f"{sent}{fault}", HEADER_FIX)
    if url is None:
        return None
    if "$" in (host(server.url) or server.url):
        _check_cleartext(machine, (*path, "url"), url, server, headers, env)
    return RemotePlan(
        name=name,
        type=server.type,
        url=url,
        headers=headers,
        env=env,
        oauth=None if server.oauth is None else _login(machine, (*path, "oauth"), server.oauth),
        **_as_written(RemoteOptions, server),
    )


def _login(substitution: Substitution, path: KeyPath, oauth: OAuth) -> LoginPlan:
    client_id, secret = oauth.client_id, oauth.client_secret
    return LoginPlan(
        client_id="" if client_id is None else substitution.text((*path, "client_id"), client_id) or "",
        client_secret=None if secret is None else substitution.value((*path, "client_secret"), secret),
        issuer=(oauth.issuer or "").rstrip("/"),
        client_metadata_url=oauth.client_metadata_url or "",
        **_as_written(LoginOptions, oauth),
    )


def _address(substitution: Substitution, path: KeyPath, url: Value) -> None:
    """Check an address whose references are filled in; `rules` has checked what it says without them."""
    text = "".join(str(part) for part in url.parts)
    if fault := url_fault(text):
        substitution.problem(path, _redacted_fault(url, fault), URL_FIX)
    elif fault := user_fault(text):
        substitution.problem(path, fault, USER_FIX)


def _check_cleartext(
    substitution: Substitution,
    path: KeyPath,
    url: Value,
    server: HttpServer | SseServer,
    headers: Mapping[str, Value],
    env: Mapping[str, Value],
) -> None:
    """Refuse to send credentials unencrypted, if the host comes from a reference; `rules` judges all other hosts."""
    if not is_in_the_clear("".join(str(part) for part in url.parts)):
        return

    names = [
        *(name for name, value in headers.items() if value.secrets or noun(name)),
        *variable_headers(env, server.env_headers),
    ]
    if names and not server.insecure:
        substitution.problem(path, CLEAR.format(", ".join(names)), CLEAR_FIX)
    if server.oauth is not None:
        substitution.problem(path, CLEAR.format("the tokens of the login"), LOGIN_CLEAR_FIX)


def _redacted_fault(url: Value, fault: str) -> str:
    """Describe a wrong address without quoting one from the environment, which may hold a credential."""
    if not any(isinstance(part, Inherited) for part in url.parts):
        return fault
    return f"{url.display()} is not an http or https url"


# Permission rules. The value of `${project}` is quoted, since a directory's name is not a glob. Tool calls are judged
# later without the file system, so a path whose fixed part leads through a link gets a second glob with the real path.
_WILD = frozenset("*?[")


def rules(substitution: Substitution) -> tuple[RulePlan, ...]:
    """Resolve the permission rules in order: references filled in, paths absolute. Problems are recorded."""
    written = substitution.loaded.profile.permissions.rules
    if not written:
        return ()

    ssh = substitution.loaded.profile.runtime.ssh
    there = {} if ssh is None else {"project": ssh.directory}  # where the files are that rules are about
    quoted = {name: escape(value) for name, value in {**substitution.variables, **there}.items()}
    quoting = Substitution(substitution.loaded, substitution.environ, quoted, substitution.problems)
    return tuple(_rule(quoting, ("permissions", "rules", index), rule) for index, rule in enumerate(written))


def _rule(substitution: Substitution, path: KeyPath, rule: Rule) -> RulePlan:
    answer, match = _answer(rule)
    commands = _texts(substitution, (*path, answer, "command"), match.command)
    paths = _texts(substitution, (*path, answer, "path"), match.path)
    ssh = substitution.loaded.profile.runtime.ssh
    project = escape(str(substitution.loaded.found.project) if ssh is None else ssh.directory)
    absolute = dict.fromkeys(each for text in paths for each in _absolute(project, text, is_here=ssh is None))
    resolved = replace(match, command=tuple(commands), path=tuple(absolute))  # no templates now
    return RulePlan(answer, resolved, substitution.origin(path))


def _answer(rule: Rule) -> tuple[Approval, Match]:
    found: tuple[tuple[Approval, Match], ...] = (("allow", rule.allow), ("deny", rule.deny), ("ask", rule.ask))
    return next((answer, match) for answer, match in found if match != Match())


def _texts(substitution: Substitution, path: KeyPath, written: tuple[str, ...]) -> list[str]:
    where = substitution.loaded.positions.where
    is_list = bool(written) and where((*path, 0)) != where(path, key=True)  # a text may stand for a list of one
    places = ((*path, index) if is_list else path for index in range(len(written)))
    texts = map(substitution.text, places, written)
    return [text for text in texts if text is not None]


def _absolute(project: str, written: str, *, is_here: bool) -> Iterator[str]:
    """Yield the absolute glob, and a second one if its fixed part leads through a link here. `src/` means all in it."""
    path = os.path.normpath(os.path.join(project, written))  # noqa: PTH118 - a glob is no path
    path = f"{path}/**" if written.endswith("/") else path
    yield path
    parts = path.split("/")
    fixed = next((index for index, part in enumerate(parts) if _WILD & set(part)), len(parts))
    here = "/".join(parts[:fixed])
    if is_here and (real := os.path.realpath(here or "/")) != (here or "/"):
        yield "/".join([escape(real), *parts[fixed:]])


class Resolved(Struct, frozen=True):
    """
    The result of `resolve`. `plan` is None if a problem is an error. `problems` include the profile's own warnings.
    `found` are the existing programs and directories by their paths in the profile, with or without a plan.
    `draft` is the plan with all agents and servers whose commands are not installed, for showing; None if something
    else is wrong. `missing` says why those commands cannot be run, by their paths.
    """

    plan: LaunchPlan | None
    problems: tuple[Problem, ...]
    needs: tuple[Need, ...] = ()  # the secrets of the plan; if there is none, of the profile
    found: Mapping[KeyPath, Path] = {}
    draft: LaunchPlan | None = None
    missing: Mapping[KeyPath, CannotRun] = {}


def reduce_to(loaded: Loaded, names: Sequence[str]) -> Loaded:
    """Reduce a profile to these servers and an agent that always exists, so that other problems do not matter."""
    servers, agent = loaded.profile.mcp_servers, loaded.profile.agent
    own_path = {variable: value for variable, value in agent.env.items() if variable == "PATH"}
    plain = Agent(command=Template("${python}"), env=own_path, inherit_env=loaded.profile.agent_inherits)
    alone = replace(loaded.profile, agent=plain, mcp_servers={name: servers[name] for name in names})
    places = tuple(f"mcp_servers.{name}." for name in names)
    problems = tuple(problem for problem in loaded.problems if f"{problem.path}.".startswith(places))
    return replace(loaded, profile=alone, problems=problems)


def resolve(
    loaded: Loaded,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    cwd_override: Path | None = None,
    session_override: str | None = None,
) -> Resolved:
    """Plan a profile. `cwd` is where the command was typed; the overrides are `--cwd` and `--session`."""
    variables = {  # of references; empty if unknown on this machine
        "project": str(loaded.found.project),
        "cwd": str(cwd),
        "home": environ.get("HOME", ""),
        "profile": loaded.found.name,
        "python": sys.executable or "",
    }
    machine = Machine(loaded, environ, variables)
    draft = _Walk(machine, cwd).plan(cwd_override, session_override)
    problems = ordered((*loaded.problems, *machine.problems), loaded.layers)
    if draft is None or errors(problems):
        absent = set(map(dotted, machine.missing))
        if not absent.issuperset(problem.path for problem in errors(problems)):
            draft = None
        return Resolved(None, problems, needs(loaded), machine.found, draft, machine.missing)
    plan = replace(draft, servers=tuple(each for each in draft.servers if not getattr(each, "missing", "")))
    used = {server.name for server in plan.servers}
    unused = (name for name in loaded.profile.mcp_servers if name not in used)
    return Resolved(plan, problems, needs(loaded, without=unused), machine.found, draft, machine.missing)


class _Walk(Struct):
    """Plans a profile part by part; `typed` is the directory of the command."""

    machine: Machine
    typed: Path

    def plan(self, cwd_override: Path | None, session_override: str | None) -> LaunchPlan | None:
        loaded = self.machine.loaded
        profile, project = loaded.profile, loaded.found.project
        cwd = self._cwd(cwd_override)
        self.machine.variables = {**self.machine.variables, "workdir": str(cwd or self.typed)}
        is_named = cwd_override is not None or profile.workspace.cwd is not None
        is_accepted = speaks_for(loaded.found, cwd or self.typed, is_named=is_named)
        path, written = ("workspace", "additional_directories"), profile.workspace.additional_directories
        directories = [self.machine.directory((*path, index), text) for index, text in enumerate(written)]
        further = [directory for directory in directories if directory is not None]
        session = self._session(session_override)
        own = self.machine.values(("agent", "env"), profile.agent.env)
        agent = self._agent(cwd or self.typed, own, is_accepted=is_accepted)
        used = tuple(servers(self.machine, SessionContext(cwd or self.typed, own, is_accepted)))
        given = rules(self.machine)
        if cwd is None or agent is None:
            return None
        plan = LaunchPlan(
            profile=loaded.found.name,
            file=loaded.found.file,
            called=loaded.found.called,
            is_built_in=loaded.found.origin == "built-in",
            project=project,
            description=profile.description,
            agent=agent,
            timeouts=profile.agent.timeouts,
            cwd=cwd,
            additional_directories=distinct(further, besides=cwd),
            session=session,
            permission=profile.permissions.default,
            unattended=profile.permissions.unattended,
            servers=used,
            mode=profile.session.mode,
            config=profile.session.config,
            origins=self.machine.origins()
            | ({} if cwd_override is None else {("workspace", "cwd"): Origin("--cwd")})
            | ({} if session_override is None else {("session", "name"): Origin("--session")}),
            rules=given,
            client=profile.client,
            mcp=profile.agent.mcp,
            written=replace(profile, agent=replace(profile.agent, args=(), env={}), mcp_servers=Servers()),
        )
        return self._place(plan)

    def _place(self, plan: LaunchPlan) -> LaunchPlan:
        """Return the plan with the place of its agent, if that is not here."""
        runtime, environ = self.machine.loaded.profile.runtime, self.machine.environ
        if runtime.confined is None and not runtime.is_elsewhere:
            return plan
        from acp_launch.plan import confinement, elsewhere  # few agents have a place

        if runtime.confined is not None:
            path, confined = ("runtime", "confined"), runtime.confined
            named = {key: self._named((*path, key), getattr(confined, key)) for key in ("state", "read", "write")}
            wished = confinement.Wish(origin=self.machine.origin(path), network=confined.network, **named)
            plan, problems = confinement.confine(plan, wished, environ)
        elif (wish := runtime.container) is not None:
            path = ("runtime", "container")
            wish = replace(wish, image=self.machine.text((*path, "image"), wish.image) or wish.image)
            mounts = self._named((*path, "mounts"), wish.mounts)
            plan, problems = elsewhere.contain(plan, wish, mounts, self.machine.origin(path), environ)
        else:
            assert runtime.ssh is not None, "it is elsewhere"
            plan, problems = elsewhere.reach(plan, runtime.ssh, self.machine.origin(("runtime", "ssh")), environ)
        self.machine.problems += problems
        return plan

    def _named(self, path: KeyPath, written: Sequence[str]) -> list[Named]:
        paths = [(*path, index) for index in range(len(written))]
        texts = map(self.machine.text, paths, written)
        return [Named(text, self.machine.origin(each)) for each, text in zip(paths, texts, strict=True) if text]

    def _cwd(self, override: Path | None) -> Path | None:
        if override is not None:
            return self._directory_or_problem(usable(str(override), base=self.typed), "--cwd")
        written = self.machine.loaded.profile.workspace.cwd
        if written is None:
            return self._directory_or_problem(usable(str(self.typed), base=self.typed), "")
        return self.machine.directory(("workspace", "cwd"), written)

    def _directory_or_problem(self, directory: Path | CannotRun, source: str) -> Path | None:
        if isinstance(directory, CannotRun):
            self.machine.problems.append(about(source, directory.message, directory.fix))
            return None
        self.machine.found["workspace", "cwd"] = directory
        return directory

    def _session(self, override: str | None) -> str | None:
        if override is None:
            return self.machine.loaded.profile.session.name
        if fault := session_name_fault(override):
            self.machine.problems.append(about("--session", fault, SESSION_NAME_FIX))
        return override

    def _command_there(self) -> Path:
        """Return the agent's command in a container or on another machine, where it is looked for."""
        machine, there = self.machine, self.machine.loaded.profile.runtime.ssh
        text = machine.text(("agent", "command"), machine.loaded.profile.agent.command or "") or "?"
        base = there.directory if there else machine.project
        return Path(base, text) if text.startswith("./") else Path(text)

    def _agent(self, cwd: Path, own: Mapping[str, Value], *, is_accepted: bool) -> ProcessPlan | None:
        """Plan the agent. `is_accepted`: the user accepted its project together with the profile."""
        machine, agent = self.machine, self.machine.loaded.profile.agent
        args = machine.sequence(("agent", "args"), agent.args)
        inherits = machine.loaded.profile.agent_inherits
        search = search_path(machine.environ, inherits, own)
        reference = ""
        command: Path | None
        if machine.loaded.profile.runtime.is_elsewhere:
            command, missing = self._command_there(), ""
        elif agent.registry is None:
            command = machine.command(("agent", "command"), agent.command or "", search=search)
            missing = machine.why_missing(("agent", "command"))
            if command is not None and not missing and not is_accepted:
                command = machine.unless_shadowed(("agent", "command"), command, args, cwd=cwd)
        else:
            from acp_launch.plan.locked import registered

            path, made = ("agent", "registry"), registered(agent.registry, (machine.project, self.typed), search)
            if isinstance(made, CannotRun):
                machine.missing[path] = made
                machine.refuse(path, made)
                command = Path(agent.registry)
            else:
                machine.found[path] = command = made.program
                reference = made.reference
                args, own = (*made.args, *args), {**made.env, **own}
            missing = machine.why_missing(path)
        if command is None:
            return None
        if not (is_accepted or machine.loaded.profile.runtime.is_elsewhere):
            own = {**kept_out(command, args), **own}
        env = environment(machine.environ, inherits, own)
        return ProcessPlan(
            name="agent", command=command, args=args, env=env, cwd=cwd, missing=missing, registry=reference
        )


# Sessions of a command line are stored under the program's name and a checksum of the whole line: it may hold a secret,
# and the session store is a file.
ADHOC = "--agent "  # begins the name under which such sessions are stored; not a valid profile name


def adhoc(
    command_line: str,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    cwd_override: Path | None = None,
    session_override: str | None = None,
    is_confined: bool = False,
) -> Resolved:
    """Plan `run --agent 'COMMAND ARGS...'`, without a profile or servers.

    `cwd` is where the command was typed; the overrides are `--cwd` and `--session`. `is_confined` is `--confined`.

    Raises:
        UsageError: as `split_command`.
    """
    program, *args = split_command(command_line)
    directory = usable(str(cwd_override or cwd), base=cwd)
    inherits: Inherit = "minimal" if is_confined else "all"
    command = find(program, project=cwd, path=search_path(environ, inherits))
    if isinstance(command, CannotRun) or isinstance(directory, CannotRun):
        checked = {"--agent": command, "--cwd": directory}
        faults = ((option, each) for option, each in checked.items() if isinstance(each, CannotRun))
        return Resolved(None, tuple(about(option, each.message, each.fix) for option, each in faults))
    agent = ProcessPlan(
        name="agent",
        command=command,
        args=tuple(Value((word,), Origin("--agent")) for word in args),
        env=environment(environ, inherits, {}),
        cwd=directory,
    )
    plan = LaunchPlan(
        profile=f"{ADHOC}{command.name} #{crc32(command_line.encode(errors='surrogateescape')):08x}",
        file=None,
        project=project_of(directory),
        description="",
        agent=agent,
        timeouts=Timeouts(),
        cwd=directory,
        additional_directories=(),
        session=session_override,
        permission="ask",
        servers=(),
    )
    if not is_confined:
        return Resolved(plan, ())
    from acp_launch.plan.confinement import Wish, confine

    plan, problems = confine(plan, Wish(origin=Origin("--confined")), environ)
    return Resolved(None if errors(problems) else plan, tuple(problems))


def split_command(command_line: str) -> list[str]:
    """Split the command line into words as a shell would.

    Raises:
        UsageError: it is empty, or a quote is not closed.
    """
    try:
        found = shlex.split(command_line)
    except ValueError as fault:
        raise UsageError(
            f"--agent: {str(fault)[0].lower()}{str(fault)[1:]} in {command_line}", fix="correct the quoting"
        ) from None
    if not found or not found[0]:
        raise UsageError("--agent: the command is empty", fix="give a program: --agent 'claude-agent-acp'")
    return found
