"""What a place shows."""

from pathlib import Path

from acp_launch.plan.model import Place, Reason


def list_paths(where: Place, *reasons: Reason) -> tuple[Path, ...]:
    """List the paths that are there for these reasons."""
    return tuple(mount.path for mount in where.mounts if mount.reason in reasons)
