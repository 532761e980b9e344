"""The packages that a plan starts, and how they differ from the project's lock file."""

from collections.abc import Iterator

from msgspec import Struct

from acp_launch.plan.model import LaunchPlan, Origin, ProcessPlan, StdioPlan
from acp_launch.problem import KeyPath, Problem, ours
from acp_launch.profile.discover import shown
from acp_launch.profile.load import Loaded
from acp_launch.profile.lockfile import Locked, place
from acp_launch.registry.installed import Installation, of_program
from acp_launch.registry.package import RUNNERS, Package, read, started


class Used(Struct, frozen=True):
    """
    A package that the plan starts. `key` is its place in the lock. `package` names its version, or is what the profile
    says without one, and then `is_exact` is false. `integrity` is that of what is installed; empty if it is not known.
    `agent` is the registry's agent that is installed; empty for all others.
    """

    key: str
    origin: Origin
    package: str
    integrity: str = ""
    is_exact: bool = True
    agent: str = ""


def used(loaded: Loaded, plan: LaunchPlan) -> list[Used]:
    """List the packages of a plan; a program that is not started by npx or uvx is not one."""
    found = [*_agent(loaded, plan.agent)]
    for server in plan.servers:
        if isinstance(server, StdioPlan):
            found += _of_runner(loaded, f"mcp_servers.{server.name}", ("mcp_servers", server.name, "args"), server)
    return found


def _agent(loaded: Loaded, agent: ProcessPlan) -> Iterator[Used]:
    installation = of_program(agent.command) if agent.registry else None
    if installation is None:
        yield from _of_runner(loaded, "agent", ("agent", "args"), agent)
        return
    said = installation.manifest
    yield Used(
        "agent", _origin(loaded, ("agent", "registry")), named(installation), said.integrity, agent=agent.registry
    )


def named(installation: Installation) -> str:
    """Return the package of an installation as the lock names it."""
    said = installation.manifest
    source = {"npx": "npm", "uvx": "pypi"}.get(said.kind)
    return f"{source}:{said.package}" if source else f"binary:{installation.reference}"


def _of_runner(loaded: Loaded, key: str, path: KeyPath, program: ProcessPlan | StdioPlan) -> Iterator[Used]:
    runner, origin = program.command.stem, _origin(loaded, path)
    specs = started(runner, [argument.display() for argument in program.args])
    for index, spec in enumerate(specs):
        package = read(RUNNERS[runner], spec)
        text = str(package or Package(RUNNERS[runner], spec))
        yield Used(f"{key}.{index}" if index else key, origin, text, "", bool(package and package.version))


def _origin(loaded: Loaded, path: KeyPath) -> Origin:
    at = loaded.positions.where(path)
    return Origin(at.file, at.line, at.column, ".".join(map(str, path)))


def differing(loaded: Loaded, plan: LaunchPlan) -> tuple[Problem, ...]:
    """Return a problem for each way in which a plan differs from the lock file."""
    lock, again = loaded.lock, ours("lock", loaded.found.called)
    file = shown(place(loaded.found.project))
    packages = used(loaded, plan)
    if lock is None:
        what = f"the project's lock file says nothing of {loaded.found.called}"
        return (Problem(file, 0, 0, "", what, again),) if packages else ()
    problems = [problem for each in packages if (problem := _fault(each, lock.get(each.key), again))]
    idle = sorted(lock.keys() - {each.key for each in packages})
    unused = [Problem(file, 0, 0, key, f"{lock[key].package} is locked, but does not run", again) for key in idle]
    return (*problems, *unused)


def _fault(each: Used, locked: Locked | None, again: str) -> Problem | None:
    if unpinned := inexact(each, locked):
        return unpinned
    if locked is None:
        return each.origin.problem(f"{each.package} is not in the lock file", again)
    if locked.package != each.package:
        return each.origin.problem(f"{each.package} would run, but {locked.package} is locked", again)
    if each.integrity and each.integrity not in locked.integrity:
        what = f"{each.package} is installed with another hash than the locked one: {each.integrity}"
        return each.origin.problem(what, f"{ours('agents', 'rm', each.agent)}; then install it again")
    return None


def inexact(each: Used, locked: Locked | None = None) -> Problem | None:
    """Return the problem that a package does not name its version, if it does not."""
    if each.is_exact:
        return None
    spec = locked.package.partition(":")[2] if locked else "NAME@VERSION, or NAME==VERSION for uvx"
    what = f"{each.package.partition(':')[2]} names no exact version, so each start may run another one"
    return each.origin.problem(what, f"write {spec}")
