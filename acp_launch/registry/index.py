"""
The index of the registry: which agents are published, in which version, and how each is installed.

`decode` reads its text, leaving out what it cannot use. The copy on this machine (`Copy`) has the entries as they came,
with its address and date; `read_copy` reads it, and only `latest` asks for a newer one.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from acp_launch.errors import RegistryError
from acp_launch.private import Unfit, make_private, read_bounded, replace
from acp_launch.profile.values import AGENT_ID, AGENT_VERSION
from acp_launch.regex import regex
from acp_launch.registry.download import NotFetched, fetch
from acp_launch.registry.installed import precedence

ADDRESS = "https://cdn.agentclientprotocol.com/registry/v1/latest/registry.json"
MAX_INDEX_BYTES = 8 * 1024 * 1024
FETCH_TIMEOUT = 60.0
_ID, _VERSION = regex(AGENT_ID), regex(AGENT_VERSION)

Kind = Literal["npx", "uvx", "binary"]
Source = Literal["npm", "pypi"]
_EXACT = r"[0-9][0-9A-Za-z.+-]{0,63}"
_NPM = regex(rf"(?P<name>(?:@[A-Za-z0-9_~][\w.~-]*/)?[A-Za-z0-9_~][\w.~-]*)(?:@(?P<version>{_EXACT}))?")
_PYPI = regex(rf"(?P<name>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?(?:\[[\w.,-]*\])?)(?:(?:==|@)(?P<version>{_EXACT}))?")
# Options of the runners that name the package, and those whose value is the next word.
NAMING = {"npm": ("-p", "--package"), "pypi": ("--from",)}
VALUED = {
    "npm": ("-c", "--call", "-w", "--workspace", "--registry", "--cache", "--prefix"),
    "pypi": (
        *("-p", "--python", "--with", "--with-editable", "--with-requirements", "-i", "--index-url", "--index"),
        *("--extra-index-url", "--default-index", "-f", "--find-links", "--env-file", "-c", "--constraints"),
    ),
}
RUNNERS: dict[str, Source] = {"npx": "npm", "uvx": "pypi"}


class PackageWay(Struct, frozen=True):
    """A package of npm or PyPI, with its version."""

    package: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}


class Binary(Struct, frozen=True):
    """A file for one platform. `cmd` is the program in it; `sha256` is empty if the registry does not know it."""

    archive: str
    cmd: str
    sha256: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}


class Distribution(Struct, frozen=True):
    """The ways to install an agent; binaries by platform, such as `linux-x86_64`."""

    npx: PackageWay | None = None
    uvx: PackageWay | None = None
    binary: Mapping[str, Binary] = {}

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(kind for kind in get_args(Kind) if getattr(self, kind))


class PublishedAgent(Struct, frozen=True):
    """A published agent."""

    id: str
    version: str
    name: str
    distribution: Distribution
    description: str = ""
    repository: str = ""
    website: str = ""
    license: str = ""


class Copy(Struct, frozen=True, kw_only=True):
    """The copy of an index on this machine: where it came from, and when that was, in Unix seconds."""

    address: str
    fetched: float
    published: list[msgspec.Raw]

    @property
    def agents(self) -> Mapping[str, PublishedAgent]:
        """The agents by their ids; an entry that cannot be read is left out."""
        found = [entry for raw in self.published if (entry := _entry(raw))]
        found.sort(key=lambda each: (each.id, precedence(each.version)))
        return {entry.id: entry for entry in found}


def decode(text: bytes, address: str = "") -> Copy:
    """Read an index that was fetched from there just now.

    Raises:
        ValueError: it is not one.
    """
    try:
        entries = msgspec.json.decode(text, type=_Listed).agents
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"it is not an index of agents ({error})") from None
    return Copy(address=address, fetched=time.time(), published=entries)


def pin_line(entry: PublishedAgent) -> str:
    """Return what a profile says to start an agent's package in the very version of the index; empty if it has none."""
    for runner, way in (("npx", entry.distribution.npx), ("uvx", entry.distribution.uvx)):
        found = parse_package(RUNNERS[runner], way.package) if way else None
        if way is not None and found is not None:
            spec = f"{found[0]}@{found[1] or entry.version}"
            agent = {"command": runner, "args": [*(["-y"] if runner == "npx" else []), spec, *way.args]}
            return f"agent: {json.dumps({**agent, 'env': dict(way.env)} if way.env else agent)}"
    return ""


class _Listed(Struct):
    agents: list[msgspec.Raw]


def _entry(raw: msgspec.Raw) -> PublishedAgent | None:
    """Read an entry; None if it is not one, or this version cannot use it. A later format may add what it likes."""
    try:
        entry = msgspec.json.decode(raw, type=PublishedAgent)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    is_named = _ID.fullmatch(entry.id) and _VERSION.fullmatch(entry.version)
    return entry if is_named and entry.distribution.kinds else None


def _place(cache: Path) -> Path:
    return cache / "registry" / "index.json"


def read_copy(cache: Path) -> Copy | None:
    """Read the copy; None if there is none that can be used."""
    try:
        found = read_bounded(_place(cache), MAX_INDEX_BYTES + 4096)
        return msgspec.json.decode(found[0], type=Copy) if found else None
    except (OSError, Unfit, msgspec.MsgspecError, RecursionError):  # a cache: it is made again
        return None


def latest(address: str, cache: Path) -> tuple[Copy, str]:
    """Read the index at an address, or in a file; if that fails, the copy, and why. `address` may begin with `~/`.

    Raises:
        RegistryError: there is no copy either.
    """
    try:
        copy = decode(_content(address), address)
    except NotFetched as failed:
        why = str(failed)
    except (OSError, Unfit, ValueError) as error:
        why = f"cannot be used: {error}"
    else:
        _write(cache, copy)
        return copy, ""
    before = read_copy(cache)
    if before is None or before.address != address:
        fix = "check the network, or name another index: acp-launch config set registry ADDRESS"
        raise RegistryError(f"the registry's index {address} {why}", fix=fix)
    return before, why


def _content(address: str) -> bytes:
    if "://" not in address:
        found = read_bounded(Path(os.path.expanduser(address)), MAX_INDEX_BYTES)  # noqa: PTH111 - Path.expanduser may raise
        return found[0] if found else b""
    content = bytearray()
    fetch(address, content.extend, most=MAX_INDEX_BYTES, limit=FETCH_TIMEOUT)
    return bytes(content)


def _write(cache: Path, copy: Copy) -> None:
    """Write the copy. A cache that takes nothing is not a failure: the index is at hand all the same."""
    place = _place(cache)
    try:
        make_private(place.parent)
        replace(place, msgspec.json.encode(copy))
    except OSError:
        return


def parse_package(source: Source, text: str) -> tuple[str, str] | None:
    """Read `NAME` or `NAME@VERSION` (`NAME==VERSION`), whose version is exact or empty; None for the rest: a tag, a
    range, an alias or an address could mean something else tomorrow."""
    found = (_NPM if source == "npm" else _PYPI).fullmatch(text)
    return (found["name"], found["version"] or "") if found else None


def list_packages(runner: str, args: Sequence[str]) -> tuple[str, ...]:
    """Return what a runner (`npx`, `uvx`) is told to fetch; empty for any other program."""
    source = RUNNERS.get(runner)
    return tuple(dict.fromkeys(_words(source, args))) if source else ()


def _words(source: Source, args: Sequence[str]) -> Iterator[str]:
    words, is_named = iter(args), False
    for word in words:
        option, joined, value = word.partition("=")
        if option in NAMING[source]:
            is_named = True
            yield value if joined else next(words, "")
        elif word in VALUED[source]:
            next(words, "")
        elif word == "--":
            continue
        elif not word.startswith("-"):
            if not is_named:
                yield word
            return
