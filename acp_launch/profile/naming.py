"""What a credential is called when it becomes a secret, and other names of ours that are made from somebody's."""

import re
from collections.abc import Iterator

from acp_launch.secret.credential import Sighting, masked

LONGEST = 100  # characters


def slug(name: str) -> str:
    """Letters, digits, `_`, `.` and `-`; empty when nothing is left of it."""
    return re.sub("[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:LONGEST]


def named(found: Sighting, called: str) -> str:
    """What it is `called` where it stands, without what may be part of a credential; else what it is."""
    return slug(masked(called).lower().replace("_", "-")) or found.what.rpartition(" ")[2].lower()


def numbered(name: str) -> Iterator[str]:
    """It and, for where it is taken, as many others as anybody wants."""
    yield name
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1
