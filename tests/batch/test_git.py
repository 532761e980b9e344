"""What git is asked, in repositories of these tests; a question runs nothing that a repository names."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_launch.errors import StateError
from acp_launch.process import git as calls
from acp_launch.process.git import resolve_commit
from tests.batch.repositories import commit, git


def test_a_commit_is_named_as_git_names_it_and_nothing_else_is_one(repo: Path, tmp_path: Path) -> None:
    for ref in ("HEAD", "main", "origin/main", "v1", "HEAD~1", "refs/tags/v1"):
        assert resolve_commit(str(repo), ref) == git(repo, "rev-parse", f"{ref}^{{commit}}").strip(), ref
    for ref in ("nope", "", "--all", "-h", "HEAD:text", "0" * 40):
        assert resolve_commit(str(repo), ref) is None, ref
    assert resolve_commit(str(tmp_path), "HEAD") is None, "outside of every repository"


def test_a_server_is_asked_for_the_commit_of_a_url(repo: Path) -> None:
    where = repo.with_name("origin")
    for ref in ("HEAD", "main", "origin/main", "v1", "refs/heads/main"):
        assert resolve_commit(f"file://{where}", ref) == git(where, "rev-parse", "v1^{commit}").strip(), ref
    assert resolve_commit(f"file://{where}", "0" * 40) == "0" * 40
    assert resolve_commit(f"file://{repo}", "second") is None


def test_a_server_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(StateError) as failure:
        resolve_commit(f"file://user:planted@{tmp_path}/none", "HEAD")
    assert "git ls-remote" in failure.value.message
    assert "planted" not in f"{failure.value.message} {failure.value.detail}"


def test_git_that_is_not_installed_is_named(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(StateError, match=r"cannot start git in .*: git: No such file"):
        resolve_commit(str(repo), "HEAD")


def test_git_that_hangs_is_given_up(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "bin" / "git").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setattr(calls, "QUESTION_TIMEOUT", 0.1)
    with pytest.raises(StateError, match=r"git rev-parse in .* did not end within 0\.1 s"):
        resolve_commit(str(repo), "HEAD")


def test_an_output_without_end_is_given_up(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MAX_OUTPUT_BYTES", 20)
    with pytest.raises(StateError, match=r"git rev-parse in .* printed more than"):
        resolve_commit(str(repo), "HEAD")


# Hostile repositories.


def lacks_its_commit(repo: Path, program: Path) -> None:
    """A partial clone, whose missing objects would come by a command of its own."""
    git(repo, "config", "core.repositoryFormatVersion", "1")
    git(repo, "config", "extensions.partialClone", "origin")
    git(repo, "config", "remote.origin.promisor", "true")
    git(repo, "config", "remote.origin.uploadpack", str(program))
    (repo / ".git" / "refs" / "heads" / "main").write_text("1" * 40)


def names_transports(repo: Path, program: Path) -> None:
    lacks_its_commit(repo, program)
    git(repo, "config", "remote.origin.url", "ssh://nowhere/x")
    git(repo, "config", "core.sshCommand", str(program))
    git(repo, "config", "protocol.allow", "always")
    git(repo, "config", "protocol.ssh.allow", "always")


def names_a_helper(repo: Path, program: Path) -> None:
    lacks_its_commit(repo, program)
    git(repo, "config", "remote.origin.url", f"ext::{program} x")
    git(repo, "config", "protocol.ext.allow", "always")


def names_programs(repo: Path, program: Path) -> None:
    for key in ("core.fsmonitor", "core.pager", "core.editor", "core.askPass", "core.gitProxy", "diff.external"):
        git(repo, "config", key, str(program))
    git(repo, "config", "alias.rev-parse", f"!{program}")
    git(repo, "config", "core.hooksPath", str(program.parent))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    program.chmod(0o700)
    return program


@pytest.mark.parametrize("spoil", [lacks_its_commit, names_transports, names_a_helper, names_programs])
def test_a_question_runs_nothing_that_a_repository_names(
    repo: Path, tmp_path: Path, program: Path, spoil: Callable[[Path, Path], None]
) -> None:
    spoil(repo, program)
    assert resolve_commit(str(repo), "HEAD") is None or spoil is names_programs
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("spoil", [names_a_helper, names_programs])
def test_a_directory_that_looks_like_a_repository_is_none(
    repo: Path, tmp_path: Path, program: Path, spoil: Callable[[Path, Path], None]
) -> None:
    """A clone can bring one: files named HEAD and config, and a directory named objects."""
    spoil(repo, program)
    (repo / ".git").rename(tmp_path / "bare")
    with pytest.raises(StateError, match="cannot use bare repository"):
        resolve_commit(str(tmp_path / "bare"), "HEAD")
    git(tmp_path / "bare", "init", "--quiet", "--initial-branch=own")
    assert resolve_commit(str(tmp_path / "bare"), "HEAD") is None
    git(tmp_path / "bare", "commit", "--quiet", "--allow-empty", "--message=x")
    assert commit(tmp_path / "bare", "own")
    assert not (tmp_path / "ran").exists()


def test_a_configuration_that_never_ends_is_given_up(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(repo / ".git" / "more")
    git(repo, "config", "include.path", "more")
    monkeypatch.setattr(calls, "QUESTION_TIMEOUT", 0.1)
    with pytest.raises(StateError, match=r"git rev-parse in .* did not end within 0\.1 s"):
        resolve_commit(str(repo), "HEAD")


def test_objects_with_files_of_their_own_are_packed(repo: Path) -> None:
    """Twice, as for two agents; what is not an object of git's is left."""
    objects = repo / ".git" / "objects"
    (objects / "ab").mkdir(exist_ok=True)
    os.mkfifo(objects / "ab" / ("0" * 38))
    commit(repo)
    before = git(repo, "rev-list", "--objects", "--all")
    for _ in range(2):
        calls.pack_loose_objects(objects)
        assert "count: 0\n" in git(repo, "count-objects", "--verbose")
        assert git(repo, "rev-list", "--objects", "--all") == before
    assert (objects / "ab" / ("0" * 38)).exists()


def test_an_object_that_cannot_be_read_is_named(repo: Path) -> None:
    objects = repo / ".git" / "objects"
    (objects / "00").mkdir(exist_ok=True)
    (objects / "00" / ("0" * 38)).write_bytes(b"torn")
    with pytest.raises(StateError, match=r"git pack-objects in .*0000"):
        calls.pack_loose_objects(objects)
