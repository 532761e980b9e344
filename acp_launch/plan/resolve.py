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
from acp_launch.plan.executable import CannotRun, find
from acp_launch.plan.model import Inherited, LaunchPlan, ProcessPlan, RemotePlan, ServerPlan, StdioPlan, Value
from acp_launch.plan.needs import Need, needs
from acp_launch.plan.substitute import Substitution
from acp_launch.problem import Problem, errors
from acp_launch.profile.address import SESSION_NAME_FIX, URL_FIX, header_fault, session_name_fault, url_fault
from acp_launch.profile.load import Loaded
from acp_launch.profile.model import HttpServer, SseServer, StdioServer


class Resolved(Struct, frozen=True):
    """`plan` is None when a problem is an error. `problems` hold the profile's own warnings too."""

    plan: LaunchPlan | None
    problems: tuple[Problem, ...]
    needs: tuple[Need, ...] = ()  # the secrets of the profile, whether there is a plan or not


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
    walk = _Walk(Substitution(loaded, environ, variables(loaded, cwd=cwd, environ=environ, home=home)), cwd)
    plan = walk.plan(cwd_override, session_override)
    problems = sorted((*loaded.problems, *walk.substitution.problems), key=lambda each: (each.line, each.column))
    return Resolved(None if errors(problems) else plan, tuple(problems), needs(loaded))


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
    substitution: Substitution
    typed: Path

    def plan(self, cwd_override: Path | None, session_override: str | None) -> LaunchPlan | None:
        loaded = self.substitution.loaded
        profile, project = loaded.profile, loaded.found.project
        cwd = self._cwd(cwd_override)
        further = self._additional(profile.workspace.additional_directories)
        session = self._session(session_override)
        own = self.substitution.values(("agent", "env"), profile.agent.env)
        agent = self._agent(cwd or self.typed, own)
        servers = [self._server(name, cwd or self.typed, own) for name in profile.mcp_servers]
        if cwd is None or agent is None:
            return None
        return LaunchPlan(
            profile=loaded.found.name,
            file=loaded.found.file,
            project=project,
            description=profile.description,
            agent=agent,
            timeouts=profile.agent.timeouts,
            cwd=cwd,
            additional_directories=distinct(further, besides=cwd),
            session=session,
            permission=profile.permissions.default,
            servers=tuple(server for server in servers if server is not None),
        )

    def _cwd(self, override: Path | None) -> Path | None:
        if override is not None:
            return self._kept(usable(str(override), base=self.typed), "--cwd")
        written = self.substitution.loaded.profile.workspace.cwd
        if written is None:
            return self._kept(usable(str(self.typed), base=self.typed), "")
        return self._directory(("workspace", "cwd"), written)

    def _kept(self, directory: Path | CannotRun, source: str) -> Path | None:
        if isinstance(directory, CannotRun):
            self.substitution.problems.append(Problem(source, 0, 0, "", directory.message, directory.fix))
            return None
        return directory

    def _directory(self, path: KeyPath, written: str) -> Path | None:
        text = self.substitution.text(path, written)
        if text is None:
            return None
        directory = usable(text, base=self.substitution.loaded.found.project)
        if isinstance(directory, CannotRun):
            self.substitution.refuse(path, directory)
            return None
        return directory

    def _additional(self, written: tuple[str, ...]) -> list[Path]:
        path = ("workspace", "additional_directories")
        directories = (self._directory((*path, index), text) for index, text in enumerate(written))
        return [directory for directory in directories if directory is not None]

    def _session(self, override: str | None) -> str | None:
        if override is None:
            return self.substitution.loaded.profile.session.name
        if fault := session_name_fault(override):
            self.substitution.problems.append(Problem("--session", 0, 0, "", fault, SESSION_NAME_FIX))
        return override

    def _agent(self, cwd: Path, own: Mapping[str, Value]) -> ProcessPlan | None:
        agent = self.substitution.loaded.profile.agent
        args = self.substitution.sequence(("agent", "args"), agent.args)
        command = self._command(("agent",), agent.command, cwd, own)
        if command is None:
            return None
        env = environment(self.substitution.environ, agent.inherit_env, own)
        return ProcessPlan(name="agent", command=command, args=args, env=env, cwd=cwd)

    def _command(self, path: KeyPath, written: str, cwd: Path, *own: Mapping[str, Value]) -> Path | None:
        where = (*path, "command")
        text = self.substitution.text(where, written)
        if text is None:
            return None
        inherit = self.substitution.loaded.profile.agent.inherit_env
        search = search_path(self.substitution.environ, inherit, *own)
        command = find(text, project=self.substitution.loaded.found.project, cwd=cwd, path=search)
        if isinstance(command, CannotRun):
            self.substitution.refuse(where, command)
            return None
        return command

    def _server(self, name: str, cwd: Path, agent_env: Mapping[str, Value]) -> ServerPlan | None:
        server = self.substitution.loaded.profile.mcp_servers[name]
        if isinstance(server, StdioServer):
            return self._stdio(name, server, cwd, agent_env)
        return self._remote(name, server)

    def _stdio(self, name: str, server: StdioServer, cwd: Path, agent_env: Mapping[str, Value]) -> StdioPlan | None:
        path = ("mcp_servers", name)
        own = self.substitution.values((*path, "env"), server.env)
        args = self.substitution.sequence((*path, "args"), server.args)
        # The agent starts it, so the agent's PATH counts where the server sets none.
        command = self._command(path, server.command, cwd, agent_env, own)
        return StdioPlan(name=name, command=command, args=args, env=own) if command else None

    def _remote(self, name: str, server: HttpServer | SseServer) -> RemotePlan | None:
        path = ("mcp_servers", name)
        url = self.substitution.value((*path, "url"), server.url)
        headers = self.substitution.values((*path, "headers"), server.headers)
        if url and (fault := url_fault("".join(str(part) for part in url.parts))):
            self.substitution.problem((*path, "url"), _discreet(url, fault), URL_FIX)
        for header, value in headers.items():
            if fault := next(filter(None, (header_fault(part) for part in value.parts if isinstance(part, str))), ""):
                self.substitution.problem((*path, "headers", header), fault, "write it on one line")
        return RemotePlan(name=name, type=server.type, url=url, headers=headers) if url else None


def _discreet(url: Value, fault: str) -> str:
    """An address that came from the environment may hold a credential, so it is not repeated."""
    if not any(isinstance(part, Inherited) for part in url.parts):
        return fault
    return f"{url.display()} does not stand for an http or https url"
