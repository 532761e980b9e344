"""The trees of a batch that are there, and what is removed of them."""

from pathlib import Path
from typing import Any

import pytest

from acp_launch.batch import submit
from acp_launch.batch.model import Isolation, Item, Outcome, Patch
from acp_launch.batch.store import BatchDirectory
from acp_launch.batch.trees import find_trees, make_tree, remove_left, remove_trees
from tests.batch.directories import RETRY, add_record, make_batch, make_record
from tests.batch.repositories import commit, git

PATCH = Patch(files=0, insertions=0, deletions=0, sha256="0" * 64)
IDS = ("due", "again", "begun", "kept", "unsaved", "left", "cut", "gone", "made")


def make(repo: Path, at: Path) -> BatchDirectory:
    """A batch with an item for each state of its tree."""
    base = commit(repo)
    items = tuple(
        Item(id=id, index=index, task=id, profile="demo", repo=str(repo), base_commit=base)
        for index, id in enumerate(IDS)
    )
    batch = make_batch(at, items=items, isolation=Isolation(kind="worktree"), retry=RETRY)
    trees = {item.id: make_tree(batch, item) for item in items if item.id != "gone"}
    for tree in trees.values():
        assert tree is not None
        tree.make()
    records: dict[str, tuple[Outcome, dict[str, Any]]] = {
        "again": ("agent_died", {"patch": PATCH, "worktree": "x"}),
        "begun": ("passed", {"patch": PATCH}),
        "kept": ("failed", {"patch": PATCH, "worktree": "x"}),
        "unsaved": ("setup_failed", {"worktree": "x"}),
        "left": ("passed", {"patch": PATCH}),
        "cut": ("passed", {"patch": PATCH}),
        "gone": ("passed", {"patch": PATCH}),
    }
    for id, (outcome, given) in records.items():
        add_record(batch, make_record(id, 1, outcome, **given))
    with batch.lock("begun"):
        batch.begin("begun", 2)  # and killed
    (at / "trees" / "cut").rename(at / "cut")  # a removal that was cut short
    return batch


def test_each_tree_is_there_for_a_reason(repo: Path, tmp_path: Path) -> None:
    batch = make(repo, tmp_path / "batch")
    found = [*find_trees(batch)]
    assert {each.item.id: each.state for each in found} == {
        **dict.fromkeys(("due", "again", "begun", "made"), "due"),
        **dict.fromkeys(("left", "cut"), "left"),
        **{"kept": "kept", "unsaved": "unsaved"},
    }
    assert found[0].path == tmp_path / "batch" / "trees" / "due"
    assert list(find_trees(make_batch(tmp_path / "other"))) == []


def test_trees_that_are_not_wanted_are_removed_but_of_running_items(repo: Path, tmp_path: Path) -> None:
    batch = make(repo, tmp_path / "batch")
    with batch.lock("left"):
        removed = [*remove_trees(batch, lambda found: found.state in ("due", "unsaved"))]
    assert [(found.item.id, error) for found, error in removed] == [("kept", None), ("cut", None)]
    assert {found.item.id for found in find_trees(batch)} == {"due", "again", "begun", "made", "unsaved", "left"}
    assert "trees/kept " not in git(repo, "worktree", "list")


def test_a_tree_that_cannot_be_removed_is_named(repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch = make(repo, tmp_path / "batch")
    repo.rename(tmp_path / "elsewhere")
    remove_left(batch)
    assert f"cannot start git in {repo}" in capsys.readouterr().err
    assert (tmp_path / "batch" / "trees" / "left").exists()


def test_a_resumed_batch_removes_what_a_killed_process_left(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = make(repo, tmp_path / "batch")

    async def run(*given: Any, **more: Any) -> int:
        return 0

    monkeypatch.setattr(submit, "_submit", run)
    submit.run_batch(submit.RunOptions(resume=batch.path))
    assert not {"left", "cut"} & {found.item.id for found in find_trees(batch)}
    assert len([*find_trees(batch)]) == 6
