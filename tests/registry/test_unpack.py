"""An archive becomes files below its directory; whatever would be anywhere else is refused, and nothing gets out."""

import bz2
import gzip
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.registry import install as module
from acp_launch.registry.install import Unsafe, unpack

FILE, DIRECTORY, SYMLINK, HARD, FIFO, DEVICE = (
    *(tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE),
    tarfile.CHRTYPE,
)
Member = tuple[str, bytes, str | bytes]  # name, kind, content or target


def tar(*members: Member, executable: Sequence[str] = ()) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, kind, content in members:
            made = tarfile.TarInfo(name)
            made.type, made.mode = kind, 0o755 if name in executable else 0o644
            if kind == FILE:
                assert isinstance(content, bytes)
                made.size = len(content)
                archive.addfile(made, io.BytesIO(content))
            else:
                made.linkname = str(content)
                archive.addfile(made)
    return out.getvalue()


def zipped(*members: tuple[str, int, bytes]) -> bytes:
    """Names, modes as `st_mode` has them, contents."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, mode, content in members:
            made = zipfile.ZipInfo(name)
            made.external_attr = mode << 16
            archive.writestr(made, content)
    return out.getvalue()


def unpacked(tmp_path: Path, content: bytes, *, is_zip: bool = False) -> Path:
    """Unpack; nothing is outside of the directory, whatever happens."""
    around, archive = tmp_path / "around", tmp_path / "archive"
    root = around / "root"
    root.mkdir(parents=True)
    archive.write_bytes(content)
    try:
        unpack(archive, root, is_zip=is_zip)
    finally:
        assert [*around.iterdir()] == [root]
        assert sorted(tmp_path.iterdir()) == [archive, around]
    return root


@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress])
def test_a_tar_becomes_its_files_with_their_modes_and_links(tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    content = tar(
        ("./", DIRECTORY, ""),
        ("dist/bin/agent", FILE, b"#!/bin/sh\n"),
        ("dist/readme", FILE, b"r" * 5000),
        ("agent", SYMLINK, "dist/bin/agent"),
        ("dist/up", SYMLINK, "../dist/readme"),
        ("copy", HARD, "dist/bin/agent"),
        executable=["dist/bin/agent", "copy"],
    )
    root = unpacked(tmp_path, packed(content))
    assert (root / "agent").read_bytes() == (root / "copy").read_bytes() == b"#!/bin/sh\n"
    assert (root / "dist" / "up").read_bytes() == b"r" * 5000
    assert os.access(root / "agent", os.X_OK)
    assert os.access(root / "copy", os.X_OK)
    assert stat.S_IMODE((root / "dist" / "readme").stat().st_mode) & 0o111 == 0


def test_a_zip_becomes_its_files_with_their_modes(tmp_path: Path) -> None:
    content = zipped(
        ("dist/", stat.S_IFDIR | 0o755, b""),
        ("dist/agent", stat.S_IFREG | 0o755, b"a"),
        ("plain", 0, b"p"),
    )
    root = unpacked(tmp_path, content, is_zip=True)
    assert os.access(root / "dist" / "agent", os.X_OK)
    assert not os.access(root / "plain", os.X_OK)
    assert (root / "plain").read_bytes() == b"p"


HOSTILE: dict[str, tuple[tuple[Member, ...], str]] = {
    "upwards": ((("../evil", FILE, b"x"),), "outside the destination"),
    "upwards within": ((("a/../../evil", FILE, b"x"),), "outside the destination"),
    "a directory upwards": ((("../evil", DIRECTORY, ""),), "outside the destination"),
    "a link upwards": ((("l", SYMLINK, ".."),), "outside the destination"),
    "an absolute link": ((("l", SYMLINK, "/etc/passwd"),), "absolute path"),
    "a link down and up": ((("l", SYMLINK, "a/../../x"),), "outside the destination"),
    "a file through a link": ((("l", SYMLINK, "."), ("l/evil", FILE, b"x")), "through a link"),
    "a link as a file": ((("l", SYMLINK, "a"), ("l", FILE, b"x")), "through a link"),
    "a link through links": (
        (("l2", SYMLINK, "l1/.."), ("l1", SYMLINK, "."), ("l2/evil/x", SYMLINK, "y")),
        "through a link",
    ),
    "a hard link upwards": ((("h", HARD, "../archive"),), "outside the destination"),
    "a hard link to a link": ((("l", SYMLINK, "x"), ("h", HARD, "l")), "through a link"),
    "a file as a directory": ((("a", FILE, b"1"), ("a/b", FILE, b"2")), "cannot be unpacked"),
    "a pipe": ((("f", FIFO, ""),), "is a special file"),
    "a device": ((("d", DEVICE, ""),), "is a special file"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_tar_is_refused_and_nothing_gets_out(tmp_path: Path, case: str) -> None:
    members, said = HOSTILE[case]
    with pytest.raises(Unsafe, match=said):
        unpacked(tmp_path, gzip.compress(tar(*members)))


@pytest.mark.parametrize("mode", [stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o644])
def test_a_hostile_zip_is_refused_and_nothing_gets_out(tmp_path: Path, mode: int) -> None:
    with pytest.raises(Unsafe, match="a link, a device or a pipe"):
        unpacked(tmp_path, zipped(("x", mode, b"x")), is_zip=True)


def test_an_absolute_path_is_below_the_directory_and_so_is_any_of_a_zip(tmp_path: Path) -> None:
    packed = gzip.compress(tar(("/tmp/evil", FILE, b"x")))
    assert (unpacked(tmp_path / "tar", packed) / "tmp" / "evil").read_bytes() == b"x"
    root = unpacked(tmp_path / "zip", zipped(("../../evil", 0o644, b"x"), ("/a/../evil2", 0o644, b"x")), is_zip=True)
    assert (root / "evil").is_file()


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "a/b", "b/a", "c"]), st.text("./ab", max_size=8)), max_size=6),
    st.sampled_from(["a", "b/f", "a/b/f", "c/f"]),
)
def test_no_arrangement_of_links_lets_a_file_out(
    tmp_path_factory: pytest.TempPathFactory, links: list[tuple[str, str]], name: str
) -> None:
    content = tar(*((name, SYMLINK, target) for name, target in links), (name, FILE, b"x"))
    with suppress(Unsafe):
        root = unpacked(tmp_path_factory.mktemp("links"), gzip.compress(content))
        assert Path(os.path.realpath(root / name)).is_relative_to(os.path.realpath(root))


@pytest.mark.parametrize("is_zip", [True, False])
def test_an_archive_is_bounded_in_size_and_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_zip: bool
) -> None:
    """Nothing is unpacked of one that is too large."""
    members = [("a", b"x" * 600), ("b", b"x" * 600), ("c", b"x" * 600)]
    plain = tar(*((name, FILE, content) for name, content in members))
    content = zipped(*((name, 0, content) for name, content in members)) if is_zip else gzip.compress(plain)
    monkeypatch.setattr(module, "MAX_ARCHIVE_BYTES", 1700)
    with pytest.raises(Unsafe, match=r"holds more than 1\..* GiB, the most that is unpacked"):
        unpacked(tmp_path / "1", content, is_zip=is_zip)
    monkeypatch.setattr(module, "MAX_ARCHIVE_BYTES", 2000)
    unpacked(tmp_path / "2", content, is_zip=is_zip)
    monkeypatch.setattr(module, "MAX_MEMBERS", 2)
    with pytest.raises(Unsafe, match="holds more than 2 files and directories, the most that is unpacked"):
        unpacked(tmp_path / "3", content, is_zip=is_zip)
    assert [[*(tmp_path / number / "around" / "root").iterdir()] for number in "13"] == [[], []]


@pytest.mark.parametrize("kind", [".tar.gz", ".tar.bz2", ".zip"])
def test_a_damaged_archive_is_refused(tmp_path: Path, kind: str) -> None:
    whole = {
        ".tar.gz": gzip.compress(tar(("a", FILE, os.urandom(5000)))),
        ".tar.bz2": bz2.compress(tar(("a", FILE, os.urandom(5000)))),
        ".zip": zipped(("a", 0o644, os.urandom(5000))),
    }[kind]
    for number, content in enumerate((whole[: len(whole) // 2], b"", b"<html>not found</html>")):
        with pytest.raises(Unsafe, match="cannot be unpacked"):
            unpacked(tmp_path / str(number), content, is_zip=kind == ".zip")
