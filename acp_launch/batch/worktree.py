"""
Directories for attempts, made by git, and the patch of what an attempt changed in one.

A worktree is made detached and without a branch of its own, one at a time for each repository; a clone is detached,
too. Submodules are not checked out. Hooks of the repository do not run, the caller's `GIT_DIR` and its like do not
count, git asks nothing on the terminal, and each call has a limit in time.

Beside a directory `ID` are `.ID.made`, written once it is whole, and `.ID.lock`. Every git inherits the lock that it
works under: if we are killed, the next attempt waits for its end.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Literal

from acp_launch import leave
from acp_launch.batch.model import Patch
from acp_launch.errors import StateError
from acp_launch.plan.environment import inherited
from acp_launch.private import hash_content, locked, make_private, replace
from acp_launch.regex import regex
from acp_launch.waits import seconds, stretch

QUICK = stretch(60.0)  # seconds for a question to git, or to a server
LONG = stretch(1800.0)  # seconds to write or to read a whole tree; a clone may come from far away
TURN = stretch(3600.0)  # seconds for other processes to make their worktrees of the same repository
LOCK = "acp-launch.lock"  # in the directory that all worktrees of a repository share
SHOWN = 5  # lines of git's in a message
Kind = Literal["worktree", "clone"]
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.autocrlf": "false",  # a tree and its patch have the bytes of the commit
    "core.fsmonitor": "false",  # it would leave a daemon
    "core.splitIndex": "false",
    "core.quotePath": "false",
    "gc.auto": "0",
    "submodule.recurse": "false",
    "http.lowSpeedLimit": "1000",  # a server that stalls for a minute is given up
    "http.lowSpeedTime": "60",
}
_KEPT = ("GIT_SSH", "GIT_SSL_", "GIT_PROXY_", "GIT_ASKPASS", "GIT_CONFIG_")  # variables of the caller that git gets
_URL = regex(r"[A-Za-z][A-Za-z0-9+.-]*://.+|[^/:\s]+@[^/:\s]+:.+")  # the second as in git@host:path
_LOGIN = regex(r"(?<=://)[^/\s@]*@")
_UNREADABLE = "could not open directory"  # only a warning of git's: its files would be missing from the patch
_GITLINK = "160000"  # the mode of a repository within a tree
_COUNTS = regex(r"(\d+) (file|insertion|deletion)")


def is_url(repo: str) -> bool:
    """Whether git would fetch from there; else it is a path."""
    return _URL.fullmatch(repo) is not None


def resolve_commit(repo: str, ref: str) -> str | None:
    """Return the commit that a branch, a tag or any other revision names; None if there is none of this name.

    None too if `repo` is a path outside every repository.

    Raises:
        StateError: git is not there, or cannot tell.
    """
    if not ref or ref.startswith("-"):  # git would take it for an option
        return None
    if is_url(repo):
        return _ask_server(repo, ref)
    status, out, err = _call_git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", cwd=Path(repo), limit=QUICK)
    if status and err and "not a git repository" not in err:
        raise _failure("rev-parse", Path(repo), err)
    return None if status else out.strip()


def _ask_server(url: str, ref: str) -> str | None:
    known: dict[str, str] = {}
    for line in _git("ls-remote", "--", url, cwd=Path("/"), limit=QUICK).splitlines():
        commit, _, place = line.partition("\t")
        known[place] = commit
    name = ref.removeprefix("origin/")
    places = (name, f"refs/{name}", f"refs/tags/{name}", f"refs/heads/{name}")
    found = (known.get(each + peeled) for each in places for peeled in ("^{}", ""))
    is_commit = len(ref) in (40, 64) and not set(ref) - set("0123456789abcdef")
    return next(filter(None, found), ref if is_commit else None)


class Tree:
    """A directory `at` for the attempts of an item, with the files of a commit; `repo` may be a URL for a clone."""

    def __init__(self, repo: str, base_commit: str, kind: Kind, at: Path) -> None:
        self.repo, self.base_commit, self.kind, self.at = repo, base_commit, kind, at
        self._made, self._lock = (at.with_name(f".{at.name}.{what}") for what in ("made", "lock"))

    @cached_property
    def _source(self) -> tuple[str, str]:
        """A URL, or the directory that all worktrees of `repo` share; and the place of `repo` in a tree."""
        if is_url(self.repo):
            return self.repo, ""
        words = "rev-parse", "--path-format=absolute", "--git-common-dir", "--show-prefix"
        common, prefix, *_ = [*_git(*words, cwd=Path(self.repo), limit=QUICK).split("\n"), ""]
        return common, prefix

    @contextmanager
    def _alone(self) -> Iterator[int]:
        """Be the only process that makes or removes trees, of this repository or of this name."""
        try:
            with locked(self._lock if self.kind == "clone" else Path(self._source[0]) / LOCK, TURN) as held:
                yield held
        except TimeoutError:
            raise StateError(f"other processes used git in {self.repo} for more than {seconds(TURN)}") from None

    def make(self) -> Path:
        """Make it, or take what an earlier attempt left there, as it is.

        What a killed process left half made is made again. Return the directory that stands for `repo` in it, which is
        below `at` if `repo` is a subdirectory of its repository.

        Raises:
            StateError: git could not do it; or it is damaged, so that no patch could be made of it.
        """
        make_private(self.at.parent)
        with self._alone() as held:
            if self._made.exists() and self.at.exists():
                self._require_whole()
            else:
                self._delete(held)
                if self.kind == "clone":
                    self._clone(held)
                else:
                    words = "worktree", "add", "--quiet", "--detach", str(self.at), self.base_commit
                    _git(*words, cwd=Path(self._source[0]), limit=LONG, held=held)
                self._made.touch(0o600)
        place = self.at / self._source[1]
        if not place.is_dir():
            what = f"{self.repo} is not in the commit {self.base_commit[:12]}"
            raise StateError(what, fix="commit it, or choose another ref")
        return place

    def remove(self) -> None:
        """Remove it, with git's record of it; raise StateError if something in it cannot be removed."""
        with self._alone() as held:
            self._delete(held)

    def _clone(self, held: int) -> None:
        git = partial(_git, cwd=self.at, limit=LONG, held=held)
        git("clone", "--quiet", "--no-checkout", "--", self._source[0], str(self.at), cwd=self.at.parent)
        try:
            git("cat-file", "-e", f"{self.base_commit}^{{commit}}")
        except StateError:  # no branch has it
            git("fetch", "--quiet", "origin", self.base_commit)
        git("checkout", "--quiet", "--detach", self.base_commit)

    def _require_whole(self) -> None:
        """Refuse a tree whose `.git` an attempt has broken: git would find another repository above it, or none."""
        try:
            _git("rev-parse", "--git-dir", cwd=self.at, limit=QUICK, env=self._ceiling)
        except StateError as error:
            raise StateError(error.message, fix=f"move {self.at} away, so that it is made again") from None

    @property
    def _ceiling(self) -> dict[str, str]:
        """What keeps git from the repository around a tree whose own `.git` is gone."""
        return {"GIT_CEILING_DIRECTORIES": str(self.at.parent)}

    def _delete(self, held: int) -> None:
        self._made.unlink(missing_ok=True)
        try:
            if self.at.is_dir() and not self.at.is_symlink():
                _remove_files(self.at)
            else:
                self.at.unlink(missing_ok=True)
        except OSError as error:
            raise StateError(f"cannot remove {error.filename or self.at}: {error.strerror}") from None
        if self.kind == "worktree":
            words = "worktree", "remove", "--force", "--force", str(self.at)
            with suppress(StateError):  # it is not one
                _git(*words, cwd=Path(self._source[0]), limit=QUICK, held=held)

    # The patch.

    def write_patch(self, file: Path) -> Patch:
        """Write what differs from the commit: files that are new, gone, binary or other than before.

        It does not matter what the agent committed or staged; its index stays as it is, and no object is added to the
        repository. Ignored files are left out unless the agent added them by force. Without changes the file is empty.

        Raises:
            StateError: it cannot be made, or would leave something out, as changes within a submodule: keep the tree.
        """
        try:
            with TemporaryDirectory(dir=file.parent, prefix=".patch-") as scratch:
                return self._write_patch(file, Path(scratch))
        except OSError as error:
            raise StateError(f"cannot make a patch of {self.at}: {error.filename or file}: {error.strerror}") from None

    def _write_patch(self, file: Path, scratch: Path) -> Patch:
        tree = self.at
        git = partial(_git, cwd=tree, limit=LONG, env=self._prepare_index(scratch))
        git("-c", "core.safecrlf=false", "add", "--all", refused=_UNREADABLE)
        compare = "--cached", "--full-index", "--find-renames", "--no-ext-diff", "--no-textconv", "--no-color"
        listing, patch = scratch / "listing", scratch / "patch"
        for form, made in ((("--raw", "--shortstat"), listing), (("--patch", "--binary"), patch)):
            git("diff-index", *compare, *form, f"--output={made}", self.base_commit, "--")
        counts = _read_listing(listing, tree)
        if left := git("diff-files", "--name-only", "--ignore-submodules=none"):
            raise _incomplete(tree, left.split("\n")[0], "changed meanwhile, or within a submodule")
        content = patch.read_bytes()
        replace(file, content)
        files, insertions, deletions = (counts.get(what, 0) for what in ("file", "insertion", "deletion"))
        return Patch(files=files, insertions=insertions, deletions=deletions, sha256=hash_content(content))

    def _prepare_index(self, scratch: Path) -> dict[str, str]:
        """Copy the agent's index, which knows unchanged files and those added by force; objects go to `scratch`."""
        words = "rev-parse", "--path-format=absolute", "--git-path", "index", "--git-path", "objects"
        index, objects, *_ = _git(*words, cwd=self.at, limit=QUICK, env=self._ceiling).split("\n")
        (scratch / "objects").mkdir()
        with suppress(FileNotFoundError):
            shutil.copy2(index, scratch / "index")  # with its time, by which git finds changes of the same moment
        quoted = objects.replace("\\", "\\\\").replace('"', '\\"')
        return self._ceiling | {
            "GIT_INDEX_FILE": str(scratch / "index"),
            "GIT_OBJECT_DIRECTORY": str(scratch / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{quoted}"',
        }


def _remove_files(tree: Path) -> None:
    tree.chmod(0o700)
    for directory, names, _ in os.walk(tree):  # the agent, or Go's cache, took our own rights away
        for name in names:
            if not (each := Path(directory, name)).is_symlink():
                each.chmod(0o700)
    shutil.rmtree(tree)


def _read_listing(listing: Path, tree: Path) -> dict[str, int]:
    """Return the counts of a patch; refuse one with another repository, whose commits are in this tree alone."""
    last = ""
    with listing.open(errors="replace") as lines:
        for last in lines:
            modes, _, name = last.partition("\t")
            if modes.startswith(":") and modes.split(" ")[1] == _GITLINK:
                raise _incomplete(tree, name.rstrip("\n"), "a git repository of its own, or a submodule that moved")
    return {what: int(number) for number, what in _COUNTS.findall(last)}


def _incomplete(tree: Path, name: str, why: str) -> StateError:
    return StateError(f"a patch of {tree} would leave out {name}: {why}", fix="look into the directory, which was kept")


# Calls of git.


def _git(*words: str, refused: str = "", **how: Any) -> str:
    """Return what git prints. Raise StateError if it fails, or warns with the words `refused`; `how` as `_call_git`."""
    status, out, err = _call_git(*words, **how)
    if status or (refused and refused in err):
        raise _failure(next(word for word in words if not word.startswith(("-", "core."))), how["cwd"], err)
    return out


def _call_git(
    *words: str, cwd: Path, limit: float, env: Mapping[str, str] | None = None, held: int | None = None
) -> tuple[int, str, str]:
    """Return git's exit status, what it prints, and its errors. It inherits `held`, a lock.

    Raises:
        StateError: it is not installed, or took too long.
    """
    settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
    process = None
    with TemporaryFile() as out, TemporaryFile() as err:  # a helper that stays in the background would hold pipes open
        try:
            with leave.deferred():  # a signal within it would lose the process
                process = subprocess.Popen(
                    ["git", *settings, *words],
                    cwd=cwd,
                    env={**_environment(), **(env or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                    pass_fds=() if held is None else (held,),
                )
            process.wait(limit)
        except OSError as error:
            what = f"cannot start git in {cwd}: {error.filename}: {error.strerror}"
            raise StateError(what, fix="install git, or leave out isolation") from None
        except subprocess.TimeoutExpired:
            raise StateError(f"git {words[0]} in {cwd} did not end within {seconds(limit)}") from None
        finally:
            if process is not None and process.returncode is None:  # it took too long, or a signal came
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(0)
        err.seek(0)
        return process.returncode, os.fsdecode(out.read()), os.fsdecode(err.read())


def _environment() -> dict[str, str]:
    """Return our environment without secrets, and without what would lead git to another repository or index."""
    public = inherited(os.environ, "all")
    kept = {name: value for name, value in public.items() if not name.startswith("GIT_") or name.startswith(_KEPT)}
    return kept | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def _failure(what: str, where: Path, err: str) -> StateError:
    lines = [_LOGIN.sub("", line) for line in err.splitlines() if line.strip()]
    first = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "it failed")
    return StateError(f"git {what} in {where}: {first}", detail=lines[-SHOWN:])
