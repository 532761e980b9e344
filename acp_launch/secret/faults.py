"""What can go wrong with a file of secrets, in the words of a store."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acp_launch.private import Unfit
from acp_launch.secret.outcome import StoreFault


@contextmanager
def explained(path: Path, doing: str) -> Iterator[None]:
    """What the system or `Unfit` says as a StoreFault; `doing` is what could not be done to `path`: `read`."""
    try:
        yield
    except Unfit as unfit:
        raise StoreFault("unavailable", f"{path} {unfit}", fix="name another file in config.yaml") from None
    except OSError as error:
        reason = f"{path} could not be {doing}: {(error.strerror or str(error)).lower()}"
        fix = f"check the owner, the mode and the free space of {path.parent}"
        raise StoreFault("unavailable", reason, fix=fix) from error
