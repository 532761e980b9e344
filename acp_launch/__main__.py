"""
`python -m acp_launch`, and the console script.

A project must not choose what we import. But `python -m` puts the current directory first on `sys.path`, and so does
`PYTHONPATH` where an entry of it is relative or empty. What Python itself imports before us is beyond our reach: of
`python -m acp_launch` this package, which the console script, or `python -P -m`, never looks for there; with such a
`PYTHONPATH` also `sitecustomize` and what the console script begins with.
"""

import os
import sys


def main() -> None:
    """Answer `--version`, and a shell that completes, before anything is imported; the rest is the command line's."""
    forgotten = _forget_relative_entries()
    if sys.argv[1:] in (["--version"], ["-V"]):
        from acp_launch import __version__

        sys.stdout.write(f"acp-launch {__version__}\n")
        return
    if sys.argv[1:2] == ["__complete"]:
        from acp_launch.cli.tab import answer

        answer(sys.argv[2:])
        return
    from acp_launch import leave

    leave.listen()
    import gc

    gc.disable()  # what is made while we start stays; `Interrupts` turns it on for what runs longer
    if forgotten:
        _say_forgotten(forgotten)
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


def _forget_relative_entries() -> list[str]:
    """Those of PYTHONPATH lead into whatever directory we are started in; site has made them absolute by now."""
    given = os.environ.get("PYTHONPATH")
    if not given or sys.flags.ignore_environment:
        return []
    entries = given.split(os.pathsep)
    relative = [entry for entry in entries if not os.path.isabs(entry)]  # noqa: PTH117
    if not relative:
        return []
    try:
        forgotten = {os.path.abspath(entry) for entry in relative} - set(entries)  # noqa: PTH100
    except OSError:  # the directory is gone, and so are they
        forgotten = set()
    sys.path[:] = [entry for entry in sys.path if entry not in forgotten and entry not in relative]
    return relative


def _say_forgotten(entries: list[str]) -> None:
    from acp_launch.console.stderr import harmless, say

    named = ", ".join(f'"{entry}"' if entry else "an empty entry" for entry in dict.fromkeys(entries))
    why = "whoever wrote what is in this directory would choose what is imported"
    say(harmless(f"acp-launch: PYTHONPATH: {named} is not looked into: {why}", keep=""))


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
