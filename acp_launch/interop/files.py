"""
The replacement of a user's file: atomic, with the same mode, and only if the file did not change meanwhile.
"""

from pathlib import Path

from acp_launch.errors import UsageError
from acp_launch.private import create, real, replace
from acp_launch.profile.load import shown


def put(file: Path, text: str, *, instead_of: str | None) -> None:
    """Write a file. `instead_of` is its expected content, None if there was no file. The target of a link is replaced.

    Raises:
        UsageError: it cannot be written, or its content has changed.
    """
    try:
        _put(real(file), text, instead_of)
    except OSError as fault:
        why = (fault.strerror or str(fault)).lower()
        raise UsageError(f"cannot write {shown(file)}: {why}; it was not changed", fix="check its directory") from None


def _put(target: Path, text: str, instead_of: str | None) -> None:
    if instead_of is None:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            raise _changed(target)
        create(target, text.encode(), is_shared=True)  # fails if another process creates it at this moment
        return
    if target.read_bytes() != instead_of.encode():
        raise _changed(target)
    replace(target, text.encode(), mode=target.stat().st_mode & 0o7777)


def _changed(file: Path) -> UsageError:
    return UsageError(f"{shown(file)} has changed meanwhile; it was not overwritten", fix="try again")
