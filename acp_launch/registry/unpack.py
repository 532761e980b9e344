"""
An archive becomes files below one directory, and nothing else.

tarfile's filter for data refuses what leads out, devices and pipes. Nothing is written through a link, and where each
link leads is looked at once all files are there. What a refused archive has written so far is the caller's to remove.
"""

import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

M = TypeVar("M")
LARGEST = 4 * 1024**3  # bytes of all files
MEMBERS = 200_000
LONGEST = 4096  # bytes of a name
KINDS = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".zip")
OTHERS = (".tar", ".tar.xz", ".txz", ".tar.zst", ".7z", ".rar", ".dmg", ".pkg", ".deb", ".rpm", ".msi", ".appx")
_DAMAGED = (  # what the two libraries raise
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, LookupError, RuntimeError),
    *(FileExistsError, NotADirectoryError, IsADirectoryError),  # a name twice
)


class Unsafe(Exception):  # noqa: N818 - it reads as what it is
    """Raised for an archive that is not unpacked; the text continues a sentence that begins with the archive."""


def suffix(name: str) -> str:
    """Return the kind of an archive by its name; empty for a program that is not packed.

    Raises:
        Unsafe: it is of a kind that is not unpacked here.
    """
    lower = name.lower()
    if other := next((kind for kind in OTHERS if lower.endswith(kind)), ""):
        raise Unsafe(f"is a {other} file, which acp-launch does not unpack")
    return next((kind for kind in KINDS if lower.endswith(kind)), "")


def unpack(archive: Path, kind: str, into: Path) -> None:
    """Unpack a file of that kind (`suffix`) into a directory, which is empty.

    Raises:
        Unsafe: it is refused, or damaged.
        OSError: a file cannot be written.
    """
    try:
        if kind == ".zip":
            with zipfile.ZipFile(archive) as opened:
                _unpack_zip(opened, into.resolve())
        else:
            with tarfile.open(archive) as tar:
                _unpack_tar(tar, into.resolve())
    except _DAMAGED as error:
        raise Unsafe(f"cannot be unpacked: {error}") from None
    except OSError as error:
        if error.errno is None:  # gzip's and bz2's
            raise Unsafe(f"cannot be unpacked: {error}") from None
        raise


def _unpack_tar(tar: tarfile.TarFile, into: Path) -> None:
    links: list[Path] = []
    for each in _require_bounds((each, each.size) for each in tar):
        path = _unlinked(into, each.name)
        if each.issym():
            links.append(path)
        elif each.islnk() and not _unlinked(into, each.linkname).is_file():
            raise Unsafe(f'holds a link to a file that it does not hold: "{each.name[:200]}"')
        tar.extract(each, into, filter="data")
    for link in links:  # only now: through another one, `..` may lead elsewhere
        try:
            is_inside = link.resolve(strict=True).is_relative_to(into)
        except (OSError, RuntimeError):  # it leads nowhere, or in a circle
            is_inside = False
        if not is_inside:
            raise Unsafe(f'holds a link that leaves its directory: "{link.name[:200]}"')


def _unpack_zip(opened: zipfile.ZipFile, into: Path) -> None:
    for each in _require_bounds((each, each.file_size) for each in opened.infolist()):
        inside(each.filename)
        mode = each.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise Unsafe(f'holds a link, a device or a pipe: "{each.filename[:200]}"')
        os.chmod(opened.extract(each, into), 0o755 if each.is_dir() or mode & 0o111 else 0o644)  # noqa: PTH101 - a text


def _require_bounds(members: Iterable[tuple[M, int]]) -> Iterator[M]:
    """Yield the members, which come with their sizes."""
    total = 0
    for number, (member, size) in enumerate(members, 1):
        total += size
        if number > MEMBERS or total > LARGEST:
            raise Unsafe(f"holds more than {MEMBERS:,} files, or {LARGEST // 1024**3} GiB")
        yield member


def _unlinked(into: Path, name: str) -> Path:
    """Return where a member belongs, if no part of that is a link, through which it would be written elsewhere."""
    path = into / inside(name)
    if any(each.is_symlink() for each in (path, *path.parents)):
        raise Unsafe(f'holds a path through a link: "{name[:200]}"')
    return path


def inside(name: str) -> str:
    """Return a path in an archive as a plain relative one.

    Raises:
        Unsafe: it is not one.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    is_odd = "\0" in name or "\\" in name or ":" in name[:2] or name.startswith("/") or len(name) > LONGEST
    if is_odd or ".." in parts:
        raise Unsafe(f'holds a path that leaves its directory: "{name[:200]}"')
    return "/".join(parts) or "."
