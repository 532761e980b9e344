"""
A cache of documents that had no problem, so that the next start needs neither YAML nor pydantic (-120 ms).

An entry holds the whole text and everything else that its answer was made from. It is used only for exactly the same
input and by exactly the same code, so an entry never goes stale. Documents with a problem are not cached. An entry
that cannot be read, or does not fit, is a miss; an entry that cannot be written is skipped. Entries are for the user
alone, and must not contain secrets.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

import acp_launch
from acp_launch.private import make_digest

_Answer = TypeVar("_Answer")


class JsonCache(Struct, frozen=True):
    """
    The entries of one kind: a folder of the cache directory with one entry for each input file.

    `code` names the modules that compute the answers, as glob patterns below the package.
    """

    folder: Path
    code: tuple[str, ...]

    def read(self, file: Path, key: object, build: Callable[[Any], _Answer]) -> _Answer | None:
        """Return what `build` makes of the cached JSON for `file` under an equal `key` (JSON too); None for a miss."""
        try:
            kept = msgspec.json.decode(self._entry(file).read_bytes())
            if kept["key"] != key or kept["stamp"] != self._stamp():
                return None
            return build(kept["answer"])
        except (OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError):
            return None

    def write(self, file: Path, key: object, answer: object) -> None:
        """Store the answer, if the directory is writable."""
        entry = self._entry(file)
        fresh = entry.with_suffix(f".{os.getpid()}")
        with suppress(OSError):  # a cache that cannot be written, as while the modules are replaced, only costs time
            content = msgspec.json.encode({"stamp": self._stamp(), "key": key, "answer": answer}, enc_hook=_plain)
            entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                fresh.touch(mode=0o600)
                fresh.write_bytes(content)
                fresh.replace(entry)  # atomically, since other processes may be reading it
            finally:
                fresh.unlink(missing_ok=True)

    def prune(self, most: int) -> None:
        """Remove the entries that were written longest ago, until there are so many."""
        with suppress(OSError):  # another process may be removing them too
            entries = sorted(self.folder.glob("*.json"), key=lambda entry: entry.stat().st_mtime_ns)
            for entry in entries[: max(0, len(entries) - most)]:
                entry.unlink(missing_ok=True)

    def _entry(self, file: Path) -> Path:
        return self.folder / f"{file.stem[:60]}-{make_digest(str(file))}.json"

    def _stamp(self) -> list[object]:
        """Identify what an answer depends on besides its key: this version, this Python, these modules."""
        return [acp_launch.__version__, list(sys.version_info[:3]), *_modules(self.code)]


@cache
def _modules(code: tuple[str, ...]) -> tuple[int, int]:
    """Count the modules and find when the newest was written; fixed at the first call in this process."""
    package = Path(acp_launch.__file__).parent
    modules = [module for pattern in (*code, "document/*.py") for module in package.glob(pattern)]
    return len(modules), max((module.stat().st_mtime_ns for module in modules), default=0)


def _plain(value: object) -> float | int:
    """Encode a number that remembers its notation as a plain number."""
    assert isinstance(value, int | float), f"a {type(value).__name__} in a document"
    return int(value) if isinstance(value, int) else float(value)
