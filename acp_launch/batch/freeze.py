"""
A file becomes a frozen batch: it is trusted, its profiles are planned, its commits resolved, and `batch.json` written.

`plan_batch` makes the checks that each run of an item makes before its start, and writes nothing. Before the file is
trusted no git is started and no server asked.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from acp_launch import __version__
from acp_launch.app.consent import require_claim
from acp_launch.app.planning import prepare_plan, resolve_trusted, resolved_from
from acp_launch.app.spec import load_settings
from acp_launch.batch.check import KIND, MAX_TASKS_SIZE, CheckedBatch, check, write_part
from acp_launch.batch.checking import find_absence
from acp_launch.batch.model import Batch, FrozenProfile, Isolation, Item
from acp_launch.batch.store import BATCH, BatchDirectory, digest_batch, encode, explain_faults, open_batch, spell
from acp_launch.batch.trust import claim_file, find_writable, is_kept, judge_file, keep_directory, list_rows, list_said
from acp_launch.batch.worktree import refuse_copy
from acp_launch.console import problems as screen
from acp_launch.console import stdout
from acp_launch.console.stderr import DIM, tell
from acp_launch.console.trust import ReportRow
from acp_launch.descent import BATCHES, parent, real, remove_directory
from acp_launch.document.nodes import MAX_SIZE, decode
from acp_launch.document.yaml import parse as parse_yaml
from acp_launch.errors import MachineError, NotLoggedIn, ProblemsError, ProfileError, StateError, UsageError
from acp_launch.plan.model import LaunchPlan, Mount
from acp_launch.plan.written import find_written
from acp_launch.private import Unfit, create, make_private, read_bounded
from acp_launch.problem import Problem, about, count, dotted, errors, ours
from acp_launch.process.git import is_url, resolve_commit
from acp_launch.profile.discover import HOLDER, find, here, project_of, repository_of, shown
from acp_launch.profile.leaks import in_comments
from acp_launch.profile.load import Loaded, load
from acp_launch.profile.trust import Claim, TrustState, digest_content
from acp_launch.profile.values import templates
from acp_launch.secret.value import VariableReference, parse, place
from acp_launch.settings.model import Settings
from acp_launch.waits import format_time

PROJECT = VariableReference("project")


class Examined(NamedTuple):
    """What the files say. `project` is what tasks without a repository work on; `trust` is that in the batch's file."""

    file: Path
    project: Path
    text: str
    checked: CheckedBatch
    tasks: "TasksFile"
    profiles: Mapping[str, Loaded]
    problems: list[Problem]
    claim: Claim
    trust: TrustState


class TasksFile:
    """The file of tasks, read at most once."""

    path: Path | None = None
    content = b""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, name: str) -> tuple[bytes, str]:
        path = Path(os.path.normpath(self._directory / name))
        self.content, self.path = _read_file(path, MAX_TASKS_SIZE), path
        return self.content, shown(path)


@explain_faults()
def check_file(file: Path, *, as_json: bool) -> int:
    """Print all problems of a batch and its profiles, else how many items it has; return the exit code."""
    settings = load_settings()
    found = _examine(file, settings)
    items, problems = _find_items(found, with_git=found.trust.is_trusted)
    found.problems.extend([*problems, *_find_credentials(found)])
    if not found.trust.is_trusted and not errors(found.problems):
        what = "the repositories of its tasks were not looked at, since this batch is not trusted yet"
        fix = f"acp-launch trust {found.claim.called}"
        found.problems.append(about(found.claim.label, what, fix)._replace(severity="warning"))
    code = ProfileError.exit_code if errors(found.problems) else 0
    for loaded in found.profiles.values():
        resolved = resolved_from(loaded, cwd=found.project, typed=found.project)
        unfit = [*_refuse_place(found, resolved.plan)] if resolved.plan else []
        found.problems.extend(each for each in [*resolved.problems, *unfit] if each not in found.problems)
        code = code or (MachineError.exit_code if unfit or resolved.plan is None else 0)
    if as_json:
        listed = [each.as_json() for each in found.problems]
        stdout.put_json({"problems": listed, "items": len(items), "profiles": [*found.checked.profiles]})
        return code
    label = shown(found.file)
    screen.show(found.problems, as_json=False, outcome=f"{label} cannot be used")
    if not code:
        stdout.line(f"{label}: ok, {count(len(items), 'item')} with {count(len(found.profiles), 'profile')}")
    return code


@explain_faults()
def prepare_file(file: Path, out: Path | None, *, trust: bool) -> int:
    """Freeze a batch; print its directory and the ids of its items."""
    frozen = freeze(file, out, trust=trust)
    for line in (str(frozen.path), *(item.id for item in frozen.batch.items)):
        stdout.line(line)
    return 0


def freeze(
    file: Path, out: Path | None, *, trust: bool, only: Sequence[str] = (), elsewhere: bool = False
) -> BatchDirectory:
    """Plan a batch, and write it to a directory that holds none; without `out` to a new one of the project.

    It has the items `only`. They run `elsewhere`, or here.

    Raises:
        LaunchError: as `plan_batch`.
        UsageError: the directory holds something, or an item of `only` is not among its items.
        StateError: it cannot be written.
    """
    try:
        if out is not None:
            _require_vacant(out)
        batch, plans = _plan(file, trust=trust, elsewhere=elsewhere)
        for id in only:
            BatchDirectory(Path(), batch).find_item(id)
        content = encode(batch)
        path = _choose_directory(batch, plans, out)
        # Write the batch, and remove the directory again if that fails.
        with parent(path / "items", make=0o700) as (directory, items):
            os.mkdir(items, 0o700, dir_fd=directory)  # fails if another process was faster
        try:
            create(path / BATCH, content)
        except BaseException:
            with suppress(OSError):
                remove_directory(path / "items")
                remove_directory(path)
            raise
    except UnicodeEncodeError as error:
        raise StateError(f"{error.object!r} is not valid Unicode", fix="rename the directory") from None
    except OSError as error:
        if not (error.filename or out):  # the current directory is gone
            raise
        what = f"cannot write a batch to {error.filename or out}: {error.strerror}"
        raise StateError(what, fix="give another directory: --out DIR") from None
    frozen = BatchDirectory(path, batch, digest_batch(content))
    keep_directory(frozen, load_settings())
    return frozen


def plan_batch(file: Path, *, trust: bool, elsewhere: bool = False) -> Batch:
    """As `_plan`."""
    return _plan(file, trust=trust, elsewhere=elsewhere)[0]


def _plan(file: Path, *, trust: bool, elsewhere: bool) -> tuple[Batch, Mapping[str, LaunchPlan]]:
    """Check a batch, and plan each profile once as a run does; start and write nothing. `trust` is `--trust`.

    If the items run `elsewhere`, as on a cluster, secrets and logins are looked up there alone. Return the batch, and
    the plans by the names of profiles.

    Raises:
        ProfileError: the file or a profile is wrong.
        NotTrusted: the batch, or a project's profile, is not trusted.
        MachineError: this machine lacks something, or a secret.
        NotLoggedIn: logins are all that is missing.
    """
    settings = load_settings()
    found = _examine(file, settings)
    if errors(found.problems) or found.checked.file is None:
        raise ProfileError(found.problems)

    require_claim(found.claim, found.trust, lambda: list_rows(list_said(found.checked)), settings, allow_once=trust)
    items, problems = _find_items(found)
    if errors(problems):
        raise ProfileError([*found.problems, *problems])
    plans = _require_ready(found, settings, trust=trust, elsewhere=elsewhere)
    said = found.checked.file
    batch = Batch(
        name=write_part(found.file.stem),
        created=format_time(time.time()),
        acp_launch=__version__,
        file=str(found.file),
        directory=str(found.file.parent),
        profiles={
            name: FrozenProfile(called=name, file=str(loaded.found.file), digest=digest_content(loaded))
            for name, loaded in found.profiles.items()
        },
        items=items,
        isolation=said.isolation,
        check=said.check,
        approve=said.approve,
        limits=said.limits,
        retry=said.retry,
    )
    return batch, plans


def _require_ready(found: Examined, settings: Settings, *, trust: bool, elsewhere: bool) -> Mapping[str, LaunchPlan]:
    """Make the checks of a run for each profile; what this machine lacks is raised at once for all of them."""
    missing, unknown, plans = list[Problem](), list[NotLoggedIn](), dict[str, LaunchPlan]()
    for name, loaded in found.profiles.items():
        resolved = resolve_trusted(loaded, settings, cwd=found.project, typed=found.project, trust=trust)
        if elsewhere:
            resolved = structs.replace(resolved, needs=())
        try:
            # An item has no terminal to ask for the passphrase again.
            plans[name] = prepare_plan(resolved, settings, with_logins=not elsewhere, asks_passphrase=False).plan
            missing += _refuse_place(found, plans[name])
        except MachineError as error:
            missing += error.problems
        except NotLoggedIn as error:
            unknown.append(error)
    if missing:
        raise MachineError(list(dict.fromkeys(missing)))
    if unknown:
        raise unknown[0]
    return plans


def _refuse_place(found: Examined, plan: LaunchPlan) -> Iterator[Problem]:
    """Find what cannot be in the place of an agent: the check, and trees that its items would have here."""
    said = found.checked.file
    if plan.place is None or said is None:
        return
    if said.check and not said.check.outside and (fault := find_absence(said.check, plan.place, found.project)):
        yield about(found.claim.label, *fault)
    if plan.machine and said.isolation.kind != "none":
        kind = said.isolation.kind
        what = f"the agent of {plan.called} is {plan.machine}, and a {kind} of an item would be made here"
        yield about(found.claim.label, what, "write isolation: none: its items work in runtime.ssh.directory")


# The files.


def _examine(file: Path, settings: Settings) -> Examined:
    path = spell(file)
    directory = path.parent
    project = _locate_project(directory)
    text, problems = decode(_read_file(path, MAX_SIZE), shown(path), KIND)
    if text is None:
        raise ProfileError(problems)

    tasks = TasksFile(directory)
    checked = check(text, shown(path), repo=str(project), read_tasks=tasks.read)
    profiles, problems = _load_profiles(checked, directory, settings)
    if checked.file is not None and checked.file.isolation.kind != "none":
        problems += [problem for loaded in profiles.values() for problem in _find_project(loaded)]
    claim = claim_file(path, checked, project)
    trust = judge_file(claim, settings, tasks.path)
    problems = list(dict.fromkeys(problems))
    return Examined(path, project, text, checked, tasks, profiles, problems, claim, trust)


def read_claim(file: Path, settings: Settings) -> "tuple[Claim, TrustState, Iterable[ReportRow]] | None":
    """Return what a batch wants to be trusted with, the trust in it, and the rows to show; None if it is not a batch.

    Raises:
        ProfileError: the file is wrong.
    """
    text, _ = decode(_read_file(file, MAX_SIZE), shown(file), KIND)
    document, _ = parse_yaml(text or "", shown(file), KIND)
    if document is None or "tasks" not in document.root or "agent" in document.root:
        return None
    found = _examine(file, settings)
    if found.checked.file is None:
        raise ProfileError(found.problems)
    return found.claim, found.trust, list_rows(list_said(found.checked))


def _find_items(found: Examined, *, with_git: bool = True) -> tuple[tuple[Item, ...], list[Problem]]:
    """Find the repositories and commits of the items; without git only whether there are such directories."""
    items, problems = list[Item](), list[Problem]()
    if found.checked.file is None:
        return (), []
    isolation, look_up = found.checked.file.isolation, cache(partial(_find_base, with_git=with_git))
    for item, task, at in found.checked.drafts:
        base = look_up(task.repo or str(found.project), task.ref or isolation.ref, isolation, found.file.parent)
        problems += [at.problem("", *base.fault)] if base.fault else []
        items.append(structs.replace(item, repo=base.repo, base_commit=base.commit))
    return tuple(items), list(dict.fromkeys(problems))


def _find_credentials(found: Examined) -> Iterator[Problem]:
    """Find credentials that are written into the batch, or into its file of tasks."""
    tasks = found.tasks
    texts = [(found.text, found.claim.label)]
    texts += [(tasks.content.decode(errors="replace"), shown(tasks.path))] if tasks.path else []
    for text, label in texts:
        for (line, column), fault in in_comments(text, ()):
            yield Problem(label, line, column, "", fault.message, fault.fix, fault.severity)


def _load_profiles(
    checked: CheckedBatch, directory: Path, settings: Settings
) -> tuple[dict[str, Loaded], list[Problem]]:
    """Load the profiles, which are found from the directory of the batch's file; return all problems with them."""
    profiles, problems = dict[str, Loaded](), [*checked.problems]
    for name, at in checked.profiles.items():
        try:
            profiles[name] = load(find(name, start=directory, settings=settings), cache=settings.cache)
        except UsageError as error:
            problems.append(at.problem("profiles", error.message, error.fix))
        except ProblemsError as error:
            problems += error.problems
    return profiles, problems


def _read_file(path: Path, most: int) -> bytes:
    """Read a file; raise UsageError if that fails."""
    try:
        found = read_bounded(path, most)
    except (OSError, ValueError, Unfit) as error:  # ValueError: the name holds a NUL character
        what = f"{shown(path)} {error}" if isinstance(error, Unfit) else f"cannot read {shown(path)}"
        why = f"{what}: {error.strerror}" if isinstance(error, OSError) else what
        raise UsageError(why, fix="give a file that can be read") from None
    if found is None:
        raise UsageError(f"no such file: {shown(path)}", fix="correct the path")
    return found[0]


def _find_project(loaded: Loaded) -> Iterator[Problem]:
    """Find what would lead an item to the user's own checkout instead of its own directory."""
    for path, template in templates(loaded.profile):
        begins_there = False
        match path:
            case ("workspace", "cwd") | ("agent", "command") | ("mcp_servers", _, "command"):
                continue  # programs may lie there; the session's directory is the item's in any case
            case ("workspace", *_) | ("mcp_servers", _, "cwd") | ("permissions", "rules", _, _, "path", *_):
                begins_there = True  # a relative path
        if path not in loaded.positions.table:  # a text that stands for a list of one
            path = path[:-1]
        first, *_ = parts = parse(template) or ("/",)
        at = loaded.positions.where(path, offset=place(template, PROJECT) if PROJECT in parts else 0)
        where = "your own checkout; an item works in a directory of its own"
        if PROJECT in parts:
            yield at.problem(dotted(path), f"${{project}} is {where}", "write ${workdir}")
        elif begins_there and isinstance(first, str) and not first.startswith("/"):
            fix = f"write ${{workdir}}/{template.removeprefix('./')}"
            yield at.problem(dotted(path), f'"{template}" lies in {where}', fix)


# Repositories.


def _locate_project(directory: Path) -> Path:
    """Return the repository around the directory of a batch, else its project."""
    return repository_of(directory) or (directory.parent if directory.name == HOLDER else directory)


class Base(NamedTuple):
    """What a task begins from, or why it cannot, and the fix."""

    repo: str
    commit: str | None = None
    fault: tuple[str, str] | None = None


def _find_base(written: str, ref: str, isolation: Isolation, directory: Path, *, with_git: bool) -> Base:
    """Find the repository and the commit of a task; a path begins at the directory of the batch's file."""
    if is_url(written):
        if isolation.kind != "clone":
            return Base(written, fault=("an address can only be cloned", "write isolation: {kind: clone}"))
        if isolation.copy:
            return Base(written, fault=("an address has no files to copy", "remove isolation.copy; or write a path"))
        repo = written
    else:
        repo = os.path.normpath(directory / os.path.expanduser(written))  # noqa: PTH111 - Path raises without a home
        if fault := _refuse_repository(repo, isolation):
            return Base(repo, fault=fault)
    if not with_git:
        return Base(repo)
    if isolation.kind == "none":
        with suppress(StateError):  # the commit is only for the record
            around = repository_of(Path(repo))
            return Base(repo, resolve_commit(str(around), "HEAD") if around else None)
        return Base(repo)
    if commit := resolve_commit(repo, ref):
        return Base(repo, commit)
    what = f'the repository of this task has no commit "{ref}"'  # an address may hold a credential
    return Base(repo, fault=(what, "write a branch, a tag or a commit that it has, or fetch it"))


def _refuse_repository(repo: str, isolation: Isolation) -> tuple[str, str] | None:
    """Say why no item can work on a directory, and the fix; None if one can."""
    if not os.path.isdir(repo):  # noqa: PTH112 - it raises in a directory we may not enter
        return f"the directory {repo} does not exist", "correct the path; it begins at the directory of the batch"
    around = repository_of(Path(repo))
    if isolation.kind == "none":
        return None
    if str(around) == repo:
        return next(filter(None, (refuse_copy(repo, name) for name in isolation.copy)), None)
    if around is None:
        return f"{repo} is not a git repository", "make it one: git init; or write isolation: {kind: none}"
    return f"{repo} lies in the repository {around}", f"write {around}"


# The directory.


def _choose_directory(batch: Batch, plans: Mapping[str, LaunchPlan], out: Path | None) -> Path:
    """Return the directory that is asked for; else a new one of the project, which git ignores.

    No confined agent may write it. If one works in the project, or has, it is a new one in the state directory.

    Raises:
        UsageError: the one that is asked for could be written by a confined agent.
    """
    name = f"{batch.name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    names = [name, *(f"{name}-{number}" for number in range(2, 1000))]
    batches = _locate_project(Path(batch.directory)) / HOLDER / BATCHES
    is_theirs = batch.isolation.kind == "none" and _find_writer(batch, plans, batches)
    if out is None and (is_theirs or find_written(batches)):
        batches = load_settings().state / BATCHES
    path = spell(out or batches / name)
    if find_written(path):
        what = f"a confined agent could write {path}, and so what is recorded there"
        raise UsageError(what, fix="give a directory outside of what it writes: --out DIR")
    if writer := _find_writer(batch, plans, path):
        what = f"the agent of {writer} is confined, but could write {path}, and so what is recorded there"
        raise UsageError(what, fix="give a directory outside of what it writes: --out DIR")
    if out is not None:
        return path
    make_private(batches)
    with suppress(FileExistsError):
        create(batches / ".gitignore", b"*\n", is_shared=True)
    return next(path for path in map(batches.joinpath, names) if not os.path.lexists(path))


def find_latest() -> Path:
    """Return the directory of this project's latest batch that was made for this user, and say which it is.

    A repository may bring directories, and the state directory holds other projects' batches.

    Raises:
        UsageError: there is none.
    """
    project, settings = project_of(here()), load_settings()
    files = [each for place in (project / HOLDER, settings.state) for each in place.glob(f"{BATCHES}/*/{BATCH}")]
    for file in sorted(files, key=_time_of, reverse=True):
        with suppress(UsageError, StateError):
            directory = open_batch(file.parent)
            if _locate_project(Path(directory.batch.directory)) == project and is_kept(directory, settings):
                tell(f"the latest batch: {directory.path}", style=DIM)
                return directory.path
    fix = f"name its directory, or {ours('batch', 'run', 'FILE')}"
    raise UsageError("this project has no batch that was made for you", fix=fix)


def _time_of(file: Path) -> float:
    with suppress(OSError):  # it has just been removed
        return file.lstat().st_mtime
    return 0.0


def _find_writer(batch: Batch, plans: Mapping[str, LaunchPlan], path: Path) -> str | None:
    """Return the profile whose confined agent could write a directory; None if none can."""
    return next((name for name, plan in plans.items() if _can_write(batch, name, plan, real(path))), None)


def _can_write(batch: Batch, name: str, plan: LaunchPlan, directory: Path) -> bool:
    if (place := plan.place) is None or plan.machine:
        return False
    # The plan is for a session in the project; an item's has its own directory.
    mounts = [each for each in place.mounts if (each.path, each.reason) != (real(plan.cwd), "session")]
    if batch.isolation.kind == "none":
        repos = {item.repo for item in batch.items if item.profile == name}
        mounts += [Mount(real(Path(repo)), "write", "session") for repo in repos]
    return find_writable(structs.replace(place, mounts=tuple(mounts)), directory) is not None


def _require_vacant(path: Path) -> None:
    """Refuse a directory that holds something: UsageError."""
    names = os.listdir(path) if os.path.lexists(path) else []  # noqa: PTH208 - Path.iterdir gives paths
    if BATCH in names:
        raise UsageError(f"{path} holds a batch", fix=f"go on with it: {ours('batch', 'run', '--resume', str(path))}")
    if names:
        raise UsageError(f"{path} is not empty", fix="give a new directory: --out DIR")
