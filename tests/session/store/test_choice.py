"""Which session a run opens, and what is said when it cannot be that one (docs/session.md)."""

import shlex
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from acp_launch.errors import SessionError
from acp_launch.plan.model import LaunchPlan
from acp_launch.plan.resolve import adhoc
from acp_launch.session.hold import fresh_name
from acp_launch.session.store import Record, continued, latest_name, open_registry
from tests.session.stores import FIX


def planned(directory: Path) -> LaunchPlan:
    plan = adhoc(shlex.quote(sys.executable), cwd=directory, environ={}).plan
    assert plan is not None
    return plan


def record(plan: LaunchPlan, *, cwd: Path) -> Record:
    return replace(FIX, project=str(plan.project), profile=plan.profile, cwd=str(cwd))


def test_the_session_of_that_name_is_continued_and_none_is_no_fault(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    with open_registry(tmp_path / "state") as registry:
        assert continued(registry, plan, "fix-42", latest=False) is None
        registry.save(record(plan, cwd=plan.cwd))
        assert continued(registry, plan, "fix-42", latest=False) == record(plan, cwd=plan.cwd)


@pytest.mark.parametrize(("latest", "instead"), [(False, "--new"), (True, "no --continue")])
def test_a_session_of_another_directory_says_how_to_go_there_or_to_start_afresh(
    tmp_path: Path, latest: bool, instead: str
) -> None:
    """`--continue` takes no `--new`, so each is told what goes with it."""
    plan = planned(tmp_path)
    with open_registry(tmp_path / "state") as registry:
        registry.save(record(plan, cwd=Path("/elsewhere")))
        with pytest.raises(SessionError) as caught:
            continued(registry, plan, "fix-42", latest=latest)
    assert caught.value.message == f'the session "fix-42" works in /elsewhere, this run in {plan.cwd}'
    assert caught.value.fix == f"--cwd /elsewhere, or {instead} to start afresh here"


def test_the_latest_of_no_session_is_an_error_that_names_the_project(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    with open_registry(tmp_path / "state") as registry, pytest.raises(SessionError) as caught:
        latest_name(registry, plan)
    assert caught.value.message == f'there is no session of profile "{plan.profile}" in {plan.project} to continue'
    assert caught.value.fix == "run it once without --continue; acp-launch session list --all shows every session"


def test_generated_names_differ_within_one_second() -> None:
    assert len({fresh_name() for _ in range(20)}) > 1
