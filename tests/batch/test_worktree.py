"""Directories for attempts, made by real git in repositories of these tests, and their patches."""

import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_launch.batch import worktree
from acp_launch.batch.model import Patch
from acp_launch.batch.worktree import Kind, Tree, resolve_commit
from acp_launch.errors import StateError
from tests.patience import PATIENCE

NAMES = {f"GIT_{role}_{what}": "t@t" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
KINDS = pytest.mark.parametrize("kind", ["worktree", "clone"])


def git(cwd: Path, *words: str) -> str:
    env = {**os.environ, **NAMES}
    return subprocess.run(["git", *words], cwd=cwd, env=env, check=True, capture_output=True, text=True).stdout


def make_tree(repo: str, base: str, kind: Kind, at: Path) -> Path:
    return Tree(repo, base, kind, at).make()


def write_patch(tree: Path, base: str, file: Path) -> Patch:
    return Tree("", base, "worktree", tree).write_patch(file)


def remove_tree(repo: str, tree: Path) -> None:
    Tree(repo, "", "clone" if (tree / ".git").is_dir() else "worktree", tree).remove()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A clone with a remote, so that `origin/main` is a start point; `origin/main` is one commit before `main`."""
    origin, repo = tmp_path / "origin", tmp_path / "repo"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "origin")
    (origin / "text").write_text("one\ntwo\nthree\n" * 5)
    (origin / "old").write_text("to be renamed\n" * 20)
    (origin / "gone").write_text("to be deleted\n")
    (origin / "picture").write_bytes(bytes(range(256)))
    (origin / "script").write_text("#!/bin/sh\n")
    (origin / "link").symlink_to("text")
    (origin / ".gitignore").write_text("*.o\n")
    (origin / "sub").mkdir()
    (origin / "sub" / "file").write_text("in sub\n")
    git(origin, "add", "--all")
    git(origin, "commit", "--quiet", "--message=first")
    git(origin, "tag", "--annotate", "v1", "--message=v1")
    git(tmp_path, "clone", "--quiet", "origin", "repo")
    (repo / "text").write_text("second\n")
    git(repo, "commit", "--quiet", "--all", "--message=second")
    return repo


def look(repo: Path) -> tuple[object, ...]:
    """All that a user sees of a checkout."""
    files = {each.name: each.lstat().st_mtime_ns for each in repo.iterdir() if each.name != ".git"}
    config = (repo / ".git" / "config").read_text()
    return files, config, *(git(repo, *words) for words in (["status", "--short"], ["branch", "--all", "--verbose"]))


def commit(repo: Path, ref: str = "HEAD") -> str:
    found = resolve_commit(str(repo), ref)
    assert found is not None
    return found


# Commits.


@pytest.mark.parametrize("ref", ["HEAD", "main", "origin/main", "v1", "HEAD~1", "refs/tags/v1"])
def test_a_commit_is_named_as_git_names_it(repo: Path, ref: str) -> None:
    assert resolve_commit(str(repo), ref) == git(repo, "rev-parse", f"{ref}^{{commit}}").strip()
    assert resolve_commit(str(repo / "sub"), ref) == commit(repo, ref)


@pytest.mark.parametrize("ref", ["nope", "", "--all", "-h", "HEAD:text"])
def test_another_name_is_not_a_commit(repo: Path, ref: str) -> None:
    assert resolve_commit(str(repo), ref) is None


def test_a_directory_outside_every_repository_has_no_commit(tmp_path: Path) -> None:
    assert resolve_commit(str(tmp_path), "HEAD") is None


@pytest.mark.parametrize("ref", ["HEAD", "main", "origin/main", "v1", "refs/heads/main"])
def test_a_server_is_asked_for_the_commit_of_a_url(repo: Path, ref: str) -> None:
    assert resolve_commit(f"file://{repo}", "second") is None
    where = repo.with_name("origin")
    assert resolve_commit(f"file://{where}", ref) == git(where, "rev-parse", "v1^{commit}").strip()
    assert resolve_commit(f"file://{where}", "0" * 40) == "0" * 40


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
    monkeypatch.setattr(worktree, "QUICK", 0.1)
    with pytest.raises(StateError, match=r"git rev-parse in .* did not end within 0\.1 s"):
        resolve_commit(str(repo), "HEAD")


def test_variables_of_the_caller_lead_git_nowhere_else(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a hook of the repository, which git runs with these."""
    git(tmp_path, "init", "--quiet", "other")
    for name, value in (("GIT_DIR", "other/.git"), ("GIT_INDEX_FILE", "other/i"), ("GIT_WORK_TREE", "other")):
        monkeypatch.setenv(name, str(tmp_path / value))
    base = commit(repo)
    tree = make_tree(str(repo), base, "worktree", tmp_path / "trees" / "a")
    assert (tree / "text").read_text() == "second\n"
    assert write_patch(tree, base, tmp_path / "patch").files == 0


# Trees.


@KINDS
def test_a_tree_is_detached_at_its_commit_and_the_checkout_stays_as_it_is(
    repo: Path, tmp_path: Path, kind: Kind
) -> None:
    before = look(repo)
    base = commit(repo, "origin/main")
    tree = make_tree(str(repo), base, kind, tmp_path / "trees" / "a.b")
    assert tree == tmp_path / "trees" / "a.b"
    assert git(tree, "rev-parse", "HEAD").strip() == base
    assert git(tree, "status", "--short", "--branch") == "## HEAD (no branch)\n"
    remove_tree(str(repo), tree)
    assert look(repo) == before
    assert git(repo, "worktree", "list").count("\n") == 1
    assert not tree.exists()


def test_a_url_is_cloned(repo: Path, tmp_path: Path) -> None:
    url = f"file://{repo}"
    tree = make_tree(url, commit(repo), "clone", tmp_path / "a")
    assert (tree / "text").read_text() == "second\n"
    remove_tree(url, tree)
    assert not tree.exists()


def test_a_clone_has_commits_that_no_branch_of_its_source_has(repo: Path, tmp_path: Path) -> None:
    git(repo, "checkout", "--quiet", "--detach")
    git(repo, "commit", "--quiet", "--allow-empty", "--message=nowhere")
    base = commit(repo)
    git(repo, "checkout", "--quiet", "main")
    for place in (str(repo), f"file://{repo}"):
        tree = make_tree(place, base, "clone", tmp_path / f"{len(place)}")
        assert git(tree, "rev-parse", "HEAD").strip() == base


@KINDS
def test_a_subdirectory_is_itself_in_the_tree(repo: Path, tmp_path: Path, kind: Kind) -> None:
    base = commit(repo)
    assert make_tree(str(repo / "sub"), base, kind, tmp_path / "a") == tmp_path / "a" / "sub"
    (repo / "new").mkdir()
    with pytest.raises(StateError, match=r"repo/new is not in the commit"):
        make_tree(str(repo / "new"), base, kind, tmp_path / "b")


@KINDS
def test_the_next_attempt_works_in_the_same_tree(repo: Path, tmp_path: Path, kind: Kind) -> None:
    tree = make_tree(str(repo), commit(repo), kind, tmp_path / "a")
    (tree / "half").write_text("done")
    assert (make_tree(str(repo), commit(repo), kind, tmp_path / "a") / "half").read_text() == "done"
    remove_tree(str(repo), tree)
    assert not (make_tree(str(repo), commit(repo), kind, tmp_path / "a") / "half").exists()


@KINDS
def test_a_tree_that_a_killed_process_left_half_made_is_made_again(
    repo: Path, tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The filter that git runs for a file kills us and git, in the middle of writing the files."""
    base = commit(repo)
    program = tmp_path / "kill.sh"
    program.write_text('#!/bin/sh\nkill -9 "$VICTIM" "$PPID"\n')
    program.chmod(0o700)
    config = tmp_path / "config"
    config.write_text(f'[filter "kill"]\n\tsmudge = {program}\n')
    (repo / ".git" / "info" / "attributes").write_text("text filter=kill\n")
    (tmp_path / "home.attributes").write_text("text filter=kill\n")
    config.write_text(config.read_text() + f"[core]\n\tattributesFile = {tmp_path}/home.attributes\n")
    code = (
        "import os, sys; from pathlib import Path; from acp_launch.batch.worktree import Tree\n"
        "os.environ['VICTIM'] = str(os.getpid()); Tree(*sys.argv[1:4], Path(sys.argv[4])).make()"
    )
    words = [sys.executable, "-c", code, str(repo), base, kind, str(tmp_path / "a")]
    env = {**os.environ, "GIT_CONFIG_GLOBAL": str(config)}
    assert subprocess.run(words, env=env, check=False).returncode == -9
    (repo / ".git" / "info" / "attributes").unlink()
    tree = make_tree(str(repo), base, kind, tmp_path / "a")  # the outer git may be removing it at this moment
    assert git(tree, "status", "--short") == ""
    assert git(repo, "worktree", "list").count("\n") == (2 if kind == "worktree" else 1)


def test_a_git_that_outlives_us_holds_the_lock(repo: Path, tmp_path: Path) -> None:
    """Else the next attempt would make a tree in which the old git still writes."""
    fifo, program = tmp_path / "fifo", tmp_path / "wait.sh"
    os.mkfifo(fifo)
    program.write_text(f"#!/bin/sh\nkill -9 $VICTIM; read word < {fifo}; cat\n")
    program.chmod(0o700)
    config = tmp_path / "config"
    config.write_text(f'[filter "wait"]\n\tsmudge = {program}\n')
    (repo / ".git" / "info" / "attributes").write_text("text filter=wait\n")
    code = (
        "import os, sys; from pathlib import Path; from acp_launch.batch.worktree import Tree\n"
        "os.environ['VICTIM'] = str(os.getpid()); Tree(*sys.argv[1:4], Path(sys.argv[4])).make()"
    )
    words = [sys.executable, "-c", code, str(repo), commit(repo), "worktree", str(tmp_path / "a")]
    env = {**os.environ, "GIT_CONFIG_GLOBAL": str(config)}
    assert subprocess.run(words, env=env, check=False).returncode == -9
    from acp_launch.private import locked

    with pytest.raises(TimeoutError), locked(repo / ".git" / worktree.LOCK, 0.1):
        pass
    with fifo.open("w") as end:
        end.write("go\n")
    with locked(repo / ".git" / worktree.LOCK, PATIENCE):
        pass


def test_a_tree_whose_git_is_broken_is_named_and_stays(repo: Path, tmp_path: Path) -> None:
    base = commit(repo)
    tree = make_tree(str(repo), base, "worktree", repo / ".acp-launch" / "a")
    (tree / ".git").unlink()
    (tree / "work").write_text("of the agent")
    with pytest.raises(StateError, match=r"not a git repository") as failure:
        make_tree(str(repo), base, "worktree", tree)
    assert failure.value.fix == f"move {tree} away, so that it is made again"
    with pytest.raises(StateError, match=r"not a git repository"):
        write_patch(tree, base, tmp_path / "patch")
    assert (tree / "work").exists()
    assert not (tmp_path / "patch").exists()
    remove_tree(str(repo), tree)
    assert git(repo, "worktree", "list").count("\n") == 1


def test_a_tree_that_the_agent_deleted_is_made_again(repo: Path, tmp_path: Path) -> None:
    base = commit(repo)
    tree = make_tree(str(repo), base, "worktree", tmp_path / "a")
    tree.rename(tmp_path / "elsewhere")
    with pytest.raises(StateError, match=rf"cannot start git in {tree}: {tree}: No such file"):
        write_patch(tree, base, tmp_path / "patch")
    assert (make_tree(str(repo), base, "worktree", tree) / "text").exists()


def test_hooks_of_the_repository_do_not_run(repo: Path, tmp_path: Path) -> None:
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        hook = repo / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        hook.chmod(0o700)
    tree = make_tree(str(repo), commit(repo), "worktree", tmp_path / "a")
    write_patch(tree, commit(repo), tmp_path / "patch")
    remove_tree(str(repo), tree)
    assert not (tmp_path / "ran").exists()


def test_forty_worktrees_from_a_remote_start_point_at_once(repo: Path, tmp_path: Path) -> None:
    """By as many processes, half of them of another batch: git alone fails at `.git/config` (facts of 2026-11)."""
    before = look(repo)
    base = commit(repo, "origin/main")
    code = (
        "import sys; from pathlib import Path; from acp_launch.batch.worktree import Tree\n"
        "Tree(sys.argv[1], sys.argv[2], 'worktree', Path(sys.argv[3])).make()"
    )
    trees = [tmp_path / f"batch{number % 2}" / "trees" / f"item{number // 2}" for number in range(40)]
    made = [subprocess.Popen([sys.executable, "-c", code, str(repo), base, str(tree)]) for tree in trees]
    assert [each.wait() for each in made] == [0] * 40
    assert look(repo) == before
    assert {git(tree, "status", "--short") + git(tree, "rev-parse", "HEAD") for tree in trees} == {f"{base}\n"}
    for tree in trees:
        remove_tree(str(repo), tree)
    assert look(repo) == before
    assert git(repo, "worktree", "list").count("\n") == 1


def test_files_without_permission_are_removed_all_the_same(repo: Path, tmp_path: Path) -> None:
    tree = make_tree(str(repo), commit(repo), "worktree", tmp_path / "a")
    (tree / "sub" / "file").chmod(0)
    (tree / "sub").chmod(0)
    remove_tree(str(repo), tree)
    assert not tree.exists()


# Patches.


def change(tree: Path) -> None:
    """Do all that an agent may do, some of it committed, some of it staged."""
    (tree / "committed").write_text("by the agent\n")
    git(tree, "add", "committed")
    git(tree, "commit", "--quiet", "--message=agent")
    (tree / "old").rename(tree / "new name")
    (tree / "gone").unlink()
    git(tree, "add", "--all")
    (tree / "picture").write_bytes(bytes(reversed(range(256))) + b"\0\1")
    (tree / "text").write_bytes(b"windows\r\nno end")
    (tree / "script").chmod(0o755)
    (tree / "link").unlink()
    (tree / "link").symlink_to("script")
    (tree / "empty").touch()
    (tree / "täglich").write_text("ä\n")
    (tree / "ignored.o").write_text("not in the patch")
    (tree / "deep" / "er").mkdir(parents=True)
    (tree / "deep" / "er" / "binary").write_bytes(os.urandom(5000))


def content(tree: Path) -> dict[str, tuple[str, object]]:
    """All files of a tree but git's and the ignored ones."""
    found: dict[str, tuple[str, object]] = {}
    for each in tree.rglob("*"):
        name = str(each.relative_to(tree))
        if each.is_symlink():
            found[name] = ("link", each.readlink())
        elif each.is_file() and name != ".git" and not name.startswith(".git/") and not name.endswith(".o"):
            found[name] = (oct(stat.S_IMODE(each.stat().st_mode) & 0o100), each.read_bytes())
    return found


@KINDS
@pytest.mark.parametrize("setting", ["core.autocrlf=input", "diff.noprefix=true", "color.ui=always"])
def test_a_patch_gives_all_that_the_agent_changed(repo: Path, tmp_path: Path, kind: Kind, setting: str) -> None:
    git(repo, "config", "--global", *setting.split("="))
    base = commit(repo)
    tree = make_tree(str(repo), base, kind, tmp_path / "a")
    change(tree)
    patch = write_patch(tree, base, tmp_path / "patch.diff")
    text = (tmp_path / "patch.diff").read_bytes()
    assert patch == Patch(files=10, insertions=5, deletions=3, sha256=hashlib.sha256(text).hexdigest())
    assert stat.S_IMODE((tmp_path / "patch.diff").stat().st_mode) == 0o600
    other = make_tree(str(repo), base, "worktree", tmp_path / "b")
    git(other, "apply", "--index", str(tmp_path / "patch.diff"))
    assert content(other) == content(tree)
    assert git(other, "diff", "--name-only") == ""


@KINDS
def test_a_patch_leaves_index_objects_and_files_as_they_are(repo: Path, tmp_path: Path, kind: Kind) -> None:
    base = commit(repo)
    tree = make_tree(str(repo), base, kind, tmp_path / "a")
    change(tree)
    index = Path(git(tree, "rev-parse", "--path-format=absolute", "--git-path", "index").strip())
    before = git(tree, "status", "--short"), index.read_bytes(), git(tree, "count-objects", "--verbose")
    (tmp_path / "attempt").mkdir()
    write_patch(tree, base, tmp_path / "attempt" / "patch.diff")
    assert [each.name for each in (tmp_path / "attempt").iterdir()] == ["patch.diff"]
    assert (index.read_bytes(), git(tree, "count-objects", "--verbose")) == before[1:]
    assert git(tree, "status", "--short") == before[0]


def test_an_ignored_file_that_the_agent_added_by_force_is_in_the_patch(repo: Path, tmp_path: Path) -> None:
    base = commit(repo)
    tree = make_tree(str(repo), base, "worktree", tmp_path / "a")
    (tree / "wanted.o").write_text("x\n")
    git(tree, "add", "--force", "wanted.o")
    git(tree, "commit", "--quiet", "--message=agent")
    assert write_patch(tree, base, tmp_path / "patch") == Patch(
        files=1, insertions=1, deletions=0, sha256=hashlib.sha256((tmp_path / "patch").read_bytes()).hexdigest()
    )


def test_a_tree_without_changes_has_an_empty_patch(repo: Path, tmp_path: Path) -> None:
    base = commit(repo)
    tree = make_tree(str(repo), base, "worktree", tmp_path / "a")
    patch = write_patch(tree, base, tmp_path / "patch")
    assert (patch.files, patch.insertions, patch.deletions) == (0, 0, 0)
    assert (tmp_path / "patch").read_bytes() == b""


def test_each_attempt_has_a_patch_against_the_base(repo: Path, tmp_path: Path) -> None:
    base = commit(repo)
    tree = make_tree(str(repo), base, "worktree", tmp_path / "a")
    for number in (1, 2):
        (tree / f"file{number}").write_text("x\n")
        git(tree, "add", "--all")
        git(tree, "commit", "--quiet", "--message=agent")
        assert write_patch(tree, base, tmp_path / "patch").files == number


def test_a_tree_in_the_middle_of_a_merge_has_a_patch(repo: Path, tmp_path: Path) -> None:
    base = commit(repo, "origin/main")
    tree = make_tree(str(repo), base, "worktree", tmp_path / "a")
    (tree / "text").write_text("conflict\n")
    git(tree, "commit", "--quiet", "--all", "--message=agent")
    with pytest.raises(subprocess.CalledProcessError):
        git(tree, "merge", "main")
    assert write_patch(tree, base, tmp_path / "patch").files == 1
    assert "<<<<<<<" in (tmp_path / "patch").read_text()


def unreadable_file(tree: Path) -> None:
    (tree / "secret").write_text("x")
    (tree / "secret").chmod(0)


def unreadable_directory(tree: Path) -> None:
    (tree / "shut").mkdir()
    (tree / "shut" / "work").write_text("x")
    (tree / "shut").chmod(0)


def own_repository(tree: Path) -> None:
    git(tree, "init", "--quiet", "vendor")
    git(tree / "vendor", "commit", "--quiet", "--allow-empty", "--message=x")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (unreadable_file, "secret"),
        (unreadable_directory, "could not open directory 'shut/'"),
        (own_repository, "would leave out vendor: a git repository of its own"),
        (lambda tree: (tree / ".git").write_text("gitdir: /nowhere"), "not a git repository"),
    ],
)
def test_a_patch_that_would_leave_something_out_is_not_made(
    repo: Path, tmp_path: Path, spoil: Callable[[Path], object], words: str
) -> None:
    """An error tells the caller to keep the tree."""
    if os.geteuid() == 0 and spoil in (unreadable_file, unreadable_directory):
        pytest.skip("root reads everything")
    base = commit(repo)
    tree = make_tree(str(repo), base, "worktree", tmp_path / "a")
    spoil(tree)
    with pytest.raises(StateError) as failure:
        write_patch(tree, base, tmp_path / "patch")
    assert words in failure.value.message
    assert str(tree) in failure.value.message
    assert not (tmp_path / "patch").exists()
    assert tree.exists()
    remove_tree(str(repo), tree)
    assert not tree.exists()


def test_changes_within_a_submodule_stop_a_patch(repo: Path, tmp_path: Path) -> None:
    """A submodule is not checked out; an agent may do that. What it changes there is in no patch of ours."""
    allow = "-c", "protocol.file.allow=always"
    git(repo, *allow, "submodule", "--quiet", "add", str(repo.with_name("origin")), "module")
    git(repo, "commit", "--quiet", "--message=module")
    base = commit(repo)
    tree = make_tree(str(repo), base, "worktree", tmp_path / "a")
    assert list((tree / "module").iterdir()) == []
    assert write_patch(tree, base, tmp_path / "patch").files == 0
    git(tree, *allow, "submodule", "--quiet", "update", "--init")
    assert write_patch(tree, base, tmp_path / "patch").files == 0
    (tree / "module" / "text").write_text("changed\n")
    with pytest.raises(StateError, match=r"would leave out module: .* within a submodule"):
        write_patch(tree, base, tmp_path / "patch")
    git(tree / "module", "commit", "--quiet", "--all", "--message=agent")
    with pytest.raises(StateError, match=r"would leave out module: .* a submodule that moved"):
        write_patch(tree, base, tmp_path / "patch")
    remove_tree(str(repo), tree)


def test_a_full_or_missing_directory_for_the_patch_is_named(repo: Path, tmp_path: Path) -> None:
    tree = make_tree(str(repo), commit(repo), "worktree", tmp_path / "a")
    with pytest.raises(StateError, match=rf"cannot make a patch of {tree}: .*nowhere.*: No such file"):
        write_patch(tree, commit(repo), tmp_path / "nowhere" / "patch")
