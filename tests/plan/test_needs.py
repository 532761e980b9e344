"""Which secrets a profile needs, and what is said when one cannot be had: at the line and column of its reference."""

from pathlib import Path

import pytest

from acp_launch.plan.model import needs, unmet
from acp_launch.profile.discover import Found
from acp_launch.profile.load import Loaded, load, read_cache
from acp_launch.secret.value import Outcome, Secret, State

TEXT = """\
version: 1
agent:
  command: agent
  args: [--key, "--token=${secret:agent/token}"]
  env:
    A: "${secret:a}-${secret:b}-${secret:a}"
    C: "$${secret:a} ${secret:a}"
    B: |
      first
      ${secret:block}
mcp_servers:
  docs: {type: http, url: "https://x/?k=${secret:a}", headers: {Auth: 'Bearer ${secret:docs}', X: "$${secret:no}"}}
"""
FIRST = "p.yaml:6:8"  # at the beginning of a text it is where the text begins, its quote
FOUND = Outcome("found", "shelf", Secret("x"))


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loaded:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(TEXT)
    return load(Found("p", tmp_path / "p.yaml", tmp_path, "path"))


def column(line: int, text: str) -> str:
    return f"p.yaml:{line}:{TEXT.splitlines()[line - 1].index(text) + 1}"


def test_each_reference_is_needed_at_its_own_column(loaded: Loaded) -> None:
    assert [(need.name, str(need.origin), need.origin.path) for need in needs(loaded)] == [
        ("agent/token", column(4, "${secret:agent"), "agent.args[1]"),
        ("a", FIRST, "agent.env.A"),
        ("b", column(6, "${secret:b"), "agent.env.A"),
        ("a", f"p.yaml:7:{TEXT.splitlines()[6].rindex(chr(36)) + 1}", "agent.env.C"),
        ("block", "p.yaml:8:8", "agent.env.B"),  # a block's text does not stand as it is written
        ("a", column(12, "${secret:a"), "mcp_servers.docs.url"),
        ("docs", column(12, "${secret:docs"), "mcp_servers.docs.headers.Auth"),
    ]


def test_a_profile_that_was_checked_before_gives_the_same(loaded: Loaded, tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text(
        TEXT.replace('url: "https://x/?k=${secret:a}"', 'url: "https://x/"').replace("${secret:agent/token}", "")
    )
    found = Found("q", tmp_path / "q.yaml", tmp_path, "path")
    fresh = load(found, cache=tmp_path / "cache")
    again = load(found, cache=tmp_path / "cache")
    assert read_cache(tmp_path / "cache", found) is not None
    assert needs(again) == needs(fresh) != ()


def test_what_was_found_is_no_problem(loaded: Loaded) -> None:
    assert unmet(needs(loaded), {need.name: FOUND for need in needs(loaded)}) == ()


@pytest.mark.parametrize(
    ("state", "fix"),
    [
        ("locked", "unlock it and try again, or export ACP_LAUNCH_SECRET_A=..."),
        ("denied", "try again and allow it, or export ACP_LAUNCH_SECRET_A=..."),
        ("too large", "store at most 64 KiB: acp-launch secret set a"),
        (
            "unavailable",
            "acp-launch secret set a shows how to choose another store, or export ACP_LAUNCH_SECRET_A=...",
        ),
    ],
)
def test_each_outcome_is_one_problem_at_its_first_place_with_the_next_command(
    loaded: Loaded, state: State, fix: str
) -> None:
    outcomes = {need.name: FOUND for need in needs(loaded)} | {"a": Outcome(state, "shelf", None, "it is so")}
    shared = (*needs(loaded), *needs(loaded))  # two profiles that extend one file
    said = f'{FIRST}: agent.env.A: cannot read secret "a": it is so (needed in 2 other places, too)\n    fix: {fix}'
    assert [str(problem) for problem in unmet(shared, outcomes)] == [said]


def test_a_missing_one_names_the_store_and_the_command_that_sets_it(loaded: Loaded) -> None:
    outcomes = {need.name: FOUND for need in needs(loaded)} | {"docs": Outcome("missing", "keyring (Secret Service)")}
    assert [str(problem).split(": ", 2)[2] for problem in unmet(needs(loaded), outcomes)] == [
        'secret "docs" is not set in the keyring (Secret Service)\n    fix: acp-launch secret set docs'
    ]


@pytest.mark.parametrize(
    ("state", "own", "has_terminal", "fix"),
    [
        ("locked", "say please", True, "say please"),
        ("missing", "", False, "export ACP_LAUNCH_SECRET_DOCS=..., or acp-launch secret set docs"),
        ("unavailable", "use a file", False, "export ACP_LAUNCH_SECRET_DOCS=..., or use a file"),
        ("locked", "", False, "export ACP_LAUNCH_SECRET_DOCS=..., or unlock it and try again"),
        ("denied", "", False, "export ACP_LAUNCH_SECRET_DOCS=..., or try again and allow it"),
        ("too large", "", False, "store at most 64 KiB: acp-launch secret set docs"),
    ],
)
def test_without_a_terminal_the_variable_comes_first_and_a_store_may_know_better(
    loaded: Loaded, state: State, own: str, has_terminal: bool, fix: str
) -> None:
    outcomes = {need.name: FOUND for need in needs(loaded)} | {"docs": Outcome(state, "shelf", None, "so", own)}
    assert [problem.fix for problem in unmet(needs(loaded), outcomes, has_terminal=has_terminal)] == [fix]


def test_a_server_that_is_not_started_needs_nothing(loaded: Loaded) -> None:
    assert {need.name for need in needs(loaded)} - {need.name for need in needs(loaded, without=["docs"])} == {"docs"}
