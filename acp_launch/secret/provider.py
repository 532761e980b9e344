"""
Where secrets come from. For now there is one source: `ACP_LAUNCH_SECRET_<NAME>` in the environment of acp-launch.

That variable never reaches a child (`plan.environment` removes it); only the value does, where a plan says so.
"""

import re
from collections.abc import Iterable, Mapping

from acp_launch.secret.reference import SecretReference

PREFIX = "ACP_LAUNCH_SECRET_"


def variable(name: str) -> str:
    """The environment variable that holds the secret: `team/git-hub` → `ACP_LAUNCH_SECRET_TEAM_GIT_HUB`."""
    return PREFIX + re.sub("[^A-Z0-9]", "_", name.upper())


def lookup(
    references: Iterable[SecretReference], environ: Mapping[str, str]
) -> tuple[dict[str, str], tuple[SecretReference, ...]]:
    """Values by the secret's name, and the references that have none. An empty variable counts as none."""
    wanted = {reference.name: reference for reference in references}
    values = {name: environ[variable(name)] for name in wanted if environ.get(variable(name))}
    return values, tuple(reference for name, reference in wanted.items() if name not in values)


def remedy(reference: SecretReference) -> str:
    """The command that provides a missing secret."""
    return f"export {variable(reference.name)}=..."
