"""Patches of trees by real git: whatever an agent wrote or told git, they hold its work, and run nothing of it."""

import hashlib
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_launch.batch import baseline
from acp_launch.batch.baseline import CACHE_SIGNATURE
from acp_launch.batch.model import Patch
from acp_launch.batch.worktree import Kind
from acp_launch.errors import StateError
from acp_launch.process import git as calls
from tests.batch.repositories import commit, content, git, make_tree, patch_of, save

Act = Callable[[Path], object]


def named(value: object) -> str:
    return getattr(value, "__name__", str(value))


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


@pytest.mark.parametrize(
    ("kind", "setting"),
    [("worktree", "core.autocrlf=input"), ("clone", "diff.noprefix=true"), ("worktree", "color.ui=always")],
)
def test_a_patch_gives_all_that_the_agent_changed(repo: Path, tmp_path: Path, kind: Kind, setting: str) -> None:
    git(repo, "config", "--global", *setting.split("="))
    tree = make_tree(repo, kind, tmp_path / "a")
    change(tree.at)
    patch = tree.write_patch(tmp_path / "patch.diff")
    text = (tmp_path / "patch.diff").read_bytes()
    assert patch == Patch(files=10, insertions=5, deletions=3, sha256=hashlib.sha256(text).hexdigest())
    assert stat.S_IMODE((tmp_path / "patch.diff").stat().st_mode) == 0o600
    other = make_tree(repo, "worktree", tmp_path / "b")
    git(other.at, "apply", "--index", str(tmp_path / "patch.diff"))
    assert content(other.at) == content(tree.at)
    assert git(other.at, "diff", "--name-only") == ""


def test_a_patch_leaves_index_objects_and_files_as_they_are(repo: Path, tmp_path: Path) -> None:
    tree = make_tree(repo, "worktree", tmp_path / "a")
    change(tree.at)
    index = Path(git(tree.at, "rev-parse", "--path-format=absolute", "--git-path", "index").strip())
    before = git(tree.at, "status", "--short"), index.read_bytes(), git(tree.at, "count-objects", "--verbose")
    (tmp_path / "attempt").mkdir()
    tree.write_patch(tmp_path / "attempt" / "patch.diff")
    assert [each.name for each in (tmp_path / "attempt").iterdir()] == ["patch.diff"]
    assert (index.read_bytes(), git(tree.at, "count-objects", "--verbose")) == before[1:]
    assert git(tree.at, "status", "--short") == before[0]


def test_a_tree_in_the_middle_of_a_merge_has_a_patch(repo: Path, tmp_path: Path) -> None:
    tree = make_tree(repo, "worktree", tmp_path / "a", commit(repo, "origin/main"))
    (tree.at / "text").write_text("conflict\n")
    save(tree.at, "agent")
    with pytest.raises(subprocess.CalledProcessError):
        git(tree.at, "merge", "main")
    assert tree.write_patch(tmp_path / "patch").files == 1
    assert "<<<<<<<" in (tmp_path / "patch").read_text()


def test_a_patch_replaces_a_link_of_its_name(repo: Path, tmp_path: Path) -> None:
    tree = make_tree(repo, "worktree", tmp_path / "a")
    (tree.at / "new").touch()
    (tmp_path / "precious").write_text("x")
    (tmp_path / "patch").symlink_to("precious")
    tree.write_patch(tmp_path / "patch")
    assert not (tmp_path / "patch").is_symlink()
    assert (tmp_path / "precious").read_text() == "x"


def test_a_link_on_the_way_to_the_patch_is_not_followed_below_a_directory(repo: Path, tmp_path: Path) -> None:
    tree = make_tree(repo, "worktree", tmp_path / "a")
    (tmp_path / "batch").mkdir()
    (tmp_path / "batch" / "attempt").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(StateError, match="cannot make a patch of"):
        tree.write_patch(tmp_path / "batch" / "attempt" / "patch", tmp_path / "batch")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_full_or_missing_directory_for_the_patch_is_named(repo: Path, tmp_path: Path) -> None:
    tree = make_tree(repo, "worktree", tmp_path / "a")
    with pytest.raises(StateError, match=rf"cannot make a patch of {tree.at}: .*nowhere.*: No such file"):
        tree.write_patch(tmp_path / "nowhere" / "patch")


# What an agent tells git.


def flag(word: str) -> Act:
    return lambda tree: git(tree, "update-index", word, "text", "gone", "script")


def configure(tree: Path) -> None:
    """What does not count, line ends, and caches."""
    for setting in (
        *("core.fileMode=false", "core.symlinks=false", "core.ignoreCase=true"),
        *("core.trustctime=false", "core.checkStat=minimal", "core.ignoreStat=true"),
        *("core.untrackedCache=true", "core.fsmonitor=true", "feature.manyFiles=true"),
        *("core.autocrlf=true", "core.eol=crlf", "core.safecrlf=true"),
    ):
        git(tree, "config", *setting.split("=", 1))


def ignore_all(tree: Path) -> None:
    """By files, by `info/exclude` and by configuration."""
    exclude = Path(git(tree, "rev-parse", "--path-format=absolute", "--git-path", "info/exclude").strip())
    exclude.parent.mkdir(exist_ok=True)
    for file in (tree / ".gitignore", tree / "sub" / ".gitignore", exclude, tree.parent / "own"):
        file.write_text("*\n")
    git(tree, "config", "core.excludesFile", str(tree.parent / "own"))


def forget_a_file(tree: Path) -> None:
    git(tree, "update-index", "--force-remove", "sub/file")


def commit_nothing(tree: Path) -> None:
    git(tree, "checkout", "--quiet", "--orphan", "other")
    git(tree, "rm", "--quiet", "-r", "--cached", ".")
    git(tree, "commit", "--quiet", "--allow-empty", "--message=x")


def keep_the_index_apart(tree: Path) -> None:
    git(tree, "config", "core.splitIndex", "true")
    git(tree, "update-index", "--split-index", "--untracked-cache")
    (tree / "forced.o").write_text("x\n")
    git(tree, "add", "--force", "forced.o")
    (tree / "forced.o").unlink()


def write_attributes(text: str) -> Act:
    def act(tree: Path) -> None:
        info = Path(git(tree, "rev-parse", "--path-format=absolute", "--git-path", "info/attributes").strip())
        info.parent.mkdir(exist_ok=True)
        for file in (tree / ".gitattributes", tree / "sub" / ".gitattributes", info):
            file.write_text(text)

    return act


TOLD: dict[str, Act] = {
    "assume-unchanged": flag("--assume-unchanged"),
    "skip-worktree": flag("--skip-worktree"),
    "settings": configure,
    "ignored": ignore_all,
    "sparse checkout of all": lambda tree: git(tree, "sparse-checkout", "set", "--no-cone", "/*"),
    "index without files": forget_a_file,
    "replaced objects": lambda tree: git(tree, "replace", "HEAD:text", "HEAD:old"),
    "orphan": commit_nothing,
    "split index": keep_the_index_apart,
    "text": write_attributes("* text eol=crlf ident\n"),
    "encodings": write_attributes("* working-tree-encoding=UTF-16 text=auto\n"),
    "binary": write_attributes("[attr]binary text ident eol=crlf\n* binary -diff merge=ours\n"),
    "another worktree": lambda tree: git(tree, "config", "core.worktree", "/nowhere"),
}


def work(tree: Path) -> None:
    """Change each kind of file without a change of sizes."""
    for each in ("text", "gone", "script"):
        (tree / each).unlink(missing_ok=True)
    (tree / "text").write_bytes(b"3econd\n")
    (tree / "script").write_text("#!/bin/sH\n")
    (tree / "script").chmod(0o755)
    (tree / "link").unlink(missing_ok=True)
    (tree / "link").symlink_to("TEXT")
    (tree / "sub").mkdir(exist_ok=True)
    (tree / "sub" / "new").write_bytes(b"$Id: mine $\r\nTwo\n")
    (tree / "sub" / "File").write_text("$Id: mine $\n")
    (tree / "new.bin").write_bytes(b"\xff\xfe\0\1" * 5)


@pytest.mark.parametrize(
    ("told", "kind"), [*((told, "worktree") for told in TOLD), ("settings", "clone"), ("ignored", "clone")]
)
def test_a_patch_holds_the_work_whatever_the_agent_tells_git(repo: Path, tmp_path: Path, told: str, kind: Kind) -> None:
    tree = make_tree(repo, kind, tmp_path / "a")
    TOLD[told](tree.at)
    work(tree.at)
    tree.write_patch(tmp_path / "patch")
    git(tmp_path, "clone", "--quiet", str(repo.with_name("origin")), "other")
    (tmp_path / "other" / "text").write_text("second\n")
    assert content(tmp_path / "other") != content(tree.at)
    git(tmp_path / "other", "apply", str(tmp_path / "patch"))
    assert content(tmp_path / "other") == content(tree.at)


def test_a_change_of_the_same_size_and_time_is_in_the_patch(repo: Path, tmp_path: Path) -> None:
    """It is too near to the checkout for times in seconds, and the agent sets the time back."""
    tree = make_tree(repo, "worktree", tmp_path / "a")
    before = (tree.at / "text").stat()
    with (tree.at / "text").open("r+") as file:
        file.write("SECOND")
    os.utime(tree.at / "text", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "+SECOND" in patch_of(tree, tmp_path / "patch")


def test_files_and_directories_that_change_places_are_in_the_patch(repo: Path, tmp_path: Path) -> None:
    tree = make_tree(repo, "worktree", tmp_path / "a")
    (tree.at / "text").unlink()
    (tree.at / "text").mkdir()
    (tree.at / "text" / "inner").write_text("x\n")
    (tree.at / "sub").rename(tmp_path / "elsewhere")
    (tree.at / "sub").symlink_to(tmp_path / "elsewhere")
    tree.write_patch(tmp_path / "patch")
    other = make_tree(repo, "worktree", tmp_path / "b")
    git(other.at, "apply", "--index", str(tmp_path / "patch"))
    assert content(other.at) == content(tree.at)


def test_names_that_are_not_text_are_in_the_patch(repo: Path, tmp_path: Path) -> None:
    tree = make_tree(repo, "worktree", tmp_path / "a")
    for name in (b"\xff", b"a\nb", b'"q"', b" x ", b"-n", b":(glob)x"):
        Path(os.fsdecode(os.fsencode(tree.at) + b"/" + name)).write_text("x\n")
    assert tree.write_patch(tmp_path / "patch").files == 6
    other = make_tree(repo, "worktree", tmp_path / "b")
    git(other.at, "apply", "--index", str(tmp_path / "patch"))
    assert content(other.at) == content(tree.at)


# What is ignored.


def test_an_ignored_file_that_the_agent_added_by_force_is_in_the_patch(repo: Path, tmp_path: Path) -> None:
    tree = make_tree(repo, "worktree", tmp_path / "a")
    (tree.at / "wanted.o").write_text("x\n")
    git(tree.at, "add", "--force", "wanted.o")
    git(tree.at, "commit", "--quiet", "--message=agent")
    assert tree.write_patch(tmp_path / "patch").files == 1
    git(tree.at, "update-index", "--split-index")
    assert tree.write_patch(tmp_path / "patch").files == 1


def test_directories_of_caches_are_not_in_the_patch(repo: Path, tmp_path: Path) -> None:
    tree = make_tree(repo, "worktree", tmp_path / "a")
    for name, signature in (("cache", CACHE_SIGNATURE), ("work", b"Signature: none")):
        (tree.at / name / "v").mkdir(parents=True)
        (tree.at / name / "CACHEDIR.TAG").write_bytes(signature)
        (tree.at / name / "v" / "file").write_text("x\n")
        (tree.at / name / ".gitignore").write_text("*\n")
    (tree.at / "CACHEDIR.TAG").write_bytes(CACHE_SIGNATURE)
    git(tree.at, "init", "--quiet", "cache/v/source")
    patch = patch_of(tree, tmp_path / "patch")
    assert "work/v/file" in patch
    assert "b/cache" not in patch
    assert "b/CACHEDIR.TAG" in patch


RULES = {
    "": b"\xef\xbb\xbf*.o\r\n!keep.o\n/top\nbuild/\n# comment\n\\#hash\n\\!bang\na/**/z\ntrail \n*.tmp  \n",
    "sub": b"!*.o\n/top\nfoo/bar\n[ab].txt\nout\n",
    "sub/in[1]": b"*\n!*.py\n!.gitignore\n",
    "build": b"!*\n",
    "other": b"*\n!*/\n!x\n",
}
FILES = [
    *("x.o", "keep.o", "top", "#hash", "!bang", "trail", "x.tmp", "a/z", "a/b/c/z", "build/x", "deep/build/x"),
    *("sub/x.o", "sub/top", "sub/deep/top", "sub/foo/bar", "sub/deep/foo/bar", "sub/a.txt", "sub/deep/b.txt"),
    *(
        "sub/out/x",
        "sub/deep/out",
        "sub/in[1]/x.py",
        "sub/in[1]/x.c",
        "sub/in1/x.c",
        "sub/keep.o",
        "other/x",
        "other/y",
    ),
    *("other/deep/x", "other/deep/y"),
]


def test_the_commits_rules_ignore_what_git_ignores(repo: Path, tmp_path: Path) -> None:
    """As one file at the top they mean the same as in their directories."""
    for directory, rules in RULES.items():
        (repo / directory).mkdir(parents=True, exist_ok=True)
        (repo / directory / ".gitignore").write_bytes(rules)
    git(repo, "add", "--force", "--all")
    tree = make_tree(repo, "worktree", tmp_path / "a", save(repo))
    for name in FILES:
        (tree.at / name).parent.mkdir(parents=True, exist_ok=True)
        (tree.at / name).write_text("x\n")
    expected = git(tree.at, "ls-files", "--others", "--exclude-standard", "-z").split("\0")[:-1]
    assert 5 < len(expected) < len(FILES) - 5
    (tree.at / ".gitignore").write_text("*\n")
    patch = patch_of(tree, tmp_path / "patch")
    found = {line.removeprefix("+++ b/").rstrip("\t") for line in patch.splitlines() if line.startswith("+++ ")}
    assert found == {*expected, ".gitignore"}


ATTRIBUTES = {
    "": b'*.bat text eol=crlf\n*.bin binary\n"with space" text eol=crlf\n[attr]win text eol=crlf\n/top.txt win\n',
    "sub": b"*.bat -text\n*.txt win\n/deep/x text eol=crlf\n",
    "su b": b'"y y" win\nz* win\n',
}


def test_the_commits_line_ends_are_not_in_a_patch(repo: Path, tmp_path: Path) -> None:
    names = [
        "x.bat",
        "with space",
        "top.txt",
        "sub/x.bat",
        "sub/a.txt",
        "sub/deep/x",
        "su b/y y",
        "su b/in/zz",
        "no.txt",
    ]
    for name in names:
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_bytes(b"one\ntwo\nthree\n")
    for directory, rules in ATTRIBUTES.items():
        (repo / directory / ".gitattributes").write_bytes(rules)
    tree = make_tree(repo, "worktree", tmp_path / "a", save(repo))
    windows = {name for name in names if b"\r" in (tree.at / name).read_bytes()}
    assert windows == {*names} - {"sub/x.bat", "no.txt"}
    for name in names:
        (tree.at / name).write_bytes((tree.at / name).read_bytes().replace(b"two", b"2"))
    (tree.at / ".gitattributes").write_bytes(b"* -text\n")
    patch = tree.write_patch(tmp_path / "patch")
    assert (patch.insertions, patch.deletions) == (len(names) + 1, len(names) + 5)
    (tree.at / "x.bat").write_bytes(b"one\n2\r\nthree\n")  # no rule gives these back
    assert tree.write_patch(tmp_path / "patch").files == len(names) + 1
    assert b"+2\r\n" in (tmp_path / "patch").read_bytes()


def test_a_file_that_a_filter_wrote_is_in_the_patch_only_if_it_changed(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with large files that are kept elsewhere: the commit has a pointer, and the filter is the user's own."""
    for name in ("one.big", "two.big"):
        (repo / name).write_text("pointer\n")
    (repo / ".gitattributes").write_text("*.big filter=large\n")
    save(repo)
    config = tmp_path / "config"
    config.write_text('[filter "large"]\n\tsmudge = "cat; echo large"\n\tclean = head -1\n\trequired = true\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    tree = make_tree(repo, "worktree", tmp_path / "a")
    assert (tree.at / "one.big").read_text() == "pointer\nlarge\n"
    assert patch_of(tree, tmp_path / "patch") == ""
    (tree.at / "two.big").write_text("another\n")
    assert tree.write_patch(tmp_path / "patch") == Patch(
        files=1, insertions=1, deletions=1, sha256=hashlib.sha256((tmp_path / "patch").read_bytes()).hexdigest()
    )


# What runs.


def run_in(tree: Path) -> str:
    return f"touch {tree.parent}/ran; cat"


def name_programs(tree: Path) -> None:
    program = run_in(tree)
    for key in ("core.fsmonitor", "diff.external", "diff.own.textconv", "diff.own.command", "core.sshCommand"):
        git(tree, "config", key, program)
    for key in ("filter.own.clean", "filter.own.smudge", "filter.own.process", "core.alternateRefsCommand"):
        git(tree, "config", key, program)
    git(tree, "config", "core.attributesFile", str(tree / ".gitattributes"))
    (tree / ".gitattributes").write_text("* filter=own diff=own\n")


def include_programs(tree: Path) -> None:
    git(tree, "config", "include.path", str(tree / "more"))
    (tree / "more").write_text(f'[filter "own"]\n\tclean = "{run_in(tree)}"\n\trequired = true\n')
    (tree / ".gitattributes").write_text("* filter=own\n")


def hook_programs(tree: Path) -> None:
    (tree / "hooks").mkdir()
    for name in ("post-index-change", "reference-transaction", "fsmonitor-watchman"):
        (tree / "hooks" / name).write_text(f"#!/bin/sh\n{run_in(tree)}\n")
        (tree / "hooks" / name).chmod(0o700)
    git(tree, "config", "core.hooksPath", str(tree / "hooks"))
    git(tree, "config", "core.fsmonitor", str(tree / "hooks" / "fsmonitor-watchman"))


def lack_objects(tree: Path) -> None:
    git(tree, "config", "core.repositoryFormatVersion", "1")
    git(tree, "config", "extensions.partialClone", "evil")
    git(tree, "config", "remote.evil.url", str(tree))
    git(tree, "config", "remote.evil.promisor", "true")
    git(tree, "config", "remote.evil.uploadpack", run_in(tree))
    git(tree, "update-index", "--add", "--cacheinfo", f"100644,{'1' * 40},missing")


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (name_programs, "worktree"),
        (name_programs, "clone"),
        (include_programs, "worktree"),
        (hook_programs, "clone"),
        (lack_objects, "worktree"),
    ],
    ids=named,
)
def test_a_patch_and_a_removal_run_nothing_of_the_agents(repo: Path, tmp_path: Path, act: Act, kind: Kind) -> None:
    tree = make_tree(repo, kind, tmp_path / "a")
    act(tree.at)
    (tree.at / "text").write_text("third\n")
    assert "+third" in patch_of(tree, tmp_path / "patch")
    make_tree(repo, kind, tmp_path / "a", tree.base_commit)
    tree.remove()
    assert not (tmp_path / "ran").exists()


# What a patch cannot hold.


def unreadable_file(tree: Path) -> None:
    (tree / "secret").write_text("x")
    (tree / "secret").chmod(0)


def unreadable_directory(tree: Path) -> None:
    (tree / "shut").mkdir()
    (tree / "shut" / "work").write_text("x")
    (tree / "shut").chmod(0)


def own_repository(tree: Path) -> None:
    git(tree, "init", "--quiet", "vendor")
    save(tree / "vendor")


def repository_of_tracked_files(tree: Path) -> None:
    git(tree / "sub", "init", "--quiet")


def hidden_directory(tree: Path) -> None:
    (tree / "deep" / "er" / ".git").mkdir(parents=True)
    (tree / "deep" / "er" / ".git" / "work").write_text("x")


def other_case(tree: Path) -> None:
    (tree / ".GIT").mkdir()
    (tree / ".GIT" / "work").write_text("x")


def own_submodule(tree: Path) -> None:
    git(tree, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tree), "vendor")


def sparse_checkout(tree: Path) -> None:
    """Git removes the other files, which the agent did not want to delete."""
    git(tree, "sparse-checkout", "set", "--no-cone", "/text")
    assert not (tree / "sub").exists()


def pipe_for_a_file(tree: Path) -> None:
    (tree / "text").unlink()
    os.mkfifo(tree / "text")


def index_that_is_a_pipe(tree: Path) -> None:
    index = Path(git(tree, "rev-parse", "--absolute-git-dir").strip(), "index")
    index.unlink()
    os.mkfifo(index)


def index_without_sense(tree: Path) -> None:
    Path(git(tree, "rev-parse", "--absolute-git-dir").strip(), "index").write_text("DIRC")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (unreadable_file, "secret"),
        (unreadable_directory, "could not open directory 'shut/'"),
        (own_repository, "would leave out vendor: a git repository of its own"),
        (repository_of_tracked_files, "would leave out sub: a git repository of its own"),
        (hidden_directory, "would leave out deep/er: a git repository of its own"),
        (other_case, "git update-index in "),
        (own_submodule, "would leave out vendor: a git repository of its own, or a submodule"),
        (sparse_checkout, "would leave out .gitignore: the agent made the checkout sparse"),
        (pipe_for_a_file, "text: unsupported file type"),
        (index_that_is_a_pipe, "would leave out files of the agent's index: it is not a regular file"),
        (index_without_sense, "index"),
    ],
    ids=named,
)
def test_a_patch_that_would_leave_something_out_is_not_made(repo: Path, tmp_path: Path, spoil: Act, words: str) -> None:
    """An error tells the caller to keep the tree."""
    if os.geteuid() == 0 and spoil in (unreadable_file, unreadable_directory):
        pytest.skip("root reads everything")
    tree = make_tree(repo, "worktree", tmp_path / "a")
    spoil(tree.at)
    with pytest.raises(StateError) as failure:
        tree.write_patch(tmp_path / "patch")
    assert words in failure.value.message
    assert str(tree.at) in failure.value.message
    assert not (tmp_path / "patch").exists()
    tree.remove()
    assert not tree.at.exists()


def test_git_is_not_looked_for_in_the_tree(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some users have `node_modules/.bin` on their path."""
    (repo / "tools").mkdir()
    for directory in (repo / "tools", repo):
        (directory / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (directory / "git").chmod(0o755)
    base = save(repo)
    monkeypatch.setenv("PATH", f"tools::.:{os.environ['PATH']}")
    assert calls.resolve_commit(str(repo), "HEAD") == base
    tree = make_tree(repo, "worktree", tmp_path / "a", base)
    (tree.at / "text").write_text("third\n")
    assert "+third" in patch_of(tree, tmp_path / "patch")
    tree.remove()
    assert not (tmp_path / "ran").exists()


def test_a_repository_in_an_ignored_directory_is_no_work(repo: Path, tmp_path: Path) -> None:
    (repo / ".gitignore").write_text("vendor/\n")
    save(repo)
    tree = make_tree(repo, "worktree", tmp_path / "a")
    git(tree.at, "init", "--quiet", "vendor/part")
    assert patch_of(tree, tmp_path / "patch") == ""


def test_more_than_git_can_hold_in_memory_is_not_in_a_patch(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline, "MAX_PATCH_BYTES", 2**20)
    tree = make_tree(repo, "worktree", tmp_path / "a")
    with (tree.at / "huge").open("wb") as file:
        file.truncate(2**20 + 1)
    with pytest.raises(StateError, match="would leave out huge: with it the files have more than 1 MiB"):
        tree.write_patch(tmp_path / "patch")
    monkeypatch.setattr(baseline, "MAX_PATCH_FILES", 1)
    (tree.at / "two").touch()
    with pytest.raises(StateError, match="would leave out 2 files: at most 1 are allowed"):
        tree.write_patch(tmp_path / "patch")
