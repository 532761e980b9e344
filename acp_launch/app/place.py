"""The place of an agent, made just before the agent is started in it."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from acp_launch.bridge.elsewhere import RemoteSeat, make_header, program, read_program
from acp_launch.checks.confined import ask_engine
from acp_launch.errors import ContainerFailed, MachineError
from acp_launch.plan.confinement import prepare_place
from acp_launch.plan.model import PROGRAMS, InContainer, LaunchPlan, Place, ProcessPlan, there_directory
from acp_launch.plan.place import BEAT_SECONDS, BEATS, add_seat, lead, place
from acp_launch.plan.repository import list_shared_objects
from acp_launch.plan.written import make_safe_environment
from acp_launch.private import create, make_digest, make_private
from acp_launch.problem import about
from acp_launch.process.containers import label_arguments
from acp_launch.process.git import pack_loose_objects
from acp_launch.process.spawn import Spawned, find_terminal, restore_after_question, spawn
from acp_launch.settings.model import Settings
from acp_launch.waits import stretch

THERE_GRACE_SECONDS = 1.2  # for the agent to end there; our own patience is longer (`process.child`)
BEAT = stretch(BEAT_SECONDS)
ASKPASS = {
    "SSH_ASKPASS": str(PROGRAMS / "askpass.py"),
    "SSH_ASKPASS_REQUIRE": "force",
    "ACP_LAUNCH_PYTHON": sys.executable,
}


def enter_place(agent: ProcessPlan, where: Place) -> ProcessPlan:
    """Make the place ready, and return the agent as it is started in it.

    Raises:
        StateError: its state cannot be made, or its repository's objects cannot be protected.
    """
    _make_ready(where)
    return place(agent, where)


def _make_ready(where: Place) -> None:
    prepare_place(where)
    for objects in list_shared_objects(where):
        pack_loose_objects(objects)


@contextmanager
def show_seat(where: Place, seat: Path, settings: Settings) -> Iterator[Place]:
    """Have the place with the directory for sockets of the launch.

    Raises:
        MachineError: the engine of its container cannot start the agent.
    """
    there = where.elsewhere
    known = _require_engine(where, there, settings) if isinstance(there, InContainer) else None
    try:
        yield add_seat(where, seat)
    except ContainerFailed:
        if known is not None:
            with suppress(OSError):
                known.unlink()
        raise


def _require_engine(where: Place, there: InContainer, settings: Settings) -> Path:
    """Ask the engine, once for each image. A file of the cache, which is returned, remembers that it can start the
    agent."""
    asked = (str(where.program), there.image, there.pull, *there.user, os.environ.get("DOCKER_HOST", ""))
    known = settings.cache / "engines" / make_digest(*asked)
    if known.exists():
        return known
    found = ask_engine(where.program, there)
    if found.verdict == "problem":
        raise MachineError([about("runtime.container", found.text, found.fix)])
    with suppress(OSError):  # it is asked again
        make_private(known.parent)
        create(known, b"")
    return known


def _has_dialog(env: Mapping[str, str]) -> bool:
    """Tell whether the user wants ssh to ask by a program of their own, not at the terminal."""
    wanted = env.get("SSH_ASKPASS_REQUIRE") if env.get("SSH_ASKPASS") else ""
    return wanted == "force" or (wanted == "prefer" and not {"DISPLAY", "WAYLAND_DISPLAY"}.isdisjoint(env))


def start_elsewhere(
    plan: LaunchPlan,
    where: Place,
    argv: Sequence[str],
    env: Mapping[str, str],
    asking: Mapping[str, str] | None = None,
) -> Spawned:
    """Start the agent in its container, or on the other machine, by a program there that ends all that it leaves.

    `argv` and `env` are the agent's own; `asking` as in `PreparedPlan`.

    Raises:
        AgentError: the engine, or ssh, cannot be started.
        StateError: its repository's objects cannot be protected.
    """
    labels: tuple[str, ...] = ()
    seat, cidfile, first, beat, outer = None, None, b"", 0.0, make_safe_environment()
    if isinstance(where.elsewhere, InContainer):
        _make_ready(where)
        cidfile = where.seat / f"container-{os.urandom(4).hex()}" if where.seat else None
        labels = label_arguments(str(cidfile or ""))
    else:
        first, beat = program(), BEAT
        if asking := find_terminal() if asking is None else asking:
            restore_after_question()
            outer |= {} if _has_dialog(outer) else {**asking, **ASKPASS}
        if where.seat is not None:
            files = {name: read_program(name) for name in ("shim.py", "copying.py")}
            directory = there_directory(where.seat)
            seat = RemoteSeat(directory, f"{directory}-{os.urandom(8).hex()}", files)
    header = make_header(
        argv,
        env,
        str(plan.directory),
        grace=THERE_GRACE_SECONDS,
        where=where.words,
        silence=beat * BEATS,
        login_path=not labels,
        needs_home=bool(labels) and "HOME" not in env,
        seat=seat,
    )
    spawned = spawn(
        [str(where.program), *lead(where, plan.cwd, labels, seat.socket if seat else "", asks=bool(asking))],
        env=outer,  # of the engine, or of ssh
        cwd=plan.agent.cwd,
        name=f"{plan.agent.name} {where.words}",
        is_boxed=True,
        is_client=bool(labels),
        opening=first + header,
        beat=beat,
    )
    spawned.cidfile = cidfile
    return spawned
