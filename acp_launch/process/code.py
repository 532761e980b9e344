"""
The code that a server is started from: its command, its script with the files that this imports or starts from beside
it, and the package that these belong to.

Package managers keep times of long ago (npm: 1985), so size and inode count as well. Files that a server may write
while it runs, such as a database, are not code: an argument counts if it can be executed, or has an ending of code.
"""

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from acp_launch.regex import regex

MAX_MODULES = 100  # of a package of Python, or imported by a script
MAX_SCRIPT_BYTES = 64 * 1024  # that are searched for what a script imports
_JAVASCRIPT = (".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".tsx")
_ENDINGS = frozenset(
    (".py", ".pyz", ".jar", ".dll", ".wasm", ".rb", ".pl", ".php", ".lua", ".sh", ".bash", *_JAVASCRIPT)
)
_BETWEEN = regex(r"[\s'\"();&|]+")  # within the line of a shell
_IMPORT = regex(r"(?:^|;)[ \t]*(?:from[ \t]+([\w.]+)|import[ \t]+([\w., \t]+))", re.MULTILINE)  # of Python
_REQUIRED = regex(r"['\"](\.{1,2}/[^'\"\n]{1,200})['\"]")  # by JavaScript
_BESIDE = regex(r"(?:\$\{?\w+\}?)?/")  # how a word of a shell's script begins that has its directory


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
            module = cwd / word.replace(".", "/")
            yield module.with_name(f"{module.name}.py")
            yield from sorted(module.glob("*.py"))[:MAX_MODULES]
        elif word == words[0] or _is_code(path):
            yield path
            yield from _parts(path)


def _is_code(path: Path) -> bool:
    try:
        return path.is_file() and (path.suffix in _ENDINGS or os.access(path, os.X_OK))
    except (OSError, ValueError):  # too long for a name, or with a NUL
        return False


def _parts(script: Path) -> Iterator[Path]:
    """Yield the files next to a script that it imports or starts, and the files that these do."""
    open_, seen = [script], {script}
    while open_ and len(seen) <= MAX_MODULES:
        for part in _list_named(open_.pop()):
            if part not in seen and os.path.isfile(part):  # noqa: PTH113 - Path.is_file raises for a name too long
                seen.add(part)
                open_.append(part)
                yield part


def _list_named(script: Path) -> Iterator[Path]:
    """Yield the paths where what a script imports or starts may be."""
    is_named = script.suffix in _ENDINGS
    try:
        with script.open(errors="replace") as file:
            first = file.read(2)
            text = file.read(MAX_SCRIPT_BYTES) if is_named or first == "#!" else ""
    except (OSError, ValueError):  # a directory, for one
        return
    language = script.suffix if is_named else text.partition("\n")[0]
    place = Path(os.path.realpath(script)).parent
    if ".py" in language or "python" in language:
        for one in _IMPORT.finditer(text):
            for name in (one[1] or one[2]).split(","):
                parts = "".join(name.split()[:1]).strip(".").split(".")
                for length in range(1, len(parts) + 1):
                    module = place.joinpath(*parts[:length], "_")
                    yield from (module.parent.with_suffix(".py"), module.with_name("__init__.py"))
    elif language.endswith("sh"):
        words = [word for word in _BETWEEN.split(text) if word]
        beside = (os.path.normpath(place / _BESIDE.sub("", word, count=1)) for word in words)
        yield from (path for each in (*words, *beside) if (path := Path(each)).suffix in _ENDINGS)
    else:
        for one in _REQUIRED.finditer(text):
            required = os.path.normpath(place / one[1])
            yield from (Path(required + more) for more in ("", script.suffix, f"/index{script.suffix}"))


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
