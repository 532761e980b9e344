"""The only place that turns an exception into a message and an exit code."""

import os
import sys
from collections.abc import Callable

from acp_launch import shutdown
from acp_launch.errors import LaunchError, Stopped, first
from acp_launch.waits import stretch

SIGPIPE = 141
FLUSH_TIMEOUT = stretch(0.5)  # for stderr to take the last message after a signal


def end_in_code(work: Callable[[], int]) -> int:
    """Do the work of this process; an exception becomes a message and an exit code."""
    try:
        with shutdown.raise_interrupts():
            code = work()
        sys.stdout.flush()  # here, where a closed reader still changes the exit code
        return code
    except LaunchError as error:
        if isinstance(error, Stopped):
            shutdown.exit_deadline(FLUSH_TIMEOUT, error.exit_code)
        _show(error)
        return error.exit_code
    except KeyboardInterrupt:
        _stdout_is_gone()  # a reader that has stopped reading must not delay the exit
        return shutdown.code()
    except BrokenPipeError:
        _stdout_is_gone()
        return SIGPIPE
    except (OSError, RuntimeError, BaseExceptionGroup) as error:
        return _report(error)
    finally:
        if guard := sys.modules.get("acp_launch.process.guard_client"):
            guard.dismiss_guards()  # those that were forked for a launch that did not start


def _report(error: BaseException) -> int:
    """Report a refusal of the system in one line; raise anything else again, as it is a bug."""
    from acp_launch.process.spawn import exhausted

    cause = first(error) if isinstance(error, BaseExceptionGroup) else error
    if failure := exhausted(cause):
        _show(failure)
        return failure.exit_code
    if isinstance(error, FileNotFoundError) and error.filename is None and (gone := _find_directory_gone()):
        _show(gone)
        return gone.exit_code
    if isinstance(error, OSError) and error.filename is None:
        return stdout_is_full(error)  # only a descriptor we were given has no name
    raise error


def _find_directory_gone() -> LaunchError | None:
    """Return the error of a current directory that was removed, from which a path was to begin."""
    from acp_launch.profile.discover import here

    try:
        here()
    except LaunchError as gone:
        return gone
    return None


def stdout_is_full(error: OSError) -> int:
    _stdout_is_gone()
    failure = LaunchError(f"cannot write to stdout: {error.strerror}")
    _show(failure)
    return failure.exit_code


def _show(error: LaunchError) -> None:
    from acp_launch.console.problems import show_error

    show_error(error)


def _stdout_is_gone() -> None:
    """Point stdout at /dev/null, so that the interpreter's flush at exit cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
