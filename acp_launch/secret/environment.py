"""
`ACP_LAUNCH_SECRET_<NAME>` in the environment of acp-launch: comes before any store, for CI.

No variable of ours that holds a secret ever reaches a child (`plan.environment` removes them); only the value does,
where a plan says so.
"""

import re
from collections.abc import Iterable, Mapping

from acp_launch.secret.outcome import MAX_VALUE, Outcome, size
from acp_launch.secret.value import Secret

PREFIX = "ACP_LAUNCH_SECRET_"
PASSPHRASE = "ACP_LAUNCH_PASSPHRASE"  # opens the sealed file


def variable(name: str) -> str:
    """The environment variable that holds the secret: `team/git-hub` → `ACP_LAUNCH_SECRET_TEAM_GIT_HUB`."""
    return PREFIX + re.sub("[^A-Z0-9]", "_", name.upper())


def is_private(variable: str) -> bool:
    """Whether a variable is for acp-launch alone; names compare as on Windows, so that none slips through."""
    return variable.upper().startswith(PREFIX) or variable.upper() == PASSPHRASE


def look(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, Outcome]:
    """Those of `names` that have a variable; an empty one counts as none. One that cannot be used is no reason to look
    elsewhere: who set it means it."""
    return {name: _judged(variable(name), environ[variable(name)]) for name in names if environ.get(variable(name))}


def _judged(variable: str, text: str) -> Outcome:
    if (bytes_held := size(text)) is None:
        return Outcome("unavailable", variable, None, f"{variable} does not hold UTF-8 text", f"export {variable}=...")
    if bytes_held > MAX_VALUE:
        return Outcome("too large", variable, None, f"{variable} holds more than {MAX_VALUE // 1024} KiB")
    return Outcome("found", variable, Secret(text))
