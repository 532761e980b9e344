"""
Trust in batches: what a batch's file starts and allows, and in a directory that was frozen before (docs/trust.md).

A file of the user's own, outside of every project, is trusted; any other is accepted like a profile, with all that is
not text for agents. What was accepted is frozen, and the digest of `batch.json` is kept: so a directory that came with
a repository, or was changed since, is not believed.
"""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from acp_launch.batch.model import Isolation, Limits, Retry
from acp_launch.batch.store import BATCH, BatchDirectory
from acp_launch.descent import projects_around, real
from acp_launch.document.nodes import Plain
from acp_launch.errors import StateError
from acp_launch.plan.model import Place
from acp_launch.plan.place import can_write
from acp_launch.plan.written import find_written
from acp_launch.private import find_doubt
from acp_launch.profile.discover import HOLDER, boundary, shown
from acp_launch.profile.trust import Claim, TrustState, content, discreet, judge, keep
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.batch.check import CheckedBatch
    from acp_launch.console.trust import ReportRow

TEXT = ("version", "prompt", "tasks")  # keys of the file that are text for agents, but for what `_list_tasks` finds
BATCHES = "trust/batches"  # of the state directory: frozen batches, which `trust --list` leaves out
Said = Mapping[str, Plain]


def list_said(checked: "CheckedBatch") -> Said:
    """Return all that a batch's file says besides texts for agents."""
    said = {key: value for key, value in checked.said.items() if key not in TEXT}
    if isinstance(listed := checked.said.get("tasks"), str):
        said["tasks"] = listed
    for key in ("repo", "ref"):
        named = {value for draft in checked.drafts if (value := getattr(draft.task, key))}
        if named:
            said[f"{key}s"] = list[Plain](sorted(named))
    return said


def claim_file(file: Path, checked: "CheckedBatch", project: Path) -> Claim:
    """Return what a batch's file wants to be trusted with."""
    return Claim(
        noun="batch",
        name=file.name,
        called=shown(file),
        label=shown(file),
        project=real(project),
        file=real(file.parent) / file.name,
        lines=content(list_said(checked)),
    )


def judge_file(claim: Claim, settings: Settings, tasks: Path | None) -> TrustState:
    """Determine whether this user trusts a batch's file; `tasks` is its file of tasks."""
    named = [claim.file, *([tasks] if tasks else [])]
    foreign = {shown(file): file for file in named if _is_foreign(file, settings)}
    return judge(claim, settings, foreign, boundary(next(iter(foreign.values()), claim.file)))


def _is_foreign(file: Path, settings: Settings) -> bool:
    """Whether a repository, or another user, may have made a file."""
    if projects_around(file) or projects_around(real(file)):
        is_own = file.is_relative_to(settings.config) and not projects_around(settings.config)
        return not is_own or HOLDER in real(file).parts
    with suppress(OSError):  # reading it will say why
        return any(find_doubt(each.stat()) for each in (file, file.parent))
    return False


# Frozen batches.


def list_frozen(directory: BatchDirectory) -> Said:
    """Return all that a frozen batch says besides texts for agents."""
    batch = directory.batch
    said = {
        "profiles": [each.called for each in batch.profiles.values()],
        "matrix": sorted({f"{name}={value}" for item in batch.items for name, value in item.matrix.items()}),
        **{key: getattr(batch, key) for key in ("approve", "check", "isolation", "limits", "retry")},
        "repos": sorted({item.repo for item in batch.items}),
    }
    usual = {"isolation": Isolation(), "limits": Limits(), "retry": Retry()}
    written = {key: value for key, value in said.items() if value and value != usual.get(key)}
    plain: Said = msgspec.json.decode(msgspec.json.encode(written, enc_hook=float))  # lists, and no tuples
    return plain


def claim_directory(directory: BatchDirectory) -> Claim:
    """Return what a frozen batch wants to be trusted with: no byte of it may differ."""
    file = directory.root / BATCH
    return Claim(
        noun="batch",
        name=directory.batch.name,
        called="",
        label=str(file),
        project=directory.root,
        file=file,
        lines=(f"{BATCH}: {directory.digest}",),
        shelf=BATCHES,
    )


def is_kept(directory: BatchDirectory, settings: Settings) -> bool:
    """Whether a frozen batch, as it is, was made for this user, or accepted."""
    return judge_directory(claim_directory(directory), settings).is_trusted


def judge_directory(claim: Claim, settings: Settings) -> TrustState:
    return judge(claim, settings, {claim.label: claim.file}, claim.project)


def keep_directory(directory: BatchDirectory, settings: Settings) -> bool:
    """Keep that a batch was frozen for this user; False if that fails, so that going on with it needs `--trust`."""
    with suppress(StateError):
        keep(claim_directory(directory), settings)
        return True
    return False


def require_directory(directory: BatchDirectory, settings: Settings, *, allow_once: bool) -> bool:
    """Refuse a frozen batch that was not made for this user, or has changed; `allow_once` is `--trust`.

    Return whether that is kept.

    Raises:
        NotTrusted: as it says.
        StateError: a confined agent could have written there: also programs that our git would run.
    """
    if find_written(directory.root):
        what = f"a confined agent could write {directory.path}, so it is not believed"
        raise StateError(what, fix="prepare a batch elsewhere: batch prepare FILE --out DIR")
    if is_kept(directory, settings):
        return True
    from acp_launch.app.consent import require_claim

    claim = claim_directory(directory)
    how, rows = judge_directory(claim, settings), partial(_list_frozen_rows, directory)
    require_claim(claim, how, rows, settings, allow_once=allow_once)
    return keep_directory(directory, settings)


def find_writable(place: Place, directory: Path) -> Path | None:
    """Return what a confined agent could write of the directory of a batch besides trees; None if that is nothing."""
    if can_write(place, directory):
        return directory
    trees = directory / "trees"
    below = (each.path for each in place.mounts if each.access == "write" and each.path.is_relative_to(directory))
    return next((path for path in below if not path.is_relative_to(trees)), None)


# The screen.


def _list_frozen_rows(directory: BatchDirectory) -> "Iterator[ReportRow]":
    return list_rows(list_frozen(directory))


def list_rows(said: Said) -> "Iterator[ReportRow]":
    """Yield the accepted facts, those that run or allow something first."""
    from acp_launch.console.trust import ReportRow

    rest, profiles, check = dict(said), said.get("profiles"), said.get("check")
    if isinstance(profiles, list):
        yield ReportRow("starts", discreet(f"the profiles: {', '.join(map(str, profiles))}"))
        del rest["profiles"]
    if isinstance(check, dict) and isinstance(command := check.get("command"), list):
        where = ", outside of the place of a confined agent" if check.get("outside") else ""
        yield ReportRow("checks", f"each item by {discreet(shlex.join(map(str, command)))}{where}", is_potent=True)
        rest["check"] = {key: value for key, value in check.items() if key not in ("command", "outside")}
    if approve := rest.pop("approve", None):
        yield ReportRow("allows", f"approve: {approve}, which counts more than its profiles", is_potent=True)
    for line in filter(_says_something, content({key: value for key, value in rest.items() if value})):
        yield ReportRow("chooses", discreet(line), line.startswith("matrix"))


def _says_something(line: str) -> bool:
    return not line.endswith((": null", ": {}", ": []"))
