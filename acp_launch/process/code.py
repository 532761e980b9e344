"""
The code that a server is started from: its command, its script, and the package that these belong to.

Package managers keep times of long ago (npm: 1985), so size and inode count as well. Files that a server may write
while it runs, such as a database, are no code: an argument counts if it can be executed, or has an ending of code.
"""

import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from acp_launch.regex import regex

MAX_MODULES = 100  # of a package of Python
_ENDING = regex(r"\.(?:pyz?|[cm]?[jt]s|tsx|jar|dll|wasm|rb|pl|php|lua|(?:ba)?sh)")
_BETWEEN = regex(r"[\s'\"();&|]+")  # within the line of a shell


class CodeFile(Struct, frozen=True):
    """A file as it was at one moment. Of a directory of packages `size` is a checksum of their names and versions."""

    path: str
    mtime: int  # ns
    size: int
    inode: int


def read_code(argv: Sequence[str], cwd: Path) -> tuple[CodeFile, ...]:
    """Return the files of a command line whose first word is an absolute path."""
    words = dict.fromkeys(piece for word in argv for piece in (word, *_BETWEEN.split(word)) if piece)
    found = {path: None for place in _places(list(words), cwd) for path in (place, *_package(place))}
    return tuple(file for path in found if (file := _read(path)))


def changed_code(code: Sequence[CodeFile]) -> str:
    """Return the path of the first file that is another one now; empty if none is. A missing file is about to be
    replaced."""
    return next((each.path for each in code if _read(Path(each.path)) not in (None, each)), "")


def _places(words: Sequence[str], cwd: Path) -> Iterator[Path]:
    for before, word in zip(("", *words), words, strict=False):
        path = cwd / word
        if before == "-m":
            yield from _modules(cwd / word.replace(".", "/"))
        elif word == words[0] or _is_code(path):
            yield path


def _is_code(path: Path) -> bool:
    try:
        return path.is_file() and bool(_ENDING.fullmatch(path.suffix) or os.access(path, os.X_OK))
    except (OSError, ValueError):  # too long for a name, or with a NUL
        return False


def _modules(module: Path) -> Iterator[Path]:
    """Yield the files of a module of Python in the server's directory."""
    yield module.with_name(f"{module.name}.py")
    yield from sorted(module.glob("*.py"))[:MAX_MODULES]


def _package(place: Path) -> Iterator[Path]:
    """Yield what changes with the version of the package that a program belongs to."""
    real = Path(os.path.realpath(place))
    yield from (each for above in real.parents[:4] if (each := above / "package.json").is_file())
    environment = place.parent.parent
    if (environment / "pyvenv.cfg").is_file():
        yield from sorted(environment.glob("lib/python*/site-packages"))


def _read(path: Path) -> CodeFile | None:
    try:
        if path.is_dir():
            versions = sorted(name for name in os.listdir(path) if name.endswith(".dist-info"))  # noqa: PTH208
            return CodeFile(str(path), 0, zlib.crc32(os.fsencode("\n".join(versions))), 0)
        seen = path.stat()
    except (OSError, ValueError):
        return None
    return CodeFile(str(path), seen.st_mtime_ns, seen.st_size, seen.st_ino)
