"""Listing processes: what is found, by whichever way the platform offers."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_launch.process import child as orphans
from acp_launch.process import prepare
from acp_launch.process import table as platform_linux
from acp_launch.process.child import attach
from acp_launch.process.program import stop
from acp_launch.process.spawn import Spawned, spawn
from acp_launch.process.table import ProcTable, PsutilTable
from acp_launch.process.tree import Tree, adopted, end_now, reap_adopted
from tests.looped import looped
from tests.patience import PATIENCE

from .liveness import TREES, Liveness, program


@pytest.fixture
def family(alive: Liveness) -> Iterator[Spawned]:
    """A forker with a grandchild in a session of its own."""
    spawned = spawn(program("forker", "setsid"), env=alive.env, cwd=Path("/"))
    alive.hear("forker", "loner")
    yield spawned
    end_now(spawned)


def test_a_name_with_brackets_and_spaces_does_not_confuse_the_listing(tmp_path: Path) -> None:
    path = tmp_path / "a) R 1 (b"
    path.symlink_to("/bin/cat")
    spawned = spawn([str(path)], env={}, cwd=tmp_path)
    try:
        seen = ProcTable().read(spawned.pid)
        assert seen is not None
        assert (seen.parent, seen.group, seen.session) == (os.getpid(), spawned.pid, spawned.pid)
    finally:
        end_now(spawned)


def test_a_process_that_is_not_there_is_none_and_has_no_children(family: Spawned) -> None:
    gone = 2**22 + 1  # larger than any pid
    for table in (ProcTable(), PsutilTable()):
        assert table.read(gone) is None
        assert table.children(gone) == []


def test_the_portable_listing_agrees_with_proc(family: Spawned) -> None:
    linux, portable = ProcTable(), PsutilTable()
    assert portable.children(family.pid) == linux.children(family.pid) != []
    for pid in (os.getpid(), family.pid, *linux.children(family.pid)):
        one, other = linux.read(pid), portable.read(pid)
        assert one is not None
        assert other is not None
        assert (one.pid, one.parent, one.group, one.session) == (other.pid, other.parent, other.group, other.session)


def test_a_kernel_without_lists_of_children_is_scanned(family: Spawned, monkeypatch: pytest.MonkeyPatch) -> None:
    content = platform_linux._content
    fast = ProcTable().children(family.pid)
    monkeypatch.setattr(platform_linux, "_content", lambda path: None if path.endswith("children") else content(path))
    assert ProcTable().children(family.pid) == fast != []


def test_a_tree_lists_parents_first_and_remembers_whom_it_saw_after_the_parents_death(family: Spawned) -> None:
    tree = Tree(family)
    root, grandchild = tree.alive()
    assert (root.pid, grandchild.parent) == (family.pid, family.pid)
    assert grandchild.session == grandchild.pid
    os.kill(family.pid, signal.SIGKILL)
    os.waitid(os.P_PID, family.pid, os.WEXITED | os.WNOWAIT)
    assert tree.alive() == [grandchild]


def test_an_orphan_of_ours_is_known_from_a_child_we_started_or_had_before(family: Spawned) -> None:
    before = adopted(prepare.table())
    (grandchild,) = ProcTable().children(family.pid)
    os.kill(family.pid, signal.SIGKILL)
    os.waitid(os.P_PID, family.pid, os.WEXITED | os.WNOWAIT)
    assert before == []
    assert [orphan.pid for orphan in adopted(prepare.table())] == [grandchild]


def test_only_an_unused_sigchld_is_taken_for_reaping_orphans() -> None:
    def theirs(number: int, frame: object) -> None: ...

    async def inside() -> object:
        with orphans.reaped():
            return signal.getsignal(signal.SIGCHLD)

    before = signal.signal(signal.SIGCHLD, theirs)
    try:
        assert asyncio.run(inside()) is theirs
        assert signal.getsignal(signal.SIGCHLD) is theirs
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert asyncio.run(inside()) is not before
    assert signal.getsignal(signal.SIGCHLD) is before


@pytest.fixture
def portable() -> Iterator[None]:
    """As on macOS: psutil, groups, a thread in waitpid, no pidfd, no adoption."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prepare, "IS_LINUX", False)
        patched.setattr(platform_linux, "IS_LINUX", False)
        patched.delattr(os, "pidfd_open")
        yield
    reap_adopted()  # here they came to us all the same


@pytest.mark.parametrize("temper", ["polite", "stubborn", "frozen", "setsid", "follow"])
@looped
async def test_the_portable_way_ends_every_tree_whose_parents_live(
    temper: str, portable: None, alive: Liveness
) -> None:
    argv, heard = TREES[temper]
    async with asyncio.timeout(PATIENCE), attach(spawn(program(*argv), env=alive.env, cwd=Path("/"))) as child:
        alive.hear(*heard)
        outcome = await stop(child, grace=0.05 if temper != "polite" else 10)
        assert outcome.survivors == ()
        assert outcome.exit is not None
        alive.assert_all_dead()


def test_the_portable_way_works_without_an_event_loop_too(portable: None, family: Spawned, alive: Liveness) -> None:
    assert end_now(family) == []
    alive.assert_all_dead()
