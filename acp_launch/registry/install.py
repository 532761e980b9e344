"""
An agent of the index becomes an installation: a package of npm or PyPI at its very version, or a binary by its hash.

One process installs an agent at a time; the others wait and find it done. What fails or is interrupted leaves nothing,
and after a SIGKILL the next installation removes it. What touches the network or starts programs comes in as `Tools`.
"""

import hashlib
import json
import os
import platform
import shutil
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace as with_

from acp_launch.errors import RegistryError
from acp_launch.private import locked, make_private
from acp_launch.private import replace as write
from acp_launch.problem import ours
from acp_launch.profile.rules import ENVIRONMENT_NAME
from acp_launch.regex import regex
from acp_launch.registry.index import Binary, Entry, Package
from acp_launch.registry.installed import (
    MANIFEST,
    Installation,
    Kind,
    Manifest,
    home,
    leftovers,
    read,
)
from acp_launch.registry.package import read as read_package
from acp_launch.registry.unpack import Unsafe, inside, suffix, unpack
from acp_launch.secret.value import is_private

ARCHIVE = 1024**3  # bytes
PATIENCE = 3600.0  # seconds for another process that installs the same agent
_MACHINES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}
_ENVIRONMENT_NAME = regex(ENVIRONMENT_NAME)


class Tools(Struct, frozen=True):
    """
    `fetch` writes the file of an address, at most so many bytes of it. `run` runs a package manager in a directory,
    with these variables over the environment, and raises RegistryError if it fails. `which` finds a program on PATH.
    """

    fetch: Callable[[str, IO[bytes], int], object]
    run: Callable[[Sequence[str], Path, Mapping[str, str]], object]
    which: Callable[[str], str | None] = shutil.which


class _Made(Struct, frozen=True):
    """What was installed: see `Manifest`."""

    package: str
    command: str
    integrity: str
    args: tuple[str, ...]
    env: Mapping[str, str]


def this_platform() -> str:
    """Return this machine as the registry names it: `linux-x86_64`."""
    machine = platform.machine().lower()
    return f"{platform.system().lower()}-{_MACHINES.get(machine, machine)}"


def kind_of(entry: Entry, wanted: Kind | None, tools: Tools, *, allow_unverified: bool) -> Kind:
    """Choose how an agent is installed: a binary whose hash is known, else npm, else PyPI, else any binary.

    Raises:
        RegistryError: this machine can do none of them.
    """
    ways, binary = entry.distribution, entry.distribution.binary.get(this_platform())
    offered = [kind for kind in ways.kinds if wanted in (None, kind)]
    if not offered:
        raise RegistryError(f"{entry.id} is not published for {wanted}", fix=f"choose from {', '.join(ways.kinds)}")
    can: dict[Kind, bool] = {
        "npx": "npx" in offered and bool(tools.which("npm")),
        "uvx": "uvx" in offered,
        "binary": "binary" in offered and binary is not None and (bool(binary.sha256) or allow_unverified),
    }
    first: Kind = "binary" if binary is not None and binary.sha256 else "npx"
    if found := next((kind for kind in (first, "npx", "uvx", "binary") if can[kind]), None):
        return found
    if "npx" in offered:
        raise RegistryError(f"{entry.id} is installed by npm, which is not on PATH", fix="install Node.js")
    if binary is not None:
        what = f"the registry has no sha256 of {entry.id} for {this_platform()}, so its archive cannot be verified"
        raise RegistryError(what, fix=ours("agents", "install", entry.id, "--allow-unverified"))
    known = ", ".join(sorted(ways.binary))
    raise RegistryError(f"{entry.id} is not published for {this_platform()}", fix=f"use a machine of these: {known}")


def install(
    entry: Entry, version: str, kind: Kind, *, state: Path, registry: str, tools: Tools
) -> tuple[Installation, bool]:
    """Install this version; also return whether it was not installed before. `registry` is the index's address.

    Raises:
        RegistryError: it cannot be installed; nothing of it is left.
    """
    place = home(state) / entry.id / version
    try:
        make_private(place.parent)
        with locked(home(state) / f"{entry.id}.lock", PATIENCE):
            if found := read(place):
                return found, False
            for left in leftovers(state, entry.id):
                shutil.rmtree(left)
            return _installed(entry, version, kind, place, registry, tools), True
    except TimeoutError:
        what = f"another process has been installing {entry.id} for {PATIENCE / 60:g} min"
        raise RegistryError(what, fix="wait for it, or end it") from None
    except OSError as error:
        what = f"cannot install {entry.id} in {place}: {error.strerror or error}"
        raise RegistryError(what, fix=f"check the owner, the mode and the free space of {home(state)}") from error


def _installed(entry: Entry, version: str, kind: Kind, place: Path, registry: str, tools: Tools) -> Installation:
    place.mkdir(0o700)
    try:
        made = _make(entry, version, kind, place, tools)
        _check_environment(entry, made.env)
        manifest = Manifest(
            id=entry.id,
            version=version,
            name=entry.name,
            kind=kind,
            package=made.package,
            command=made.command,
            args=made.args,
            env=made.env,
            integrity=made.integrity,
            registry=registry,
            since=time.time(),
        )
        write(place / MANIFEST, msgspec.json.encode(manifest))
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)  # the first failure counts; what is left is removed by the next
        raise
    return Installation(place, manifest)


def _make(entry: Entry, version: str, kind: Kind, place: Path, tools: Tools) -> _Made:
    if kind == "binary":
        if version != entry.version:
            raise RegistryError(
                f"the registry has {entry.id} {entry.version} only, not {version}",
                fix=ours("agents", "install", entry.id),
            )
        return _binary(entry, entry.distribution.binary[this_platform()], place, tools)
    package = entry.distribution.npx if kind == "npx" else entry.distribution.uvx
    assert package is not None, "kind_of chose it"
    return (_of_npm if kind == "npx" else _of_pypi)(entry, version, package, place, tools)


def _check_environment(entry: Entry, env: Mapping[str, str]) -> None:
    for name, value in env.items():
        if not _ENVIRONMENT_NAME.match(name) or is_private(name) or "\0" in value:
            raise RegistryError(f"the registry sets a variable for {entry.id} that cannot be set: {name[:80]!r}")


def remove(installation: Installation, state: Path) -> None:
    """Remove an installation.

    Raises:
        RegistryError: it cannot be removed.
    """
    place = installation.directory
    try:
        with locked(home(state) / f"{installation.manifest.id}.lock", PATIENCE):
            (place / MANIFEST).unlink(missing_ok=True)  # first: from here on it is not installed
            shutil.rmtree(place)
            with_none = not any(place.parent.iterdir())
            if with_none:
                place.parent.rmdir()
    except OSError as error:
        raise RegistryError(f"cannot remove {place}: {error.strerror or error}") from error


# Packages. The version is the one that the registry names, or that the user asked for; a tag, a range or an address is
# refused, because it could mean something else tomorrow.


def _pinned(entry: Entry, version: str, said: str) -> str:
    """Return the version of the package; `said` is what the registry says."""
    if version == entry.version:
        return said or version
    if said in ("", entry.version):
        return version
    raise RegistryError(
        f"the package of {entry.id} has versions of its own ({said} for {entry.version}), so {version} cannot be had",
        fix=ours("agents", "install", entry.id),
    )


def _unpinned(entry: Entry, package: str) -> RegistryError:
    return RegistryError(f"the registry names a package for {entry.id} that is not NAME@VERSION: {package[:200]!r}")


def _of_npm(entry: Entry, version: str, package: Package, place: Path, tools: Tools) -> _Made:
    found = read_package("npm", package.package)
    if found is None:
        raise _unpinned(entry, package.package)
    name, wanted = found.name, _pinned(entry, version, found.version)
    flags = ("--no-audit", "--no-fund", "--no-update-notifier", "--save-exact", "--loglevel=error")
    tools.run(["npm", "install", "--prefix", str(place), *flags, f"{name}@{wanted}"], place, {})
    said = _json(place / "node_modules" / name / "package.json")
    if said.get("version") != wanted:
        raise RegistryError(f"npm installed {name} {said.get('version')} instead of {wanted}")
    programs = said.get("bin")
    unscoped = name.rpartition("/")[2]
    names = list(programs) if isinstance(programs, dict) else [unscoped] if isinstance(programs, str) else []
    program = _one_of(entry, names, unscoped)
    lock = _json(place / "node_modules" / ".package-lock.json").get("packages", {})
    integrity = lock.get(f"node_modules/{name}", {}).get("integrity", "")
    command = f"node_modules/.bin/{program}"
    _check_program(entry, place, command)
    return _Made(f"{name}@{wanted}", command, str(integrity), package.args, package.env)


def _json(path: Path) -> dict[str, Any]:
    """Read an object that npm wrote; empty if there is none."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _of_pypi(entry: Entry, version: str, package: Package, place: Path, tools: Tools) -> _Made:
    found = read_package("pypi", package.package)
    if found is None:
        raise _unpinned(entry, package.package)
    name, wanted = found.name, _pinned(entry, version, found.version)
    pinned = with_(found, version=wanted).spec
    if tools.which("uv"):
        where = {"UV_TOOL_DIR": str(place / "tools"), "UV_TOOL_BIN_DIR": str(place / "bin")}
        tools.run(["uv", "tool", "install", "--quiet", pinned], place, where)
        folder = "bin"
        names = [path.name for path in (place / folder).iterdir()]
    else:
        tools.run([sys.executable, "-m", "venv", str(place / "venv")], place, {})
        python = str(place / "venv" / "bin" / "python")
        quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
        before = {path.name for path in (place / "venv" / "bin").iterdir()}
        tools.run([python, "-m", "pip", "install", *quiet, pinned], place, {})
        folder = "venv/bin"
        names = [path.name for path in (place / folder).iterdir() if path.name not in before or path.name == name]
    command = f"{folder}/{_one_of(entry, names, name)}"
    _check_program(entry, place, command)
    return _Made(pinned, command, "", package.args, package.env)


def _one_of(entry: Entry, names: Sequence[str], name: str) -> str:
    """Choose the program as npx and uvx do: the one called as the package, else the only one."""
    if name in names:
        return name
    if len(names) == 1:
        return names[0]
    listed = f"the programs {', '.join(sorted(names))}" if names else "no program"
    raise RegistryError(f"the package of {entry.id} brings {listed}, and none that is called {name}")


def _check_program(entry: Entry, place: Path, command: str) -> None:
    """Require that the program is there, and in the directory."""
    program = Path(os.path.realpath(place / command))
    if not program.is_file() or not program.is_relative_to(os.path.realpath(place)):
        raise RegistryError(f"{entry.id} does not hold its program, {command}")


# Binaries.


def _binary(entry: Entry, binary: Binary, place: Path, tools: Tools) -> _Made:
    name = binary.archive.partition("?")[0].partition("#")[0].rpartition("/")[2]
    files, download = place / "files", place / "download"
    try:
        kind, program = suffix(name), inside(binary.cmd)
        digest = _downloaded(binary.archive, download, tools)
        if binary.sha256 and digest != binary.sha256.lower():
            raise RegistryError(
                f"the archive of {entry.id} has another sha256 than the registry says: {digest}",
                fix="try again later; if that does not help, report it to the agent's publisher",
            )
        files.mkdir(0o700)
        if kind:
            unpack(download, kind, files)
            download.unlink()
        else:
            program = program.rpartition("/")[2]
            download.rename(files / program)
    except Unsafe as unsafe:
        raise RegistryError(f"the archive of {entry.id} {unsafe}", fix="report it to the agent's publisher") from None
    command = f"files/{program}"
    _check_program(entry, place, command)
    real = Path(os.path.realpath(place / command))
    real.chmod(stat.S_IMODE(real.stat().st_mode) | 0o700)
    integrity = f"sha256:{digest}" if binary.sha256 else ""
    return _Made(binary.archive, command, integrity, binary.args, binary.env)


def _downloaded(address: str, to: Path, tools: Tools) -> str:
    """Fetch an archive; return its SHA-256 in hex."""
    with to.open("xb") as file:
        tools.fetch(address, file, ARCHIVE)
    with to.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
