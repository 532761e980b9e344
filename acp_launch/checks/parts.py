"""
A profile taken apart: its agent, and each of its servers, decided on its own, so that what is wrong with one says
nothing about the others.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.checks.check import MACHINE, Check, of_problem
from acp_launch.plan.model import LaunchPlan, RemotePlan, StdioPlan
from acp_launch.plan.resolve import Need, Resolved, process, resolve
from acp_launch.problem import Problem
from acp_launch.profile.load import Loaded
from acp_launch.profile.model import Agent
from acp_launch.profile.values import Template

AGENT = "agent"
SERVERS = "mcp_servers"


class Part(Struct, frozen=True, kw_only=True):
    """
    `server` is its name, empty for the agent. `plan.agent` is the process to start; there is no plan when this machine
    cannot, and none for a remote server. `whole` is what was planned.
    """

    server: str = ""
    plan: LaunchPlan | None = None
    whole: LaunchPlan | None = None
    stdio: StdioPlan | None = None
    remote: RemotePlan | None = None
    problems: tuple[Problem, ...] = ()
    needs: tuple[Need, ...] = ()
    is_required: bool = True

    @property
    def label(self) -> str:
        """The name and the subject of what is said about it."""
        return f"server {self.server}" if self.server else AGENT


class Place(Struct, frozen=True, kw_only=True):
    """What a profile is resolved with: `cwd` is where the command was typed, `override` is `--cwd`."""

    cwd: Path
    environ: Mapping[str, str]
    override: Path | None


def parts(loaded: Loaded, place: Place) -> Iterator[Part]:
    """The agent first, then the servers in the profile's order."""
    yield _agent(loaded, place)
    for name in loaded.profile.mcp_servers:
        yield _server(loaded, place, name)


def faults(parts: list[Part]) -> Iterator[Check]:
    """What is wrong before anything starts, each thing once: what all parts share is the agent's to tell."""
    told: set[Problem] = set()
    for part in parts:
        for found in part.problems:
            if found not in told:
                told.add(found)
                yield of_problem(*_named(part), found, MACHINE)


def _named(part: Part) -> tuple[str, str]:
    return ("server", part.server) if part.server else (AGENT, "")


def _agent(loaded: Loaded, place: Place) -> Part:
    others = tuple(found for found in loaded.problems if not _is_about(found, SERVERS))
    alone = replace(loaded.profile, mcp_servers={})
    resolved = _resolved(replace(loaded, profile=alone, problems=others), place)
    return Part(plan=resolved.plan, problems=resolved.problems, needs=resolved.needs)


def _server(loaded: Loaded, place: Place, name: str) -> Part:
    """With an agent that is always there."""
    profile = loaded.profile
    server, path = profile.mcp_servers[name], f"{SERVERS}.{name}"
    own_path = {variable: value for variable, value in profile.agent.env.items() if variable == "PATH"}
    agent = Agent(command=Template("${python}"), env=own_path, inherit_env=profile.agent.inherit_env)
    own = tuple(found for found in loaded.problems if _is_about(found, path))
    alone = replace(profile, agent=agent, mcp_servers={name: server})
    resolved = _resolved(replace(loaded, profile=alone, problems=own), place)
    part = Part(server=name, problems=resolved.problems, needs=resolved.needs, is_required=_is_required(server))
    if resolved.plan is None or not resolved.plan.servers:
        return part
    (planned,) = resolved.plan.servers
    if isinstance(planned, RemotePlan):
        return replace(part, whole=resolved.plan, remote=planned)
    return replace(part, stdio=planned, plan=replace(resolved.plan, agent=process(planned, place.environ)))


def _resolved(loaded: Loaded, place: Place) -> Resolved:
    return resolve(loaded, cwd=place.cwd, environ=place.environ, cwd_override=place.override)


def _is_required(server: object) -> bool:
    return bool(getattr(server, "required", True))


def _is_about(found: Problem, path: str) -> bool:
    return found.path == path or found.path.startswith(f"{path}.")
