"""A server's plan becomes a program to run, the one moment its secrets are text; and a policy for its tools."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from acp_launch.plan.model import StdioPlan
from acp_launch.process.program import Program
from acp_launch.profile.model import Tools
from acp_launch.secret.value import Secret

if TYPE_CHECKING:
    from acp_launch.bridge.toolpolicy import ToolPolicy


def program(plan: StdioPlan, name: str, secrets: Mapping[str, Secret]) -> Program:
    """`name` tells two processes of one server apart."""
    assert plan.cwd is not None, "whoever runs servers gives each a directory"
    argv = (str(plan.command), *(arg.reveal(secrets) for arg in plan.args))
    env = {variable: value.reveal(secrets) for variable, value in plan.env.items()}
    return Program(name=name, argv=argv, env=env, cwd=plan.cwd)


def policy(plan: StdioPlan) -> "ToolPolicy | None":
    """None where every tool is allowed."""
    if plan.tools == Tools():
        return None
    from acp_launch.bridge.toolpolicy import ToolPolicy  # regular expressions: rarely needed, not for nothing

    restricting = ToolPolicy(plan.name, plan.tools)
    return None if restricting.is_open else restricting
