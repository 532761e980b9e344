"""
`python -m acp_launch`, and the console script.

`python -m` puts the current directory first on `sys.path`, and a project must not choose what we import. What Python
itself imports before us is beyond our reach: the console script, or `python -P -m`, never looks there.
"""

import os
import sys


def main() -> None:
    """Answer `--version`, and a shell that completes, before anything is imported; the rest is the command line's."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from acp_launch import __version__

        sys.stdout.write(f"acp-launch {__version__}\n")
        return
    if sys.argv[1:2] == ["__complete"]:
        from acp_launch.cli.completing.answer import answer

        answer(sys.argv[2:])
        return
    from acp_launch import leave

    leave.listen()
    import gc

    gc.disable()  # what is made while we start stays; `Interrupts` turns it on for what runs longer
    code = 1
    try:
        from acp_launch.cli.main import run

        code = run(sys.argv[1:])
    except BaseException:
        if leave.is_due():  # whatever a signal in the midst of anything was turned into
            leave.at_once(leave.code())
        sys.excepthook(*sys.exc_info())
    leave.finish(code)
    sys.exit(code)


def _forget_current_directory() -> None:
    try:
        here = os.getcwd()  # noqa: PTH109 - pathlib is not imported yet
    except OSError:  # it is gone, and so not on the path
        return
    if not sys.flags.safe_path and sys.path[:1] in ([""], [here]):
        del sys.path[0]


if __name__ == "__main__":
    _forget_current_directory()
    main()
