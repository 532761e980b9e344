"""
An archive becomes files below one directory, and nothing else.

Names that are absolute or lead upwards, devices, and links that leave the directory are refused, and so is an archive
that holds a name twice or grows beyond `LARGEST`. Links are made after all files, so that nothing is ever written
through one. What a refused archive has written so far is the caller's to remove.
"""

import bz2
import gzip
import lzma
import os
import posixpath
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

LARGEST = 4 * 1024**3  # bytes of all files
MEMBERS = 200_000
LINK = 4096  # bytes of a link's target, and of a name
READ = 16 * 1024**2  # bytes that are read at once; more is a header that would fill the memory
_PIECE = 1024**2
_TARS: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".tar.gz": lambda file: gzip.GzipFile(fileobj=file),  # type: ignore[dict-item,return-value]
    ".tgz": lambda file: gzip.GzipFile(fileobj=file),  # type: ignore[dict-item,return-value]
    ".tar.bz2": lambda file: bz2.BZ2File(file),
    ".tbz2": lambda file: bz2.BZ2File(file),
}
OTHERS = (".tar", ".tar.xz", ".txz", ".tar.zst", ".7z", ".rar", ".dmg", ".pkg", ".deb", ".rpm", ".msi", ".appx")


class Unsafe(Exception):  # noqa: N818 - it reads as what it is
    """Raised for an archive that is not unpacked; the text continues a sentence that begins with the archive."""


class _Member(Struct):
    """One entry: a directory, a file with its content, or a link to `target`; a hard link if `is_hard`."""

    name: str
    open: Callable[[], IO[bytes]] | None = None
    target: str | None = None
    is_hard: bool = False
    is_executable: bool = False


def suffix(name: str) -> str:
    """Return the kind of an archive by its name; empty for a program that is not packed.

    Raises:
        Unsafe: it is of a kind that is not unpacked here.
    """
    lower = name.lower()
    for kind in (*_TARS, ".zip"):
        if lower.endswith(kind):
            return kind
    if other := next((kind for kind in OTHERS if lower.endswith(kind)), ""):
        raise Unsafe(f"is a {other} file, which acp-launch does not unpack")
    return ""


def unpack(archive: Path, kind: str, into: Path) -> None:
    """Unpack a file of that kind (`suffix`) into a directory, which is empty.

    Raises:
        Unsafe: it is refused, or damaged.
        OSError: a file cannot be written.
    """
    try:
        with archive.open("rb") as file:
            if kind == ".zip":
                with zipfile.ZipFile(file) as opened:
                    _Unpacking(into).all(_of_zip(opened))
            else:
                with tarfile.open(fileobj=_Bounded(_TARS[kind](file)), mode="r:") as tar:  # type: ignore[call-overload]
                    _Unpacking(into).all(_of_tar(tar))
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, gzip.BadGzipFile) as error:
        raise Unsafe(f"is damaged: {error}") from None
    except (ValueError, NotImplementedError, RuntimeError, RecursionError) as error:  # zipfile raises these
        raise Unsafe(f"cannot be unpacked: {error}") from None
    except OSError as error:
        if error.errno is None:  # bz2's word for damaged data
            raise Unsafe(f"is damaged: {error}") from None
        raise


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


def _of_tar(tar: tarfile.TarFile) -> Iterator[_Member]:
    for each in tar:
        is_executable = bool(each.mode & 0o111)
        if each.isdir():
            yield _Member(each.name)
        elif each.issym() or each.islnk():
            yield _Member(each.name, target=each.linkname, is_hard=each.islnk())
        elif each.isreg() and not each.issparse():
            yield _Member(each.name, partial(_opened, tar, each), is_executable=is_executable)
        else:
            raise Unsafe(f'holds a device, a pipe or a sparse file: "{each.name[:200]}"')


def _opened(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(member)
    assert content is not None, "it is a regular file"
    return content


def _of_zip(opened: zipfile.ZipFile) -> Iterator[_Member]:
    for each in opened.infolist():
        mode = each.external_attr >> 16
        if each.flag_bits & 1:
            raise Unsafe("is encrypted")
        if each.is_dir():
            yield _Member(each.filename)
        elif stat.S_ISLNK(mode):
            with opened.open(each) as stream:
                yield _Member(each.filename, target=stream.read(LINK + 1).decode())
        elif stat.S_IFMT(mode) in (0, stat.S_IFREG):
            yield _Member(each.filename, partial(opened.open, each), is_executable=bool(mode & 0o111))
        else:
            raise Unsafe(f'holds a device or a pipe: "{each.filename[:200]}"')


class _Unpacking:
    """What is written below `root`. `_files` are the names of files by which hard links refer to them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._size = self._count = 0
        self._files: set[str] = set()

    def all(self, members: Iterator[_Member]) -> None:
        links = []
        for member in members:
            self._count += 1
            if self._count > MEMBERS:
                raise Unsafe(f"holds more than {MEMBERS:,} files")
            name = inside(member.name)
            if member.target is not None:
                links.append((name, member))
            elif member.open is None:
                (self._root / name).mkdir(parents=True, exist_ok=True)
            else:
                self._write(name, member.open, 0o755 if member.is_executable else 0o644)
        links.sort(key=lambda each: not each[1].is_hard)  # hard ones are copied, before anything leads elsewhere
        for name, member in links:
            self._link(name, str(member.target), is_hard=member.is_hard)
        for name, member in links:
            if not member.is_hard:
                self._stays(name)

    def _write(self, name: str, open_: Callable[[], IO[bytes]], mode: int) -> None:
        with open_() as source, self._new(name, mode) as file:
            while piece := source.read(_PIECE):
                self._size += len(piece)
                if self._size > LARGEST:
                    raise Unsafe(f"holds more than {LARGEST // 1024**3} GiB")
                file.write(piece)
        self._files.add(name)

    def _new(self, name: str, mode: int) -> IO[bytes]:
        path = self._root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb")
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            raise Unsafe(f'holds "{name[:200]}" twice') from None

    def _link(self, name: str, target: str, *, is_hard: bool) -> None:
        if is_hard:
            self._copy(name, inside(target))
            return
        is_odd = not target or len(target) > LINK or "\0" in target or "\\" in target or target.startswith("/")
        path = self._root / name
        if is_odd or _climbs(posixpath.join(posixpath.dirname(name), target)) or not self._holds(path.parent):
            raise _leaving(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)
        except (FileExistsError, NotADirectoryError):
            raise Unsafe(f'holds "{name[:200]}" twice') from None

    def _copy(self, name: str, source: str) -> None:
        if source not in self._files:
            raise Unsafe(f'holds a link to a file that it does not hold before: "{name[:200]}"')
        mode = stat.S_IMODE((self._root / source).stat().st_mode)
        self._write(name, lambda: (self._root / source).open("rb"), mode)

    def _stays(self, name: str) -> None:
        """Check where a link leads now that all are there: through another link, `..` may lead elsewhere."""
        if not self._holds(self._root / name):
            raise _leaving(name)

    def _holds(self, path: Path) -> bool:
        """Whether a path leads to something below the root, also if that does not exist."""
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self._root))


def inside(name: str) -> str:
    """Return a path in an archive as a plain relative one.

    Raises:
        Unsafe: it is not one.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    is_odd = "\0" in name or "\\" in name or ":" in name[:2] or name.startswith("/") or len(name) > LINK
    if is_odd or ".." in parts:
        raise Unsafe(f'holds a path that leaves its directory: "{name[:200]}"')
    return "/".join(parts) or "."


def _climbs(path: str) -> bool:
    """Whether a relative path leaves its directory at any step."""
    depth = 0
    for part in path.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0:
            return True
    return False


def _leaving(name: str) -> Unsafe:
    return Unsafe(f'holds a link that leaves its directory: "{name[:200]}"')
