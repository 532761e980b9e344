"""The place of a confined agent, made just before the agent is started in it."""

from acp_launch.plan.confinement import prepare_place
from acp_launch.plan.model import Place, ProcessPlan
from acp_launch.plan.place import place
from acp_launch.plan.repository import list_shared_objects
from acp_launch.process.git import pack_loose_objects


def enter_place(agent: ProcessPlan, where: Place) -> ProcessPlan:
    """Make the place ready, and return the agent as it is started in it.

    Raises:
        StateError: its state cannot be made, or its repository's objects cannot be protected.
    """
    prepare_place(where)
    for objects in list_shared_objects(where):
        pack_loose_objects(objects)
    return place(agent, where)
