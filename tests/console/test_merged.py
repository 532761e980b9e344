"""What `show --merged` prints is a profile, the same one, and says of each value where it is from (ours)."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.console.profiles import as_yaml, show_reports
from acp_launch.document.nodes import Plain, Positions
from acp_launch.document.yaml import Document, parse
from acp_launch.profile.discover import Found
from acp_launch.profile.load import Loaded, examine, load
from acp_launch.profile.model import Agent, Profile
from acp_launch.profile.values import Template
from tests.patience import PATIENCE

BASE = """version: 1
agent:
  command: cat
  args: [-x, "a: b", "", "true", "1", "${project}"]
  env: {A: "two\\nlines", B: ~/x}
permissions:
  rules:
    - allow: {kind: read}
"""
WORK = """extends: base
description: "# no comment"
mcp_servers:
  files: {command: cat, required: false, restart: {backoff: {factor: 1.5}}}
workspace: {}
"""
MERGED = """# work, merged from
#   base.yaml
#   work.yaml
version: 1  # base.yaml:1
agent:
  command: cat  # base.yaml:3
  args:
    - -x  # base.yaml:4
    - "a: b"  # base.yaml:4
    - ""  # base.yaml:4
    - "true"  # base.yaml:4
    - "1"  # base.yaml:4
    - ${project}  # base.yaml:4
  env:
    A: "two\\nlines"  # base.yaml:5
    B: ~/x  # base.yaml:5
permissions:
  rules:
    - {allow: {kind: read}}  # base.yaml:8
description: "# no comment"  # work.yaml:2
mcp_servers:
  files:
    command: cat  # work.yaml:4
    required: false  # work.yaml:4
    restart:
      backoff:
        factor: 1.5  # work.yaml:4
workspace: {}  # work.yaml:5
"""


@pytest.fixture
def holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    holder = tmp_path / ".acp-launch"
    holder.mkdir()
    (holder / "base.yaml").write_text(BASE)
    (holder / "work.yaml").write_text(WORK)
    monkeypatch.chdir(holder)
    return holder


def found(file: Path) -> Found:
    return Found(file.stem, file, file.parent.parent, "project")


def test_the_merged_profile_is_the_same_profile_and_extends_nothing(holder: Path) -> None:
    loaded = load(found(holder / "work.yaml"))
    assert as_yaml(loaded) == MERGED
    (holder / "same.yaml").write_text(MERGED)
    same = load(found(holder / "same.yaml"))
    assert (same.profile, same.merged, len(same.layers)) == (loaded.profile, loaded.merged, 1)


def test_the_verb_prints_it_and_says_what_is_wrong_with_what_is_no_profile(holder: Path) -> None:
    (holder / "bad.yaml").write_text("extends: gone\n")
    command = [sys.executable, "-m", "acp_launch", "show", "--merged"]
    shown = subprocess.run([*command, "work"], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert (shown.stdout, shown.stderr) == (MERGED, "")
    wrong = subprocess.run([*command, "bad"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith('bad.yaml:1:10: extends: no profile named "gone" to extend\n')


# Every value is in a file whose name would like to be more than a comment.
HOSTILE = Positions({(): ("x\nagent: {command: evil}\x1b[2J\u2028.yaml", 7, 1, 7, 1, None)})


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
LEAVES = st.one_of(TEXTS, st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False))
TREES = st.dictionaries(
    TEXTS,
    st.recursive(
        LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
    ),
    min_size=1,
    max_size=4,
)


@given(TREES)
def test_whatever_the_values_and_the_files_are_called_it_reads_back_the_same_and_cannot_drive_a_terminal(
    tree: dict[str, Any],
) -> None:
    name = "x\x1b[2J\nagent: evil"
    profile = Profile(version=1, agent=Agent(command=Template("x")))
    loaded = Loaded(Found(name, Path("x"), Path(), "path"), profile, HOSTILE, "x", merged=tree)
    text = as_yaml(loaded)
    assert all(line.isprintable() for line in text.split("\n"))
    document, problems = parse(text, "again.yaml")
    assert isinstance(document, Document) and not problems
    assert same(document.root, tree)


def same(one: Plain, other: Plain) -> bool:
    """Equal, and of the same types: 1 is neither true nor 1.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def test_rules_of_several_files_are_more_than_one_list(holder: Path) -> None:
    said = "# What the rules of one of these files deny stays denied, though a rule above it may allow it."
    assert said not in as_yaml(load(found(holder / "work.yaml")))
    (holder / "work.yaml").write_text(f"{WORK}permissions: {{rules: [{{deny: {{kind: edit}}}}]}}\n")
    assert f"{said}\nversion: 1" in as_yaml(load(found(holder / "work.yaml")))


def test_a_problem_of_a_parent_that_two_children_have_is_said_once(
    holder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (holder / "_base.yaml").write_text("version: 1\nagent: {command: 5}\n")
    for name in ("one", "two"):
        (holder / f"{name}.yaml").write_text("extends: _base\n")
    reports = [(each, *examine(each)) for each in (found(holder / "one.yaml"), found(holder / "two.yaml"))]
    assert not show_reports(reports, {}, (), as_json=False, strict=False)
    assert capsys.readouterr().err == (
        '_base.yaml:2:18: agent.command: expected text, found the number 5\n    fix: quote it: "5"\n'
        "1 problem; 2 of 2 profiles cannot be used\n"
    )
