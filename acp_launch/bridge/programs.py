"""A server's plan becomes a program to run: the one moment its secrets are text."""

from collections.abc import Mapping

from acp_launch.plan.model import StdioPlan
from acp_launch.process.program import Program
from acp_launch.secret.value import Secret


def program(plan: StdioPlan, name: str, secrets: Mapping[str, Secret]) -> Program:
    """`name` tells two processes of one server apart."""
    argv = (str(plan.command), *(arg.reveal(secrets) for arg in plan.args))
    env = {variable: value.reveal(secrets) for variable, value in plan.env.items()}
    return Program(name=name, argv=argv, env=env, cwd=plan.cwd)
