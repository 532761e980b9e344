"""
Documents that were found without fault before, so that the next start needs neither YAML nor pydantic (-120 ms).

An entry holds the whole text (and whatever else the answer was made from) and is used only for exactly that, read by
exactly this code: there is no time stamp to believe and nothing to go stale. Only what has no problem at all is kept.
An entry that cannot be read, or does not fit, counts as none; one that cannot be written is not written. Entries are
for the user alone, and nothing that is secret may be part of one.
"""

import os
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

import acp_launch

_Answer = TypeVar("_Answer")


class JsonCache(Struct, frozen=True):
    """
    The entries of one kind: a folder of the cache directory, one entry for each file that answers were made from.

    `code` says whose work the answers are: patterns of modules, below the package.
    """

    folder: Path
    code: tuple[str, ...]

    def recall(self, file: Path, key: object, build: Callable[[Any], _Answer]) -> _Answer | None:
        """What `build` makes of the JSON that was kept for `file` under an equal `key` (JSON too), if it was."""
        try:
            kept = msgspec.json.decode(self._entry(file).read_bytes())
            if kept["key"] != key or kept["stamp"] != self._stamp():
                return None
            return build(kept["answer"])
        except (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError):
            return None

    def keep(self, file: Path, key: object, answer: object) -> None:
        """Remember the answer, if the directory lets us."""
        content = msgspec.json.encode({"stamp": self._stamp(), "key": key, "answer": answer}, enc_hook=_plain)
        entry = self._entry(file)
        fresh = entry.with_suffix(f".{os.getpid()}")
        with suppress(OSError):  # a cache that cannot be written is merely no help
            entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                fresh.touch(mode=0o600)
                fresh.write_bytes(content)
                fresh.replace(entry)  # at once and whole: others may be reading it
            finally:
                fresh.unlink(missing_ok=True)

    def _entry(self, file: Path) -> Path:
        return self.folder / f"{file.stem[:60]}-{zlib.crc32(os.fsencode(file)):08x}.json"

    def _stamp(self) -> list[object]:
        """What an answer depends on besides its key: this version, this Python, these modules."""
        return [acp_launch.__version__, list(sys.version_info[:3]), *_modules(self.code)]


@cache
def _modules(code: tuple[str, ...]) -> tuple[int, int]:
    """How many there are, and when the newest was written; as they were when this process began to use them."""
    package = Path(acp_launch.__file__).parent
    modules = [module for pattern in (*code, "document/*.py") for module in package.glob(pattern)]
    return len(modules), max(module.stat().st_mtime_ns for module in modules)


def _plain(value: object) -> float | int:
    """A number that knows how it was written as what it is besides."""
    assert isinstance(value, int | float), f"a {type(value).__name__} in a document"
    return int(value) if isinstance(value, int) else float(value)
