"""Repositories of tests, made by real git, and trees of them."""

import os
import shutil
import stat
import subprocess
from functools import cache
from pathlib import Path

from acp_launch.batch.worktree import Kind, Tree
from acp_launch.process.git import resolve_commit

NAMES = {f"GIT_{role}_{what}": "t@t" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
LOCAL = "-c", "protocol.file.allow=always"  # submodules of this machine


def git(cwd: Path, *words: str) -> str:
    env = {**os.environ, **NAMES}
    return subprocess.run(["git", *words], cwd=cwd, env=env, check=True, capture_output=True, text=True).stdout


def make_repository(at: Path) -> Path:
    """Make a clone with a remote, so that `origin/main` is a start point: one commit before `main`."""
    origin = at.with_name("origin")
    git(at.parent, "init", "--quiet", "--initial-branch=main", "origin")
    (origin / "text").write_text("one\ntwo\nthree\n" * 5)
    (origin / "old").write_text("to be renamed\n" * 20)
    (origin / "gone").write_text("to be deleted\n")
    (origin / "picture").write_bytes(bytes(range(256)))
    (origin / "script").write_text("#!/bin/sh\n")
    (origin / "link").symlink_to("text")
    (origin / ".gitignore").write_text("*.o\n")
    (origin / "sub").mkdir()
    (origin / "sub" / "file").write_text("in sub\n")
    save(origin, "first")
    git(origin, "tag", "--annotate", "v1", "--message=v1")
    git(at.parent, "clone", "--quiet", "origin", at.name)
    (at / "text").write_text("second\n")
    git(at, "commit", "--quiet", "--all", "--message=second")
    return at


@cache
def made_repository(base: Path) -> Path:
    """One such clone and its remote, in a directory of `base`, to be copied."""
    (place := base / "repository").mkdir()
    return make_repository(place / "repo").parent


def copy_repository(made: Path, place: Path) -> Path:
    shutil.copytree(made, place, symlinks=True, dirs_exist_ok=True)
    git(place / "repo", "config", "remote.origin.url", str(place / "origin"))
    return place / "repo"


def save(repo: Path, message: str = "x") -> str:
    """Commit all that a repository holds; return the commit."""
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--allow-empty", f"--message={message}")
    return commit(repo)


def commit(repo: Path, ref: str = "HEAD") -> str:
    found = resolve_commit(str(repo), ref)
    assert found is not None
    return found


def make_tree(repo: Path | str, kind: Kind, at: Path, base: str = "") -> Tree:
    """Make a tree of the commit `base`, by default of HEAD."""
    tree = Tree(str(repo), base or commit(Path(repo)), kind, at)
    assert tree.make() == at
    return tree


def patch_of(tree: Tree, file: Path) -> str:
    tree.write_patch(file)
    return file.read_bytes().decode(errors="replace")


def content(tree: Path) -> dict[str, tuple[str, object]]:
    """All files of a tree but git's and `*.o`."""
    found: dict[str, tuple[str, object]] = {}
    for each in tree.rglob("*"):
        name = str(each.relative_to(tree))
        if ".git" in each.relative_to(tree).parts or name.endswith(".o"):
            continue
        if each.is_symlink():
            found[name] = ("link", each.readlink())
        elif each.is_file():
            found[name] = (oct(stat.S_IMODE(each.stat().st_mode) & 0o100), each.read_bytes())
    return found
