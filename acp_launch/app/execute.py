"""Replacement of this process by another program that gets secrets in its environment."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from acp_launch.errors import MachineError
from acp_launch.plan.executable import inherited
from acp_launch.problem import Problem
from acp_launch.process import prepare
from acp_launch.secret.value import Secret


def replaced_by(command: Sequence[str], secrets: Mapping[str, Secret], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by `command`, which takes over its exit code, signals and terminal.

    Raises:
        MachineError: the command is not installed or cannot be run.
    """
    env = {**inherited(environ, "all"), **{name: secret.expose() for name, secret in secrets.items()}}
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        prepare.undo()
        os.execvpe(command[0], list(command), env)
    except OSError as error:
        reason = "command not found" if isinstance(error, FileNotFoundError) else error.strerror
        message, fix = f"cannot run {command[0]}: {reason}", "give a program on your PATH, or its path"
        raise MachineError([Problem("", 0, 0, "", message, fix)]) from None
