"""
Logging in to an agent (ACP v1 "Authentication"): choosing a method, preparing it, and running it.

    agent            `authenticate`, with an advertised id (C-23, C-24); the agent does the rest
    terminal         the configured program with the method's arguments and variables, on the user's terminal (C-26)
    terminal-auth    a command line that the agent chose, not part of the protocol: the user sees it and must agree
    env_var          `authenticate` once the agent has its variables; before that, what the profile must give it

After a program on the terminal, the agent does not know of the success: it must be started again (C-27). Nothing here
asks twice, and nothing proves that the login worked: only the agent's next answer does.

`log_in` serves a run that needs a login, `begin` serves `acp-launch login`, `log_out` ends a login.

`Advice` says which command helps this agent in this profile. Useless advice is left out: no `acp-launch login` without
a profile to name, no edit of a built-in profile, and no second try if the agent has named a missing variable.
"""

import shlex
import sys
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from acp_launch.errors import (
    AgentRefused,
    AuthRequired,
    LaunchError,
    ProtocolError,
    SessionError,
    UsageError,
    WaitExpired,
)
from acp_launch.plan.executable import CannotRun, find
from acp_launch.plan.model import InContainer, Place
from acp_launch.plan.written import make_safe_environment
from acp_launch.problem import did_you_mean, ours
from acp_launch.process import pseudoterminal
from acp_launch.process.containers import label_arguments
from acp_launch.process.program import LocalProgram
from acp_launch.process.spawn import BOXED_SIGNALS
from acp_launch.process.tree import Exit
from acp_launch.profile.agents import known
from acp_launch.protocol.acp import OWN_COMMAND, AuthMethod, Variable
from acp_launch.regex import regex
from acp_launch.secret.redact import redactor
from acp_launch.session.connection import Connection
from acp_launch.session.opening import KNOB

# The variables in which agents keep a key; error codes look like that too.
_VARIABLE = regex(r"(?<![A-Za-z0-9_])(?:[A-Z][A-Z0-9]*_)+(?:KEY|TOKEN|SECRET)(?![A-Za-z0-9_])")
NO_REASON = ": Internal error ("  # in the message of an agent that gives no reason
_CODE = regex(r"(?:ERR|NO|BAD|MISSING|INVALID|EXPIRED|WRONG|UNKNOWN)_|API_KEY$|.*_(?:NO|BAD|INVALID|MISSING)_")


class Advice(Struct, frozen=True, kw_only=True):
    """The advice for one agent as configured.

    `profile` is how a command names its profile, empty if there is none; a profile that `is_built_in` cannot be
    changed. `command` is the agent's program, `has` names the variables it gets that are not empty.
    """

    profile: str = ""
    is_built_in: bool = False
    command: str = ""
    has: Container[str] = ()

    def login(self, method: AuthMethod | None = None) -> str:
        """Return the command that logs in."""
        return ours("login", self.profile, *([method.id] if method else [])) if self.profile else self.own

    @property
    def own(self) -> str:
        """Return how to log in to the agent without acp-launch."""
        agent = known(self.command)
        return f"{agent.login.rstrip(',')}, then run this again" if agent and agent.login else OWN_COMMAND

    def wanted(self, methods: Sequence[AuthMethod], *, could_show: bool) -> str:
        """Return the fix for an agent that wants a login first.

        With `could_show` there are no further `methods` that need a terminal: agents list them to clients that have
        one.
        """
        if methods:
            return self.login()
        if could_show or not self.profile:
            return self.own
        return f"in a terminal: {self.login()}; or {self.own}"

    def lacking(self, said: Iterable[str]) -> list[Variable]:
        """Return the variables that the agent's words name, and that it does not have."""
        names = dict.fromkeys(name for text in said for name in _VARIABLE.findall(text))
        return [Variable(name) for name in names if not _CODE.match(name) and name not in self.has]

    def giving(self, lacking: Sequence[Variable]) -> tuple[str, list[str]]:
        """Return how the agent gets these variables: a fix, and the lines above it."""
        if self.profile and not self.is_built_in:
            secrets = [ours("secret", "set", secret_name(each.name)) for each in lacking if each.secret]
            lines = [f"in the profile, under agent.env: {_line(each)}" for each in lacking]
            return "; ".join([*secrets, "and add the above to the profile"]), lines
        exported = " ".join(f"{each.name}=..." for each in lacking)
        return f"export {exported}, then run this again: the agent inherits it", list(self._for_good(lacking))

    def _for_good(self, lacking: Sequence[Variable]) -> Iterable[str]:
        """Yield how to set them permanently: in the user's own profile, because a built-in one cannot be changed."""
        if not self.profile:
            return
        mine = f"my-{self.profile}"
        yield f"to have it in every shell, create your own profile that extends {self.profile}:"
        yield f"    {ours('init', mine, '--extends', self.profile)}"
        for each in lacking:
            if each.secret:
                yield f"    {ours('secret', 'set', secret_name(each.name))}"
            yield f"    {ours('profile', 'set', mine, f'agent.env.{each.name}', _value(each))}"


def more(profile: str, server: str = "", *, has_log: bool) -> str:
    """Return where to learn more about a failed agent, or a failed `server`. `has_log`: it wrote to stderr."""
    if has_log:
        return ours("logs", profile, server)
    if server:
        return "it gives no reason; run its command by hand"
    return "it gives no other reason; try another version of it, or agent.inherit_env: minimal in a profile"


def trace_advice(trace: str) -> str:
    """Return where the messages before a failure can be read. `trace` is the file of `--trace`; empty without it."""
    if trace:
        return f"{ours('trace', trace)} shows what was said"
    return "run it again with --trace FILE to see what was said"


def point_to_trace(error: LaunchError, trace: str) -> None:
    """Point to the trace in the fix of an error by which a peer broke the protocol, or that gives no reason."""
    if (NO_REASON in error.message and not error.fix) or isinstance(error, ProtocolError):
        error.fix = "; ".join(filter(None, (error.fix, trace_advice(trace))))


def refer_to_log(error: LaunchError, profile: str, trace: str, *, has_log: bool) -> None:
    """Refer to the log of an agent that gives no reason, unless there is better advice. `has_log` is as for `more`."""
    if NO_REASON in error.message and error.fix in ("", where := trace_advice(trace)):
        error.fix = f"{more(profile, has_log=has_log)}; {where}"


def secret_name(variable: str) -> str:
    return variable.lower().replace("_", "-")


def _value(variable: Variable) -> str:
    return f"${{secret:{secret_name(variable.name)}}}" if variable.secret else "VALUE"


def _line(variable: Variable) -> str:
    value = _value(variable) if variable.secret else "…"
    label = f"  # {redactor.text(' '.join(variable.label.split()))}" if variable.label else ""
    return f"{variable.name}: {value}{label}"


LOGIN_TIMEOUT = 300.0  # time for a browser, a password and a telephone. Not a setting

InFront = Callable[[LocalProgram], Awaitable[Exit]]  # runs it on the user's terminal: `process.foreground`
Done = Literal["done", "reconnect"]


class Adviser(Protocol):
    """Asks the user about a login. The console implements it; tests have their own."""

    async def which(self, agent: str, methods: Sequence[AuthMethod]) -> AuthMethod | None:
        """Return the chosen method, or None if no login is wanted."""

    async def consents(self, method: AuthMethod, program: LocalProgram) -> bool:
        """Whether the user allows this command line, which the agent chose."""

    def waiting(self, method: AuthMethod) -> AbstractAsyncContextManager[None]:
        """Tell the user that the agent acts while the block runs: it opens a
        browser, or prints instructions on stderr."""


class LoginContext(Struct, frozen=True, kw_only=True):
    """What a login needs: the agent's program, its profile, and ways to ask the user."""

    program: LocalProgram  # the agent as configured, including base arguments
    profile: str  # as a command names it; empty if there is none
    adviser: Adviser | None  # None if the user cannot be asked
    in_front: InFront | None  # None without a terminal
    is_built_in: bool = False  # a built-in profile, which cannot be changed
    place: Place | None = None  # of an agent that has one

    @property
    def advice(self) -> Advice:
        own = self.program
        has = {name for name, value in own.env.items() if value}
        return Advice(profile=self.profile, is_built_in=self.is_built_in, command=own.argv[0], has=has)


async def log_in(connection: Connection, context: LoginContext, wanted: AuthRequired) -> Done:
    """Log in because `wanted` was raised. Asks the user first, whatever the methods are.

    "done": retry the request once on this connection. "reconnect": stop the agent, start it again, initialise, and
    begin again. Either way only once: if the retry raises AuthRequired, that goes to the user. Everything else that
    draws on the terminal or reads from it has stopped when `context.in_front` runs.

    Raises:
        AuthRequired: no user to ask, no method, or no success; `fix` says what to do instead.
        AgentError, WaitExpired: as `Connection.call`.
        Stopped: a signal came.
    """
    methods = connection.agent.auth_methods
    if context.adviser is None or not methods:
        raise _cannot_ask(connection, context, wanted)
    method = await context.adviser.which(name_of(connection), methods)
    if method is None:
        raise AuthRequired(wanted.message, fix=context.advice.login(), detail=wanted.detail)
    program = await prepare(method, context)
    if program is None:
        await authenticate(connection, method, context)
        return "done"
    await run_on_terminal(method, program, context)
    return "reconnect"


class StartedLogin(Struct, frozen=True):
    """A login by `method`. `program` must still run on the terminal; None if the login is done."""

    method: AuthMethod
    program: LocalProgram | None


async def begin(connection: Connection, wanted: str | None, context: LoginContext) -> StartedLogin:
    """Log in by the method with the id `wanted`, as far as the agent is needed for it.

    Without an id, use the only method, or ask the user. If the result has a program, stop the agent, run the program,
    and start the agent again.

    Raises:
        UsageError: there is no such method.
        AuthRequired, AgentError, WaitExpired: as `choose`, `prepare` and `authenticate`.
    """
    method = await choose(connection, wanted, context)
    program = await prepare(method, context)
    if program is None:
        await authenticate(connection, method, context)
    return StartedLogin(method, program)


async def choose(connection: Connection, wanted: str | None, context: LoginContext) -> AuthMethod:
    """Choose the method; asks the user only if there are several.

    Raises:
        UsageError: there is no such method.
        AuthRequired: there is no method at all, or none was chosen.
    """
    agent, methods = name_of(connection), connection.agent.auth_methods
    if not methods:
        fix = context.advice.wanted((), could_show=_could_show(connection, context))
        raise AuthRequired(f"{agent} offers no way to log in", fix=fix)
    if wanted is not None:
        return _find_method(wanted, agent, methods, context)
    if len(methods) == 1:
        return methods[0]
    if context.adviser is None:
        raise AuthRequired(
            f"{agent} offers several ways to log in, and acp-launch cannot ask you which",
            fix=f"name one: {context.advice.login()} {shlex.quote(methods[0].id)}",
            detail=[f"{shlex.quote(method.id)}: {_one_line(method.name)}" for method in methods],
        )
    method = await context.adviser.which(agent, methods)
    if method is None:
        raise AuthRequired("no login was chosen", fix=f"choose one of these: {context.advice.login()}")
    return method


async def prepare(method: AuthMethod, context: LoginContext) -> LocalProgram | None:
    """Return the program to run on the terminal, or None if the agent does the login.

    Raises:
        AuthRequired: this method cannot be used here, or the user refuses it.
    """
    env = context.program.env
    if lacking := [each for each in method.variables if not each.optional and not env.get(each.name)]:
        names = ", ".join(variable.name for variable in lacking)
        link = [f"{_one_line(method.name)}: {_one_line(method.link)}"] if method.link else []
        fix, lines = context.advice.giving(lacking)
        what = f'"{_one_line(method.name)}" is not a login: the agent reads {names} from its environment'
        raise AuthRequired(what, fix=fix, detail=[*link, *lines])
    if method.type != "terminal" and not method.command:
        return None
    if context.in_front is None:
        raise AuthRequired(
            f'the login "{_one_line(method.name)}" needs a terminal, with nothing redirected',
            fix=f"run in a terminal: {context.advice.login(method)}",
        )
    if method.type == "terminal":
        own = context.program
        return LocalProgram("login", (*own.argv, *method.args), {**own.env, **method.env}, own.cwd)
    return await _foreign(method, context)


async def authenticate(connection: Connection, method: AuthMethod, context: LoginContext) -> None:
    """Let the agent log in, for at most `LOGIN_TIMEOUT`.

    Raises:
        AuthRequired: it failed.
        AgentError: the agent ended.
        WaitExpired: the agent did not answer.
    """
    call = connection.conversation.authenticate(method.id)
    try:
        async with context.adviser.waiting(method) if context.adviser else nullcontext():
            await connection.call(call, what=f'end of the login "{_one_line(method.name)}"', limit=LOGIN_TIMEOUT)
    except (AuthRequired, AgentRefused) as error:
        failure = _failure(method, error.message, context, error.detail if isinstance(error, AgentRefused) else ())
        failure.cause = error.reply
        raise failure from error
    except WaitExpired as error:
        error.fix = f"try again: {context.advice.login(method)}"
        raise


async def run_on_terminal(method: AuthMethod, program: LocalProgram, context: LoginContext) -> None:
    """Run the program from `prepare`. Any exit status but 0 is a failure (C-27).

    Raises:
        AuthRequired: it failed.
        AgentError, MachineError: it could not be run.
    """
    assert context.in_front is not None, "prepare has seen to that"
    ended = await context.in_front(_confine(program, context.place) if context.place else program)
    if context.place and ended.status is not None and ended.status in BOXED_SIGNALS:
        ended = Exit(None, ended.status - 128)
    if ended.status != 0:
        raise _failure(method, f"{Path(program.argv[0]).name} {ended}", context)


def _confine(program: LocalProgram, where: Place) -> LocalProgram:
    """Return the command line of a program in a place, on our pseudo-terminal: it must not type on the user's."""
    from acp_launch.plan.place import enclose

    is_client = isinstance(where.elsewhere, InContainer)
    argv, env = enclose(
        program.argv,
        program.env,
        program.cwd,
        where,
        has_terminal=True,
        labels=label_arguments() if is_client else (),
        outer=make_safe_environment(),
    )
    argv = (sys.executable, "-I", "-S", pseudoterminal.__file__, *argv)
    return LocalProgram(program.name, argv, env, program.cwd, is_client)


async def log_out(connection: Connection, *, limit: float) -> bool:
    """Log out. Returns False if the agent answers that it wants a login first, so that there was none.

    Raises:
        SessionError: the agent does not offer it (C-29).
        AgentError, WaitExpired: as `Connection.call`.
    """
    if not connection.agent.capabilities.logout:
        raise SessionError(
            f"{name_of(connection)} does not offer to log out",
            fix="use the agent's own command; where the login is a secret in the profile, remove it there",
        )
    call = connection.conversation.logout()
    try:
        await connection.call(call, what="answer to logout from the agent", limit=limit, knob=KNOB)
    except AuthRequired:
        return False
    return True


async def _foreign(method: AuthMethod, context: LoginContext) -> LocalProgram:
    own = context.program
    found: object = method.command[0]
    if context.place is None or context.place.elsewhere is None:
        found = find(method.command[0], project=own.cwd, path=own.env.get("PATH"))
    if isinstance(found, CannotRun):
        raise _failure(method, _one_line(found.message), context)
    program = LocalProgram("login", (str(found), *method.command[1:]), {**own.env, **method.command_env}, own.cwd)
    if context.adviser is None:
        raise AuthRequired(
            f'the login "{_one_line(method.name)}" is a command that the agent chose: it needs your permission',
            fix=f"run in a terminal: {context.advice.login(method)}",
        )
    if not await context.adviser.consents(method, program):
        raise AuthRequired(
            f'the login "{_one_line(method.name)}" was not run', fix=f"choose another: {context.advice.login()} --list"
        )
    return program


def _find_method(wanted: str, agent: str, methods: Sequence[AuthMethod], context: LoginContext) -> AuthMethod:
    known = {method.id: method for method in methods}
    if wanted in known:
        return known[wanted]
    hint = did_you_mean(wanted, known)
    raise UsageError(f'{agent} has no login "{wanted}"{hint}', fix=f"{context.advice.login()} --list shows what it has")


def _cannot_ask(connection: Connection, context: LoginContext, wanted: AuthRequired) -> AuthRequired:
    """Return the error if the user cannot be asked, or there is nothing to choose from."""
    advice, methods = context.advice, connection.agent.auth_methods
    fix = advice.wanted(methods, could_show=_could_show(connection, context))
    if lacking := advice.lacking((wanted.message, *wanted.detail)):
        giving, lines = advice.giving(lacking)
        return AuthRequired(wanted.message, fix=f"{giving}; or {fix}", detail=(*wanted.detail, *lines))
    return AuthRequired(wanted.message, fix=fix, detail=wanted.detail)


def _could_show(connection: Connection, context: LoginContext) -> bool:
    """Whether the agent listed every method: those that need a terminal are listed only to clients that have one."""
    is_watched = context.adviser is not None and context.in_front is not None
    return is_watched or connection.offered.terminal_login


def _failure(method: AuthMethod, why: str, context: LoginContext, detail: Sequence[str] = ()) -> AuthRequired:
    what = f'the login "{_one_line(method.name)}" failed: {why}'
    if lacking := context.advice.lacking((why, *detail)):
        fix, lines = context.advice.giving(lacking)
        return AuthRequired(what, fix=fix, detail=tuple(dict.fromkeys((*detail, *lines))))
    return AuthRequired(what, fix=f"try again, or another way: {context.advice.login()}", detail=detail)


def name_of(connection: Connection) -> str:
    """Return the agent's name for a sentence."""
    return _one_line(connection.agent.title) or "the agent"


def _one_line(text: str) -> str:
    """Return a text of the agent's on one line, without our secrets. The caller escapes it for its output."""
    return redactor.text(" ".join(text.split()))
