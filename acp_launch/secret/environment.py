"""
`ACP_LAUNCH_SECRET_<NAME>` in the environment of acp-launch: comes before any store, for CI.

No variable of ours that holds a secret ever reaches a child (`plan.environment` removes them); only the value does,
where a plan says so.
"""

import re
from collections.abc import Iterable, Mapping

from acp_launch.secret.outcome import Outcome
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
    """Those of `names` that have a variable; an empty one counts as none."""
    return {
        name: Outcome("found", variable(name), Secret(environ[variable(name)]))
        for name in names
        if environ.get(variable(name))
    }
