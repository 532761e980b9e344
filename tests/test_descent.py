"""No write follows a link that a repository has laid: docs/trust.md."""

import errno
import os
import stat
from pathlib import Path

import pytest

from acp_launch.descent import LinkError, grounds, open_file, parent, remove
from acp_launch.private import create, locked, make_private, replace
from tests.cli.conftest import launch
from tests.cli.launcher import Launcher

__all__ = ["launch"]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository beside a file of the user."""
    (tmp_path / "clone" / ".git").mkdir(parents=True)
    (tmp_path / "victim").write_text("precious")
    return tmp_path / "clone"


def test_a_link_in_the_place_of_a_file_does_not_lead_out_of_the_project(clone: Path) -> None:
    (clone / "page.html").symlink_to("../victim")
    with pytest.raises(LinkError) as refused:
        replace(clone / "page.html", b"new")
    assert (refused.value.strerror, refused.value.filename) == (
        "a link leads out of the project",
        str(clone / "page.html"),
    )
    assert (clone.parent / "victim").read_text() == "precious"


@pytest.mark.parametrize("mark", [".git", ".acp-launch"])
def test_a_link_in_the_place_of_a_directory_does_not_either(tmp_path: Path, mark: str) -> None:
    clone, outside = tmp_path / "clone", tmp_path / "outside"
    (clone / mark).mkdir(parents=True)
    outside.mkdir()
    (clone / "sub").symlink_to(outside)
    with pytest.raises(LinkError):
        replace(clone / "sub" / "a", b"new")
    with pytest.raises(LinkError):
        create(clone / "sub" / "a", b"new", is_shared=True)
    with pytest.raises(LinkError):
        make_private(clone / "sub" / "b" / "c")
    with pytest.raises(LinkError), locked(clone / "sub" / "lock"):
        pass
    with pytest.raises(LinkError):
        remove(clone / "sub" / "a")
    assert list(outside.iterdir()) == []


def test_a_directory_of_ours_that_is_a_link_to_nowhere_marks_a_project_too(tmp_path: Path) -> None:
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone" / ".acp-launch").symlink_to(tmp_path / "new")
    with pytest.raises(LinkError):
        make_private(tmp_path / "clone" / ".acp-launch" / "batches")
    assert not (tmp_path / "new").exists()


def test_our_directories_of_batches_mark_no_project_but_a_link_does(tmp_path: Path) -> None:
    """They are made beside a batch that is the user's own, which stays that."""
    (tmp_path / "own" / ".acp-launch" / "batches").mkdir(parents=True)
    (tmp_path / "link" / ".acp-launch").mkdir(parents=True)
    (tmp_path / "link" / ".acp-launch" / "batches").symlink_to(tmp_path / "own")
    (tmp_path / "profiles" / ".acp-launch" / "batches").mkdir(parents=True)
    (tmp_path / "profiles" / ".acp-launch" / "p.yaml").touch()
    found = [each for name in ("own", "link", "profiles") for each in grounds(tmp_path / name)]
    assert found == [tmp_path / "link", tmp_path / "profiles"]


def test_of_projects_within_each_other_none_is_left(tmp_path: Path) -> None:
    """A clone below another repository must not write there, and neither may one by way of the other."""
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    for each in (outer / ".git", inner / ".git", tmp_path / "third" / ".git"):
        each.mkdir(parents=True)
    (inner / "up").symlink_to(outer)
    (outer / "third").symlink_to(tmp_path / "third")
    for path in (inner / "up" / "a", outer / "third" / "a"):
        with pytest.raises(LinkError):
            replace(path, b"new")


def test_a_link_that_stays_within_the_project_is_followed(clone: Path) -> None:
    (clone / "docs").mkdir()
    (clone / "docs" / "page.html").write_text("old")
    (clone / "page.html").symlink_to("docs/page.html")
    (clone / "d").symlink_to("docs")
    replace(clone / "page.html", b"new")
    replace(clone / "d" / "other", b"new")
    assert (clone / "page.html").is_symlink()
    assert (clone / "docs" / "page.html").read_text() == (clone / "docs" / "other").read_text() == "new"


def test_outside_of_projects_the_users_own_links_lead_where_they_lead(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_text("old")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "a").symlink_to("real/a")
    replace(tmp_path / "a", b"new")
    replace(tmp_path / "link" / "b", b"new")
    assert (tmp_path / "real" / "a").read_text() == (tmp_path / "real" / "b").read_text() == "new"


def test_a_link_of_the_users_own_into_a_project_opens_no_way_out_of_it(clone: Path) -> None:
    (clone / "docs").mkdir()
    (clone / "docs" / "page.html").symlink_to("../../victim")
    (clone.parent / "pages").symlink_to(clone / "docs")
    with pytest.raises(LinkError):
        replace(clone.parent / "pages" / "page.html", b"new")
    replace(clone.parent / "pages" / "other.html", b"new")
    assert (clone / "docs" / "other.html").read_text() == "new"


def test_a_project_may_itself_be_reached_through_a_link(clone: Path) -> None:
    (clone.parent / "by").symlink_to(clone)
    replace(clone.parent / "by" / "a", b"new")
    replace(clone / "sub" / ".." / "b", b"new")
    assert (clone / "a").read_text() == (clone / "b").read_text() == "new"


def test_a_home_that_is_a_repository_is_the_users(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_launch.descent._registered_homes", lambda: (clone,))
    (clone / "notes").symlink_to("../victim")
    replace(clone / "notes", b"new")
    assert (clone.parent / "victim").read_text() == "new"


@pytest.mark.parametrize("where", ["file", "directory"])
def test_below_a_directory_no_link_counts(tmp_path: Path, where: str) -> None:
    below = tmp_path / "batch"
    (below / "real").mkdir(parents=True)
    (below / "real" / "a").write_text("old")
    (below / "items").symlink_to("real")
    (below / "real" / "link").symlink_to("a")
    path = below / "items" / "a" if where == "directory" else below / "real" / "link"
    with pytest.raises(LinkError, match="it is a link"):
        open_file(path, os.O_RDONLY, below=below)
    with pytest.raises(LinkError, match="it is a link"):
        open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, below=below)
    assert (below / "real" / "a").read_text() == "old"


def test_below_a_directory_a_link_is_replaced_and_not_its_target(tmp_path: Path) -> None:
    (tmp_path / "answer.md").symlink_to(tmp_path / "victim")
    (tmp_path / "victim").write_text("precious")
    replace(tmp_path / "answer.md", b"new", below=tmp_path)
    assert (tmp_path / "victim").read_text() == "precious"
    assert (tmp_path / "answer.md").read_text() == "new"


def test_below_a_directory_no_name_leads_up(tmp_path: Path) -> None:
    below = tmp_path / "batch"
    below.mkdir()
    with pytest.raises(LinkError, match=f"it leads out of {below}"):
        replace(below / "items" / ".." / ".." / "a", b"new", below=below)
    assert not (tmp_path / "a").exists()


def test_a_link_that_appears_on_the_way_is_not_followed(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the path and the walk an agent has put a link there."""
    (clone / "sub").mkdir()
    found = os.path.realpath(clone / "sub")
    (clone / "sub").rmdir()
    (clone / "sub").symlink_to(clone.parent)
    monkeypatch.setattr("acp_launch.descent.real", lambda path: Path(found) if path.name == "sub" else path)
    with pytest.raises(LinkError, match="it is a link"):
        replace(clone / "sub" / "victim", b"new")
    assert (clone.parent / "victim").read_text() == "precious"


def test_an_error_names_the_file_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        create(tmp_path / "none" / "a", b"")
    assert missing.value.filename == str(tmp_path / "none")
    (tmp_path / "a").touch()
    with pytest.raises(FileExistsError) as there:
        create(tmp_path / "a", b"")
    assert there.value.filename == str(tmp_path / "a")
    with pytest.raises(IsADirectoryError) as root, parent(Path("/")):
        pass
    assert (root.value.errno, root.value.filename) == (errno.EISDIR, "/")


def test_directories_on_the_way_are_private_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        make_private(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert {stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "a", tmp_path / "a" / "b")} == {0o700}


def test_a_pipe_in_the_place_of_a_lock_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with locked(tmp_path / "lock", 0):
        pass


# What users type, where a repository has laid a link.

LINKS = [
    pytest.param("page", ("schema", "-o", "page"), 2, id="schema"),
    pytest.param("page", ("run", "demo", "add 1 2", "--trace", "page"), 2, id="trace"),
    pytest.param("sub", ("run", "demo", "add 1 2", "--trace", "sub/page"), 2, id="a trace below a link"),
    pytest.param(".acp-launch", ("init", "new", "--agent", "demo"), 2, id="init"),
    pytest.param(".acp-launch/.gitignore", ("init", "new", "--agent", "demo"), 0, id="init, its .gitignore"),
    pytest.param(".mcp.json", ("export", "demo", "--to", "claude", "--write", "--yes"), 2, id="export"),
]


@pytest.mark.parametrize(("link", "command", "code"), LINKS)
def test_what_a_user_types_does_not_write_through_a_link_of_a_repository(
    launch: Launcher, link: str, command: tuple[str, ...], code: int
) -> None:
    outside = launch.project.parent / "outside"
    (launch.project / ".git").mkdir()
    place = launch.project / link
    if link in ("sub", ".acp-launch"):
        outside.mkdir()
        (place.rmdir if place.exists() else bool)()
    else:
        outside.write_text("precious\n")
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside)
    done = launch(*command)
    assert (done.code, "Traceback" in done.err) == (code, False), done.err
    assert "link" in done.err or "not a regular file" in done.err
    assert (list(outside.iterdir()) == []) if outside.is_dir() else (outside.read_text() == "precious\n")
