"""Which git directory is believed, what a confined agent sees and writes of it, and whose name git gets."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from acp_launch.plan.repository import GitDirectory, find_git_directory, find_identity, list_alternates

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git makes the repositories")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A directory with a repository `main`, which has a linked worktree `tree` on the branch `team/tree`."""
    git(tmp_path, "init", "-q", "-b", "main", "main")
    main = tmp_path / "main"
    git(main, "commit", "-q", "--allow-empty", "-m", "one")
    git(main, "worktree", "add", "-q", "-b", "team/tree", str(tmp_path / "tree"))
    return tmp_path


def git(where: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@x", "-c", "protocol.file.allow=always")
    return subprocess.run(["git", *who, *words], cwd=where, check=True, capture_output=True, text=True).stdout


def believed(tree: Path) -> GitDirectory:
    found, doubt = find_git_directory(tree)
    assert doubt is None, doubt
    return found


def doubted(tree: Path) -> tuple[Path, str, str]:
    doubt = find_git_directory(tree)[1]
    assert doubt is not None
    return doubt.path, doubt.what.removeprefix("git does not work inside: "), doubt.fix


def mounts(tree: Path) -> Mapping[str, str]:
    """What is mounted, by the path below the directory above the tree."""
    found = believed(tree).list_mounts(tree, "write")
    return {str(path.relative_to(tree.parent)): access for path, access in found}


def test_a_linked_worktree_is_one_of_its_repository(top: Path) -> None:
    """Neither configuration nor hooks, nor another worktree, nor packed objects are written."""
    own = "main/.git/worktrees/tree"
    assert mounts(top / "tree") == {
        "tree/.git": "read",
        "main/.git": "read",
        own: "write",
        f"{own}/commondir": "read",
        f"{own}/gitdir": "read",
        "main/.git/objects": "write",
        "main/.git/objects/info": "read",
        "main/.git/objects/pack": "read",
        "main/.git/refs/heads/team": "write",
        "main/.git/logs/refs/heads/team/tree": "write",
    }
    git(top / "tree", "checkout", "-q", "--detach")
    assert not [path for path in mounts(top / "tree") if "refs" in path]
    assert {access for _, access in believed(top / "tree").list_mounts(top / "tree", "read")} == {"read"}


def test_a_checkout_has_its_own_in_it(top: Path) -> None:
    assert believed(top / "main") == GitDirectory(top / "main" / ".git", top / "main" / ".git")
    assert mounts(top / "main") == {}


def test_a_branch_that_is_packed_gets_the_directory_that_git_would_write(top: Path) -> None:
    git(top / "main", "pack-refs", "--all", "--prune")
    shutil.rmtree(top / "main" / ".git" / "logs")
    shutil.rmtree(top / "main" / ".git" / "refs" / "heads" / "team", ignore_errors=True)
    assert [path for path in mounts(top / "tree") if "refs" in path] == ["main/.git/refs/heads"]


def test_a_log_that_an_agent_made_a_link_is_not_written(top: Path) -> None:
    """Git would append to what it leads to."""
    log = top / "main" / ".git" / "logs" / "refs" / "heads" / "team" / "tree"
    log.unlink()
    log.symlink_to(top)
    assert not [path for path in mounts(top / "tree") if "logs" in path]


def test_settings_of_a_worktree_that_do_not_exist_yet_are_made_before_the_agent_could(top: Path) -> None:
    own = top / "main" / ".git" / "worktrees" / "tree"
    git(top / "main", "config", "extensions.worktreeConfig", "true")
    assert own / "config.worktree" in believed(top / "tree").list_missing()
    assert mounts(top / "tree")["main/.git/worktrees/tree/config.worktree"] == "read"
    git(top / "tree", "config", "--worktree", "a.b", "c")
    assert own / "config.worktree" not in believed(top / "tree").list_missing()


def test_a_submodule_points_back_and_keeps_its_settings(top: Path) -> None:
    git(top / "main", "submodule", "add", "-q", str(top / "tree"), "libs/lib")
    lib = top / "main" / "libs" / "lib"
    found = {str(path.relative_to(top / "main")): how for path, how in believed(lib).list_mounts(lib, "write")}
    own = ".git/modules/libs/lib"
    assert found == {"libs/lib/.git": "read", own: "write", f"{own}/config": "read", f"{own}/hooks": "read"}


def test_a_git_directory_that_does_not_point_back_is_for_the_user_to_name(top: Path) -> None:
    git(top, "init", "-q", "--separate-git-dir", "apart", "work")
    assert doubted(top / "work") == (
        top / "apart",
        f"{top}/work/.git leads to {top}/apart",
        f"if that is right, add {top}/apart to runtime.confined.write",
    )
    (top / "work" / ".git").unlink()
    (top / "work" / ".git").symlink_to(top / "main" / ".git")
    assert doubted(top / "work")[0] == top / "main" / ".git"


@pytest.mark.parametrize(
    "text",
    [
        "gitdir: {top}/keys",
        "gitdir: ../keys",
        "gitdir: {top}/main/.git/worktrees/tree",
        "gitdir: {top}/main/.git/worktrees",
        "gitdir: {top}/main/.git/hooks",
        "gitdir: {top}/fake/worktrees/x",
        "gitdir: {top}/link/worktrees/work",
        "{top}/keys",
    ],
)
def test_a_git_file_names_no_directory_of_another_kind_or_of_another_tree(top: Path, text: str) -> None:
    """It is the project's: it could name the user's keys."""
    fake, keys, work = top / "fake" / "worktrees" / "x", top / "keys", top / "work"
    for each in (fake, keys, work):
        each.mkdir(parents=True)
    (keys / "id").write_text("")
    (work / ".git").write_text(text.format(top=top))
    (fake / "commondir").write_text(f"{top}/main/.git")  # the agent's own, which names another repository
    (fake / "gitdir").write_text(f"{work}/.git")
    (top / "link").symlink_to(top / "keys")
    where, what, fix = doubted(work)
    assert where != work and what == f"{work}/.git leads to {where}, which is not its git directory"
    assert fix == f"remove {work}/.git, or correct it"


@pytest.mark.parametrize("head", ["ref: refs/heads/../../hooks/x", "ref: refs/heads/way/x", "ref: refs/tags/x", "\\0"])
def test_a_head_that_the_agent_wrote_leads_to_no_hooks(top: Path, head: str) -> None:
    own = believed(top / "tree").own
    (top / "main" / ".git" / "refs" / "heads" / "way").symlink_to("../../hooks")
    (own / "HEAD").write_text(head)
    written = [path for path, access in mounts(top / "tree").items() if access == "write"]
    assert set(written) == {"main/.git/worktrees/tree", "main/.git/objects"}


def test_alternates_are_for_the_user_to_name(top: Path) -> None:
    """A confined agent could have written them, to read another repository in its next launch."""
    git(top, "clone", "-q", "--shared", "main", "shared")
    (doubt,) = list_alternates(believed(top / "shared"))
    objects = top / "main" / ".git" / "objects"
    assert (doubt.path, doubt.fix) == (objects, f"if that is right, add {objects} to runtime.confined.read")


def identity(top: Path, tree: Path, **environ: str) -> Mapping[str, str]:
    return find_identity(believed(tree), top / "home", environ)


def test_commits_have_the_name_that_the_users_configuration_has_for_the_repository(top: Path) -> None:
    home = top / "home"
    (home / ".config" / "git").mkdir(parents=True)
    (home / ".config" / "git" / "config").write_text("[user]\n\tname = First\n\temail = first@x\n")
    (home / ".gitconfig").write_text(
        '; mine\n[User] name = "A ; \\"B\\"" C # not this\n[user "other"]\nname = no\n[core]\nname = no\n'
        "[include]\npath = more\npath = .gitconfig\n"
        f'[includeIf "gitdir:{top}/tree/"]\npath = ~/no\n'
        f'[includeIf "gitdir:{top}/main/"]\npath = ~/work\n'
        '[includeIf "onbranch:main"]\npath = ~/no\n'
    )
    (home / "more").write_text("[user]\nemail = more@x\n")
    (home / "work").write_text("[user]\nemail = work@x\n")
    (home / "no").write_text("[user]\nname = no\n")
    expected = {"user.name": 'A ; "B" C', "user.email": "work@x"}
    assert identity(top, top / "main") == identity(top, top / "tree") == expected, "git's directory of both is in main"
    git(top / "main", "config", "user.name", "Of the repository")
    assert identity(top, top / "tree") == {"user.email": "work@x"}
    assert identity(top, top / "main", GIT_CONFIG_GLOBAL=os.devnull) == {}
    assert identity(top, top / "main", XDG_CONFIG_HOME=str(top), GIT_CONFIG_GLOBAL="") == {"user.email": "work@x"}
