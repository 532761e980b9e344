"""Directories for attempts, made by real git in repositories of these tests."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from acp_launch.batch import baseline, worktree
from acp_launch.batch.worktree import Kind, Tree
from acp_launch.errors import StateError
from tests.batch.repositories import (
    LOCAL,
    commit,
    content,
    copy_repository,
    git,
    made_repository,
    make_tree,
    patch_of,
    save,
)
from tests.patience import PATIENCE

KINDS = pytest.mark.parametrize("kind", ["worktree", "clone"])
MAKE = (
    "import os, sys; from pathlib import Path; from acp_launch.batch.worktree import Tree\n"
    "os.environ['VICTIM'] = str(os.getpid()); Tree(*sys.argv[1:4], Path(sys.argv[4])).make()"
)


def look(repo: Path) -> tuple[object, ...]:
    """All that a user sees of a checkout."""
    files = {each.name: each.lstat().st_mtime_ns for each in repo.iterdir() if each.name != ".git"}
    config = (repo / ".git" / "config").read_text()
    return files, config, *(git(repo, *words) for words in (["status", "--short"], ["branch", "--all", "--verbose"]))


def test_variables_of_the_caller_lead_git_nowhere_else(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a hook of the repository, which git runs with these."""
    git(tmp_path, "init", "--quiet", "other")
    for name, value in (("GIT_DIR", "other/.git"), ("GIT_INDEX_FILE", "other/i"), ("GIT_WORK_TREE", "other")):
        monkeypatch.setenv(name, str(tmp_path / value))
    tree = make_tree(repo, "worktree", tmp_path / "trees" / "a")
    assert (tree.at / "text").read_text() == "second\n"
    assert patch_of(tree, tmp_path / "patch") == ""


@KINDS
def test_a_tree_is_detached_at_its_commit_and_the_checkout_stays_as_it_is(
    repo: Path, tmp_path: Path, kind: Kind
) -> None:
    before = look(repo)
    base = commit(repo, "origin/main")
    tree = make_tree(repo, kind, tmp_path / "trees" / "a.b", base)
    assert git(tree.at, "rev-parse", "HEAD").strip() == base
    assert git(tree.at, "status", "--short", "--branch") == "## HEAD (no branch)\n"
    tree.remove()
    assert look(repo) == before
    assert git(repo, "worktree", "list").count("\n") == 1
    assert not (repo / ".git" / "worktrees").exists()
    assert {each.suffix for each in (tmp_path / "trees").iterdir()} <= {".rules", ".lock"}


def test_a_url_is_cloned(repo: Path, tmp_path: Path) -> None:
    tree = make_tree(f"file://{repo}", "clone", tmp_path / "a", commit(repo))
    assert (tree.at / "text").read_text() == "second\n"
    (tree.at / "text").write_text("third\n")
    shutil.rmtree(tree.at / ".git" / "objects")
    assert "-second\n+third\n" in patch_of(tree, tmp_path / "patch")
    tree.remove()
    assert not tree.at.exists()


def test_a_clone_has_commits_that_no_branch_of_its_source_has(repo: Path, tmp_path: Path) -> None:
    git(repo, "checkout", "--quiet", "--detach")
    base = save(repo, "nowhere")
    git(repo, "checkout", "--quiet", "main")
    for place in (str(repo), f"file://{repo}"):
        tree = make_tree(place, "clone", tmp_path / f"{len(place)}", base)
        assert git(tree.at, "rev-parse", "HEAD").strip() == base


def test_a_clone_shares_no_file_with_its_source(repo: Path, tmp_path: Path) -> None:
    """Else the agent could change an object of the user's repository."""
    tree = make_tree(repo, "clone", tmp_path / "a")
    files = [each for each in tree.at.rglob("*") if each.is_file() and not each.is_symlink()]
    assert {each.stat().st_nlink for each in files} == {1}
    assert not (tree.at / ".git" / "objects" / "info" / "alternates").exists()


def test_a_repository_of_another_hash_has_trees_and_patches(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--object-format=sha256", "repo")
    (tmp_path / "repo" / "file").write_text("one\n")
    save(tmp_path / "repo")
    tree = make_tree(tmp_path / "repo", "worktree", tmp_path / "a")
    (tree.at / "file").write_text("two\n")
    assert "-one\n+two\n" in patch_of(tree, tmp_path / "patch")


def test_the_next_attempt_works_in_the_same_tree(repo: Path, tmp_path: Path) -> None:
    tree = make_tree(repo, "clone", tmp_path / "a")
    (tree.at / "half").write_text("done")
    assert (make_tree(repo, "clone", tree.at).at / "half").read_text() == "done"
    tree.remove()
    assert not (make_tree(repo, "clone", tree.at).at / "half").exists()


@KINDS
def test_a_tree_that_a_killed_process_left_half_made_is_made_again(
    repo: Path, tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The filter that git runs for a file kills us and git, in the middle of writing the files."""
    program, config = tmp_path / "kill.sh", tmp_path / "config"
    program.write_text('#!/bin/sh\nkill -9 "$VICTIM" "$PPID"\n')
    program.chmod(0o700)
    (tmp_path / "attributes").write_text("text filter=kill\n")
    config.write_text(f'[filter "kill"]\n\tsmudge = {program}\n[core]\n\tattributesFile = {tmp_path}/attributes\n')
    words = [sys.executable, "-c", MAKE, str(repo), commit(repo), kind, str(tmp_path / "a")]
    env = {**os.environ, "GIT_CONFIG_GLOBAL": str(config)}
    assert subprocess.run(words, env=env, check=False).returncode == -9
    tree = make_tree(repo, kind, tmp_path / "a")  # the outer git may be removing it at this moment
    assert git(tree.at, "status", "--short") == ""
    assert git(repo, "worktree", "list").count("\n") == (2 if kind == "worktree" else 1)


def test_a_git_that_outlives_us_holds_the_lock(repo: Path, tmp_path: Path) -> None:
    """Else the next attempt would make a tree in which the old git still writes."""
    fifo, program, config = tmp_path / "fifo", tmp_path / "wait.sh", tmp_path / "config"
    os.mkfifo(fifo)
    program.write_text(f"#!/bin/sh\nkill -9 $VICTIM; read word < {fifo}; cat\n")
    program.chmod(0o700)
    (tmp_path / "attributes").write_text("text filter=wait\n")
    config.write_text(f'[filter "wait"]\n\tsmudge = {program}\n[core]\n\tattributesFile = {tmp_path}/attributes\n')
    words = [sys.executable, "-c", MAKE, str(repo), commit(repo), "worktree", str(tmp_path / "a")]
    env = {**os.environ, "GIT_CONFIG_GLOBAL": str(config)}
    assert subprocess.run(words, env=env, check=False).returncode == -9
    from acp_launch.private import locked

    with pytest.raises(TimeoutError), locked(repo / ".git" / worktree.LOCK, 0.1):
        pass
    with fifo.open("w") as end:
        end.write("go\n")
    with locked(repo / ".git" / worktree.LOCK, PATIENCE):
        pass


def remove_git(tree: Path) -> None:
    git_file = tree / ".git"
    shutil.rmtree(git_file) if git_file.is_dir() else git_file.unlink()


def replace_git(tree: Path) -> None:
    remove_git(tree)
    git(tree, "init", "--quiet")


def move_git(tree: Path) -> None:
    (tree / ".git").rename(tree.with_name("moved"))
    (tree / ".git").symlink_to(tree.with_name("moved"))


def lead_elsewhere(tree: Path) -> None:
    git(tree.parent, "init", "--quiet", "other")
    remove_git(tree)
    (tree / ".git").write_text(f"gitdir: {tree.with_name('other')}/.git\n")


def make_a_pipe(tree: Path) -> None:
    remove_git(tree)
    os.mkfifo(tree / ".git")


def share_another(tree: Path) -> None:
    """The files of a git directory that lead to another one."""
    git_directory = git(tree, "rev-parse", "--absolute-git-dir").strip()
    git(tree.parent, "init", "--quiet", "other")
    Path(git_directory, "commondir").write_text(f"{tree.with_name('other')}/.git\n")


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (remove_git, "worktree"),
        (replace_git, "clone"),
        (move_git, "clone"),
        (lead_elsewhere, "worktree"),
        (make_a_pipe, "worktree"),
        (share_another, "worktree"),
    ],
)
def test_a_tree_whose_git_is_not_ours_any_more_is_named_and_stays(
    repo: Path, tmp_path: Path, spoil: Callable[[Path], None], kind: Kind
) -> None:
    tree = make_tree(repo, kind, repo / ".acp-launch" / "a")
    spoil(tree.at)
    (tree.at / "work").write_text("of the agent")
    with pytest.raises(StateError) as failure:
        make_tree(repo, kind, tree.at)
    assert failure.value.message.startswith(f"{tree.at}/.git ")
    assert failure.value.fix == f"move {tree.at} away, so that it is made again"
    with pytest.raises(StateError) as failure:
        tree.write_patch(tmp_path / "patch")
    assert failure.value.message.startswith(f"{tree.at}/.git ")
    assert (tree.at / "work").exists()
    assert not (tmp_path / "patch").exists()
    tree.remove()
    assert git(repo, "worktree", "list").count("\n") == 1


def test_a_tree_that_the_agent_deleted_is_made_again(repo: Path, tmp_path: Path) -> None:
    tree = make_tree(repo, "worktree", tmp_path / "a")
    tree.at.rename(tmp_path / "elsewhere")
    with pytest.raises(StateError, match=rf"{tree.at}/.git cannot be used: No such file"):
        tree.write_patch(tmp_path / "patch")
    assert (make_tree(repo, "worktree", tree.at).at / "text").exists()


def test_hooks_of_the_repository_do_not_run(repo: Path, tmp_path: Path) -> None:
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        hook = repo / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        hook.chmod(0o700)
    tree = make_tree(repo, "worktree", tmp_path / "a")
    tree.write_patch(tmp_path / "patch")
    tree.remove()
    assert not (tmp_path / "ran").exists()


def test_what_an_agent_told_the_shared_repository_does_not_change_the_next_tree(repo: Path, tmp_path: Path) -> None:
    """Worktrees share `config` and `info` of their repository."""
    first = make_tree(repo, "worktree", tmp_path / "trees" / "a")
    (repo / "windows").write_text("one\ntwo\n")
    base = save(repo)
    git(first.at, "config", "filter.own.smudge", f"touch {tmp_path}/ran; tr a-z A-Z")
    git(first.at, "config", "filter.own.required", "true")
    for key in ("core.fileMode", "core.symlinks"):
        git(first.at, "config", key, "false")
    (repo / ".git" / "info" / "attributes").write_text("* filter=own ident text eol=crlf\n")
    (repo / ".git" / "info" / "exclude").write_text("*\n")
    tree = make_tree(repo, "worktree", tmp_path / "trees" / "b", base)
    assert (tree.at / "windows").read_bytes() == b"one\ntwo\n"
    assert (tree.at / "link").is_symlink()
    assert patch_of(tree, tmp_path / "patch") == ""
    (tree.at / "new").write_text("x\n")
    (tree.at / "text").chmod(0o755)
    assert "new mode 100755" in (patch := patch_of(tree, tmp_path / "patch")) and "b/new" in patch
    assert not (tmp_path / "ran").exists()


def test_what_the_users_checkout_ignores_is_not_in_a_patch(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `info/exclude`, and by the file of the user's own configuration."""
    (repo / ".git" / "info" / "exclude").write_text("*.own")
    (tmp_path / "ignore").write_text("*.users\n")
    (tmp_path / "config").write_text(f"[core]\n\texcludesFile = {tmp_path}/ignore\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    tree = make_tree(repo, "worktree", tmp_path / "a")
    for name in ("a.own", "a.users", "a.o", "a.new"):
        (tree.at / name).write_text("x\n")
    assert [line for line in patch_of(tree, tmp_path / "patch").splitlines() if line.startswith("+++")] == [
        "+++ b/a.new"
    ]


def test_eight_worktrees_from_a_remote_start_point_at_once(repo: Path, tmp_path: Path) -> None:
    """By as many processes, half of them of another batch: git alone fails at `.git/config` (facts of 2026-11)."""
    before = look(repo)
    base = commit(repo, "origin/main")
    places = [tmp_path / f"batch{number % 2}" / "trees" / f"item{number // 2}" for number in range(8)]
    words = [sys.executable, "-c", MAKE, str(repo), base, "worktree"]
    made = [subprocess.Popen([*words, str(at)]) for at in places]
    assert [each.wait() for each in made] == [0] * 8
    assert look(repo) == before
    assert {git(at, "status", "--short") + git(at, "rev-parse", "HEAD") for at in places} == {f"{base}\n"}
    assert not [*tmp_path.glob("batch*/trees/.*.rules.*")]
    for at in places:
        Tree(str(repo), base, "worktree", at).remove()
    assert look(repo) == before
    assert git(repo, "worktree", "list").count("\n") == 1


def test_files_without_permission_are_removed_all_the_same(repo: Path, tmp_path: Path) -> None:
    tree = make_tree(repo, "worktree", tmp_path / "a")
    (tree.at / "sub" / "file").chmod(0)
    (tree.at / "sub").chmod(0)
    tree.remove()
    assert not tree.at.exists()


def test_an_agent_cannot_have_another_worktree_removed(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "--quiet", "--detach", str(tmp_path / "own"))
    tree = make_tree(repo, "worktree", tmp_path / "a")
    records = repo / ".git" / "worktrees"
    (records / "own" / "gitdir").write_text(f"{tree.at}/.git\n")
    (records / "a" / "gitdir").write_text("/nowhere\n")
    tree.remove()
    assert [each.name for each in records.iterdir()] == ["own"]


# What a commit lacks.


@pytest.mark.promise("batch")
@pytest.mark.sample(1)
@KINDS
def test_files_of_the_checkout_are_copied_and_share_nothing(repo: Path, tmp_path: Path, kind: Kind) -> None:
    (repo / "modules" / "deep").mkdir(parents=True)
    (repo / "modules" / "deep" / "file.o").write_text("x\n")
    (repo / "modules" / "link").symlink_to("deep")
    (repo / "modules" / "out").symlink_to("/etc/passwd")
    os.mkfifo(repo / "modules" / "pipe")  # of a process that runs here
    (repo / "new").mkdir()
    (repo / "new" / "tool").write_text("#!/bin/sh\n")
    (repo / "new" / "tool").chmod(0o755)
    tree = Tree(str(repo), commit(repo), kind, tmp_path / "a")
    tree.make(lambda: tree.copy(["./modules/", "new/tool"]))
    assert (tree.at / "modules" / "link").readlink() == Path("deep")
    assert (tree.at / "modules" / "out").is_symlink()
    assert os.access(tree.at / "new" / "tool", os.X_OK)
    assert not (tree.at / "modules" / "pipe").exists()
    for name in ("modules/deep/file.o", "new/tool"):
        assert (tree.at / name).stat().st_nlink == (repo / name).stat().st_nlink == 1
    assert patch_of(tree, tmp_path / "patch") == ""
    (tree.at / "new" / "tool").write_text("changed\n")
    assert "-#!/bin/sh\n+changed\n" in patch_of(tree, tmp_path / "patch")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("text", "the commit has text, so it is not copied"),
        ("away/file", "leads out of"),
        ("here", "leads out of"),
        ("inner/x", "the commit has inner/x, so it is not copied"),
        (".acp-launch", "/.acp-launch holds "),
        ("none", "has no none"),
        ("pipe", "cannot copy "),
    ],
)
def test_what_cannot_be_copied_is_named(repo: Path, tmp_path: Path, name: str, why: str) -> None:
    """The commit's own link does not lead a copy to another place."""
    (repo / "inner").symlink_to(tmp_path)
    base = save(repo)
    (repo / "inner").unlink()
    (repo / "inner").mkdir()
    (repo / "inner" / "x").write_text("x")
    (repo / "away").symlink_to(tmp_path)
    (tmp_path / "file").write_text("x")
    (repo / "here").symlink_to("../file")
    os.mkfifo(repo / "pipe")
    tree = Tree(str(repo), base, "worktree", repo / ".acp-launch" / "batches" / "a")
    with pytest.raises(StateError) as failure:
        tree.make(lambda: tree.copy([name]))
    assert why in failure.value.message
    assert not (tmp_path / "x").exists()
    assert not tree.is_made


def test_changes_of_a_setup_are_in_no_patch(with_modules: Path, tmp_path: Path) -> None:
    """Submodules that it made are there, and what the agent changes in them is in the patch."""
    (with_modules / ".gitattributes").write_text("sub/file text\n")
    tree = Tree(str(with_modules), save(with_modules), "worktree", tmp_path / "a")

    def set_up() -> None:
        (tree.at / ".gitattributes").write_text("* -text\n")
        (tree.at / "sub" / "file").write_bytes(b"one\r\ntwo\n")  # no rule of the commit gives that back
        git(tree.at, *LOCAL, "submodule", "--quiet", "update", "--init", "absent")
        for name in ("text", "module/file", "absent/new"):
            (tree.at / name).write_text("by the setup\n")
        (tree.at / "gone").unlink()

    tree.make(set_up)
    assert patch_of(tree, tmp_path / "patch") == ""
    for name in ("text", "module/file", "absent/new", "absent/file"):
        (tree.at / name).write_text("by the agent\n")
    patch = tree.write_patch(tmp_path / "patch")
    assert (patch.files, patch.insertions, patch.deletions) == (4, 4, 4)
    assert "-by the setup\n+by the agent" in (tmp_path / "patch").read_text()


def test_a_setup_that_breaks_the_tree_is_named(repo: Path, tmp_path: Path) -> None:
    tree = Tree(str(repo), commit(repo), "clone", tmp_path / "a")
    with pytest.raises(StateError, match=rf"{tree.at}/.git is a link"):
        tree.make(lambda: move_git(tree.at))
    tree = Tree(str(repo), commit(repo), "clone", tmp_path / "b")
    with pytest.raises(StateError, match=rf"{tree.at}/.git cannot be used: No such file"):
        tree.make(lambda: remove_git(tree.at))
    assert not tree.is_made


def test_rules_without_end_are_refused(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "MAX_RULES_BYTES", 1000)
    (repo / ".gitignore").write_text("x\n" * 1000)
    base = save(repo)
    with pytest.raises(StateError, match=r"/a/.gitignore is larger than 1000 bytes"):
        make_tree(repo, "worktree", tmp_path / "a", base)


# Checkouts that hold a part of their repository.


@KINDS
def test_a_tree_of_a_sparse_checkout_has_the_same_part_and_a_patch(repo: Path, tmp_path: Path, kind: Kind) -> None:
    """A clone is whole, as ever."""
    git(repo, "sparse-checkout", "set", "--no-cone", "/text", "/gone")
    tree = make_tree(repo, kind, tmp_path / "a")
    part = {"text", "gone"} if kind == "worktree" else {"sub", "old"}
    assert part <= set(content(tree.at)) | {"sub"}
    assert ("old" in content(tree.at)) == (kind == "clone")
    assert git(tree.at, "status", "--short") == ""
    assert patch_of(tree, tmp_path / "patch") == ""
    (tree.at / "text").write_text("third\n")
    (tree.at / "gone").unlink()
    (tree.at / "sub").mkdir(exist_ok=True)
    (tree.at / "sub" / "file").write_text("outside\n")
    (tree.at / "sub" / "new").write_text("outside\n")
    patch = patch_of(tree, tmp_path / "patch")
    assert sorted(line for line in patch.splitlines() if line.startswith("diff")) == [
        f"diff --git a/{name} b/{name}" for name in ("gone", "sub/file", "sub/new", "text")
    ]
    other = make_tree(repo, "clone", tmp_path / "b")
    git(other.at, "apply", "--index", str(tmp_path / "patch"))
    assert (other.at / "sub" / "file").read_text() == "outside\n"


@KINDS
def test_a_shallow_clone_has_trees_and_patches(repo: Path, tmp_path: Path, kind: Kind) -> None:
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repo}", "shallow")
    tree = make_tree(tmp_path / "shallow", kind, tmp_path / "a")
    (tree.at / "text").write_text("third\n")
    assert "-second\n+third\n" in patch_of(tree, tmp_path / "patch")


@pytest.fixture
def partial(repo: Path, tmp_path: Path) -> Path:
    """A clone that has no files of other commits than its own."""
    git(repo, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", f"file://{repo}", "partial")
    return tmp_path / "partial"


def test_a_worktree_of_a_partial_clone_gets_what_is_missing(partial: Path, tmp_path: Path) -> None:
    tree = make_tree(partial, "worktree", tmp_path / "a", commit(partial, "HEAD~1"))
    assert (tree.at / "text").read_text() == "one\ntwo\nthree\n" * 5
    assert patch_of(tree, tmp_path / "patch") == ""
    (tree.at / "text").write_text("third\n")
    (tree.at / "gone").unlink()
    assert tree.write_patch(tmp_path / "patch").files == 2


def test_a_clone_of_a_partial_clone_is_refused(partial: Path, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="is a partial clone") as failure:
        make_tree(partial, "clone", tmp_path / "a")
    assert failure.value.fix == "write isolation: {kind: worktree}, or use its URL"


# Submodules.


@cache
def made_modules(base: Path) -> Path:
    """A checkout with a submodule that has one itself, and one that is not there."""
    place = base / "modules"
    repo = copy_repository(made_repository(base), place)
    for name in ("inner", "outer"):
        git(place, "init", "--quiet", name)
        (place / name / "file").write_text(f"of {name}\n")
        save(place / name)
    git(place / "outer", *LOCAL, "submodule", "--quiet", "add", str(place / "inner"), "deep/inner")
    save(place / "outer")
    for name in ("module", "absent"):
        git(repo, *LOCAL, "submodule", "--quiet", "add", str(place / "outer"), name)
    git(repo, *LOCAL, "submodule", "--quiet", "update", "--init", "--recursive", "module")
    save(repo)
    git(repo, "submodule", "--quiet", "deinit", "--force", "absent")
    return place


@pytest.fixture
def with_modules(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_repository(made_modules(tmp_path_factory.getbasetemp()), tmp_path)


@KINDS
def test_submodules_are_there_as_the_checkout_has_them_and_work_in_them_is_in_the_patch(
    with_modules: Path, tmp_path: Path, kind: Kind
) -> None:
    tree = make_tree(with_modules, kind, tmp_path / "a")
    assert (tree.at / "module" / "deep" / "inner" / "file").read_text() == "of inner\n"
    assert list((tree.at / "absent").iterdir()) == []
    assert git(tree.at, "status", "--short") == ""
    assert patch_of(tree, tmp_path / "patch") == ""
    (tree.at / "module" / "file").write_text("changed\n")
    git(tree.at / "module", "commit", "--quiet", "--all", "--message=agent")
    (tree.at / "module" / "deep" / "inner" / "file").unlink()
    (tree.at / "module" / "deep" / "inner" / "new").write_bytes(b"\0new")
    (tree.at / "text").write_text("third\n")
    assert tree.write_patch(tmp_path / "patch").files == 4
    other = make_tree(with_modules, kind, tmp_path / "b")
    git(other.at, "apply", str(tmp_path / "patch"))
    assert content(other.at) == content(tree.at)
    files = [each for each in tree.at.rglob("*") if each.is_file() and not each.is_symlink()]
    assert {each.stat().st_nlink for each in files} == {1}
    tree.remove()
    assert patch_of(other, tmp_path / "again") == (tmp_path / "patch").read_bytes().decode()


def test_a_submodule_that_the_agent_made_itself_stops_a_patch(with_modules: Path, tmp_path: Path) -> None:
    tree = make_tree(with_modules, "worktree", tmp_path / "a")
    git(tree.at, *LOCAL, "submodule", "--quiet", "update", "--init", "absent")
    with pytest.raises(StateError, match=r"would leave out absent: .* a submodule that your checkout does not have"):
        tree.write_patch(tmp_path / "patch")


@pytest.mark.parametrize("spoil", [remove_git, shutil.rmtree], ids=lambda each: each.__name__)
def test_a_submodule_that_the_agent_removed_stops_a_patch(
    with_modules: Path, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    tree = make_tree(with_modules, "worktree", tmp_path / "a")
    spoil(tree.at / "module")
    with pytest.raises(StateError, match=rf"{tree.at}/module/.git cannot be used"):
        tree.write_patch(tmp_path / "patch")


def test_a_submodule_without_its_commit_is_named_with_its_fix(with_modules: Path, tmp_path: Path) -> None:
    base = commit(with_modules)
    moved = save(tmp_path / "outer")
    git(with_modules, "update-index", "--cacheinfo", f"160000,{moved},module")
    git(with_modules, "commit", "--quiet", "--message=moved")
    with pytest.raises(StateError, match="cannot make the submodule module: git fetch in ") as failure:
        make_tree(with_modules, "worktree", tmp_path / "a")
    assert failure.value.fix == f"git -C {with_modules} submodule update --init module"
    assert make_tree(with_modules, "worktree", tmp_path / "b", base).at.exists()


def test_a_program_of_a_submodules_configuration_does_not_run(with_modules: Path, tmp_path: Path) -> None:
    tree = make_tree(with_modules, "clone", tmp_path / "a")
    git(tree.at / "module", "config", "core.fsmonitor", f"touch {tmp_path}/ran;:")
    git(tree.at / "module", "config", "filter.own.clean", f"touch {tmp_path}/ran;cat")
    (tree.at / "module" / ".gitattributes").write_text("* filter=own\n")
    (tree.at / "module" / "file").write_text("changed\n")
    assert tree.write_patch(tmp_path / "patch").files == 2
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("kind", "where"), [("worktree", ""), ("clone", "/sub")])
def test_what_an_agent_mounted_in_a_tree_is_not_removed_with_it(
    repo: Path, tmp_path: Path, kind: Kind, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is mounted here: the system's list says so."""
    tree = make_tree(repo, kind, tmp_path / "a tree")
    point, mounts = f"{tree.at}{where}", tmp_path / "mountinfo"
    shown = point.replace(" ", "\\040")
    mounts.write_text(f"24 1 8:1 / / rw - ext4 /dev/vda rw\n25 24 8:1 /home {shown} rw shared:1 - ext4 /dev/vda rw\n")
    monkeypatch.setattr(worktree, "MOUNTS", mounts)
    before = sorted(tree.at.rglob("*"))
    with pytest.raises(StateError, match=f"cannot remove {tree.at}: something is mounted on {point}") as failure:
        tree.remove()
    assert failure.value.fix == f"umount '{point}'"
    assert sorted(tree.at.rglob("*")) == before and tree.is_made
    mounts.write_text("25 24 8:1 /home " + f"{tree.at}-other".replace(" ", "\\040") + " rw - ext4 /dev/vda rw\n")
    tree.remove()
    assert not tree.at.exists()
