"""The verbs `login` and `logout`, for the agent's own account; and a login during a run."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from acp_launch.app.context import login_context
from acp_launch.app.operation import verb_processes, with_agent
from acp_launch.app.planning import agent_plan
from acp_launch.app.spec import load_settings
from acp_launch.app.start import spawn_agent
from acp_launch.cli.verb import Argument, Option, TraceFile, Trust
from acp_launch.console import stdout
from acp_launch.console.ask import logins
from acp_launch.console.ask.terminal import TerminalQuestions
from acp_launch.console.stderr import DIM, YELLOW, AgentStderr, can_ask_user, say, tell
from acp_launch.console.stream.redacted import RedactedOutput
from acp_launch.console.stream.text import Notices
from acp_launch.engine.loop import Interrupts
from acp_launch.engine.prepared import PreparedPlan
from acp_launch.errors import UsageError
from acp_launch.plan.model import InContainer, LaunchPlan
from acp_launch.plan.place import can_write
from acp_launch.private import real
from acp_launch.problem import ours
from acp_launch.process.foreground import available
from acp_launch.profile.agents import started
from acp_launch.protocol.acp import AuthMethod, Offers
from acp_launch.session.connection import Connection
from acp_launch.session.login import StartedLogin, begin, log_out, name_of, run_on_terminal

Profile = Annotated[str, Argument("PROFILE", "The profile of the agent.")]


def login(
    profile: Profile,
    method: Annotated[str | None, Argument("[METHOD]", "A method that --list shows.")] = None,
    list_: Annotated[bool, Option("--list", "Show the login methods and do not log in.")] = False,
    as_json: Annotated[bool, Option("--json", "With --list, print JSON on stdout.")] = False,
    trust: Trust = False,
    trace: TraceFile = None,
) -> None:
    """Log in to a profile's agent."""
    if list_ and method is not None:
        raise UsageError("--list takes no METHOD")
    if as_json and not list_:
        raise UsageError("--json needs --list")

    planned = agent_plan(profile, trust=trust)
    if list_:
        _list(planned, as_json=as_json, trace=trace)
        return
    if loss := _find_loss(planned.plan):
        tell(f"{loss}: name what holds it in runtime.container.mounts, and agent.env.HOME", style=YELLOW)
    agent, used = _logged_in(planned, method, trace)
    tell(f'logged in to {agent} with "{used}"')
    say(f"    to use it: {ours('run', planned.plan.called)}")


def _find_loss(plan: LaunchPlan) -> str:
    """Say that a container, which ends with its launch, takes the login along; empty if what may hold it is mounted."""
    where, home = plan.place, plan.agent.env.get("HOME")
    if where is None or not isinstance(where.elsewhere, InContainer):
        return ""
    named = [mount for mount in where.mounts if (mount.access, mount.reason) == ("write", "write")]
    if home is None:
        return "" if named else "this login ends with the container"
    agent = started(str(plan.agent.command), [each.display() for each in plan.agent.args])
    holding = [Path(home.display(), each.removeprefix("~/")) for each in (agent.state if agent else ())]
    if named if not holding else any(can_write(where, real(each)) for each in holding):
        return ""
    return (
        f"this login ends with the container, which does not show {' and '.join(map(str, holding)) or home.display()}"
    )


def logout(profile: Profile, trust: Trust = False, trace: TraceFile = None) -> None:
    """Log out of a profile's agent, if it supports that."""
    planned = agent_plan(profile, trust=trust)
    limit = planned.plan.timeouts.session

    async def story(connection: Connection) -> tuple[str, bool]:
        return name_of(connection), await log_out(connection, limit=limit)

    agent, was_in = with_agent(planned, "logout", story, _offers(), trace)
    tell(f"logged out of {agent}" if was_in else f"{agent} was not logged in")


def _list(planned: PreparedPlan, *, as_json: bool, trace: Path | None) -> None:
    async def story(connection: Connection) -> tuple[str, tuple[AuthMethod, ...]]:
        return name_of(connection), connection.agent.auth_methods

    agent, methods = with_agent(planned, "login", story, _offers(), trace)
    if as_json:
        stdout.put_json(logins.as_json(agent, methods))
    elif methods:
        stdout.line(logins.table(methods))
    else:
        tell(f"{agent} offers no way to log in")
    if not as_json and not available():
        say("login methods that need a terminal are shown only on a terminal", style=DIM)


def _offers() -> "Offers":
    return Offers(terminal_login=available())  # C-25


def _logged_in(planned: PreparedPlan, wanted: str | None, trace: Path | None) -> tuple[str, str]:
    """Log in; return the names of agent and method. The agent is stopped while a program uses the terminal."""
    from acp_launch.engine.surroundings import with_agent

    with verb_processes(load_settings(), planned.plan, "login", trace) as processes:
        spawned = processes.agent(planned)
        aloud = AgentStderr(processes.log, sys.stderr)
        context = processes.context(planned, _offers(), aloud)
        observer = RedactedOutput(Notices())
        person = TerminalQuestions(observer.pause) if can_ask_user() else None
        place = login_context(planned, person, aloud)

        async def story(connection: Connection) -> tuple[str, StartedLogin]:
            with nullcontext() if person else aloud.on():
                return name_of(connection), await begin(connection, wanted, place)

        async def initialised(connection: Connection) -> None:
            """Do nothing: a successful `initialize` is all that can be checked (C-27)."""

        async def logged_in(interrupts: Interrupts) -> tuple[str, str]:
            agent, begun = await with_agent(context, spawned, observer, story, interrupts)
            interrupts.check()
            if begun.program is not None:
                await interrupts.watch(run_on_terminal(begun.method, begun.program, place))
                await with_agent(context, spawn_agent(planned), observer, initialised, interrupts)
            return agent, begun.method.name

        return processes.run(logged_in)
