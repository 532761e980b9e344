"""Files that `@` offers: inside the session's directories, without walking them."""

import os
from pathlib import Path

import pytest

from acp_launch.interactive import completion as paths
from acp_launch.interactive.completion import find_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in ("src/main.py", "src/model.py", "spec/main.md", "README.md", ".hidden/x", "a b.txt", "Makefile"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", ["a b.txt", "Makefile", "README.md", "spec/", "src/"]),
        ("s", ["spec/", "src/"]),
        ("S", ["spec/", "src/"]),
        ("src/m", ["src/main.py", "src/model.py"]),
        ("s/ma", ["spec/main.md", "src/main.py"]),
        ("m", ["Makefile"]),
        (".", [".hidden/"]),
        (".h/", [".hidden/x"]),
        ("README.md/", []),
        ("nothing/at/all", []),
        ("..", []),
        ("../", []),
        ("src/../", []),
    ],
)
def test_what_begins_with_what_is_typed_is_offered(root: Path, typed: str, offered: list[str]) -> None:
    (root.parent / "outside").touch()
    assert find_files(typed, [root]) == offered


def test_an_absolute_path_is_offered_inside_only(root: Path) -> None:
    assert find_files(f"{root}/sr", [root]) == [f"{root}/src/"]
    assert find_files(f"{root.parent}/", [root]) == []
    assert find_files("/et", [root]) == []


def test_the_other_directories_are_offered_by_their_absolute_paths(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "same.txt").touch()
    assert find_files("sa", [root, other]) == [f"{other}/same.txt"]


def test_no_link_leads_out(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").touch()
    (root / "link").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    (root / "loop").symlink_to("loop")
    (root / "inner").symlink_to("src")
    assert find_files("l", [root]) == ["loop"]
    assert find_files("fi", [root]) == []
    assert find_files("link/", [root]) == []
    assert find_files("inner/ma", [root]) == ["inner/main.py"]


def test_a_name_that_cannot_be_typed_is_not_offered(root: Path) -> None:
    for name in ("z\x1b[2J", 'z"quoted', "z\nz", "zürich"):
        (root / name).touch()
    assert find_files("z", [root]) == ["zürich"]


def test_no_tree_is_walked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many directories fit, only so many are looked into."""
    for number in range(30):
        (root / f"many{number:02}" / "below").mkdir(parents=True)
    looked: list[str] = []
    scandir = os.scandir

    def counted(path: Path) -> "os._ScandirIterator[str]":
        looked.append(str(path))
        return scandir(str(path))

    monkeypatch.setattr(os, "scandir", counted)
    assert len(find_files("m/b", [root])) == paths.LOOKS
    assert len(looked) == paths.LOOKS + 1
