"""Become another program that gets secrets in its environment."""

import os
import sys
from collections.abc import Mapping, Sequence

from acp_launch.errors import UsageError
from acp_launch.plan.environment import inherited
from acp_launch.secret.value import Secret


def replaced_by(command: Sequence[str], secrets: Mapping[str, Secret], environ: Mapping[str, str]) -> int:
    """Does not return on Unix: its exit code, signals and terminal are the command's. Gives the exit code on Windows.

    Raises:
        UsageError: a variable cannot have that name, or there is no such command.
    """
    for name in secrets:
        if not name or "=" in name or "\0" in name:
            raise UsageError("--as: this is not a variable's name", fix="--as GITHUB_TOKEN")
    env = {**inherited(environ, "all"), **{name: secret.expose() for name, secret in secrets.items()}}
    try:
        return _run(command, env)
    except OSError as error:
        reason = "no such command" if isinstance(error, FileNotFoundError) else error.strerror
        raise UsageError(f"{command[0]} cannot be run: {reason}", fix="give a program on your PATH") from None


def _run(command: Sequence[str], env: Mapping[str, str]) -> int:
    if sys.platform == "win32":
        import subprocess

        return subprocess.run(list(command), env=dict(env), check=False).returncode
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvpe(command[0], list(command), dict(env))
