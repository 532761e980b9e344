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
        from acp_launch.cli.completing.answer import answer

        answer(sys.argv[2:])
        return
    from acp_launch.cli.main import run

    if forgotten:
        _say_forgotten(forgotten)
    code = 1
    try:
        code = run(sys.argv[1:])
    except BaseException:
        if not _gave_up():
            raise
        sys.excepthook(*sys.exc_info())
    if _gave_up():
        _leave(code)
    sys.exit(code)


def _gave_up() -> bool:
    if "acp_launch.secret.bounded" not in sys.modules:
        return False
    from acp_launch.secret.bounded import gave_up

    return gave_up()


def _leave(code: int) -> None:
    """Exit now: the interpreter would wait for threads that will never end."""
    from acp_launch.process.capture import end_all
    from acp_launch.secret.bounded import end_children

    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:  # whatever that raises, a signal included: the code is known
        end_all()
        end_children()
        os._exit(code)


def _forget_relative_entries() -> list[str]:
    """Those of PYTHONPATH lead into whatever directory we are started in; site has made them absolute by now."""
    given = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    entries = given.split(os.pathsep) if given else []
    relative = [entry for entry in entries if not os.path.isabs(entry)]  # noqa: PTH117
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
