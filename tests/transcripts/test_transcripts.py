"""
Ring 3. Whole conversations, word for word: what a user, a script, an editor, a batch and the agent were told.

A difference is a mend, which its commit names, or a mistake. `ACP_LAUNCH_TEST_WRITE=1 pytest tests/transcripts` writes
the transcripts anew.
"""

import os
from pathlib import Path

import pytest

from tests.cli.conftest import launch
from tests.cli.launcher import Launcher
from tests.transcripts.conversations import AGENTS, CONVERSATIONS, Front, normalize

__all__ = ["launch"]  # a fixture

KEPT = Path(__file__).with_name("kept")
IS_WRITING = "ACP_LAUNCH_TEST_WRITE" in os.environ  # a test has an environment without it
CASES = [(front, name) for front, names in CONVERSATIONS.items() for name in names]


def find_kept(front: Front, name: str) -> Path:
    return KEPT / f"{front.__name__}-{name.replace(' ', '-')}.txt"


@pytest.mark.parametrize(("front", "name"), CASES, ids=[find_kept(*case).stem for case in CASES])
def test_a_conversation_is_as_it_was(
    launch: Launcher, front: Front, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(launch.project)
    agent, kept = AGENTS[name], find_kept(front, name)
    agent.write(launch)
    said = normalize(front(launch, agent), launch)
    if IS_WRITING:
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(said)
    assert said == kept.read_text()


def test_no_transcript_is_left_of_a_conversation_that_is_gone() -> None:
    assert {each.name for each in KEPT.iterdir()} == {find_kept(*case).name for case in CASES}
