"""
The plan of `run --agent 'COMMAND ARGS...'`: no profile, no servers, defaults for the rest. Needs neither YAML nor
pydantic.

Its sessions are kept under the program's name and a checksum of the command line, not under the command line
itself: that may hold a secret, and the session store is a file.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

from acp_launch.plan.directory import usable
from acp_launch.plan.environment import environment, search_path
from acp_launch.plan.executable import CannotRun, find
from acp_launch.plan.model import LaunchPlan, Origin, ProcessPlan, Value
from acp_launch.plan.resolve import Resolved
from acp_launch.problem import Problem
from acp_launch.profile.address import SESSION_NAME_FIX, session_name_fault
from acp_launch.profile.discover import project_of
from acp_launch.profile.model import Timeouts

PREFIX = "--agent "  # begins the name such sessions are kept under; no profile is called so


def adhoc(
    command_line: str,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    cwd_override: Path | None = None,
    session_override: str | None = None,
) -> Resolved:
    """`cwd` is where the command was typed; the overrides are `--cwd` and `--session`."""
    words = _words(command_line)
    directory = usable(str(cwd_override or cwd), base=cwd)
    command = words if isinstance(words, CannotRun) else _command(words[0], cwd, environ)
    checked = {"--agent": command, "--cwd": directory, "--session": _session(session_override)}
    problems = [_problem(option, fault) for option, fault in checked.items() if isinstance(fault, CannotRun)]
    if isinstance(words, CannotRun) or isinstance(command, CannotRun) or isinstance(directory, CannotRun) or problems:
        return Resolved(None, tuple(problems))
    agent = ProcessPlan(
        name="agent",
        command=command,
        args=tuple(Value((word,), Origin("--agent")) for word in words[1:]),
        env=environment(environ, "all", {}),
        cwd=directory,
    )
    return Resolved(_bare(command_line, agent, session_override), ())


def _words(command_line: str) -> list[str] | CannotRun:
    try:
        words = shlex.split(command_line)
    except ValueError as fault:
        return CannotRun(f"{str(fault)[0].lower()}{str(fault)[1:]} in {command_line}", "close it")
    return words or CannotRun("the command is empty", "give a program: --agent 'claude-agent-acp'")


def _command(word: str, cwd: Path, environ: Mapping[str, str]) -> Path | CannotRun:
    return find(word, project=cwd, cwd=cwd, path=search_path(environ, "all"))


def _session(name: str | None) -> CannotRun | None:
    fault = session_name_fault(name) if name is not None else ""
    return CannotRun(fault, SESSION_NAME_FIX) if fault else None


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
