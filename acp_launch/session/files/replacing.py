"""
A file replaced whole: a new one is written beside it, flushed to the disk and renamed over it.

Readers see the old or the new text, and a full disk leaves the old. Permission bits are kept, the owner where we may
give files away. Other names of the file (hard links) keep the old text; extended attributes and setuid bits are not
carried over. If we are killed meanwhile, a file `.acp-launch-…` may stay.

`private.replace` does not do: it goes by paths, while an agent's file is written in a directory that was opened without
following links (`beneath`), and is given back to its owner.
"""

import os
import secrets
import stat

from acp_launch.session.files.beneath import NO_LINK

_FRESH = NO_LINK | os.O_WRONLY | os.O_CREAT | os.O_EXCL


def put(directory: int, name: str, data: bytes, before: os.stat_result | None) -> None:
    """Make `data` the content of `name` in the open directory `directory`; `before` is what has that name now.

    Raises:
        OSError: it cannot be; nothing is left of the attempt.
    """
    fresh = f".acp-launch-{secrets.token_hex(8)}"
    # A new file is what the umask makes of it; one that takes another's place is nobody else's before it is complete.
    descriptor = os.open(fresh, _FRESH, 0o666 if before is None else 0o600, dir_fd=directory)
    try:
        try:
            _fill(descriptor, data, before)
        finally:
            os.close(descriptor)
        os.rename(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        os.unlink(fresh, dir_fd=directory)
        raise


def _fill(descriptor: int, data: bytes, before: os.stat_result | None) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    if before is not None:
        _give_back(descriptor, before)
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode) & 0o777)
    os.fsync(descriptor)


def _give_back(descriptor: int, before: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) == (before.st_uid, before.st_gid):
        return
    try:
        os.fchown(descriptor, before.st_uid, before.st_gid)
    except PermissionError:
        return  # only root gives files away: it is ours now, with the same bits
