"""
The packages and the image that a plan starts, how they differ from the lock file, and the agents of the registry.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.plan.executable import CannotRun, find
from acp_launch.plan.model import InContainer, LaunchPlan, Origin, ProcessPlan, StdioPlan, Value
from acp_launch.problem import KeyPath, Problem, about, likeliest, ours
from acp_launch.profile.discover import shown
from acp_launch.profile.load import Loaded
from acp_launch.profile.lockfile import Locked, place
from acp_launch.regex import regex
from acp_launch.registry.index import RUNNERS, list_packages, parse_package, pin_line, read_copy
from acp_launch.registry.installed import Installation, Reference, home, installations, of_program, reference
from acp_launch.settings.load import directory, elsewhere, grounds, lies_in

IMAGE = "runtime.container.image"
_DIGEST = regex(r"(?P<of>.+@)?(?P<hash>sha256:[0-9a-f]{64})")  # of a repository's image; or the id of a local one


class Used(Struct, frozen=True):
    """
    A package that the plan starts, or the image of its container. `key` is its place in the lock. `package` names its
    version, or is what the profile says without one, and then `is_exact` is false. `integrity` is the installed
    package's; empty if it is not known. `agent` is the registry's agent that is installed; empty for all others.
    """

    key: str
    origin: Origin
    package: str
    integrity: str = ""
    is_exact: bool = True
    agent: str = ""


def used(loaded: Loaded, plan: LaunchPlan) -> list[Used]:
    """List the packages of a plan; a program that is not started by npx or uvx is not one. Then the image, unless the
    profile gives its digest."""
    found = [*_agent(loaded, plan.agent)]
    for server in plan.servers:
        if isinstance(server, StdioPlan):
            found += _of_runner(loaded, f"mcp_servers.{server.name}", ("mcp_servers", server.name, "args"), server)
    there = plan.place.elsewhere if plan.place else None
    if isinstance(there, InContainer) and "@" not in there.image:
        origin = _origin(loaded, ("runtime", "container", "image"))
        found.append(Used(IMAGE, origin, f"image:{there.image}"))
    return found


def _agent(loaded: Loaded, agent: ProcessPlan) -> Iterator[Used]:
    installation = of_program(agent.command) if agent.registry else None
    if installation is None:
        yield from _of_runner(loaded, "agent", ("agent", "args"), agent)
        return
    origin, package = _origin(loaded, ("agent", "registry")), f"binary:{installation.reference}"
    yield Used("agent", origin, package, installation.manifest.integrity, agent=agent.registry)


def _of_runner(loaded: Loaded, key: str, path: KeyPath, program: ProcessPlan | StdioPlan) -> Iterator[Used]:
    runner, origin = program.command.stem, _origin(loaded, path)
    specs = list_packages(runner, [argument.display() for argument in program.args])
    for index, spec in enumerate(specs):
        source = RUNNERS[runner]
        name, version = parse_package(source, spec) or (spec, "")
        text = f"{source}:{name}{'@' if source == 'npm' else '=='}{version}" if version else f"{source}:{spec}"
        yield Used(f"{key}.{index}" if index else key, origin, text, "", bool(version))


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
        return (about(file, what, again),) if packages else ()
    problems = [problem for each in packages if (problem := _fault(each, lock.get(each.key), again))]
    idle = sorted(lock.keys() - {each.key for each in packages})
    unused = [Problem(file, 0, 0, key, f"{lock[key].package} is locked, but is not started", again) for key in idle]
    return (*problems, *unused)


def pin_image(loaded: Loaded, plan: LaunchPlan) -> LaunchPlan:
    """Return a plan that does not differ from the lock file, with the image that is locked, whatever its tag names."""
    there, locked = plan.place.elsewhere if plan.place else None, (loaded.lock or {}).get(IMAGE)
    if plan.place is None or not isinstance(there, InContainer) or locked is None:
        return plan
    found = next(filter(None, map(_DIGEST.fullmatch, locked.integrity)))
    if found["of"]:
        there = replace(there, image=f"{there.image}@{found['hash']}")
    else:
        there = replace(there, image=found["hash"], pull="never")  # no registry knows it
    return replace(plan, place=replace(plan.place, elsewhere=there))


def _fault(each: Used, locked: Locked | None, again: str) -> Problem | None:
    if unpinned := inexact(each, locked):
        return unpinned
    if locked is None or (each.key == IMAGE and not any(map(_DIGEST.fullmatch, locked.integrity))):
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


# An agent of the registry in a plan: its installation on this machine gives program, arguments and variables.


class Registered(Struct, frozen=True):
    """The program of an installed agent, with what the registry gives it; `reference` is its id and version."""

    program: Path
    args: tuple[Value, ...]
    env: Mapping[str, Value]
    reference: str


def registered(written: str, places: Sequence[Path], search: str | None) -> Registered | CannotRun:
    """Find the installation of the agent that a profile names. `search` is the agent's PATH.

    `places` are the profile's project and the working directory: an installation that lies in a project there is not
    used, because the project could have made it.
    """
    wanted, state = reference(written), directory("STATE")
    assert wanted is not None, "the profile was checked"
    if lies_in(state, [ground for place in places for ground in grounds(place)]):
        what = f"the state directory {state} lies in the project, so the agents in it cannot be trusted"
        return CannotRun(what, elsewhere("STATE"))
    installation = chosen(state, wanted)
    if isinstance(installation, CannotRun):
        return _unknown(wanted, state) or installation
    program = find(str(installation.program), project=home(state), path=search)
    if isinstance(program, CannotRun):
        return program
    said, origin = installation.manifest, Origin(f"registry {installation.reference}")
    args = tuple(Value((text,), origin) for text in said.args)
    env = {name: Value((text,), origin) for name, text in said.env.items()}
    return Registered(program, args, env, str(installation.reference))


def chosen(state: Path, wanted: Reference) -> Installation | CannotRun:
    """Return the installation that a profile means: of its version, else the newest one."""
    found = installations(state, wanted.id)
    if made := next((each for each in found if wanted.version in ("", each.manifest.version)), None):
        return made
    others = f"; installed: {', '.join(each.manifest.version for each in found)}" if found else ""
    copy = read_copy(directory("CACHE"))
    entry = copy.agents.get(wanted.id) if copy else None
    line = pin_line(entry) if entry and not entry.distribution.binary else ""  # it needs no installation
    fix = f"write instead: {line}" if line else ours("agents", "install", str(wanted))
    return CannotRun(f"the registry's agent {wanted} is not installed{others}", fix)


def _unknown(wanted: Reference, state: Path) -> CannotRun | None:
    """Say so if neither the copy of the index nor this machine knows the id, and another one looks like it: a newer
    index may list it."""
    copy = read_copy(directory("CACHE"))
    known = {*copy.agents, *(each.manifest.id for each in installations(state))} if copy else set()
    near = likeliest(wanted.id, known)
    if wanted.id in known or not near:
        return None
    return CannotRun(f'the registry has no agent "{wanted.id}"; did you mean "{near}"?', f"write {near}")
