"""
What a directory held when its agent began, and the patch of what differs from it.

A baseline is our repository next to the directory. It is made before the agent begins, and what an agent writes
lies in the directory, so nothing of the agent's decides what git does, or what the patch holds:

    objects/           the commit's; or `info/alternates` in it names the directory that has them
    index              the files as they were checked out, without submodules
    info/exclude       the rules of ignored files: the user's, then the commit's
    info/attributes    the commit's attributes of line ends, and no others
    modules/N/         the baseline of a submodule
    sealed.json        the rest; it comes last
"""

import os
import shutil
import stat
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import IO, Any

import msgspec

from acp_launch.batch.model import Patch
from acp_launch.errors import StateError
from acp_launch.private import Unfit, publish, read_bounded, real, sha256
from acp_launch.process.git import call, closed_environment, git, make_environment
from acp_launch.regex import regex

MAX_PATCH_BYTES = 256 * 1024 * 1024  # of the files in it: git holds each in memory
MAX_RULES_BYTES = 16 * 1024 * 1024  # of a file with rules
MAX_PATCH_FILES = 100_000
MAX_INDEX_BYTES = 128 * 1024 * 1024
SEALED = "sealed.json"
TOKEN = "acp-launch.id"  # in the git directory of a clone: another one has not the same
CACHE = "CACHEDIR.TAG"  # a directory that has it may be deleted at any time: bford.info/cachedir
CACHE_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"
_GITLINK = "160000"  # the mode of a submodule
_RULES = (".gitignore", ".gitattributes")
_UNREADABLE = "could not open directory"  # only a warning of git's: its files would be missing from the patch
_REFUSED = "Ignoring path"  # another one
_COUNTS = regex(r"(\d+) (file|insertion|deletion)")
_CHUNK_BYTES = 1024 * 1024
# Attributes that the agent's files may set are reset; after them the commit's follow.
_RESET = b"[attr]binary -diff -merge -text\n* !text !eol !crlf !diff\n"
_PLAIN = b"\n* !ident !filter !working-tree-encoding\n"
_BYTES = b"* -text !eol\n"  # no line ends are converted
_CONVERTING = regex(rb"ident|filter|working-tree-encoding")
_ATTRIBUTE_LINE = regex(rb'[ \t]*("(?:[^"\\]|\\.)*"|[^\s"]\S*)(.*)')
_GLOB = regex(rb"[\\*?\[]")
_QUOTE = regex(rb'[\\"]')


class Sealed(msgspec.Struct, frozen=True):
    """`sealed.json`. `converted` are files that a filter wrote, as `_identify_file` says; names are as the system's."""

    base: str  # a commit or a tree
    identity: bytes  # of the directory and its `.git`
    git_directory: bytes
    modules: tuple[bytes, ...] = ()
    converted: tuple[tuple[bytes, tuple[int, ...]], ...] = ()


class Baseline:
    """The baseline at `place` of the directory `at`, which holds the files of a commit."""

    def __init__(self, at: Path, place: Path, base_commit: str = "") -> None:
        self.at, self.place, self._base = at, place, base_commit
        self._links: dict[str, str] = {}
        self._converted: tuple[tuple[bytes, tuple[int, ...]], ...] = ()

    # Before the agent begins.

    def begin(self, objects: Path | None, template: Path, *, held: int | None = None) -> None:
        """Make it for files that are there, or not yet; without `objects` the commit's are copied.

        `template` has the user's own rules.
        """
        _make_repository(self.place, template, is_sha256=len(self._base) == 64)
        if objects is not None:
            (self.place / "objects" / "info" / "alternates").write_bytes(os.fsencode(f"{objects}\n"))
        else:
            env = {**closed_environment(self.place, self.at), "GIT_ALLOW_PROTOCOL": "file"}
            words = "fetch", "--quiet", "--depth=1", "--no-tags", "--", str(self.at), self._base
            git(*words, cwd=self.at, env=env, held=held)

    def check_out(self, lfs: Path, *, held: int) -> None:
        """Write the files by the user's own settings; the repository's can come from another item's agent."""
        env = {**make_environment(), "GIT_DIR": str(self.place), "GIT_WORK_TREE": str(self.at)}
        is_sparse = (self.place / "info" / "sparse-checkout").exists()
        settings = {"lfs.storage": str(lfs), "core.sparseCheckout": str(is_sparse).lower()}
        git("read-tree", "--reset", "-u", self._base, cwd=self.at, env=env, held=held, settings=settings)
        shutil.copy2(self.place / "index", find_git_directory(self.at) / "index")

    def take_index(self) -> None:
        """Take the index of files that git has checked out."""
        shutil.copy2(find_git_directory(self.at) / "index", self.place / "index")

    def read_rules(self) -> dict[str, str]:
        """Take the commit's rules from its files; return the submodules with their commits."""
        found = list[str]()
        for entry in self._git("ls-files", "--stage", "-z").split("\0")[:-1]:
            facts, _, name = entry.partition("\t")
            if facts.startswith(_GITLINK):
                self._links[name] = facts.split(" ")[1]
            elif name.rpartition("/")[2] in _RULES and facts.startswith("100"):
                found.append(name)
        found.sort(key=lambda name: name.count("/"))  # the rules of a deeper file come later, so they win
        ignores, attributes = (
            b"\n".join(self._read_moved(name, move) for name in found if name.endswith(kind))
            for kind, move in zip(_RULES, (_move_ignore, _move_attribute), strict=True)
        )
        info = self.place / "info"
        info.mkdir(exist_ok=True)
        with (info / "exclude").open("ab") as file:
            file.write(b"\n" + ignores)
        (info / "attributes").write_bytes(_RESET + attributes + _PLAIN)
        if _CONVERTING.search(attributes):
            names = [name for _, name in self._list_changed(self._git)]
            self._converted = tuple((os.fsencode(name), _identify_file(self.at / name)) for name in names)
        return self._links

    def _read_moved(self, name: str, move: Any) -> bytes:
        try:
            found = read_bounded(self.at / name, MAX_RULES_BYTES)  # None in a sparse checkout
        except Unfit as error:
            raise StateError(f"{self.at / name} {error}") from None
        directory = os.fsencode(name.rpartition("/")[0])
        lines = (found[0] if found else b"").removeprefix(b"\xef\xbb\xbf").split(b"\n")
        return b"\n".join(move(directory, line.removesuffix(b"\r")) for line in lines)

    def seal(self, template: Path, *, is_changed: bool) -> None:
        """Let the agent begin. If the files were changed since they were checked out, no patch holds the changes."""
        base, modules = self._base, [name for name in self._links if os.path.lexists(self.at / name / ".git")]
        for number, name in enumerate(modules):
            at = self.at / name
            head = git("rev-parse", "HEAD", cwd=at).strip()
            module = Baseline(at, self.place / "modules" / str(number), head)
            module.place.parent.mkdir(exist_ok=True)
            module.begin(None, template)
            module.take_index()
            module.read_rules()
            module.seal(template, is_changed=is_changed)
        if self._links:
            self._git("update-index", "-z", "--force-remove", "--stdin", feed=self._links)
        git_directory, names = find_git_directory(self.at), tuple(map(os.fsencode, modules))
        with self._explain(""):
            (git_directory / TOKEN).write_text(os.urandom(16).hex())
            sealed = Sealed(base, identify(self.at), os.fsencode(git_directory), names, self._converted)
        if is_changed:
            with TemporaryDirectory(dir=self.place, prefix="scratch-") as scratch:
                self._stage(self._environment(self.place), Path(scratch), sealed)
        if is_changed or self._links:
            sealed = msgspec.structs.replace(sealed, base=self._git("write-tree", "--missing-ok").strip())
        (self.place / "fresh").write_bytes(msgspec.json.encode(sealed))
        (self.place / "fresh").replace(self.place / SEALED)

    def _git(self, *words: str, **how: Any) -> str:
        return git(*words, cwd=self.at, env=self._environment(self.place), **how)

    def _environment(self, holder: Path) -> dict[str, str]:
        """Return variables for a git whose index and new objects `holder` keeps."""
        quoted = str(self.place / "objects").replace("\\", "\\\\").replace('"', '\\"')
        return closed_environment(self.place, self.at) | {
            "GIT_INDEX_FILE": str(holder / "index"),
            "GIT_OBJECT_DIRECTORY": str(holder / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{quoted}"',
        }

    @property
    def is_sealed(self) -> bool:
        return (self.place / SEALED).exists()

    def unseal(self) -> None:
        (self.place / SEALED).unlink(missing_ok=True)

    def find_record(self) -> Path | None:
        """Return the git directory that the directory had when its agent began; None if none began."""
        return real(Path(os.fsdecode(self.read().git_directory))) if self.is_sealed else None

    def read(self) -> Sealed:
        """Read what was sealed; raise StateError if that cannot be."""
        try:
            return msgspec.json.decode((self.place / SEALED).read_bytes(), type=Sealed)
        except (OSError, msgspec.MsgspecError) as error:
            raise StateError(f"cannot read {self.place}: {error}") from None

    # After it.

    def require_own(self, fix: str) -> None:
        """Refuse a directory that is another one now, or whose `.git` is; raise StateError."""
        with self._explain(fix):
            if identify(self.at) != self.read().identity:
                raise Unfit("is not the one that was made there")

    @contextmanager
    def _explain(self, fix: str) -> Iterator[None]:
        try:
            yield
        except (OSError, Unfit) as error:
            why = f"cannot be used: {error.strerror}" if isinstance(error, OSError) else str(error)
            raise StateError(f"{self.at / '.git'} {why}", fix=fix) from None

    def write_patch(self, file: Path, below: Path | None = None) -> Patch:
        """Write what differs: files that are new, gone, binary or other than before, in submodules too.

        It does not matter what the agent committed, staged, or told git. Ignored files are left out unless the agent
        added them by force, and directories of caches (CACHEDIR.TAG). Without changes the file is empty. `below` as in
        `descent.pin`.

        Raises:
            StateError: it cannot be made, or would leave something out: keep the directory.
        """
        try:
            with TemporaryDirectory(dir=file.parent, prefix=".patch-") as scratch:
                fresh, counts, digest = Path(scratch) / "patch", Counter[str](), sha256()
                with fresh.open("xb") as out:
                    self._append(out, Path(scratch) / "all", "", counts, digest)
                publish(fresh, file, below=below)
        except OSError as error:
            raise StateError(f"cannot make a patch of {self.at}: {error.filename or file}: {error.strerror}") from None
        files, insertions, deletions = (counts[what] for what in ("file", "insertion", "deletion"))
        return Patch(files=files, insertions=insertions, deletions=deletions, sha256=str(digest.hexdigest()))

    def differs_from(self, patch: Patch) -> bool:
        """Whether the directory was changed since its patch was made; raises as `write_patch`."""
        with TemporaryDirectory(prefix="acp-launch-") as scratch:
            return self.write_patch(Path(scratch) / "patch").sha256 != patch.sha256

    def _append(self, out: IO[bytes], scratch: Path, prefix: str, counts: Counter[str], digest: Any) -> None:
        self.require_own("look into the directory, which was kept")
        sealed, listing = self.read(), scratch / "listing"
        (scratch / "objects").mkdir(parents=True)
        # With its time, by which git finds changes of the moment in which it was written.
        shutil.copy2(self.place / "index", scratch / "index")
        env = self._environment(scratch)
        if self._stage(env, scratch, sealed):
            form = "--full-index", "--find-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--binary"
            paths = f"--src-prefix=a/{prefix}", f"--dst-prefix=b/{prefix}", f"--output={listing}", sealed.base, "--"
            git("diff-index", "--cached", "--shortstat", "--patch", *form, *paths, cwd=self.at, env=env)
            with listing.open("rb") as source:
                counts.update({what: int(number) for number, what in _COUNTS.findall(source.readline().decode())})
                source.readline()
                while chunk := source.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    out.write(chunk)
        for number, name in enumerate(map(os.fsdecode, sealed.modules)):
            module = Baseline(self.at / name, self.place / "modules" / str(number))
            module._append(out, scratch / str(number), f"{prefix}{name}/", counts, digest)

    def _stage(self, env: Mapping[str, str], scratch: Path, sealed: Sealed) -> bool:
        """Take what differs into the index of `env`; return whether anything does."""
        call_git = partial(git, cwd=self.at, env=env)
        if (self.place / "info" / "sparse-checkout").exists():
            # Look at files that the agent made although the sparse checkout leaves them out.
            listed = call_git("ls-files", "-t", "-z").split("\0")
            names = [each[2:] for each in listed if each.startswith("S ") and os.path.lexists(self.at / each[2:])]
            if names:
                call_git("update-index", "-z", "--no-skip-worktree", "--stdin", feed=names)
        changed = self._list_changed(call_git, sealed)
        hidden, gone = self._divide_gone([name for status, name in changed if status == "D"])
        added = [name for status, name in changed if status != "D"]
        added += self._list_new(call_git, scratch, sealed)
        if theirs := self._take_theirs(env, scratch, sealed):
            added += self._list_forced(theirs, sealed)
            self._require_all(theirs, [*hidden, *gone], sealed)
        self._require_small(added)
        if hidden:
            call_git("update-index", "-z", "--force-remove", "--stdin", feed=hidden)
        if gone or added:
            names = [*gone, *added]
            words = "update-index", "-z", "--add", "--remove", "--replace", "--stdin"
            take = partial(git, *words, cwd=self.at, feed=names, refused=(_REFUSED,))
            try:
                take(env=env, settings={"core.safecrlf": "true"})
            except StateError:  # perhaps line ends that would not come back: take all bytes as they are
                plain = self._copy(scratch / "plain")
                with (plain / "info" / "attributes").open("ab") as rules:
                    rules.write(_BYTES)
                take(env={**env, "GIT_DIR": str(plain)})
        return bool(hidden or gone or added)

    def _copy(self, to: Path) -> Path:
        """Copy the repository without its objects and modules."""
        shutil.copytree(self.place, to, ignore=shutil.ignore_patterns("objects", "modules", "scratch-*", SEALED))
        (to / "objects").mkdir()
        return to

    def _list_changed(self, call_git: Any, sealed: Sealed | None = None) -> list[tuple[str, str]]:
        """List tracked files that differ, with a letter: D if they are gone."""
        words = call_git("diff-files", "--name-status", "--ignore-submodules=all", "-z").split("\0")
        changed = list(zip(words[::2], words[1::2], strict=False))
        converted = dict(sealed.converted) if sealed and changed else {}
        return [(status, name) for status, name in changed if not self._is_same(name, converted)]

    def _is_same(self, name: str, converted: dict[bytes, tuple[int, ...]]) -> bool:
        known = converted.get(os.fsencode(name))
        return known is not None and known == _identify_file(self.at / name)

    def _divide_gone(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """Divide files that are gone: the first are behind a link, where git would not look."""
        parents = {f"{parent}/" for name in names for parent in PurePath(name).parents if str(parent) != "."}
        links = tuple(parent for parent in parents if (self.at / parent).is_symlink())
        hidden = [name for name in names if name.startswith(links)]
        return hidden, [name for name in names if not name.startswith(links)]

    def _list_new(self, call_git: Any, scratch: Path, sealed: Sealed) -> list[str]:
        """List files that are neither tracked nor ignored."""
        words = "ls-files", "--others", "-z", f"--exclude-from={self.place / 'info' / 'exclude'}"
        listed = call_git(*words, refused=(_UNREADABLE,)).split("\0")[:-1]
        modules = tuple(f"{os.fsdecode(name)}/" for name in sealed.modules)
        names = [name for name in listed if not name.startswith(modules)]
        caches = tuple(name.removesuffix(CACHE) for name in names if self._marks_cache(name))
        nested = {f"{name}.git" for name in names if name.endswith("/")} | {*self._find_repositories(modules)}
        self._require_ignored(scratch, [name for name in nested if not name.startswith(caches)])
        return [name for name in names if not name.endswith("/") and not name.startswith(caches)]

    def _marks_cache(self, name: str) -> bool:
        if not name.endswith(f"/{CACHE}"):
            return False
        with suppress(OSError, Unfit):
            found = read_bounded(self.at / name, MAX_RULES_BYTES)
            return found is not None and found[0].startswith(CACHE_SIGNATURE)
        return False

    def _require_ignored(self, scratch: Path, found: Sequence[str]) -> None:
        """Refuse other repositories, whose `.git` would be left out, unless their directories are ignored."""
        if not found:
            return
        empty = scratch / "empty"  # so only our own rules count
        empty.mkdir(exist_ok=True)
        words = "check-ignore", "--no-index", "-z", "--stdin"
        ignored = call(*words, cwd=empty, env=closed_environment(self.place, empty), feed=found).out.split("\0")
        if left := sorted(name.removesuffix("/.git") for name in found if name not in ignored):
            why = "a git repository of its own, or a submodule that your checkout does not have"
            raise self._leave_out(left[0], why)

    def _find_repositories(self, modules: Collection[str]) -> Iterator[str]:
        directories = [""]
        while directories:
            directory = directories.pop()
            with suppress(OSError), os.scandir(self.at / directory) as entries:
                for entry in entries:
                    if entry.name == ".git":
                        yield from [f"{directory}.git"] if directory else []
                    elif entry.is_dir(follow_symlinks=False) and (name := f"{directory}{entry.name}/") not in modules:
                        directories.append(name)

    def _take_theirs(self, env: Mapping[str, str], scratch: Path, sealed: Sealed) -> dict[str, str] | None:
        """Copy the agent's own index, and return variables for a git that reads it; None if it says nothing new."""
        theirs, index = Path(os.fsdecode(sealed.git_directory)), scratch / "theirs"
        try:
            found = read_bounded(theirs / "index", MAX_INDEX_BYTES)
            if found is None or found[0] == (self.place / "index").read_bytes():
                return None
            index.write_bytes(found[0])
            parts = {each.name: read_bounded(each, MAX_INDEX_BYTES) for each in theirs.glob("sharedindex.*")}
        except Unfit as error:
            raise self._leave_out("files of the agent's index", f"it {error}") from None
        if not parts:
            return {**env, "GIT_INDEX_FILE": str(index)}
        split = self._copy(scratch / "split")
        for name, part in parts.items():
            (split / name).write_bytes(part[0] if part else b"")
        return {**env, "GIT_INDEX_FILE": str(index), "GIT_DIR": str(split)}

    def _list_forced(self, env: Mapping[str, str], sealed: Sealed) -> list[str]:
        """List files that the agent's index has besides the base: also ignored ones, which it added by force."""
        words = "--cached", "--raw", "--no-renames", "--diff-filter=A", "-z", sealed.base, "--"
        facts = git("diff-index", *words, cwd=self.at, env=env).split("\0")
        listed = zip(facts[::2], facts[1::2], strict=False)
        return [name for modes, name in listed if modes.split(" ")[1] != _GITLINK and self._is_file(name)]

    def _require_all(self, env: Mapping[str, str], gone: Collection[str], sealed: Sealed) -> None:
        """Refuse files that are gone since the agent made its checkout sparse: it has not deleted them."""
        if gone and (Path(os.fsdecode(sealed.git_directory)) / "info" / "sparse-checkout").exists():
            listed = git("ls-files", "-t", "-z", cwd=self.at, env=env).split("\0")
            if left := {each[2:] for each in listed if each.startswith("S ")}.intersection(gone):
                raise self._leave_out(min(left), "the agent made the checkout sparse")

    def _is_file(self, name: str) -> bool:
        path = self.at / name
        return path.is_symlink() or path.is_file()

    def _require_small(self, names: Sequence[str]) -> None:
        total = 0
        if len(names) > MAX_PATCH_FILES:
            raise self._leave_out(f"{len(names):,} files", f"at most {MAX_PATCH_FILES:,} are allowed")
        for name in names:
            with suppress(OSError):
                total += (self.at / name).lstat().st_size
            if total > MAX_PATCH_BYTES:
                raise self._leave_out(name, f"with it the files have more than {MAX_PATCH_BYTES // 2**20} MiB")

    def _leave_out(self, name: str, why: str) -> StateError:
        what = f"a patch of {self.at} would leave out {name}: {why}"
        return StateError(what, fix="look into the directory, which was kept")


def _make_repository(place: Path, template: Path, *, is_sha256: bool) -> None:
    """Make an empty repository, as `git init` would in more time; `template` has its `info`."""
    for name in ("objects/info", "objects/pack", "refs"):
        (place / name).mkdir(parents=True)
    shutil.copytree(template / "info", place / "info")
    head = place / "HEAD"
    head.write_text("ref: refs/heads/none\n")
    head.chmod(0o700)
    has_modes = bool(head.stat().st_mode & 0o100)
    head.chmod(0o600)
    core = {
        "repositoryFormatVersion": int(is_sha256),
        "fileMode": str(has_modes and not head.stat().st_mode & 0o100).lower(),
        "ignoreCase": str((place / "head").exists()).lower(),
    }
    lines = ["[core]", *(f"{name} = {value}" for name, value in core.items())]
    lines += ["[extensions]", "objectFormat = sha256"] if is_sha256 else []
    (place / "config").write_text("\n".join(lines) + "\n")


def find_git_directory(at: Path) -> Path:
    """Return the git directory that the `.git` of a directory is, or names; it can be an agent's."""
    git_file = at / ".git"
    if not git_file.is_file():
        return git_file
    found = read_bounded(git_file, MAX_RULES_BYTES)
    return at / os.fsdecode(found[0] if found else b"").removeprefix("gitdir: ").rstrip("\n")


def identify(at: Path) -> bytes:
    """Return what tells a directory and its `.git` from others of that name.

    Raises:
        OSError, Unfit: one of them is gone, or not what git makes.
    """
    git_file = at / ".git"
    if at.is_symlink() or stat.S_ISLNK(git_file.lstat().st_mode):
        raise Unfit("is a link")
    target = find_git_directory(at)
    files = [target / name for name in ("commondir", "gitdir", TOKEN)] + ([] if git_file.is_dir() else [git_file])
    found = [read_bounded(file, MAX_RULES_BYTES) for file in files]
    return b"\0".join(content[0] if content else b"" for content in found)


def _identify_file(file: Path) -> tuple[int, ...]:
    try:
        seen = file.lstat()
    except OSError:
        return ()
    return seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino


# Rules of a directory as rules of the top.


def _move_ignore(directory: bytes, line: bytes) -> bytes:
    if not directory or not line.strip() or line.startswith(b"#"):
        return line
    sign, pattern = (b"!", line[1:]) if line.startswith(b"!") else (b"", line)
    return sign + _anchor(_GLOB.sub(rb"\\\g<0>", directory), pattern)


def _move_attribute(directory: bytes, line: bytes) -> bytes:
    found = _ATTRIBUTE_LINE.match(line)
    if not directory or not found or found[1].startswith(b"#"):
        return line
    pattern, directory = found[1], _GLOB.sub(rb"\\\g<0>", directory)
    pattern = pattern[1:-1] if pattern.startswith(b'"') else _QUOTE.sub(rb"\\\g<0>", pattern)
    return b'"' + _anchor(_QUOTE.sub(rb"\\\g<0>", directory), pattern) + b'"' + found[2]


def _anchor(directory: bytes, pattern: bytes) -> bytes:
    """Write a pattern of a directory for the top: one without a slash in it holds at any depth."""
    is_anchored = b"/" in pattern.rstrip(b" ")[:-1]
    return b"/" + directory + (b"/" + pattern.removeprefix(b"/") if is_anchored else b"/**/" + pattern)
