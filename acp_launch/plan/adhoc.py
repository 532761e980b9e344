"""
The plan of `run --agent 'COMMAND ARGS...'`: without a profile or servers, with defaults for the rest.

Its sessions are stored under the program's name and a checksum of the command line. The command line itself may hold a
secret, and the session store is a file. Needs neither YAML nor pydantic.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

from acp_launch.errors import UsageError
from acp_launch.plan.environment import environment, search_path
from acp_launch.plan.executable import CannotRun, find, usable
from acp_launch.plan.model import LaunchPlan, Origin, ProcessPlan, Value
from acp_launch.plan.resolve import Resolved
from acp_launch.problem import Problem
from acp_launch.profile.discover import project_of
from acp_launch.profile.model import Timeouts

PREFIX = "--agent "  # begins the name under which such sessions are stored; not a valid profile name


def adhoc(
    command_line: str,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    cwd_override: Path | None = None,
    session_override: str | None = None,
) -> Resolved:
    """Plan a command line. `cwd` is where the command was typed; the overrides are `--cwd` and `--session`.

    Raises:
        UsageError: as `words`.
    """
    program, *args = words(command_line)
    directory = usable(str(cwd_override or cwd), base=cwd)
    command = find(program, project=cwd, path=search_path(environ, "all"))
    if isinstance(command, CannotRun) or isinstance(directory, CannotRun):
        checked = {"--agent": command, "--cwd": directory}
        return Resolved(
            None, tuple(_problem(option, fault) for option, fault in checked.items() if isinstance(fault, CannotRun))
        )
    agent = ProcessPlan(
        name="agent",
        command=command,
        args=tuple(Value((word,), Origin("--agent")) for word in args),
        env=environment(environ, "all", {}),
        cwd=directory,
    )
    return Resolved(_bare(command_line, agent, session_override), ())


def words(command_line: str) -> list[str]:
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


def _problem(option: str, fault: CannotRun) -> Problem:
    return Problem(option, 0, 0, "", fault.message, fault.fix)


def _bare(command_line: str, agent: ProcessPlan, session: str | None) -> LaunchPlan:
    return LaunchPlan(
        profile=f"{PREFIX}{agent.command.name} #{crc32(command_line.encode(errors='surrogateescape')):08x}",
        file=None,
        project=project_of(agent.cwd),
        description="",
        agent=agent,
        timeouts=Timeouts(),
        cwd=agent.cwd,
        additional_directories=(),
        session=session,
        permission="ask",
        servers=(),
    )
