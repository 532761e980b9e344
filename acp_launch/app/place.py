"""The place of an agent, made just before the agent is started in it."""

import os
from collections.abc import Mapping, Sequence

from acp_launch.bridge.elsewhere import RemoteSeat, make_header, program, read_program
from acp_launch.plan.confinement import prepare_place
from acp_launch.plan.executable import inherited
from acp_launch.plan.model import InContainer, LaunchPlan, Place, ProcessPlan, there_directory
from acp_launch.plan.place import lead, place
from acp_launch.plan.repository import list_shared_objects
from acp_launch.plan.written import keep_path
from acp_launch.process.containers import label_arguments
from acp_launch.process.git import pack_loose_objects
from acp_launch.process.spawn import Spawned, spawn

THERE_GRACE_SECONDS = 1.8  # for the agent to end there; our own patience is a little longer (`process.child`)


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


def start_elsewhere(plan: LaunchPlan, where: Place, argv: Sequence[str], env: Mapping[str, str]) -> Spawned:
    """Start the agent in its container, or on the other machine, by a program there that ends all that it leaves.

    `argv` and `env` are the agent's own.

    Raises:
        AgentError: the engine, or ssh, cannot be started.
        StateError: its repository's objects cannot be protected.
    """
    labels: tuple[str, ...] = ()
    seat, first = None, b""
    if isinstance(where.elsewhere, InContainer):
        _make_ready(where)
        labels = label_arguments()
    else:
        first = program()
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
        login_path=not labels,
        needs_home=bool(labels) and "HOME" not in env,
        seat=seat,
    )
    return spawn(
        [str(where.program), *lead(where, plan.cwd, labels, seat.socket if seat else "")],
        env=keep_path(inherited(os.environ, "all")),  # of the engine, or of ssh
        cwd=plan.agent.cwd,
        name=f"{plan.agent.name} {where.words}",
        is_boxed=True,
        is_client=bool(labels),
        opening=first + header,
    )
