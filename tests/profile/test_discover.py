"""A name becomes a file, first hit wins (ours, docs/profiles.md "Where profiles are found")."""

import os
from pathlib import Path

import pytest

from acp_launch.errors import UsageError
from acp_launch.profile.discover import Found, built_in, discover, find, project_of
from acp_launch.settings import load


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a directory two levels down."""
    root = tmp_path / "repo"
    (root / ".git").mkdir(parents=True)
    (root / "a" / "b").mkdir(parents=True)
    return root


def put(file: Path, text: str = "version: 1\nagent: {command: x}\n") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def named(name: str, start: Path) -> Found:
    return find(name, start=start, settings=load.load())


def users() -> Path:
    return load.load().config / "profiles"


def test_the_nearest_project_profile_is_found_from_any_directory_below(repository: Path) -> None:
    far = put(repository / ".acp-launch" / "work.yaml")
    assert named("work", repository / "a" / "b") == Found("work", far, repository, "project", user=users())
    near = put(repository / "a" / ".acp-launch" / "work.yml")
    assert named("work", repository / "a" / "b") == Found("work", near, repository / "a", "project", user=users())


def test_the_search_stops_at_the_repository_root(repository: Path) -> None:
    put(repository.parent / ".acp-launch" / "work.yaml")
    with pytest.raises(UsageError, match='no profile named "work"'):
        named("work", repository / "a")


def test_a_worktrees_git_file_marks_the_root_too(tmp_path: Path) -> None:
    put(tmp_path / "tree" / ".git", "gitdir: elsewhere")
    assert project_of(tmp_path / "tree") == tmp_path / "tree"


def test_without_a_repository_the_search_stops_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    start = home / "work" / "x"
    start.mkdir(parents=True)
    put(tmp_path / ".acp-launch" / "outside.yaml")
    inside = put(home / ".acp-launch" / "inside.yaml")
    with monkeypatch.context() as patched:
        patched.setenv("HOME", str(home))
        assert named("inside", start).file == inside
        with pytest.raises(UsageError, match="outside"):
            named("outside", start)


def test_a_user_profile_works_on_the_project_the_command_was_typed_in(repository: Path) -> None:
    file = put(load.load().config / "profiles" / "mine.yaml")
    assert named("mine", repository / "a") == Found("mine", file, repository, "user", user=users())


def test_built_in_profiles_come_last(repository: Path) -> None:
    assert named("demo", repository) == Found("demo", built_in() / "demo.yaml", repository, "built-in", user=users())
    mine = put(repository / ".acp-launch" / "demo.yaml")
    assert named("demo", repository).file == mine


@pytest.mark.parametrize("text", ["x/work.yaml", "./x/work.yaml", "x/y/../work.yaml"])
def test_a_path_is_relative_to_where_it_was_typed_and_belongs_to_its_repository(text: str, repository: Path) -> None:
    file = put(repository / "x" / "work.yaml")
    assert named(text, repository) == Found("work", file, repository, "path", user=users())


def test_a_bare_file_name_is_a_path(repository: Path) -> None:
    assert named("work.yaml", repository / "a").file == repository / "a" / "work.yaml"


def test_a_path_outside_of_a_repository_belongs_to_its_directory(tmp_path: Path) -> None:
    file = put(tmp_path / "x" / "work.yaml")
    assert named(str(file), tmp_path).project == tmp_path / "x"


def test_a_path_into_a_holder_belongs_to_what_holds_it(repository: Path) -> None:
    file = put(repository / "a" / ".acp-launch" / "work.yaml")
    assert named(str(file), repository).project == repository / "a"


def test_a_name_that_climbs_is_a_path_and_nothing_else(repository: Path) -> None:
    put(repository / "secret.yaml")
    (repository / ".acp-launch").mkdir()
    assert named("../secret", repository / "a").file == repository / "secret"


def test_an_unknown_name_lists_where_it_looked_and_what_is_near(repository: Path) -> None:
    put(repository / ".acp-launch" / "review.yaml")
    with pytest.raises(UsageError) as caught:
        named("reveiw", repository / "a")
    assert caught.value.message == 'no profile named "reveiw"; did you mean "review"?'
    assert caught.value.detail == (
        f"looked in {repository / 'a' / '.acp-launch'}",
        f"looked in {repository / '.acp-launch'}",
        f"looked in {load.load().config / 'profiles'}",
        f"looked in {built_in()}",
    )
    assert caught.value.fix == (
        "use one of claude, codex, demo, gemini, opencode, review; or give a file by its path: ./reveiw.yaml"
    )


def test_a_prompt_in_the_place_of_a_profile_is_told_where_the_profile_goes(repository: Path) -> None:
    with pytest.raises(UsageError) as caught:
        named("what's in here", repository)
    assert caught.value.message == 'no profile named "what\'s in here"'
    assert caught.value.fix == """the profile comes first: acp-launch run demo 'what'"'"'s in here'"""
    assert caught.value.detail == ()


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_an_impossible_name_is_refused(name: str, repository: Path) -> None:
    with pytest.raises(UsageError):
        named(name, repository)


def test_a_name_too_long_for_a_file_is_unknown_and_no_crash(repository: Path) -> None:
    with pytest.raises(UsageError, match="no profile named"):
        named("x" * 5000, repository)


def test_everything_is_listed_and_shadowed_ones_name_the_winner(repository: Path) -> None:
    near = put(repository / "a" / ".acp-launch" / "work.yaml")
    second = put(repository / "a" / ".acp-launch" / "work.yml")
    far = put(repository / ".acp-launch" / "work.yaml")
    mine = put(load.load().config / "profiles" / "demo.yaml")
    found = discover(start=repository / "a", settings=load.load())
    assert found[:4] == [
        Found("work", near, repository / "a", "project", user=users()),
        Found("work", second, repository / "a", "project", near, user=users()),
        Found("work", far, repository, "project", near, user=users()),
        Found("demo", mine, repository / "a", "user", user=users()),
    ]
    assert Found("demo", built_in() / "demo.yaml", repository / "a", "built-in", mine, users()) in found


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every directory")
def test_a_directory_we_may_not_enter_holds_nothing(repository: Path) -> None:
    put(repository / ".acp-launch" / "work.yaml")
    (repository / ".acp-launch").chmod(0)
    try:
        with pytest.raises(UsageError, match="no profile named"):
            named("work", repository)
    finally:
        (repository / ".acp-launch").chmod(0o700)
