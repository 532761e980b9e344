"""Whether a profile may start anything."""

import re
from collections.abc import Callable, Iterable
from shlex import quote

from msgspec.structs import replace

from acp_launch.checks.check import Check, of_error, ok, problem, warning
from acp_launch.errors import LaunchError, NotTrusted
from acp_launch.profile.load import Loaded
from acp_launch.profile.trust import Standing, standing
from acp_launch.settings.model import Settings

GOOD = {"own": "your own, or built in", "accepted": "accepted as it is"}
BAD = {
    "new": "it comes from a project and was never accepted",
    "changed": "it has changed since it was accepted",
    "doubtful": "it cannot be accepted",
}


MOST = 40  # lines of what it would run; `trust` shows all
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def trust(loaded: Loaded, settings: Settings, report: Callable[[Standing], Iterable[str]], *, is_waved: bool) -> Check:
    """
    `report` says what a profile that is not trusted would run. `is_waved` is `--trust`: it lets one pass this once, but
    none that cannot be accepted.
    """
    try:
        found = standing(loaded, settings)
    except LaunchError as error:
        return of_error("trust", error)[0]
    if found.is_trusted:
        return ok("trust", "", GOOD[found.how], how=found.how)
    fix = _fix(loaded, found)
    if is_waved and found.how != "doubtful":
        return warning("trust", "", f"{BAD[found.how]}; it is trusted for this once (--trust)", fix, how=found.how)
    check = problem("trust", "", _why(found), fix, NotTrusted.exit_code, how=found.how)
    lines = [_COLOUR.sub("", line) for line in report(found)]
    more = [f"and {len(lines) - MOST} more lines"] if len(lines) > MOST else []
    return replace(check, detail=(*lines[:MOST], *more))


def _why(found: Standing) -> str:
    reasons = f": {'; '.join(found.doubts)}" if found.doubts else ""
    return f"{BAD[found.how]}{reasons}, so nothing of it is started"


def _fix(loaded: Loaded, found: Standing) -> str:
    if found.how == "doubtful":
        return "make the file your own, and writable by nobody else, inside the project"
    name = quote(loaded.found.called)
    return f"if you want all of this: acp-launch trust {name}; for this once: --trust"
