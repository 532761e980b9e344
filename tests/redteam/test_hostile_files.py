"""Ring 3. Files that others could change, that are made to harm, that are none, or that change while they are read."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.redteam.clone import DOUBTFUL, EVIL, GOOD, Clone, profile

AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("role", "mode"), [("review.yaml", 0o646), ("base.yaml", 0o1666), ("review.local.yaml", 0o666)]
)
def test_a_file_that_everybody_can_write_is_refused_even_after_it_was_accepted(
    clone: Clone, role: str, mode: int
) -> None:
    clone.write(json.dumps({"version": 1, "extends": "./base.yaml"}))
    clone.write(name="base.yaml")
    clone.write(json.dumps({"description": "mine"}), "review.local.yaml")
    clone.accepts()
    clone.file(role).chmod(mode)
    why = f".acp-launch/{role} can be written by all users"
    clone.refuses(why=why)
    assert DOUBTFUL in clone.refuses("run", "--trust", "review", "hello", why=why)
    clone.refuses("trust", "review", "--yes", why=why)
    clone.file(role).chmod(0o644)
    clone.starts()


def test_a_directory_that_everybody_can_write_is_refused(clone: Clone) -> None:
    clone.write().parent.chmod(0o777)
    clone.refuses("run", "--trust", "review", "hello", why="lies in .acp-launch, which can be written by all users")


@AS_ROOT
@pytest.mark.parametrize("role", ["file", "directory", "parent"])
def test_what_belongs_to_another_user_is_refused(clone: Clone, role: str) -> None:
    clone.write(json.dumps({"version": 1, "extends": "./base.yaml"}))
    clone.write(name="base.yaml")
    theirs = {"file": clone.file(), "directory": clone.root / ".acp-launch", "parent": clone.file("base.yaml")}[role]
    os.chown(theirs, 4321, 4321)
    clone.refuses("run", "--trust", "review", "hello", why="belongs to another user (uid 4321)")
    clone.refuses("trust", "review", "--yes", why="belongs to another user (uid 4321)")


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(97 + n)}: &{chr(97 + n)} [{','.join(['*' + chr(96 + n)] * 9)}]\n" for n in range(1, 20)
)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BOMB, "aliases expanded"),
        ("#" + "x" * (5 * 1024 * 1024), "larger"),
        ("version: 1\nagent: {command: !!python/object/apply:os.system ['./tool']}\n", "tag"),
        ("version: 1\ntrust: true\nagent: {command: ./tool}\n", 'unknown key "trust"'),
        (
            "version: 1\nsecrets: {command: [./tool]}\nagent: {command: ./tool}\n",
            '"secrets" belongs to your own settings; a profile cannot set it',
        ),
    ],
    ids=["bomb", "size", "tag", "trust", "secrets"],
)
def test_a_text_that_is_made_to_harm_is_a_problem_in_bounded_time(clone: Clone, text: str, why: str) -> None:
    clone.write(text)
    clone.refuses(why=why, code=2)
    clone.refuses("run", "--trust", "review", "hello", why=why, code=2)
    assert clone.decides("list").returncode == 0


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_circle(path: Path) -> None:
    path.symlink_to(path.name)


def a_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "role"),
    [(a_pipe, "base.yaml"), (a_device, "review.yaml"), (a_circle, "review.local.yaml"), (a_directory, "review.yaml")],
)
def test_what_is_no_file_keeps_nobody_waiting(clone: Clone, make: Callable[[Path], None], role: str) -> None:
    clone.write(json.dumps({"version": 1, "agent": EVIL, "extends": "./base.yaml"}))
    clone.write(profile(GOOD), "base.yaml")
    clone.file(role).unlink(missing_ok=True)
    make(clone.file(role))
    clone.refuses("run", "--trust", "review", "hello", why="", code=2)
    clone.refuses("run", "--trust", ".acp-launch/review.yaml", "hello", why=role, code=2)


@contextmanager
def swapping(file: Path, *texts: str) -> Iterator[None]:
    """Meanwhile `file` is replaced by one of these after the other, without a pause."""
    over = threading.Event()

    def swap() -> None:
        fresh = file.with_name("fresh")
        while not over.is_set():
            for text in texts:
                fresh.write_text(text)
                fresh.replace(file)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.whole
@pytest.mark.parametrize("role", ["review.yaml", "base.yaml"])
def test_what_was_checked_is_what_runs_however_fast_the_file_changes(clone: Clone, role: str) -> None:
    clone.write(json.dumps({"version": 1, "extends": "./base.yaml"}))
    clone.write(profile(GOOD), "base.yaml")
    good = clone.file(role).read_text()
    evil = profile() if role == "base.yaml" else profile(extends="./base.yaml")
    clone.accepts()
    with swapping(clone.file(role), good, evil):
        ended = [clone.acp_launch("run", "review", "where").returncode for _ in range(8)]
    assert set(ended) <= {0, 7}
    assert not clone.sang
