"""The directories of a launch that are reached through links, and their real paths."""

import os
from collections.abc import Iterable

from acp_launch.plan.model import LaunchPlan
from acp_launch.session.permission.globs import Links


def of_launch(plan: LaunchPlan, home: str) -> Links:
    """Return the links of a launch. `home` is what `~` stands for; empty if unknown."""
    return links(map(str, (plan.project, plan.cwd, *plan.additional_directories, *([home] if home else []))))


def links(directories: Iterable[str]) -> Links:
    """Return those of the directories whose real path differs."""
    named = ((directory, os.path.realpath(directory)) for directory in dict.fromkeys(directories))
    return tuple((spelled, truly) for spelled, truly in named if spelled != truly)
