"""Ring 3. Whatever the files of a cloned repository are, nothing of it runs, and the message says why."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.redteam.clone import CHANGED, EVIL, GOOD, NEW, Clone, profile

STARTING = (
    ("run", "review", "hello"),
    ("doctor", "review", "--json"),
    ("mcp", "inspect", "review", "tools"),
    ("mcp", "tools", "review", "tools"),
    ("mcp", "call", "review", "tools", "x"),
    ("login", "review"),
    ("login", "review", "--list"),
    ("logout", "review"),
    ("session", "list", "review", "--agent"),
)
LOOKING = (
    ("validate", "review"),
    ("validate",),
    ("list",),
    ("show", "review"),
    ("show", "review", "--merged"),
    ("plan", "review"),
    ("plan", "review", "--json"),
    ("mcp", "list", "review"),
    ("trust", "--list"),
    ("session", "list"),
)


def test_no_verb_starts_what_was_not_accepted(clone: Clone) -> None:
    clone.write(profile(mcp_servers={"tools": EVIL}))
    for verb in STARTING:
        ended = clone.acp_launch(*verb)
        assert (ended.returncode, clone.sang) == (7, False), (verb, ended.stderr)
        assert re.search("from a project|is not trusted", ended.stdout + ended.stderr), verb


def test_looking_at_it_starts_nothing(clone: Clone) -> None:
    clone.write(profile(mcp_servers={"tools": EVIL}))
    for verb in LOOKING:
        ended = clone.acp_launch(*verb)
        assert (ended.returncode, clone.sang) == (0, False), (verb, ended.stderr)


def lineage(clone: Clone, name: str, *, comment: str = "", argument: str = "1") -> None:
    """A child, a parent and a grandparent, one of which says something more."""
    texts = {
        "review.yaml": {"version": 1, "extends": "parent"},
        "parent.yaml": {"version": 1, "extends": "./grand.yaml", "session": {"name": "p"}},
        "grand.yaml": {"version": 1, "agent": EVIL, "session": {"mode": "plan"}},
    }
    said: dict[str, dict[str, object]] = {
        "review.yaml": {"description": argument},
        "parent.yaml": {"session": {"name": argument}},
        "grand.yaml": {"session": {"mode": argument}},
    }
    for file, text in texts.items():
        if file == name:
            text = {**text, **said[file]}
        clone.write(f"{comment if file == name else ''}{json.dumps(text)}", file)


@pytest.mark.sample(1)
@pytest.mark.parametrize("changed", ["review.yaml", "parent.yaml", "grand.yaml"])
def test_one_byte_that_says_something_else_makes_it_inert_and_a_comment_does_not(clone: Clone, changed: str) -> None:
    lineage(clone, changed)
    clone.accepts()
    lineage(clone, changed, comment="#1\n")
    clone.accepts()
    assert "it has not changed since you trusted it" in clone.decides("trust", "review").stderr
    clone.starts()
    lineage(clone, changed, argument="2")
    said = clone.refuses(why=CHANGED)
    assert ': "1"' in said
    assert ': "2"' in said


def test_an_overlay_that_comes_changes_or_goes_makes_it_inert(clone: Clone) -> None:
    clone.write(profile(GOOD))
    clone.accepts()
    overlay = clone.write(json.dumps({"agent": {"command": "./tool"}}), "review.local.yaml")
    assert '+ agent.command: "./tool"' in clone.refuses(why=CHANGED)
    clone.accepts()
    clone.starts()
    clone.write(json.dumps({"agent": {"command": "./tool", "args": ["x"]}}), "review.local.yaml")
    clone.refuses(why=CHANGED)
    overlay.unlink()
    clone.write()
    clone.refuses(why=CHANGED)


def test_a_file_that_takes_the_place_of_a_parent_makes_it_inert(clone: Clone) -> None:
    clone.own.mkdir(parents=True)
    (clone.own / "base.yaml").write_text(profile(GOOD))
    clone.write(json.dumps({"version": 1, "extends": "base"}))
    clone.accepts()
    assert clone.acp_launch("run", "review", "where").returncode == 0
    clone.write(name="base.yaml")
    clone.refuses(why=CHANGED)


@pytest.mark.parametrize("name", ["mine", "demo"])
def test_a_profile_named_like_the_users_own_or_a_built_in_is_neither(clone: Clone, name: str) -> None:
    clone.own.mkdir(parents=True)
    (clone.own / "mine.yaml").write_text(profile(GOOD))
    clone.write(name=f"{name}.yaml")
    said = clone.refuses("run", name, "hello", why=NEW)
    assert f".acp-launch/{name}.yaml" in said


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("extends", "why"),
    [
        ("./../../outside.yaml", "leads out of the project"),
        ("./link/../../outside.yaml", "cannot find the file"),
        ("ABSOLUTE", "is a path that other machines do not have"),
        ("${env:HOME}/outside.yaml", "is neither a profile's name nor a ./path"),
        ("./\u202e.yaml", "is neither a profile's name nor a ./path"),
    ],
)
def test_a_parent_outside_of_the_project_is_refused(clone: Clone, extends: str, why: str) -> None:
    outside = clone.root.parent / "outside.yaml"
    outside.write_text(profile())
    (clone.root / ".acp-launch" / "link").symlink_to("/")
    entry = str(outside) if extends == "ABSOLUTE" else extends
    clone.write(json.dumps({"version": 1, "extends": entry}))
    said = clone.refuses(why=why, code=2)
    assert ".acp-launch/review.yaml:1:" in said


@pytest.mark.sample(1)
@pytest.mark.parametrize("role", ["profile", "parent", "overlay", "directory"])
def test_a_link_out_of_the_project_is_refused(clone: Clone, role: str) -> None:
    elsewhere = clone.root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "review.yaml").write_text(profile())
    outside = elsewhere / "review.yaml"
    if role == "directory":
        (clone.root / ".acp-launch").rmdir()
        (clone.root / ".acp-launch").symlink_to(elsewhere)
    elif role == "profile":
        clone.file().symlink_to(outside)
    elif role == "parent":
        clone.write(json.dumps({"version": 1, "extends": "./base.yaml"}))
        clone.file("base.yaml").symlink_to(outside)
    else:
        clone.write(profile(GOOD))
        clone.file("review.local.yaml").symlink_to(outside)
    code = 7 if role in ("profile", "directory") else 2
    clone.refuses(why="out of the project", code=code)
    clone.refuses("run", "--trust", "review", "hello", why="out of the project", code=code)
    assert clone.decides("trust", "review", "--yes").returncode == code


def test_a_link_within_the_project_is_what_it_leads_to(clone: Clone) -> None:
    (clone.root / "shared").mkdir()
    target = clone.root / "shared" / "real.yaml"
    target.write_text(profile(GOOD))
    clone.file().symlink_to("../shared/real.yaml")
    clone.accepts()
    assert clone.acp_launch("run", "review", "where").returncode == 0
    target.write_text(profile())
    clone.refuses(why=CHANGED)


def test_what_lies_in_the_same_repository_is_not_outside(clone: Clone) -> None:
    """A project within a repository extends what the repository shares."""
    inner = clone.root / "service"
    (inner / ".acp-launch").mkdir(parents=True)
    (inner / ".acp-launch" / "review.yaml").write_text(json.dumps({"version": 1, "extends": "base"}))
    clone.write(profile(GOOD), "base.yaml")
    clone.refuses(why=NEW, cwd=inner)
    clone.accepts(cwd=inner)
    assert clone.acp_launch("run", "review", "where", cwd=inner).returncode == 0
    clone.write(name="base.yaml")
    clone.refuses(why=CHANGED, cwd=inner)


def test_two_projects_that_say_the_same_are_accepted_each(clone: Clone, tmp_path: Path) -> None:
    clone.write()
    clone.accepts()
    other = Clone.made(tmp_path / "other", clone.trace)
    other.write()
    other.refuses(why=NEW)
    clone.starts()


def test_a_project_that_was_moved_or_copied_is_another(clone: Clone, tmp_path: Path) -> None:
    clone.write()
    clone.accepts()
    shutil.copytree(clone.root, tmp_path / "copy")
    clone.refuses(why=NEW, cwd=tmp_path / "copy")
    clone.root.rename(tmp_path / "moved")
    clone.refuses(why=NEW, cwd=tmp_path / "moved")


def test_a_worktree_and_a_submodule_are_projects_of_their_own(clone: Clone) -> None:
    clone.write()
    clone.accepts()
    inner = clone.root / "sub"
    (inner / ".acp-launch").mkdir(parents=True)
    (inner / ".git").write_text("gitdir: ../.git/modules/sub\n")
    shutil.copy(clone.file(), inner / ".acp-launch" / "review.yaml")
    clone.refuses(why=NEW, cwd=inner)
    (inner / ".acp-launch" / "review.yaml").write_text(json.dumps({"version": 1, "extends": "../../tool.yaml"}))
    (clone.root / "tool.yaml").write_text(profile())
    clone.refuses(why="leads out of the project", code=2, cwd=inner)


def test_a_path_is_the_same_file_however_it_is_written(clone: Clone, tmp_path: Path) -> None:
    clone.write()
    (clone.root / "deep").mkdir()
    (tmp_path / "alias").symlink_to(clone.root)
    ways = (
        ".acp-launch/review.yaml",
        "deep/../.acp-launch/review.yaml",
        str(tmp_path / "alias/.acp-launch/review.yaml"),
    )
    for way in ways:
        clone.refuses("run", way, "hello", why=NEW)
    clone.accepts()
    for way in ways:
        clone.starts(way)
    assert clone.decides("trust", "--revoke", ways[1]).returncode == 0
    for way in ways:
        clone.refuses("run", way, "hello", why=NEW)


def test_modules_of_the_project_are_never_imported(clone: Clone) -> None:
    """Nor by what we start: the guard, the shims."""
    code = f"open({str(clone.trace)!r}, 'w').close()\n"
    for module in (
        "acp_launch",
        "msgspec",
        "typing_extensions",
        "sitecustomize",
        "usercustomize",
        "psutil",
        "pydantic",
    ):
        (clone.root / f"{module}.py").write_text(code)
    clone.write(profile(GOOD, mcp_servers={"tools": {**GOOD, "args": ["-I", "-m", "acp_launch.demo.server"]}}))
    clone.accepts()
    assert clone.acp_launch("run", "review", "where").returncode == 0
    assert not clone.sang


def test_a_secret_that_was_added_makes_it_inert(clone: Clone) -> None:
    clone.write()
    clone.accepts()
    clone.write(profile({**EVIL, "env": {"TOKEN": "${secret:bank}"}}))
    said = clone.refuses(why=CHANGED, ACP_LAUNCH_SECRET_BANK="hunter2-hunter2")
    assert '+ agent.env.TOKEN: "${secret:bank}"' in said
    assert "hunter2" not in said
