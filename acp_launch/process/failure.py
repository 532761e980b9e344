"""Why a process could not be started, as a sentence that names what to look at."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from acp_launch.errors import AgentError, Exhausted

FILES = "no file descriptors are left", "raise the limit with `ulimit -n`"
PROCESSES = "no more processes are allowed", "raise the limit with `ulimit -u`"


def explain(error: Exception, argv: Sequence[str], cwd: Path) -> AgentError:
    """The error to raise instead of `error`, which came out of starting `argv` in `cwd`."""
    command = argv[0] if argv else ""
    if not isinstance(error, OSError):  # ValueError: a NUL byte, or '=' in a variable's name
        return AgentError(f"{command!r} could not be started: {error}")
    if error.filename is not None and os.fspath(error.filename) == os.fspath(cwd) != command:
        return AgentError(
            f"{command} could not be started in {cwd}: {_reason(error)}", fix="create the directory, or choose another"
        )
    reason, fix = _exec_failure(error, Path(command))
    return AgentError(f"{command} could not be started: {reason}", fix=fix)


def exhausted(error: BaseException) -> Exhausted | None:
    """What to say instead of `error` if it only means that a limit of this process, or of its user, is reached."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return Exhausted(f"{FILES[0]} for acp-launch", fix=FILES[1])
    if isinstance(error, RuntimeError) and "start new thread" in str(error):  # ulimit -u, or a container's limit
        return Exhausted("no more threads are allowed for acp-launch", fix=PROCESSES[1])
    if isinstance(error, BlockingIOError) and error.filename is None and error.errno == errno.EAGAIN:
        return Exhausted(f"{PROCESSES[0]} for acp-launch", fix=PROCESSES[1])
    return None


def _exec_failure(error: OSError, command: Path) -> tuple[str, str]:
    match error.errno:
        case errno.ENOENT:
            return _not_found(command)
        case errno.EACCES:
            return _not_allowed(command)
        case errno.ENOEXEC:
            return "it is neither a program for this machine nor a script with a #! line", "name its interpreter first"
        case errno.E2BIG:
            return "its arguments and environment together are too long", "pass fewer variables with inherit_env"
        case errno.EMFILE | errno.ENFILE:
            return FILES
        case errno.EAGAIN:
            return PROCESSES
        case _:
            return _reason(error), ""


def _not_found(command: Path) -> tuple[str, str]:
    if not command.exists():
        return "there is no such file", "check that it is still installed"
    if interpreter := _interpreter(command):
        return f"its interpreter {interpreter} does not exist", "install the interpreter, or correct the #! line"
    return "the loader it was built for does not exist", "install a build for this system"


def _not_allowed(command: Path) -> tuple[str, str]:
    if command.is_dir():
        return "it is a directory", "name the program inside it"
    if not os.access(command, os.X_OK):
        return "it is not executable", f"chmod +x {command}"
    if interpreter := _interpreter(command):
        return f"its interpreter {interpreter} may not be executed", "correct the #! line"
    return "permission denied", ""


def _interpreter(script: Path) -> str:
    """What follows `#!`, without arguments; empty when it is not a script we can read."""
    try:
        with script.open("rb") as file:
            first = file.readline(4096)
    except OSError:
        return ""
    words = first[2:].split() if first.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words else ""


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
