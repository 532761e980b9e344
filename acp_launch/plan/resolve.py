"""
A checked profile and this machine become a `LaunchPlan`, or every Problem at once.

This reads the machine (environment, files, PATH) and changes nothing. Secrets stay references: whether they can be
had is the next question, asked once, when something is about to start.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from acp_launch.document.keypath import KeyPath
from acp_launch.plan.directory import distinct, usable
from acp_launch.plan.environment import environment, search_path
from acp_launch.plan.executable import CannotRun
from acp_launch.plan.machine import Machine
from acp_launch.plan.model import LaunchPlan, Origin, ProcessPlan, Value
from acp_launch.plan.needs import Need, needs
from acp_launch.plan.permissions import rules
from acp_launch.plan.reach import kept_out, speaks_for
from acp_launch.plan.servers import Session, servers
from acp_launch.plan.substitute import Substitution
from acp_launch.problem import Problem, errors
from acp_launch.profile.address import SESSION_NAME_FIX, session_name_fault
from acp_launch.profile.layers import ordered
from acp_launch.profile.load import Loaded


class Resolved(Struct, frozen=True):
    """
    `plan` is None when a problem is an error. `problems` hold the profile's own warnings too. `found` are the programs
    and directories that are there, by what names them; with or without a plan.
    """

    plan: LaunchPlan | None
    problems: tuple[Problem, ...]
    needs: tuple[Need, ...] = ()  # the secrets of the plan; without one, of the profile
    found: Mapping[KeyPath, Path] = {}


def resolve(
    loaded: Loaded,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    home: Path | None = None,
    cwd_override: Path | None = None,
    session_override: str | None = None,
) -> Resolved:
    """`cwd` is where the command was typed; the overrides are `--cwd` and `--session`."""
    substitution = Substitution(loaded, environ, variables(loaded, cwd=cwd, environ=environ, home=home))
    machine = Machine(substitution)
    walk = _Walk(machine, substitution, cwd)
    plan = walk.plan(cwd_override, session_override)
    problems = ordered((*loaded.problems, *substitution.problems), loaded.layers)
    if plan is None or errors(problems):
        return Resolved(None, problems, needs(loaded), machine.found)
    used = {server.name for server in plan.servers}
    absent = (name for name in loaded.profile.mcp_servers if name not in used)
    return Resolved(plan, problems, needs(loaded, without=absent), machine.found)


def variables(loaded: Loaded, *, cwd: Path, environ: Mapping[str, str], home: Path | None) -> dict[str, str]:
    """What `${project}` and its like stand for; empty when this machine does not know."""
    return {
        "project": str(loaded.found.project),
        "cwd": str(cwd),
        "home": str(home or environ.get("HOME") or environ.get("USERPROFILE") or ""),
        "profile": loaded.found.name,
        "python": sys.executable or "",
    }


class _Walk(Struct):
    machine: Machine
    substitution: Substitution
    typed: Path

    def plan(self, cwd_override: Path | None, session_override: str | None) -> LaunchPlan | None:
        loaded = self.substitution.loaded
        profile, project = loaded.profile, loaded.found.project
        cwd = self._cwd(cwd_override)
        is_named = cwd_override is not None or profile.workspace.cwd is not None
        is_accepted = speaks_for(loaded.found, cwd or self.typed, is_named=is_named)
        further = self._additional(profile.workspace.additional_directories)
        session = self._session(session_override)
        own = self.substitution.values(("agent", "env"), profile.agent.env)
        agent = self._agent(cwd or self.typed, own, is_accepted=is_accepted)
        used = tuple(servers(self.machine, Session(cwd or self.typed, own, is_accepted)))
        given = rules(self.substitution)
        if cwd is None or agent is None:
            return None
        return LaunchPlan(
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
            servers=used,
            mode=profile.session.mode,
            config=profile.session.config,
            origins=self._origins(cwd_override, session_override),
            rules=given,
            client=profile.client,
        )

    def _cwd(self, override: Path | None) -> Path | None:
        if override is not None:
            return self._kept(usable(str(override), base=self.typed), "--cwd")
        written = self.substitution.loaded.profile.workspace.cwd
        if written is None:
            return self._kept(usable(str(self.typed), base=self.typed), "")
        return self.machine.directory(("workspace", "cwd"), written)

    def _kept(self, directory: Path | CannotRun, source: str) -> Path | None:
        if isinstance(directory, CannotRun):
            self.substitution.problems.append(Problem(source, 0, 0, "", directory.message, directory.fix))
            return None
        self.machine.found["workspace", "cwd"] = directory
        return directory

    def _additional(self, written: tuple[str, ...]) -> list[Path]:
        path = ("workspace", "additional_directories")
        directories = (self.machine.directory((*path, index), text) for index, text in enumerate(written))
        return [directory for directory in directories if directory is not None]

    def _origins(self, cwd_override: Path | None, session_override: str | None) -> dict[KeyPath, Origin]:
        found = self.substitution.origins()
        if cwd_override is not None:
            found["workspace", "cwd"] = Origin("--cwd")
        if session_override is not None:
            found["session", "name"] = Origin("--session")
        return found

    def _session(self, override: str | None) -> str | None:
        if override is None:
            return self.substitution.loaded.profile.session.name
        if fault := session_name_fault(override):
            self.substitution.problems.append(Problem("--session", 0, 0, "", fault, SESSION_NAME_FIX))
        return override

    def _agent(self, cwd: Path, own: Mapping[str, Value], *, is_accepted: bool) -> ProcessPlan | None:
        """`is_accepted`: the profile speaks for the project that the agent works in."""
        agent = self.substitution.loaded.profile.agent
        args = self.substitution.sequence(("agent", "args"), agent.args)
        search = search_path(self.substitution.environ, agent.inherit_env, own)
        command = self.machine.command(("agent", "command"), agent.command, search=search)
        if command is not None and not is_accepted:
            command = self.machine.as_named(("agent", "command"), command, args, cwd=cwd)
        if command is None:
            return None
        if not is_accepted:
            own = {**kept_out(command, args), **own}
        env = environment(self.substitution.environ, agent.inherit_env, own)
        return ProcessPlan(name="agent", command=command, args=args, env=env, cwd=cwd)
