"""The one place that turns an exception into words and an exit code."""

import os
import sys
from collections.abc import Sequence

from acp_launch.errors import LaunchError

INTERRUPTED, SIGPIPE = 130, 141


def run(arguments: Sequence[str]) -> int:
    """Run the command line; gives the exit code (DESIGN §5)."""
    from acp_launch.cli.app import app

    try:
        app(args=list(arguments), prog_name="acp-launch")
    except SystemExit as ended:  # how typer gives back exit codes, its own usage errors included
        return ended.code if isinstance(ended.code, int) else 0
    except LaunchError as error:
        from acp_launch.console.failure import show

        show(error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _stdout_is_gone()
        return SIGPIPE
    except OSError as error:
        if error.filename is not None:
            raise
        return _stdout_is_full(error)  # only a descriptor we were given has no name
    return 0


def _stdout_is_full(error: OSError) -> int:
    from acp_launch.console.failure import show

    _stdout_is_gone()
    failure = LaunchError(f"cannot write to stdout: {error.strerror}")
    show(failure)
    return failure.exit_code


def _stdout_is_gone() -> None:
    """Keep the interpreter from flushing into the closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
