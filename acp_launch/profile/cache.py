"""
Profiles that were found without fault before, so that the next start needs neither YAML nor pydantic (-120 ms).

An entry holds the file's whole text and is used only for exactly that text, checked by exactly this code: there is no
time stamp to believe and nothing to go stale. Only a profile without any problem is kept. An entry that cannot be
read, or does not fit, counts as none; one that cannot be written is not written. Entries are for the user alone.
"""

import os
import sys
import typing
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any

import msgspec
from msgspec import Struct

import acp_launch
from acp_launch.document.duration import Duration
from acp_launch.document.keypath import KeyPath
from acp_launch.profile.model import HttpServer, McpServer, Profile, SseServer, StdioServer
from acp_launch.profile.template import Template

Table = dict[KeyPath, tuple[int, int, int, int, int | None]]  # see document.Places
SERVERS = {"stdio": StdioServer, "http": HttpServer, "sse": SseServer}


class Written(Struct, frozen=True):
    """Where each value of a kept profile is written; answers as the `Document` did."""

    table: Table

    def locate(self, path: KeyPath, *, key: bool = False, offset: int = 0) -> tuple[int, int]:
        """See `Document.locate`."""
        known = path
        while known not in self.table:
            known = known[:-1]
        key_line, key_column, line, column, lead = self.table[known]
        if key or known != path:
            return key_line, key_column
        return line, column + (0 if lead is None or not offset else lead + offset)


def recall(directory: Path, file: Path, text: str) -> tuple[Profile, Written] | None:
    """The profile that `text` was found to be, if it was."""
    try:
        kept = msgspec.json.decode(_entry(directory, file).read_bytes())
        if kept["text"] != text or kept["stamp"] != _stamp():
            return None
        table: Table = {tuple(path): tuple(place) for path, *place in kept["places"]}
        return _built(Profile, kept["profile"]), Written(table)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(directory: Path, file: Path, text: str, profile: Profile, table: Table) -> None:
    """Remember that `text` is `profile`, if the directory lets us."""
    places = [[list(path), *place] for path, place in table.items()]
    answer = {"stamp": _stamp(), "text": text, "profile": asdict(profile), "places": places}
    content = msgspec.json.encode(answer, enc_hook=_plain)
    entry = _entry(directory, file)
    fresh = entry.with_suffix(f".{os.getpid()}")
    with suppress(OSError):  # a cache that cannot be written is merely no help
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            fresh.touch(mode=0o600)
            fresh.write_bytes(content)
            fresh.replace(entry)  # at once and whole: others may be reading it
        finally:
            fresh.unlink(missing_ok=True)


def _entry(directory: Path, file: Path) -> Path:
    return directory / "profiles" / f"{file.stem[:60]}-{zlib.crc32(os.fsencode(file)):08x}.json"


def _stamp() -> list[object]:
    """What the answer depends on besides the text: this version, this Python, these modules."""
    package = Path(acp_launch.__file__).parent
    parts = [*(package / "profile").glob("*.py"), *(package / "document").glob("*.py")]
    modules = [*parts, package / "secret" / "reference.py"]
    newest = max(module.stat().st_mtime_ns for module in modules)
    return [acp_launch.__version__, list(sys.version_info[:3]), len(modules), newest]


def _plain(value: object) -> str | float:
    """A Template or a Duration as what it is besides."""
    if isinstance(value, str):
        return str.__str__(value)
    assert isinstance(value, float), f"a {type(value).__name__} in a profile"
    return float(value)


def _built(hint: Any, plain: Any) -> Any:
    """`plain` JSON as the type that `hint` names, for the types the model is made of."""
    if plain is None or hint in (Duration, Template):
        return None if plain is None else hint(plain)
    if hint == McpServer:
        return _built(SERVERS[plain["type"]], plain)
    if isinstance(hint, type) and is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return hint(**{field.name: _built(hints[field.name], plain[field.name]) for field in fields(hint)})
    return _built_generic(hint, plain)


def _built_generic(hint: Any, plain: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return tuple(_built(arguments[0], item) for item in plain)
    if origin is Mapping:
        return {name: _built(arguments[1], item) for name, item in plain.items()}
    if origin in (typing.Union, UnionType):
        wanted = tuple if isinstance(plain, list) else None
        fitting = [argument for argument in arguments if typing.get_origin(argument) is wanted]
        return _built(fitting[0], plain) if fitting and fitting[0] is not type(None) else plain
    return plain
