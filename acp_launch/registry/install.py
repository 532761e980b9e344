"""
A published agent becomes an installation on this machine: its binary, verified by its hash.

Packages of npm and PyPI need none: `npx` and `uvx` start them in the version that a profile names (`index.pin_line`).
One process installs an agent at a time; the others wait and find it done. What fails or is interrupted leaves nothing,
and after a SIGKILL the next installation removes it.
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
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath

ARCHIVE = 1024**3  # bytes
DOWNLOAD_TIMEOUT = 30 * 60.0
LOCK_TIMEOUT = 3600.0  # another process installs the same agent
MAX_ARCHIVE_BYTES = 4 * 1024**3  # of all its files
MAX_MEMBERS = 50_000  # files, directories and links of an archive
TARS = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2")
_MACHINES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}
_ENVIRONMENT_NAME = regex(ENVIRONMENT_NAME)
_DAMAGED = (  # what the two libraries raise
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, LookupError, RuntimeError),
    *(FileExistsError, NotADirectoryError, IsADirectoryError),  # a name twice
)


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
        with locked(home(state) / f"{entry.id}.lock", LOCK_TIMEOUT):
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
        what = f"another process has been installing {entry.id} for {LOCK_TIMEOUT / 60:g} min"
        raise RegistryError(what, fix="wait for it, or end it") from None
    except OSError as error:
        what = f"cannot install {entry.id} in {place}: {error.strerror or error}"
        raise RegistryError(what, fix=f"check the owner, the mode and the free space of {home(state)}") from error


def _install(entry: PublishedAgent, binary: Binary, place: Path, registry: str) -> Manifest:
    files, download = place / "files", place / "download"
    program = f"files/{os.path.normpath(binary.cmd)}"
    digest = _download(binary.archive, download)
    if binary.sha256 and digest != binary.sha256.lower():
        raise RegistryError(
            f"the archive of {entry.id} has a different sha256 from the one in the registry: {digest}",
            fix="try again later; if that does not help, report it to the agent's publisher",
        )
    files.mkdir(0o700)
    name = binary.archive.partition("?")[0].partition("#")[0].lower()
    if name.endswith((".zip", *TARS)):
        try:
            unpack(download, files, is_zip=name.endswith(".zip"))
        except Unsafe as unsafe:
            what = f"the archive of {entry.id} {unsafe}"
            raise RegistryError(what, fix="report it to the agent's publisher") from None
        download.unlink()
    else:  # the program itself
        program = f"files/{Path(binary.cmd).name}"
        download.rename(place / program)
    found = Path(os.path.realpath(place / program))
    if not found.is_file() or not found.is_relative_to(os.path.realpath(files)):
        raise RegistryError(f"{entry.id} does not hold its program, {binary.cmd}")
    found.chmod(stat.S_IMODE(found.stat().st_mode) | 0o700)
    return Manifest(
        id=entry.id,
        version=entry.version,
        name=entry.name,
        package=binary.archive,
        command=program,
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
            fetch(address, file.write, most=ARCHIVE, limit=DOWNLOAD_TIMEOUT)
    except NotFetched as failed:
        raise RegistryError(f"the agent's archive {failed}", fix="try again") from None
    with to.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove(installation: Installation, state: Path) -> None:
    """Remove an installation.

    Raises:
        RegistryError: it cannot be removed.
    """
    place = installation.directory
    try:
        with locked(home(state) / f"{installation.manifest.id}.lock", LOCK_TIMEOUT):
            (place / MANIFEST).unlink(missing_ok=True)  # first: from here on it is not installed
            shutil.rmtree(place)
            if not any(place.parent.iterdir()):
                place.parent.rmdir()
    except OSError as error:
        raise RegistryError(f"cannot remove {place}: {error.strerror or error}") from error


class Unsafe(Exception):  # noqa: N818 - it reads as what it is
    """Raised for an archive that is not unpacked; the text continues a sentence that begins with the archive."""


def unpack(archive: Path, into: Path, *, is_zip: bool) -> None:
    """Unpack an archive into an empty directory, and nowhere else. What a refused one has written is the caller's.

    Raises:
        Unsafe: it is refused, or damaged.
        OSError: a file cannot be written.
    """
    try:
        if is_zip:
            with zipfile.ZipFile(archive) as opened:
                _unpack_zip(opened, into)
        else:
            with _Tar.open(archive) as tar:
                _require_bounds(each.size for each in tar)
                tar.extractall(into, (_check_member(each, into) for each in tar))
    except _DAMAGED as error:
        raise Unsafe(f"cannot be unpacked: {type(error).__name__}") from None


class _Tar(tarfile.TarFile):
    """Extracts what `_check_member` gives, for the user. Python 3.11.2, of Debian 12, has no filters of its own."""

    extraction_filter = staticmethod(lambda member, path: member)

    def chown(self, tarinfo: tarfile.TarInfo, targetpath: "StrOrBytesPath", numeric_owner: bool) -> None:
        """Do nothing."""


def _check_member(member: tarfile.TarInfo, into: Path) -> tarfile.TarInfo:
    """Refuse devices and pipes, what leads out, and what would be written, or linked, through a link, since `realpath`
    does not always see where a chain of links leads (CVE-2025-4517). Returns it with a mode that is safe."""
    member.name = member.name.lstrip("/")
    for name in (member.name, member.linkname) if member.islnk() else (member.name,):
        place = into / name
        if any(each.is_symlink() for each in (place, *place.parents) if each.is_relative_to(into)):
            raise Unsafe(f'holds a path through a link: "{name[:200]}"')
    targets = [into / member.name]
    if member.issym() or member.islnk():
        if Path(member.linkname).is_absolute():
            raise Unsafe(f'holds a link to an absolute path: "{member.name[:200]}"')
        targets.append((targets[0].parent if member.issym() else into) / member.linkname)
    elif not (member.isreg() or member.isdir()):
        raise Unsafe(f'holds what is a special file: "{member.name[:200]}"')
    if not all(Path(os.path.realpath(each)).is_relative_to(os.path.realpath(into)) for each in targets):
        raise Unsafe(f'holds what leads outside the destination: "{member.name[:200]}"')
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


def _unpack_zip(opened: zipfile.ZipFile, into: Path) -> None:
    _require_bounds(each.file_size for each in opened.infolist())
    for each in opened.infolist():
        mode = each.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise Unsafe(f'holds a link, a device or a pipe: "{each.filename[:200]}"')
        os.chmod(opened.extract(each, into), 0o755 if each.is_dir() or mode & 0o111 else 0o644)  # noqa: PTH101 - a text


def _require_bounds(sizes: Iterable[int]) -> None:
    """Refuse an archive with members of these sizes, before anything of it is unpacked, if they are too many or large.

    It does not look at the rest then.
    """
    total = 0
    for number, size in enumerate(sizes, 1):
        total += size
        if number > MAX_MEMBERS:
            raise Unsafe(f"holds more than {MAX_MEMBERS:,} files and directories, the most that is unpacked")
        if total > MAX_ARCHIVE_BYTES:
            raise Unsafe(f"holds more than {MAX_ARCHIVE_BYTES / 1024**3:g} GiB, the most that is unpacked")
