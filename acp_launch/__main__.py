"""
The program's start, for `python -m acp_launch` and the console script.

A project must not decide what we import. But `python -m` puts the current directory first on `sys.path`, and so does a
relative or empty entry of `PYTHONPATH`; both are removed here. We cannot affect what Python imports before us: with
`python -m acp_launch` this package (the console script and `python -P -m` do not look for it there), and with such a
`PYTHONPATH` also `sitecustomize` and the first imports of the console script.
"""

import os
import sys


def main() -> None:
    """Answer `--version` and completion before importing more; run the command line else."""
    if sys.platform == "win32":
        sys.stderr.write("acp-launch: Windows is not supported\n    fix: run it inside WSL\n")
        sys.exit(3)
    forgotten = _forget_relative_entries()
    if sys.argv[1:] in (["--version"], ["-V"], ["version"]):
        from acp_launch import __version__

        sys.stdout.write(f"acp-launch {__version__}\n")
        return
    if "_ACP_LAUNCH_COMPLETE" in os.environ:
        return _complete()
    import acp_launch.shutdown as shutdown  # `from acp_launch` would ask the Python API for it

    shutdown.listen()
    import gc

    gc.disable()  # objects made during the start live on; `Interrupts` enables it for longer runs
    if forgotten:
        from acp_launch.console.stderr import tell

        named = ", ".join(f'"{entry}"' if entry else "an empty entry" for entry in dict.fromkeys(forgotten))
        why = "files in the current directory could replace modules of acp-launch"
        tell(f"PYTHONPATH: {named} is ignored: {why}")
    sys.exit(shutdown.finish_with(_run))


def _run() -> int:
    from acp_launch.cli.main import run

    return run(sys.argv[1:])


def _complete() -> None:
    """Answer a press of the tab key; a message, of any error, would stand in the line that is being typed."""
    import gc

    gc.disable()
    try:
        from acp_launch.cli.app import complete

        complete()
    except (Exception, KeyboardInterrupt, SystemExit):
        pass
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python complains at its end


def _forget_relative_entries() -> list[str]:
    """Remove relative entries of PYTHONPATH from `sys.path`, where `site` has made them absolute; return them."""
    given = os.environ.get("PYTHONPATH")
    if not given or sys.flags.ignore_environment:
        return []
    entries = given.split(os.pathsep)
    relative = [entry for entry in entries if not os.path.isabs(entry)]  # noqa: PTH117
    if not relative:
        return []
    try:
        forgotten = {os.path.abspath(entry) for entry in relative} - set(entries)  # noqa: PTH100
    except OSError:  # the current directory is gone, and with it its entries
        forgotten = set()
    sys.path[:] = [entry for entry in sys.path if entry not in forgotten and entry not in relative]
    return relative


def _forget_current_directory() -> None:
    try:
        here = os.getcwd()  # noqa: PTH109 - pathlib is not imported yet
    except OSError:  # the directory is gone, and so not on the path
        return
    if not sys.flags.safe_path and sys.path[:1] in ([""], [here]):
        del sys.path[0]


if __name__ == "__main__":
    _forget_current_directory()
    main()
