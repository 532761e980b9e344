"""Every method of ACP passes `serve`, in both directions, as it passes without it."""

import json
import sys
from functools import partial

from tests.cli.launcher import ROOT, Launcher
from tests.editors.editor import assert_same, scripted, tapped
from tests.editors.scripts import every_method
from tests.oracle import ANSWERED_BY, CANCEL_REQUEST, NOTIFIED
from tests.realservers.published import needs_npm, node, sdk

ALL = {*ANSWERED_BY, *NOTIFIED, CANCEL_REQUEST}


def used(lines: list[bytes]) -> set[str]:
    return {str(message["method"]) for line in lines if "method" in (message := json.loads(line))}


def test_all_that_a_scripted_agent_and_an_editor_say_passes_byte_for_byte(launch: Launcher) -> None:
    direct = assert_same(scripted("every"), launch, every_method)
    assert used([*direct.editor, *direct.agent]) >= ALL


def test_all_that_an_agent_on_the_python_sdk_says_passes(launch: Launcher) -> None:
    """It refuses `logout` and `session/delete`, and does not hear of requests that are cancelled."""
    command = [sys.executable, str(ROOT / "tests" / "editors" / "sdk_agent.py")]
    direct = assert_same(tapped(*command), launch, partial(every_method, knows_cancelled_requests=False))
    assert used([*direct.editor, *direct.agent]) >= ALL - {CANCEL_REQUEST}


@needs_npm
def test_all_that_an_agent_on_the_npm_sdk_says_passes(launch: Launcher) -> None:
    command = [node(), str(ROOT / "tests" / "editors" / "agent.mjs"), str(sdk())]
    direct = assert_same(tapped(*command), launch, every_method)
    assert used([*direct.editor, *direct.agent]) >= ALL
