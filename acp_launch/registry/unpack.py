"""
An archive becomes files below one directory, and nothing else.

tarfile's filter for data refuses names and links that lead out, devices and pipes; so that it has nothing to weigh up,
links are made after all files, never below another link, and where each leads is looked at once all are there. What a
refused archive has written so far is the caller's to remove.
"""

import bz2
import gzip
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LARGEST = 4 * 1024**3  # bytes of all files
MEMBERS = 200_000
LONGEST = 4096  # bytes of a name, and of a link's target
READ = 16 * 1024**2  # bytes that are read at once; more is a header that would fill the memory
KINDS = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".zip")
OTHERS = (".tar", ".tar.xz", ".txz", ".tar.zst", ".7z", ".rar", ".dmg", ".pkg", ".deb", ".rpm", ".msi", ".appx")


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
        _unpack(archive, kind, into)
    except tarfile.SpecialFileError as refused:
        raise Unsafe(f'holds a device or a pipe: "{refused.tarinfo.name[:200]}"') from None
    except tarfile.FilterError as refused:
        raise _leaving(refused.tarinfo.name) from None
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, UnicodeError) as error:
        raise Unsafe(f"is damaged: {error}") from None
    except (ValueError, NotImplementedError, RuntimeError) as error:  # zipfile raises these
        raise Unsafe(f"cannot be unpacked: {error}") from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise Unsafe(f"holds a name twice: {error.filename}") from None
    except OSError as error:
        if error.errno is None:  # damaged data
            raise Unsafe(f"is damaged: {error}") from None
        raise


def _unpack(archive: Path, kind: str, into: Path) -> None:
    if kind == ".zip":
        with zipfile.ZipFile(archive) as opened:
            _unpack_zip(opened, into)
        return
    opened_by: Any = tarfile.open
    unpacked = (bz2.open if "bz2" in kind else gzip.open)(archive)
    with unpacked, opened_by(fileobj=_Bounded(unpacked), mode="r:") as tar:
        _unpack_tar(tar, into)


class _Bounded:
    """A stream for tarfile, which reads a header as long as the archive says it is."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.tell, self.seek = stream.tell, stream.seek

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= READ:
            raise Unsafe(f"has a header of {size:,} bytes")
        content: bytes = self._stream.read(size)
        return content


class _Members:
    """The members that were found so far, and the bounds of all of them."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self._count = self._size = 0

    def add(self, name: str, size: int, *, is_directory: bool) -> None:
        plain = inside(name)
        if plain in self.files:
            raise Unsafe(f'holds "{plain[:200]}" twice')
        self._count, self._size = self._count + 1, self._size + size
        if self._count > MEMBERS:
            raise Unsafe(f"holds more than {MEMBERS:,} files")
        if self._size > LARGEST:
            raise Unsafe(f"holds more than {LARGEST // 1024**3} GiB")
        if not is_directory:
            self.files.add(plain)


def _unpack_tar(tar: tarfile.TarFile, into: Path) -> None:
    members, links = _Members(), list[tarfile.TarInfo]()
    for each in tar:
        members.add(each.name, each.size, is_directory=each.isdir())
        if each.issym() or each.islnk():
            links.append(each)
        else:
            tar.extract(each, into, filter="data")
    linked = {inside(each.name) for each in links}
    for each in sorted(links, key=lambda each: not each.islnk()):
        _check_place(into, each.name, each.linkname)
        if each.issym():
            tar.extract(each, into, filter="data")
        elif inside(each.linkname) in members.files - linked:
            os.link(into / inside(each.linkname), _with_parents(into / inside(each.name)))
        else:
            raise Unsafe(f'holds a link to a file that it does not hold: "{each.name[:200]}"')
    _check_links(into, linked)


def _unpack_zip(opened: zipfile.ZipFile, into: Path) -> None:
    members, links = _Members(), list[zipfile.ZipInfo]()
    for each in opened.infolist():
        mode = each.external_attr >> 16
        members.add(each.filename, each.file_size, is_directory=each.is_dir())
        if stat.S_ISLNK(mode):
            links.append(each)
        elif stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise Unsafe(f'holds a device or a pipe: "{each.filename[:200]}"')
        else:
            written = Path(opened.extract(each, into))
            written.chmod(0o755 if each.is_dir() or mode & 0o111 else 0o644)
    for each in links:
        target = opened.read(each).decode() if each.file_size <= LONGEST else ""
        _check_place(into, each.filename, target)
        _with_parents(into / inside(each.filename)).symlink_to(target)
    _check_links(into, (inside(each.filename) for each in links))


def _with_parents(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _check_place(into: Path, name: str, target: str) -> None:
    """Require that a link does not lie below another one, and does not begin at the root."""
    is_odd = not target or len(target) > LONGEST or "\0" in target or "\\" in target or target.startswith("/")
    if is_odd or any((into / above).is_symlink() for above in Path(inside(name)).parents):
        raise _leaving(name)


def _check_links(into: Path, names: Iterable[str]) -> None:
    """Require that each link leads to something below the directory; through another one, `..` may lead elsewhere."""
    root = into.resolve()
    for name in names:
        try:
            is_inside = (into / name).resolve(strict=True).is_relative_to(root)
        except (OSError, RuntimeError):  # it leads nowhere, or in a circle
            is_inside = False
        if not is_inside:
            raise _leaving(name)


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


def _leaving(name: str) -> Unsafe:
    return Unsafe(f'holds a link that leaves its directory: "{name[:200]}"')
