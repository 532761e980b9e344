"""The trees of a batch that are there: kept ones, those that wait for an attempt, and what a killed process left."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from acp_launch.app.questions import require_agreement
from acp_launch.app.spec import load_settings
from acp_launch.batch.model import Item
from acp_launch.batch.store import BatchDirectory, explain_faults, open_batch
from acp_launch.batch.trust import require_directory
from acp_launch.console import stdout
from acp_launch.console.problems import show_error
from acp_launch.console.stderr import harmless_line, tell
from acp_launch.errors import StateError
from acp_launch.problem import count, ours

if TYPE_CHECKING:
    from acp_launch.batch.worktree import Tree

TREES = "trees"


class FoundTree(NamedTuple):
    """A tree that is there; `state` says what for.

    `due`: the next attempt works in it. `kept`: to look at, and its patch is on disk. `unsaved`: work of the agent is
    in it alone. `left`: a process was killed before it had removed it.
    """

    item: Item
    path: Path
    state: Literal["due", "kept", "unsaved", "left"]


def make_tree(directory: BatchDirectory, item: Item) -> "Tree | None":
    """Return what git makes, or has made, for an item; None without isolation.

    Raises:
        StateError: others could have written where it lies.
    """
    kind = directory.batch.isolation.kind
    if kind == "none" or item.base_commit is None:
        return None
    from acp_launch.batch.worktree import Tree

    return Tree(item.repo, item.base_commit, kind, _locate(directory) / item.id)


def _locate(directory: BatchDirectory) -> Path:
    directory.require_own(directory.root / TREES)
    return directory.path / TREES


def find_trees(directory: BatchDirectory) -> Iterator[FoundTree]:
    """Find the trees of a batch, in the order of its items; raises as `make_tree`."""
    place = _locate(directory)
    names = {each.name for each in place.iterdir()} if place.is_dir() else set()
    for item in directory.batch.items:
        if item.id in names or f".{item.id}.git" in names:
            yield FoundTree(item, place / item.id, _judge(directory, item))


def _judge(directory: BatchDirectory, item: Item) -> Literal["due", "kept", "unsaved", "left"]:
    standing = directory.judge(item.id)
    if standing.last is None or not standing.is_done or directory.read_started(item.id, standing.last.attempt + 1):
        return "due"
    record = directory.read_record(item.id, standing.last.attempt)
    if record.worktree is None:
        return "left"
    return "kept" if record.patch else "unsaved"


def remove_trees(
    directory: BatchDirectory, is_wanted: Callable[[FoundTree], bool]
) -> Iterator[tuple[FoundTree, StateError | None]]:
    """Remove the trees that are not wanted, but of running items; yield each, with the reason if it could not be."""
    for found in find_trees(directory):
        try:
            with directory.lock(found.item.id, 0):
                again = found._replace(state=_judge(directory, found.item))
                tree = make_tree(directory, found.item)
                if tree is None or is_wanted(again):
                    continue
                try:
                    tree.remove()
                    yield again, None
                except StateError as error:
                    yield again, error
        except TimeoutError:
            continue


def remove_left(directory: BatchDirectory) -> None:
    """Remove what killed processes left, and tell of what could not be removed."""
    for _, error in remove_trees(directory, lambda found: found.state != "left"):
        if error:
            show_error(error)


# The kept directories, for the user.


def tell_kept(directory: BatchDirectory) -> Iterator[str]:
    """Yield a line about the trees that stay until the user removes them, if there are any."""
    if kept := [found for found in find_trees(directory) if found.state != "due"]:
        place = directory.path / TREES
        yield f"{count(len(kept), 'tree')} kept in {place}; remove: {ours('batch', 'clean', str(directory.path))}"


@explain_faults()
def clean_batch(path: Path, *, yes: bool, dry_run: bool, trust: bool) -> int:
    """Remove the trees that are kept, after a question; return the exit code."""
    directory = open_batch(path)
    require_directory(directory, load_settings(), allow_once=trust)  # it names the repositories that git is asked about
    asked = [each for each in find_trees(directory) if each.state != "due" and not directory.is_running(each.item.id)]
    losses = [_find_loss(directory, each) for each in asked]
    for found, loss in zip(asked, losses, strict=True):
        stdout.line(harmless_line(f"{found.item.id}: {found.path}: {_explain(directory, found)}{loss and f'; {loss}'}"))
    if dry_run or not asked:
        if not asked:
            tell("no trees are kept")
        return 0
    if not yes:
        undone = f"{count(len(asked), 'tree')} would be removed; nothing was changed"
        require_agreement(_ask(directory, sum(map(bool, losses)), len(asked)), undone, "--yes removes them")
    removed, code = 0, 0
    for _, error in remove_trees(directory, lambda found: found not in asked):
        removed += error is None
        if error:
            show_error(error)
            code = error.exit_code
    tell(f"removed {removed} of {count(len(asked), 'tree')}")
    return code


def _ask(directory: BatchDirectory, losses: int, trees: int) -> str:
    clones = ", with the branches and commits in them" if directory.batch.isolation.kind == "clone" else ""
    lost = f"; {losses} of them may hold work that no patch has" if losses else ""
    return f"Remove {count(trees, 'tree')}{clones}{lost}?"


def _explain(directory: BatchDirectory, found: FoundTree) -> str:
    """Say why a tree is there."""
    if not os.path.lexists(found.path):
        return "deleted by hand; its baseline and git's record are left"
    if found.state == "left":
        return "left by a process that was killed"
    last = directory.judge(found.item.id).last
    return f"kept; its outcome is {last.outcome}" if last else "kept"


def _find_loss(directory: BatchDirectory, found: FoundTree) -> str:
    """Say what would be lost with a tree that is not in the patch of its last attempt; empty if that is nothing."""
    last, tree = directory.judge(found.item.id).last, make_tree(directory, found.item)
    if last is None or tree is None or not os.path.lexists(found.path) or found.state == "left":
        return ""  # what a process began to remove had its patch
    record = directory.read_record(found.item.id, last.attempt)
    if record.patch is None:
        return f"its work is in no patch: {record.patch_error or 'none was made'}"
    try:
        return "it was changed since its patch was made" if tree.differs_from(record.patch) else ""
    except StateError as error:
        return f"it cannot be compared with its patch: {error.message}"
