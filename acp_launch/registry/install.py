"""
A published agent becomes an installation on this machine: its binary, verified by its hash.

Packages of npm and PyPI need none: `npx` and `uvx` start them in the version that a profile names (`index.pinned`). One
process installs an agent at a time; the others wait and find it done. What fails or is interrupted leaves nothing, and
after a SIGKILL the next installation removes it.
"""

import hashlib
import os
import platform
import shutil
import stat
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from acp_launch.errors import RegistryError
from acp_launch.private import locked, make_private
from acp_launch.private import replace as write
from acp_launch.problem import ours
from acp_launch.profile.rules import ENVIRONMENT_NAME
from acp_launch.regex import regex
from acp_launch.registry.download import NotFetched, fetch
from acp_launch.registry.index import Binary, PublishedAgent, pin_line
from acp_launch.registry.installed import MANIFEST, Installation, Manifest, home, read
from acp_launch.secret.value import is_private

ARCHIVE = 1024**3  # bytes
DOWNLOAD = 30 * 60.0  # seconds for it
PATIENCE = 3600.0  # seconds for another process that installs the same agent
_MACHINES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}
_ENVIRONMENT_NAME = regex(ENVIRONMENT_NAME)


def this_platform() -> str:
    """Return this machine as the registry names it: `linux-x86_64`."""
    machine = platform.machine().lower()
    return f"{platform.system().lower()}-{_MACHINES.get(machine, machine)}"


def binary_of(entry: PublishedAgent, version: str, *, allow_unverified: bool) -> Binary:
    """Return what would be installed of an agent.

    Raises:
        RegistryError: this machine cannot install it, or need not.
    """
    binary = entry.distribution.binary.get(this_platform())
    if binary is not None and version != entry.version:
        what = f"the registry has {entry.id} {entry.version} only, not {version}"
        raise RegistryError(what, fix=ours("agents", "install", entry.id))
    if binary is not None and (binary.sha256 or allow_unverified):
        for name, value in binary.env.items():
            if not _ENVIRONMENT_NAME.match(name) or is_private(name) or "\0" in value:
                raise RegistryError(f"the registry sets a variable for {entry.id} that cannot be set: {name[:80]!r}")
        return binary
    if line := pin_line(entry):
        raise RegistryError(f"{entry.id} needs no installation", fix=f"write into the profile: {line}")
    if binary is not None:
        what = f"the registry has no sha256 of {entry.id} for {this_platform()}, so its archive cannot be verified"
        raise RegistryError(what, fix=ours("agents", "install", entry.id, "--allow-unverified"))
    known = ", ".join(sorted(entry.distribution.binary))
    fix = f"use a machine of these: {known}" if known else "ask its publisher for a package with one version"
    raise RegistryError(f"{entry.id} is not published for {this_platform()}", fix=fix)


def install(entry: PublishedAgent, binary: Binary, *, state: Path, registry: str) -> tuple[Installation, bool]:
    """Install a binary of this agent; also return whether it is new. `registry` is the address of the index.

    Raises:
        RegistryError: it cannot be installed; nothing of it is left.
    """
    place = home(state) / entry.id / entry.version
    try:
        make_private(place.parent)
        with locked(home(state) / f"{entry.id}.lock", PATIENCE):
            if found := read(place):
                return found, False
            for left in place.parent.iterdir():
                if left.is_dir() and not read(left):
                    shutil.rmtree(left)
            place.mkdir(0o700)
            try:
                manifest = _install(entry, binary, place, registry)
                write(place / MANIFEST, msgspec.json.encode(manifest))
            except BaseException:
                shutil.rmtree(place, ignore_errors=True)  # what this leaves is removed by the next
                raise
            return Installation(place, manifest), True
    except TimeoutError:
        what = f"another process has been installing {entry.id} for {PATIENCE / 60:g} min"
        raise RegistryError(what, fix="wait for it, or end it") from None
    except OSError as error:
        what = f"cannot install {entry.id} in {place}: {error.strerror or error}"
        raise RegistryError(what, fix=f"check the owner, the mode and the free space of {home(state)}") from error


def _install(entry: PublishedAgent, binary: Binary, place: Path, registry: str) -> Manifest:
    name = binary.archive.partition("?")[0].partition("#")[0].rpartition("/")[2]
    files, download = place / "files", place / "download"
    try:
        kind, program = suffix(name), inside(binary.cmd)
        digest = _download(binary.archive, download)
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
    _make_executable(entry, place, f"files/{program}")
    return Manifest(
        id=entry.id,
        version=entry.version,
        name=entry.name,
        kind="binary",
        package=binary.archive,
        command=f"files/{program}",
        args=binary.args,
        env=binary.env,
        integrity=f"sha256:{digest}" if binary.sha256 else "",
        registry=registry,
        since=time.time(),
    )


def _download(address: str, to: Path) -> str:
    """Fetch an archive; return its SHA-256 in hex."""
    try:
        with to.open("xb") as file:
            fetch(address, file.write, most=ARCHIVE, limit=DOWNLOAD)
    except NotFetched as failed:
        raise RegistryError(f"the agent's archive {failed}", fix="try again") from None
    with to.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make_executable(entry: PublishedAgent, place: Path, command: str) -> None:
    """Require that the program is there, and in the directory."""
    program = Path(os.path.realpath(place / command))
    if not program.is_file() or not program.is_relative_to(os.path.realpath(place)):
        raise RegistryError(f"{entry.id} does not hold its program, {command}")
    program.chmod(stat.S_IMODE(program.stat().st_mode) | 0o700)


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
            if not any(place.parent.iterdir()):
                place.parent.rmdir()
    except OSError as error:
        raise RegistryError(f"cannot remove {place}: {error.strerror or error}") from error


# An archive becomes files below one directory, and nothing else.
#
# tarfile's filter for data refuses what leads out, devices and pipes. Nothing is written through a link, and where each
# link leads is looked at once all files are there. What a refused archive has written so far is the caller's to remove.

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
        path = _member_path(into, each.name)
        if each.issym():
            links.append(path)
        elif each.islnk() and not _member_path(into, each.linkname).is_file():
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


def _member_path(into: Path, name: str) -> Path:
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
