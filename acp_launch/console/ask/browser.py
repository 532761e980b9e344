"""Which program shows a page to the person at this machine, and starting it so that it stays theirs."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from acp_launch.process import detached as outside
from acp_launch.secret.value import is_private

# They need the terminal, which is ours; `www-browser` is whichever of them is installed.
TEXTUAL = {"browsh", "carbonyl", "chawan", "cha", "edbrowse", "elinks", "links", "links2", "lynx", "w3m", "www-browser"}
DESKTOP = (("xdg-open",), ("gio", "open"), ("x-www-browser",))
WITHOUT_DESKTOP = (("wslview",),)  # Linux under Windows: opens the browser there


def command(env: Mapping[str, str]) -> list[str] | None:
    """What opens a page when its address is put in for `%s`; None when there is nothing that does.

    `$BROWSER` as others read it: several commands with `:` between, the first that is there; one that belongs on a
    terminal is passed over.
    """
    for argv in _candidates(env):
        found = shutil.which(argv[0], path=env.get("PATH", os.defpath))
        if found and Path(argv[0]).name not in TEXTUAL:
            address = [] if any("%s" in argument for argument in argv[1:]) else ["%s"]
            return [str(Path(found).absolute()), *argv[1:], *address]
    return None


def start(argv: list[str], url: str, env: Mapping[str, str]) -> str:
    """Open a page. Why it could not be started; empty when it was. What comes of it is not known.

    Values that stand in our environment for secrets of profiles are none of its business.
    """
    theirs = {name: value for name, value in env.items() if not is_private(name)}
    return outside.start([argument.replace("%s", url) for argument in argv], theirs)


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    for said in env.get("BROWSER", "").split(os.pathsep):
        if argv := _split(said):
            yield argv
    if sys.platform == "darwin":
        yield ("/usr/bin/open",)
        return
    yield from WITHOUT_DESKTOP
    if env.get("DISPLAY") or env.get("WAYLAND_DISPLAY"):
        yield from DESKTOP


def _split(said: str) -> tuple[str, ...]:
    """Without the `&` that asks to be started in the background: everything is."""
    try:
        argv = shlex.split(said)
    except ValueError:
        return ()
    return tuple(argv[:-1] if argv[-1:] == ["&"] else argv)
