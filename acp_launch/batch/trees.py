"""The trees of a batch that are there: kept ones, those that wait for an attempt, and what a killed process left."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from acp_launch.batch.model import Item
from acp_launch.batch.store import BatchDirectory
from acp_launch.console.problems import show_error
from acp_launch.errors import StateError

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
    """Return what git makes, or has made, for an item; None without isolation."""
    kind = directory.batch.isolation.kind
    if kind == "none" or item.base_commit is None:
        return None
    from acp_launch.batch.worktree import Tree

    return Tree(item.repo, item.base_commit, kind, directory.path / TREES / item.id)


def find_trees(directory: BatchDirectory) -> Iterator[FoundTree]:
    """Find the trees of a batch, in the order of its items."""
    place = directory.path / TREES
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
