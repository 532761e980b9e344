"""
The place of an agent in a container, or on another machine: how the engine or ssh leads there, or every problem that
prevents it. Servers and their secrets stay here; the agent reaches them through the directory for sockets.

It asks neither the engine nor the other machine: `app.place` does, when the agent is about to start.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from acp_launch.errors import LaunchError
from acp_launch.plan.confinement import PlaceSurvey, Wish, list_links, list_private
from acp_launch.plan.executable import CannotRun, find
from acp_launch.plan.exposure import keep_apart
from acp_launch.plan.model import PROGRAMS, InContainer, LaunchPlan, Named, Origin, OverSsh, Place
from acp_launch.plan.place import arrange
from acp_launch.plan.written import list_written, refuse_written
from acp_launch.private import real
from acp_launch.problem import Problem
from acp_launch.profile.model import Container, Ssh

MOUNTS = "runtime.container.mounts"
ENGINES = ("podman", "docker")  # in this order
SELINUX = Path("/sys/fs/selinux/enforce")  # "1" if containers may not read what is mounted without a label
_SOCKETS = ("docker.sock", "podman.sock", "podman/podman.sock", "containerd/containerd.sock", "crio/crio.sock")


def contain(
    plan: LaunchPlan, wish: Container, mounts: Sequence[Named], origin: Origin, environ: Mapping[str, str]
) -> tuple[LaunchPlan, list[Problem]]:
    """Return the plan with the container of its agent, and the problems; with one the place must not be used.

    `mounts` are the wish's, with their references filled in; `origin` is where the profile asks for a container.
    """
    names = ENGINES if wish.engine == "auto" else (wish.engine,)
    found = ((name, find(name, project=plan.project, path=environ.get("PATH"))) for name in names)
    name, program = next(((name, each) for name, each in found if isinstance(each, Path)), (names[0], None))
    if program is None:
        what = f"the agent runs in a container, and there is no {' and no '.join(names)}"
        return plan, [origin.problem(what, f"install {names[0]}, or remove runtime.container")]
    try:
        written = list_written()
        refuse_written(program)
    except LaunchError as error:
        return plan, [origin.problem(error.message, error.fix or "")]
    survey = PlaceSurvey(plan, environ, real(program), written, origin, tuple(list_private(environ)), key=MOUNTS)
    only_read = [Named(each.text.removesuffix(":ro"), each.origin) for each in mounts if each.text.endswith(":ro")]
    to_write = [each for each in mounts if not each.text.endswith(":ro")]
    survey.show_named(Wish(origin=origin, read=only_read, write=to_write))
    survey.problems += _refuse_sockets(survey)
    survey.show(PROGRAMS, "read", "acp-launch")
    survey.show_git()
    survey.pin_given()
    shown = arrange(survey.mounts)
    where = Place(
        program=program,
        mounts=shown,
        links=dict(list_links(survey.spelled, shown)),
        network="none" if wish.network == "none" else "shared",
        elsewhere=InContainer(name, wish.image, wish.network, wish.pull, _user(name, wish)),
    )
    plan, problems = keep_apart(survey.plan, where, environ, written)
    return replace(plan, place=where), [*survey.problems, *survey.judge(where), *problems]


def _user(engine: str, wish: Container) -> tuple[str, ...]:
    """Return the words by which the agent is, there, who we are: only that user may open the seat."""
    label = ("--security-opt", "label=disable") if _is_enforcing() else ()
    if wish.user == "image":
        return label
    if engine == "podman" and os.getuid():
        return (*label, "--userns=keep-id")
    return (*label, "--user", f"{os.getuid()}:{os.getgid()}")


def _is_enforcing() -> bool:
    try:
        return SELINUX.read_text().strip() == "1"
    except OSError:
        return False


def _refuse_sockets(survey: PlaceSurvey) -> Iterator[Problem]:
    """Yield a problem for each path that is a socket, or holds an engine's: it leads out of the container."""
    engines = [*map(real, _list_engines(survey))]
    for origin, path in survey.named:
        known = (each for each in engines if each.is_relative_to(real(path)))
        inner = next(filter(_is_socket, (*(path / name for name in _SOCKETS), path, *known)), None)
        if inner is not None:
            what = f"{inner} is a socket of this machine: through an engine's the agent could do anything here"
            yield origin.problem(what, f"remove it from {MOUNTS}, or work in a directory without it")


def _list_engines(survey: PlaceSurvey) -> Iterator[Path]:
    """Yield where the sockets of engines are, or would be."""
    for name in ("DOCKER_HOST", "CONTAINER_HOST"):
        scheme, _, path = survey.environ.get(name, "").partition(":")
        if scheme == "unix":
            yield Path("/", path.lstrip("/"))
    for run in ("/run", "/var/run", survey.environ.get("XDG_RUNTIME_DIR") or "/run"):
        yield from (Path(run, name) for name in _SOCKETS)
    yield from (survey.home / ".docker" / name / "docker.sock" for name in ("run", "desktop"))


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:  # it is not there, or not ours to see
        return False


def reach(plan: LaunchPlan, wish: Ssh, origin: Origin, environ: Mapping[str, str]) -> tuple[LaunchPlan, list[Problem]]:
    """Return the plan with the other machine of its agent, and the problems."""
    program = find("ssh", project=plan.project, path=environ.get("PATH"))
    if isinstance(program, CannotRun):
        what = "ssh is not installed, and the agent is on another machine"
        return plan, [origin.problem(what, "install the OpenSSH client, or remove runtime.ssh")]
    try:
        refuse_written(program)
    except LaunchError as error:
        return plan, [origin.problem(error.message, error.fix or "")]
    there = OverSsh(wish.host, Path(os.path.normpath(wish.directory)), wish.python)
    where = Place(program=program, mounts=(), elsewhere=there)
    plan, problems = keep_apart(plan, where, environ)
    return replace(plan, place=where), problems
