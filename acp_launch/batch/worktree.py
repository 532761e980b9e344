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
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Literal

from acp_launch.batch.model import Patch
from acp_launch.errors import StateError
from acp_launch.plan.environment import inherited
from acp_launch.private import locked, make_private
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
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "advice.detachedHead": "false",
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
        raise _failure("rev-parse", repo, err)
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


# Making a tree.


def make_tree(repo: str, base_commit: str, kind: Kind, at: Path) -> Path:
    """Make a directory `at` with the files of a commit, or take the one that an earlier attempt left there, as it is.

    What a killed process left half made is made again. `repo` may be a URL for a clone. Return the directory that
    stands for `repo` in it, which is below `at` if `repo` is a subdirectory of its repository.

    Raises:
        StateError: git could not do it; or it is damaged, so that no patch could be made of it.
    """
    make_private(at.parent)
    common, prefix = (repo, "") if is_url(repo) else _find_repository(Path(repo))
    lock = _beside(at, "lock") if kind == "clone" else Path(common) / LOCK
    with _alone(lock, repo) as held:
        if _beside(at, "made").exists() and at.exists():
            _require_whole(at)
        else:
            _delete(at, common, held)
            make = _clone if kind == "clone" else _add_worktree
            make(common, base_commit, at, held)
            _beside(at, "made").touch(0o600)
    place = at / prefix
    if not place.is_dir():
        raise StateError(f"{repo} is not in the commit {base_commit[:12]}", fix="commit it, or choose another ref")
    return place


def remove_tree(repo: str, tree: Path) -> None:
    """Remove a directory that `make_tree` made, with git's record of it.

    Raises:
        StateError: something in it cannot be removed.
    """
    common = repo if is_url(repo) else _find_repository(Path(repo))[0]
    with _alone(_beside(tree, "lock") if is_url(repo) else Path(common) / LOCK, repo) as held:
        _delete(tree, common, held)


def _add_worktree(common: str, base_commit: str, at: Path, held: int) -> None:
    _git("worktree", "add", "--quiet", "--detach", str(at), base_commit, cwd=Path(common), limit=LONG, held=held)


def _clone(source: str, base_commit: str, at: Path, held: int) -> None:
    _git("clone", "--quiet", "--no-checkout", "--", source, str(at), cwd=at.parent, limit=LONG, held=held)
    if _call_git("cat-file", "-e", f"{base_commit}^{{commit}}", cwd=at, limit=QUICK)[0]:  # no branch has it
        _git("fetch", "--quiet", "origin", base_commit, cwd=at, limit=LONG, held=held)
    _git("checkout", "--quiet", "--detach", base_commit, cwd=at, limit=LONG, held=held)


def _find_repository(repo: Path) -> tuple[str, str]:
    """Return the directory that all worktrees of a repository share, and the place of `repo` in a worktree."""
    words = "rev-parse", "--path-format=absolute", "--git-common-dir", "--show-prefix"
    common, prefix, *_ = [*_git(*words, cwd=repo, limit=QUICK).split("\n"), ""]
    return common, prefix


def _require_whole(tree: Path) -> None:
    """Refuse a tree whose `.git` an attempt has broken: git would find another repository above it, or none."""
    status, _, err = _call_git("rev-parse", "--git-dir", cwd=tree, limit=QUICK, env=_within(tree))
    if status:
        raise _failure("rev-parse", str(tree), err, fix=f"move {tree} away, so that it is made again")


def _delete(tree: Path, common: str, held: int) -> None:
    _beside(tree, "made").unlink(missing_ok=True)
    try:
        if tree.is_dir() and not tree.is_symlink():
            _remove_files(tree)
        else:
            tree.unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"cannot remove {error.filename or tree}: {error.strerror}") from None
    if not is_url(common):  # an error: it is not a worktree
        _call_git("worktree", "remove", "--force", "--force", str(tree), cwd=Path(common), limit=QUICK, held=held)


def _remove_files(tree: Path) -> None:
    with suppress(PermissionError):
        shutil.rmtree(tree)
        return
    tree.chmod(0o700)
    for directory, names, _ in os.walk(tree):  # the agent took our own rights away
        for name in names:
            if not (each := Path(directory, name)).is_symlink():
                each.chmod(0o700)
    shutil.rmtree(tree)


# The patch.


def write_patch(tree: Path, base_commit: str, file: Path) -> Patch:
    """Write what differs from a commit in a tree: files that are new, gone, binary or other than before.

    It does not matter what the agent committed or staged; its index stays as it is, and no object is added to the
    repository. Ignored files are left out unless the agent added them by force. Without changes the file is empty.
    The size is not limited, only the time.

    Raises:
        StateError: it cannot be made, or would leave something out, as changes within a submodule: keep the tree.
    """
    try:
        with TemporaryDirectory(dir=file.parent, prefix=".patch-") as scratch:
            return _write_patch(tree, base_commit, file, Path(scratch))
    except OSError as error:
        raise StateError(f"cannot make a patch of {tree}: {error.filename}: {error.strerror}") from None


def _write_patch(tree: Path, base_commit: str, file: Path, scratch: Path) -> Patch:
    env = _prepare_index(tree, scratch)
    words = "-c", "core.safecrlf=false", "add", "--all"
    status, _, err = _call_git(*words, cwd=tree, limit=LONG, env=env)
    if status or _UNREADABLE in err:
        raise _failure("add", str(tree), err)
    compare = "diff-index", "--cached", "--full-index", "--find-renames", "--no-ext-diff", "--no-textconv", "--no-color"
    listing, patch = scratch / "listing", scratch / "patch"
    for form, made in ((("--raw", "--shortstat"), listing), (("--patch", "--binary"), patch)):
        _git(*compare, *form, f"--output={made}", base_commit, "--", cwd=tree, limit=LONG, env=env)
    counts = _read_listing(listing, tree)
    left = _git("diff-files", "--name-only", "--ignore-submodules=none", cwd=tree, limit=LONG, env=env)
    if left:
        raise _incomplete(tree, left.split("\n")[0], "changed meanwhile, or within a submodule")
    files, insertions, deletions = (counts.get(what, 0) for what in ("file", "insertion", "deletion"))
    return Patch(files=files, insertions=insertions, deletions=deletions, sha256=_keep_patch(patch, file))


def _prepare_index(tree: Path, scratch: Path) -> dict[str, str]:
    """Copy the agent's index, which knows unchanged files and those added by force; objects go to `scratch`, too."""
    words = "rev-parse", "--path-format=absolute", "--git-path", "index", "--git-path", "objects"
    index, objects, *_ = _git(*words, cwd=tree, limit=QUICK, env=_within(tree)).split("\n")
    (scratch / "objects").mkdir()
    with suppress(FileNotFoundError):
        shutil.copy2(index, scratch / "index")  # with its time, by which git finds changes of the same moment
    quoted = objects.replace("\\", "\\\\").replace('"', '\\"')
    return _within(tree) | {
        "GIT_INDEX_FILE": str(scratch / "index"),
        "GIT_OBJECT_DIRECTORY": str(scratch / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{quoted}"',
    }


def _read_listing(listing: Path, tree: Path) -> dict[str, int]:
    """Return the counts of a patch; refuse one with another repository, whose commits are in this tree alone."""
    last = ""
    with listing.open(errors="replace") as lines:
        for last in lines:
            modes, _, name = last.partition("\t")
            if modes.startswith(":") and modes.split(" ")[1] == _GITLINK:
                raise _incomplete(tree, name.rstrip("\n"), "a git repository of its own, or a submodule that moved")
    return {what: int(number) for number, what in _COUNTS.findall(last)}


def _keep_patch(patch: Path, file: Path) -> str:
    import hashlib

    patch.chmod(0o600)
    with patch.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
        os.fsync(content.fileno())
    patch.replace(file)
    return digest


def _incomplete(tree: Path, name: str, why: str) -> StateError:
    return StateError(f"a patch of {tree} would leave out {name}: {why}", fix="look into the directory, which was kept")


# Calls of git.


def _git(*words: str, cwd: Path, limit: float, env: Mapping[str, str] | None = None, held: int | None = None) -> str:
    """Return what git prints; raise StateError if it fails."""
    status, out, err = _call_git(*words, cwd=cwd, limit=limit, env=env, held=held)
    if status:
        raise _failure(words[0] if words[0] != "worktree" else " ".join(words[:2]), str(cwd), err)
    return out


def _call_git(
    *words: str, cwd: Path, limit: float, env: Mapping[str, str] | None = None, held: int | None = None
) -> tuple[int, str, str]:
    """Return git's exit status, what it prints, and its errors. It inherits `held`, a lock.

    Raises:
        StateError: it is not installed, or took too long.
    """
    settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
    with TemporaryFile() as out, TemporaryFile() as err:  # a helper that stays in the background would hold pipes open
        try:
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
        except OSError as error:
            raise _cannot_start(error, cwd) from None
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            raise StateError(f"git {words[0]} in {cwd} did not end within {seconds(limit)}") from None
        finally:
            if process.returncode is None:  # it took too long, or a signal came
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return process.returncode, _read_all(out), _read_all(err)


def _environment() -> dict[str, str]:
    """Return our environment without secrets, and without what would lead git to another repository or index."""
    public = inherited(os.environ, "all")
    kept = {name: value for name, value in public.items() if not name.startswith("GIT_") or name.startswith(_KEPT)}
    return kept | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def _within(tree: Path) -> dict[str, str]:
    """Return the variables that keep git from the repository around a tree whose own `.git` is gone."""
    return {"GIT_CEILING_DIRECTORIES": str(tree.parent)}


def _read_all(file: IO[bytes]) -> str:
    file.seek(0)
    return os.fsdecode(file.read())


def _failure(what: str, where: str, err: str, fix: str = "") -> StateError:
    lines = [_LOGIN.sub("", line) for line in err.splitlines() if line.strip()]
    first = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "it failed")
    return StateError(f"git {what} in {_LOGIN.sub('', where)}: {first}", fix=fix, detail=lines[-SHOWN:])


def _cannot_start(error: OSError, cwd: Path) -> StateError:
    if not cwd.is_dir():
        return StateError(f"the directory {cwd} does not exist")
    reason = (
        "is not on PATH" if isinstance(error, FileNotFoundError) else f"cannot be started in {cwd}: {error.strerror}"
    )
    return StateError(f"git {reason}", fix="install git, or leave out isolation")


def _beside(tree: Path, what: Literal["made", "lock"]) -> Path:
    return tree.with_name(f".{tree.name}.{what}")


@contextmanager
def _alone(lock: Path, repo: str) -> Iterator[int]:
    """Be the only process that makes or removes trees, of this repository or of this name."""
    try:
        with locked(lock, TURN) as held:
            yield held
    except TimeoutError:
        raise StateError(f"other processes used git in {repo} for more than {seconds(TURN)}") from None
