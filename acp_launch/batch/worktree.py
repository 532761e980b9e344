"""
Directories for attempts, made by git; `baseline` makes the patch of what an attempt changed in one.

A worktree is made detached and without a branch of its own, one at a time for each repository; a clone is detached,
too, and shares no file with its source. A submodule is there if the checkout has it, as a clone of that.

Beside a directory `ID` are its baseline `.ID.git` and `.ID.lock`; beside all, `.DIGEST.rules` has what the user's
checkout ignored when the first was made. Every git inherits the lock that it works under: if we are killed, the next
attempt waits for its end.
"""

import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path, PurePath
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Literal

from acp_launch.batch.baseline import MAX_RULES_BYTES, Baseline
from acp_launch.batch.model import Patch
from acp_launch.errors import StateError
from acp_launch.private import Unfit, locked, make_digest, make_private, read_bounded, real
from acp_launch.process.git import ask, git, is_url
from acp_launch.regex import regex
from acp_launch.waits import seconds, stretch

TURN_TIMEOUT = stretch(3600.0)  # for other processes to make their worktrees of the same repository
MOUNTS = Path("/proc/self/mountinfo")  # proc(5): the fifth word is the place; the same disk can be mounted twice
_ESCAPED = regex(rb"\\([0-7]{3})")
LOCK = "acp-launch.lock"  # in the directory that all worktrees of a repository share
Kind = Literal["worktree", "clone"]


class Tree:
    """A directory `at` for the attempts of an item, with the files of a commit; `repo` may be a URL for a clone."""

    def __init__(self, repo: str, base_commit: str, kind: Kind, at: Path) -> None:
        self.repo, self.base_commit, self.kind, self.at = repo, base_commit, kind, at
        self._place, self._lock = (at.with_name(f".{at.name}.{what}") for what in ("git", "lock"))
        self._baseline = Baseline(at, self._place, base_commit)

    @cached_property
    def _common(self) -> Path:
        """The directory that all worktrees of `repo` share."""
        return _locate(self.repo, "--git-common-dir")

    @contextmanager
    def _alone(self) -> Iterator[int]:
        """Be the only process that makes or removes trees, of this repository or of this name."""
        try:
            with locked(self._lock if self._is_apart else self._common / LOCK, TURN_TIMEOUT) as held:
                yield held
        except TimeoutError:
            raise StateError(f"other processes used git in {self.repo} for more than {seconds(TURN_TIMEOUT)}") from None

    @property
    def _is_apart(self) -> bool:
        """Whether no repository has a record of it: it is a clone, or its repository is gone."""
        return self.kind == "clone" or not Path(self.repo).exists()

    @property
    def is_made(self) -> bool:
        """Whether it was made, and not removed since: by us."""
        return self._baseline.is_sealed

    def make(self, prepare: Callable[[], None] | None = None) -> Path:
        """Make it, or take what an earlier attempt left there, as it is. Return the directory.

        What a killed process left half made is made again. `prepare` may change a fresh one.

        Raises:
            StateError: git could not do it; or it, or its `.git`, is another one now.
        """
        make_private(self.at.parent)
        if self.is_made and os.path.lexists(self.at):
            self._baseline.require_own(f"move {self.at} away, so that it is made again")
            return self.at
        with self._alone() as held:
            self._delete()
            rules = self._keep_rules(None if is_url(self.repo) else self._common)
            (self._clone if self.kind == "clone" else self._add_worktree)(rules, held)
            links = self._baseline.read_rules()
            if not is_url(self.repo):
                _fill_modules(Path(self.repo), self.at, links, held)
        if prepare:
            prepare()
        self._baseline.seal(self._keep_rules(None), is_changed=prepare is not None)
        return self.at

    def copy(self, names: Sequence[str]) -> None:
        """Copy files of the checkout, ignored ones too; links stay links, and no file is shared.

        Raises:
            StateError: one is not in the checkout, or the commit has it.
        """
        for name in names:
            if fault := refuse_copy(self.repo, name):
                raise StateError(fault[0], fix=fault[1])
            source, target = Path(self.repo, name), self.at / name
            if real(self.at).is_relative_to(real(source)):
                raise StateError(f"{source} holds {self.at}", fix="remove it from isolation.copy")
            if os.path.lexists(target) or real(target.parent) != real(self.at) / PurePath(name).parent:
                what = f"the commit has {name}, so it is not copied"
                raise StateError(what, fix="name only what git does not bring, or remove it from isolation.copy")
            _copy(source, target)

    def write_patch(self, file: Path, below: Path | None = None) -> Patch:
        """Write what differs from the commit, or from what `prepare` left; raises as `Baseline.write_patch`."""
        return self._baseline.write_patch(file, below)

    def differs_from(self, patch: Patch) -> bool:
        """Whether it was changed since its patch was made; raises as `write_patch`."""
        return self._baseline.differs_from(patch)

    def remove(self) -> None:
        """Remove it, with git's record of it; raise StateError if it, or something in it, cannot be removed."""
        if os.path.lexists(self.at) and (owner := self.at.lstat().st_uid) != os.getuid():
            raise StateError(f"{self.at} belongs to another user (uid {owner})", fix="let that user remove it")
        with self._alone():
            self._delete()

    def _add_worktree(self, rules: Path, held: int) -> None:
        words = "--quiet", "--no-checkout", "--detach", str(self.at), self.base_commit
        git("worktree", "add", *words, cwd=Path(self.repo), held=held)
        self._baseline.begin(self._common / "objects", rules, held=held)
        if _is_partial(self._common):  # only the repository itself can fetch what it has not
            git("read-tree", "--reset", "-u", self.base_commit, cwd=self.at, held=held)
            self._baseline.take_index()
        else:
            self._baseline.check_out(self._common / "lfs", held=held)

    def _clone(self, rules: Path, held: int) -> None:
        if is_url(self.repo):
            source, objects = self.repo, None
        else:
            source, objects = str(self._common), self._common / "objects"
            if _is_partial(self._common):
                what = f"{self.repo} is a partial clone, of which no other can be made"
                raise StateError(what, fix="write isolation: {kind: worktree}, or use its URL")
        _clone(source, self.base_commit, self.at, held)
        self._baseline.begin(objects, rules, held=held)
        self._baseline.take_index()

    def _keep_rules(self, common: Path | None) -> Path:
        """Return a template with the user's own rules, a checkout's too: as they were before the first agent."""
        template = self.at.with_name(f".{make_digest(str(common or ''))}.rules")
        if template.exists():
            return template
        fresh = template.with_name(f"{template.name}.{os.getpid()}")
        shutil.rmtree(fresh, ignore_errors=True)
        (fresh / "info").mkdir(parents=True)
        own = [_locate_excludes(), *([common / "info" / "exclude"] if common else [])]
        (fresh / "info" / "exclude").write_bytes(b"\n".join(map(_read_rules, own)))
        if common and (patterns := self._find_sparse()):
            (fresh / "info" / "sparse-checkout").write_bytes(patterns)
        try:
            fresh.rename(template)
        except OSError:
            shutil.rmtree(fresh)
            if not template.exists():  # else another process was faster
                raise
        return template

    def _find_sparse(self) -> bytes:
        """Return the patterns of a sparse checkout."""
        patterns = _read_rules(_locate(self.repo, "--git-dir") / "info" / "sparse-checkout")
        if self.kind == "clone" or not patterns:
            return b""
        done = ask("config", "--type=bool", "core.sparseCheckout", cwd=Path(self.repo))
        return patterns if done.out == "true\n" else b""

    def _delete(self) -> None:
        if (point := _find_mount(self.at)) is not None:
            what = f"cannot remove {self.at}: something is mounted on {point}, which would be emptied"
            raise StateError(what, fix=f"umount {shlex.quote(str(point))}")
        records = [*self._find_records()]
        self._baseline.unseal()
        try:
            for each in (*records, self.at, self._place):
                if each.is_dir() and not each.is_symlink():
                    _remove_files(each)
                else:
                    each.unlink(missing_ok=True)
        except OSError as error:
            raise StateError(f"cannot remove {error.filename or self.at}: {error.strerror}") from None
        if records:
            with suppress(OSError):  # of other worktrees
                (self._common / "worktrees").rmdir()

    def _find_records(self) -> Iterator[Path]:
        """Find git's record of the worktree; what the records say counts only if no agent has had them."""
        if self._is_apart:
            return
        own, known = os.fsencode(f"{real(self.at)}/.git\n"), self._baseline.find_record()
        for each in (self._common / "worktrees").glob("*"):
            if real(each) == known or (known is None and not each.is_symlink() and _read_rules(each / "gitdir") == own):
                yield each


def refuse_copy(repo: str, name: str) -> tuple[str, str] | None:
    """Say why a path of a checkout cannot be copied, and the fix; None if it can."""
    checkout, source = real(Path(repo)), Path(repo, name)
    if not os.path.lexists(source):
        return f"{repo} has no {name}", "make it, or remove it from isolation.copy"
    if real(source.parent) != checkout / PurePath(name).parent or not real(source).is_relative_to(checkout):
        return f"{name} leads out of {repo}", "remove it from isolation.copy; isolation.setup can bring it"
    return None


def _locate(repo: str, what: str) -> Path:
    done = ask("rev-parse", what, cwd=Path(repo))
    if done.status:
        raise StateError(f"git rev-parse in {repo}: {done.err.strip() or 'it failed'}")
    return real(Path(repo, done.out.removesuffix("\n")))


def _locate_excludes() -> Path:
    done = ask("config", "--type=path", "core.excludesFile", cwd=Path("/"))
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - Path raises
    return Path(done.out.removesuffix("\n") or f"{config}/git/ignore")


def _read_rules(file: Path) -> bytes:
    """Return what a file of git's says; empty if it is not there, or not a plain file."""
    with suppress(OSError, Unfit):
        if found := read_bounded(file, MAX_RULES_BYTES):
            return found[0]
    return b""


def _is_partial(common: Path) -> bool:
    """Whether objects are missing that its remote has."""
    return next((common / "objects" / "pack").glob("*.promisor"), None) is not None


def _clone(source: str, commit: str, at: Path, held: int) -> None:
    call_git = partial(git, cwd=at, held=held)
    call_git("clone", "--quiet", "--no-checkout", "--no-hardlinks", "--", source, str(at), cwd=at.parent)
    try:
        call_git("cat-file", "-e", f"{commit}^{{commit}}")
    except StateError:  # no branch has it
        call_git("fetch", "--quiet", "origin", commit)
    call_git("checkout", "--quiet", "--detach", commit)


def _copy(source: Path, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir() and not source.is_symlink():
            shutil.copytree(source, target, symlinks=True, ignore=_of_processes)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
    except shutil.Error as errors:
        file, _, why = errors.args[0][0]
        raise StateError(f"cannot copy {file}: {why}") from None
    except OSError as error:
        raise StateError(f"cannot copy {source}: {error.strerror or error}") from None


def _of_processes(directory: str, names: Sequence[str]) -> list[str]:
    """Name the sockets, pipes and devices, which belong to processes; another copy of them is of no use."""
    kinds = {name: os.lstat(Path(directory, name)).st_mode for name in names}
    return [name for name, mode in kinds.items() if not (S_ISREG(mode) or S_ISDIR(mode) or S_ISLNK(mode))]


def _fill_modules(checkout: Path, at: Path, links: Mapping[str, str], held: int) -> None:
    """Make the submodules that the checkout has."""
    for name, commit in links.items():
        module = checkout / name
        if not os.path.lexists(module / ".git") or real(module) != real(checkout) / name:
            continue
        try:
            _clone(str(_locate(str(module), "--git-common-dir")), commit, at / name, held)
        except StateError as error:
            fix = f"git -C {checkout} submodule update --init {name}"
            raise StateError(f"cannot make the submodule {name}: {error.message}", fix=fix) from None
        listed = git("ls-files", "--stage", "-z", cwd=at / name, held=held).split("\0")
        inner = (entry.partition("\t") for entry in listed if entry.startswith("160000"))
        _fill_modules(module, at / name, {path: facts.split(" ")[1] for facts, _, path in inner}, held)


def _find_mount(tree: Path) -> Path | None:
    """Return where something is mounted in a directory, or on it: an agent, or the setup, can have done that."""
    try:
        lines = MOUNTS.read_bytes().splitlines()
    except OSError:  # only Linux has it
        return None
    points = (_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), line.split(b" ")[4]) for line in lines)
    return next((each for each in map(Path, map(os.fsdecode, points)) if each.is_relative_to(real(tree))), None)


def _remove_files(tree: Path) -> None:
    tree.chmod(0o700)
    for directory, names, _ in os.walk(tree):  # the agent, or Go's cache, took our own rights away
        for name in names:
            if not (each := Path(directory, name)).is_symlink():
                each.chmod(0o700)
    shutil.rmtree(tree)
