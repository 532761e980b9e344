"""Become another program that gets secrets in its environment."""

import os
import sys
from collections.abc import Mapping, Sequence

from acp_launch.errors import MachineError
from acp_launch.plan.environment import inherited
from acp_launch.problem import Problem
from acp_launch.process import prepare
from acp_launch.secret.value import Secret


def replaced_by(command: Sequence[str], secrets: Mapping[str, Secret], environ: Mapping[str, str]) -> int:
    """Does not return on Unix: its exit code, signals and terminal are the command's. Gives the exit code on Windows.

    Raises:
        MachineError: there is no such command.
    """
    env = {**inherited(environ, "all"), **{name: secret.expose() for name, secret in secrets.items()}}
    try:
        return _run(command, env)
    except OSError as error:
        reason = "no such command" if isinstance(error, FileNotFoundError) else error.strerror
        message, fix = f"{command[0]} cannot be run: {reason}", "give a program on your PATH, or its path"
        raise MachineError([Problem("", 0, 0, "", message, fix)]) from None


def _run(command: Sequence[str], env: Mapping[str, str]) -> int:
    if sys.platform == "win32":
        import subprocess

        return subprocess.run(list(command), env=dict(env), check=False).returncode
    sys.stdout.flush()
    sys.stderr.flush()
    prepare.undo()
    os.execvpe(command[0], list(command), dict(env))
