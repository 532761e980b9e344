"""The trees of a batch that are there, and what is removed of them."""

import json
import os
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from acp_launch.app import questions
from acp_launch.batch import submit
from acp_launch.batch.figures import summarize
from acp_launch.batch.model import Isolation, Item, Outcome, Patch
from acp_launch.batch.page import make_page
from acp_launch.batch.store import BatchDirectory
from acp_launch.batch.trees import clean_batch, find_trees, make_tree, remove_left, remove_trees
from acp_launch.errors import NotTrusted, StateError, UsageError
from tests.batch.directories import RETRY, add_record, make_batch, make_record
from tests.batch.repositories import commit, git

PATCH = Patch(files=0, insertions=0, deletions=0, sha256=sha256(b"").hexdigest())
IDS = ("due", "again", "begun", "kept", "unsaved", "left", "cut", "gone", "made")


def make(repo: Path, at: Path, *ids: str) -> BatchDirectory:
    """A batch with an item for each state of its tree, or for these."""
    base = commit(repo)
    items = tuple(
        Item(id=id, index=index, task=id, profile="demo", repo=str(repo), base_commit=base)
        for index, id in enumerate(ids or IDS)
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
    for id in set(ids or IDS) & set(records):
        outcome, given = records[id]
        add_record(batch, make_record(id, 1, outcome, **given))
    if not ids:
        with batch.lock("begun"):
            batch.begin("begun", 2)  # and killed
        (at / "trees" / "cut").rename(at / "cut")  # a removal that was cut short
    return batch


def test_each_tree_is_there_for_a_reason_and_those_that_are_not_wanted_go(repo: Path, tmp_path: Path) -> None:
    """But of running items."""
    batch = make(repo, tmp_path / "batch")
    found = [*find_trees(batch)]
    assert {each.item.id: each.state for each in found} == {
        **dict.fromkeys(("due", "again", "begun", "made"), "due"),
        **dict.fromkeys(("left", "cut"), "left"),
        **{"kept": "kept", "unsaved": "unsaved"},
    }
    assert found[0].path == tmp_path / "batch" / "trees" / "due"
    assert list(find_trees(make_batch(tmp_path / "other"))) == []
    with batch.lock("left"):
        removed = [*remove_trees(batch, lambda found: found.state in ("due", "unsaved"))]
    assert [(found.item.id, error) for found, error in removed] == [("kept", None), ("cut", None)]
    assert {found.item.id for found in find_trees(batch)} == {"due", "again", "begun", "made", "unsaved", "left"}
    assert "trees/kept " not in git(repo, "worktree", "list")


def test_a_tree_that_cannot_be_removed_is_named(repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch = make(repo, tmp_path / "batch", "left")
    repo.rename(tmp_path / "elsewhere")
    repo.mkdir()  # and is no repository
    remove_left(batch)
    assert f"git rev-parse in {repo}: fatal: not a git repository" in capsys.readouterr().err
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


# `batch clean`.

STAY = {"due", "again", "begun", "made"}
LISTED = """\
kept: {trees}/kept: kept; its outcome is failed
unsaved: {trees}/unsaved: kept; its outcome is setup_failed; its work is in no patch: none was made
left: {trees}/left: left by a process that was killed
cut: {trees}/cut: deleted by hand; its baseline and git's record are left
"""


def ids(batch: BatchDirectory) -> set[str]:
    return {found.item.id for found in find_trees(batch)}


def clean(batch: BatchDirectory, *, yes: bool = True, dry_run: bool = False) -> int:
    return clean_batch(batch.path, yes=yes, dry_run=dry_run, trust=False)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that a user at a terminal was asked, and agreed to."""
    said: list[str] = []
    monkeypatch.setattr(questions, "can_ask_user", lambda: True)
    monkeypatch.setattr(questions, "agrees", lambda question: not said.append(question))  # type: ignore[func-returns-value]
    return said


def test_trees_are_listed_with_their_reasons_go_after_a_yes_and_git_forgets_them(
    repo: Path, tmp_path: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    batch = make(repo, tmp_path / "batch")
    assert clean(batch, dry_run=True) == 0
    assert capsys.readouterr().out == LISTED.format(trees=batch.path / "trees")
    assert (ids(batch), asked) == ({*IDS} - {"gone"}, [])
    assert clean(batch, yes=False) == 0
    assert asked == ["Remove 4 trees; 1 of them may hold work that no patch has?"]
    assert "removed 4 of 4 trees" in capsys.readouterr().err
    assert ids(batch) == STAY
    assert git(repo, "worktree", "list").count("/trees/") == len(STAY)
    assert clean(batch, yes=False) == 0
    assert "no trees are kept" in capsys.readouterr().err


def test_a_script_has_to_say_yes(repo: Path, tmp_path: Path) -> None:
    batch = make(repo, tmp_path / "batch", "kept", "left", "due")
    with pytest.raises(UsageError, match="no terminal to ask on; 2 trees would be removed; nothing was chan") as error:
        clean(batch, yes=False)
    assert (error.value.exit_code, error.value.fix) == (2, "--yes removes them")
    assert ids(batch) == {"kept", "left", "due"}
    assert clean(batch) == 0
    assert ids(batch) == {"due"}


def test_a_tree_of_a_running_item_is_neither_listed_nor_removed(
    repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = make(repo, tmp_path / "batch", "left", "kept")
    with batch.lock("left"):
        assert clean(batch) == 0
    assert "left:" not in capsys.readouterr().out
    assert ids(batch) == {"left"}


def test_work_that_came_after_the_patch_is_named(
    repo: Path, tmp_path: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    batch = make(repo, tmp_path / "batch", "kept", "left")
    (batch.path / "trees" / "kept" / "more").write_text("more")
    assert clean(batch, yes=False) == 0
    assert "its outcome is failed; it was changed since its patch was made\n" in capsys.readouterr().out
    assert asked == ["Remove 2 trees; 1 of them may hold work that no patch has?"]


@pytest.mark.parametrize("how", ["repository", "git", "tree"])
def test_what_is_gone_or_replaced_does_not_keep_a_tree(
    how: str, repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The repository is gone; an agent has put another `.git` there; the user has deleted the tree."""
    batch = make(repo, tmp_path / "batch", "kept", "due")
    kept, mark = batch.path / "trees" / "kept", tmp_path / "ran"
    if how == "repository":
        shutil.rmtree(repo)
    elif how == "tree":
        shutil.rmtree(kept)
    else:
        (kept / ".git").unlink()
        git(kept, "init", "--quiet")
        git(kept, "config", "core.fsmonitor", f"touch {mark}")
    assert clean(batch) == 0
    said = capsys.readouterr().out.splitlines()[0]
    assert ("cannot be compared" in said) == (how != "tree")
    assert ids(batch) == {"due"}
    assert not mark.exists()


def test_nothing_is_removed_through_a_link(repo: Path, tmp_path: Path) -> None:
    batch = make(repo, tmp_path / "batch", "kept")
    trees, elsewhere = batch.path / "trees", tmp_path / "elsewhere"
    trees.rename(elsewhere)
    trees.symlink_to(elsewhere)
    with pytest.raises(StateError, match="trees is a link, so it is not believed"):
        clean(batch)
    assert (elsewhere / "kept").exists()
    trees.unlink()
    elsewhere.rename(trees)
    shutil.rmtree(trees / "kept")
    (trees / "kept").symlink_to(tmp_path / "mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    assert clean(batch) == 0
    assert (tmp_path / "mine" / "file").exists()
    assert not (trees / "kept").is_symlink()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_a_tree_of_another_user_is_named_and_left(
    repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = make(repo, tmp_path / "batch", "kept", "left")
    kept = batch.path / "trees" / "kept"
    os.chown(kept, 12345, -1)
    assert clean(batch) == 3
    said = capsys.readouterr().err
    assert f"{kept} belongs to another user (uid 12345)" in said
    assert "removed 1 of 2 trees" in said
    assert ids(batch) == {"kept"}
    assert "trees/kept " in git(repo, "worktree", "list")


def test_a_directory_that_was_not_made_here_is_not_cleaned(repo: Path, tmp_path: Path) -> None:
    batch = make(repo, tmp_path / "batch", "kept")
    content = (batch.path / "batch.json").read_bytes()
    (batch.path / "batch.json").write_bytes(content.replace(b'"nightly"', b'"mine"'))
    with pytest.raises(NotTrusted):
        clean(batch)
    assert ids(batch) == {"kept"}


def test_status_and_the_page_say_how_many_trees_are_kept_and_how_they_go(
    repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = make(repo, tmp_path / "batch")
    line = f"4 trees kept in {batch.path}/trees; remove: acp-launch batch clean {batch.path}"
    submit.show_status(batch.path, as_json=False)
    assert line in capsys.readouterr().out.splitlines()
    assert f"<p>{line}</p>".replace("<p>", '<p class="dim">') in make_page(batch, summarize(batch))
    submit.show_status(batch.path, as_json=True)
    trees = json.loads(capsys.readouterr().out)["trees"]
    assert {"item": "left", "path": f"{batch.path}/trees/left", "state": "left"} in trees
    clean(batch)
    submit.show_status(batch.path, as_json=False)
    assert "kept in" not in capsys.readouterr().out
    assert "kept in" not in make_page(batch, summarize(batch))
