"""Which directories of a launch are reached through links, and what they really are."""

import os
from collections.abc import Iterable

from acp_launch.plan.model import LaunchPlan
from acp_launch.session.permission.globs import Links


def of_launch(plan: LaunchPlan, home: str) -> Links:
    """`home` is what `~` stands for; empty where nobody knows."""
    return links(map(str, (plan.project, plan.cwd, *plan.additional_directories, *([home] if home else []))))


def links(directories: Iterable[str]) -> Links:
    """Those of the directories that are not what they are called."""
    named = ((directory, os.path.realpath(directory)) for directory in dict.fromkeys(directories))
    return tuple((spelled, truly) for spelled, truly in named if spelled != truly)
