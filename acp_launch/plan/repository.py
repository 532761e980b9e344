"""
The git directory of a directory that a confined agent works in, where it lies elsewhere; and the user's name for git.

All of it is read as files: git itself is not run, since a repository can choose what it runs. A `.git` file may name
any directory. It is believed if that is a git directory that points back: by `gitdir` of a linked worktree, by
`core.worktree` of a submodule. Then the agent sees it, and can commit. In a linked worktree it writes its own index and
HEAD, new objects (others are packed before), and the branches beside its own one; not the configuration, hooks, packs
and other worktrees. Of a submodule it writes all but configuration and hooks. The alternates of a repository are not
believed.
"""

import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from acp_launch.plan.model import Access, Place
from acp_launch.private import Unfit, read_bounded, real
from acp_launch.regex import regex

# ruff: noqa: PTH112, PTH113 - methods of Path raise in a directory that we may not enter
MAX_CONFIG_BYTES = 1024 * 1024
MAX_INCLUDE_DEPTH = 5
_HEADER = regex(r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_ENTRY = regex(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*)")
_VALUE = regex(r'"((?:[^"\\]|\\.)*)"|([^"#;]+)|[#;].*')
_ESCAPED = regex(r"\\(.)")
_BRANCH = regex(r"ref: (refs/heads/\S+)")


class GitDirectory(Struct, frozen=True):
    """The git directory of a work tree: all worktrees of a repository share `common`; `own` belongs to a linked
    one; the same for any other."""

    common: Path
    own: Path

    def list_mounts(self, tree: Path, access: Access) -> Iterator[tuple[Path, Access]]:
        """Yield what an agent sees of it that has this access to the work tree; nothing if that shows it."""
        if self.own.is_relative_to(tree):
            return
        found: list[tuple[Path, Access]] = [(tree / ".git", "read"), (self.own, access)]
        found += [(self.own / name, "read") for name in ("config", "config.worktree", "hooks", "commondir", "gitdir")]
        if self.own != self.common:
            objects = self.common / "objects"
            found += [(self.common, "read"), (objects, access), (objects / "info", "read"), (objects / "pack", "read")]
            found += [(path, access) for path in self._list_branches()]
        missing = self.list_missing()
        # A link in it may be an agent's, and lead to the hooks.
        yield from (each for each in found if real(each[0]) == each[0] and (each[0].exists() or each[0] in missing))

    def list_missing(self) -> tuple[Path, ...]:
        """List what must be made before an agent starts, or git would obey what the agent makes."""
        settings = self.own / "config.worktree"
        is_obeyed = "worktreeconfig" in _read(self.common / "config").lower()
        return (settings,) if is_obeyed and not os.path.lexists(settings) else ()

    def _list_branches(self) -> Iterator[Path]:
        """Yield the directory of the branch, and its log alone: git appends to a log, also through a link. None if HEAD
        is detached."""
        found = _BRANCH.match(_read(self.own / "HEAD"))
        if found and ".." not in Path(found[1]).parts:
            heads = self.common / "refs" / "heads"
            above = (path for path in (self.common / found[1]).parents if path.is_relative_to(heads))
            yield next(filter(os.path.isdir, above), heads)
            yield self.common / "logs" / found[1]


def list_shared_objects(where: Place) -> tuple[Path, ...]:
    """List the directories of objects that an agent writes, and other worktrees read."""
    mounts = {each.path: each.access for each in where.mounts if each.reason == "git"}
    return tuple(path for path, access in mounts.items() if access == "write" and mounts.get(path / "pack") == "read")


class Doubt(Struct, frozen=True):
    """The fault of a place that does not show this path, and what the user can do."""

    path: Path
    what: str
    fix: str


def doubt_git(path: Path, why: str, fix: str) -> Doubt:
    return Doubt(path, f"git does not work inside: {why}", fix)


def find_git_directory(tree: Path) -> tuple[GitDirectory, Doubt | None]:
    """Find the git directory of a work tree, a path without links; with the doubt if that does not point back."""
    link = tree / ".git"
    own = real(tree / _read(link).removeprefix("gitdir:").strip() if os.path.isfile(link) else link)
    if own.is_relative_to(tree):
        return GitDirectory(own, own), None
    doubt = doubt_git(own, f"{link} leads to {own}, which is not its git directory", f"remove {link}, or correct it")
    if own.parent.name == "worktrees" and _is_git_directory(own.parent.parent):
        common = real(own / _read(own / "commondir").strip())
        if common == own.parent.parent and real(own / _read(own / "gitdir").strip()) == link:
            return GitDirectory(common, own), None
    elif _is_git_directory(own):
        trees = (value for key, value in _list_entries(own / "config") if key == "core.worktree")
        if any(real(own / value) == tree for value in trees):
            return GitDirectory(own, own), None
        doubt = doubt_git(own, f"{link} leads to {own}", f"if that is right, add {own} to runtime.confined.write")
    return GitDirectory(own, own), doubt


def list_alternates(git: GitDirectory) -> Iterator[Doubt]:
    """List the directories of other repositories whose objects a repository uses: an agent can write their names."""
    objects = git.common / "objects"
    for line in _read(objects / "info" / "alternates").splitlines():
        if line and not line.startswith("#"):
            what, there = f"{git.common} uses objects of another repository", real(objects / line)
            yield doubt_git(there, what, f"if that is right, add {there} to runtime.confined.read")


def _is_git_directory(path: Path) -> bool:
    return os.path.isfile(path / "HEAD") and all(os.path.isdir(path / name) for name in ("objects", "refs"))


def _read(file: Path) -> str:
    """Return the text of a file; empty if it cannot be read."""
    try:
        found = read_bounded(file, MAX_CONFIG_BYTES)
    except (OSError, Unfit):
        return ""
    return os.fsdecode(found[0]) if found else ""


# Git's configuration, as far as it says who commits.


def find_identity(git: GitDirectory, home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return `user.name` and `user.email` of the user's own configuration, unless a repository's has them."""
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "git" / "config"
    given = environ.get("GIT_CONFIG_GLOBAL")
    files = [Path(given)] if given else [config, home / ".gitconfig"]
    entries = dict(entry for file in files for entry in _list_included(file, git.own, home))
    own = {key for key, _ in _list_entries(git.common / "config")}
    return {key: entries[key] for key in ("user.name", "user.email") if key in entries and key not in own}


def _list_included(file: Path, git: Path, home: Path, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the entries of a file and of those that it includes."""
    for key, value in _list_entries(file):
        yield key, value
        what, _, condition = key.removesuffix(".path").partition(".")
        is_meant = key == "include.path" or (what == "includeif" and _holds(condition, git, home, file.parent))
        if is_meant and depth < MAX_INCLUDE_DEPTH:
            yield from _list_included(_expand(value, home, file.parent), git, home, depth + 1)


def _holds(condition: str, git: Path, home: Path, base: Path) -> bool:
    """Tell whether a condition on the git directory holds; the other ones do not."""
    kind, _, written = condition.partition(":")
    glob = str(_expand(written, home, base)) if written.startswith(("~/", "./", "/")) else f"**/{written}"
    glob = f"{glob.rstrip('/')}/**" if written.endswith("/") else glob
    if kind == "gitdir/i":
        return fnmatchcase(str(git).lower(), glob.lower())
    return kind == "gitdir" and fnmatchcase(str(git), glob)


def _expand(path: str, home: Path, base: Path) -> Path:
    return home / path[2:] if path.startswith("~/") else base / path


def _list_entries(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the entries of a configuration: `core.worktree`, `includeif.gitdir:~/work/.path`."""
    section = ""
    for line in _read(file).splitlines():
        if header := _HEADER.match(line):
            name = _ESCAPED.sub(r"\1", header[2] or "")
            section = f"{header[1].lower()}.{name}." if name else f"{header[1].lower()}."
            line = line[header.end() :]
        if entry := _ENTRY.match(line):
            pieces = (piece[1] if piece[1] is not None else piece[2] or "" for piece in _VALUE.finditer(entry[2]))
            yield f"{section}{entry[1].lower()}", _ESCAPED.sub(r"\1", "".join(pieces)).strip()
