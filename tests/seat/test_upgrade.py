"""acp-launch is upgraded in place while a launch runs (docs/profiles.md "One process for all your launches")."""

import os
import shutil
import signal
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

import acp_launch
from acp_launch.served.connect import read_shared
from acp_launch.served.registry import find_server_host
from tests.patience import until, until_ended
from tests.seat.stage import Json, Stage
from tests.seat.test_restart import AT_ONCE, states
from tests.seat.test_share_user import shared

BECOMES = 'shift; exec "$PYTHON" "$@"'  # in place of this Python


class Installed:
    """A copy of acp-launch in an environment of its own."""

    def __init__(self, place: Path) -> None:
        venv.create(place)
        self.python = place / "bin" / "python"
        (site,) = place.glob("lib/python*/site-packages")
        (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        self.package, self._away = site / "acp_launch", place / "away"
        shutil.copytree(Path(acp_launch.__file__).parent, self.package, ignore=shutil.ignore_patterns("__pycache__"))

    def remove(self) -> None:
        self.package.rename(self._away)

    def put_back(self) -> None:
        self._away.rename(self.package)

    def upgrade(self) -> None:
        """To a version of which nothing is as it was."""
        self.remove()
        self.package.mkdir()
        (self.package / "__init__.py").write_text('__version__ = "99.0"\n')


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path / "environment")


def play(stage: Stage, installed: Installed, **servers: Json) -> Any:
    stage.launch.env["PYTHON"] = str(installed.python)
    return stage.play(servers=servers, prefix=["sh", "-c", BECOMES, "sh"])


@pytest.mark.parametrize("keys", [{}, {"share": "launch"}], ids=str)
def test_a_server_that_dies_after_it_is_started_again(stage: Stage, installed: Installed, keys: Json) -> None:
    with play(stage, installed, polite=stage.server("polite", restart=AT_ONCE, **keys)) as run:
        run.agent.start("polite", "wait", path=stage.fifo("never"))
        server = stage.roll.hear("polite")
        server.says("waiting")
        installed.upgrade()
        server.kill(signal.SIGKILL)
        assert [answer["error"]["code"] for answer in run.agent.awaits()] == [-32010]
        assert run.agent.call("polite", "pid") != server.pid
        done = run.end()
    assert (done.code, "Traceback" in done.err) == (0, False)


def test_what_is_rarely_needed_is_there_though_it_was_not_needed_before(stage: Stage, installed: Installed) -> None:
    """To read a line that is not a message."""
    with play(stage, installed, **shared(stage, restart=AT_ONCE)) as run:
        for _ in range(2):  # its lists are known, and a quarter of its `idle` is over
            assert run.agent.call("polite", "add", a=1, b=2) == 3
        installed.upgrade()
        server = stage.roll.hear("polite")
        server.kill(signal.SIGKILL)
        server.dies()
        note = find_server_host(stage.launch.state)
        assert note is not None
        until(lambda: read_shared(note)[0].pid not in (None, server.pid))
        assert run.agent.call("polite", "pid") != server.pid
        done = run.end()
    assert (done.code, "Traceback" in done.err) == (0, False)


def test_a_server_host_of_another_version_is_not_started_and_the_error_says_once_what_to_do(
    stage: Stage, installed: Installed
) -> None:
    with play(stage, installed, **shared(stage)) as run:
        run.agent.start("polite", "wait", path=stage.fifo("never"))
        stage.roll.hear("polite").says("waiting")
        note = find_server_host(stage.launch.state)
        assert note is not None
        installed.upgrade()
        os.kill(note.pid, signal.SIGKILL)
        assert [answer["error"]["code"] for answer in run.agent.awaits()] == [-32010]
        why = (
            f"cannot be started: acp-launch was upgraded from {acp_launch.__version__} to 99.0 while this launch runs;"
            " start the launch again for its shared servers"
        )
        for _ in range(2):
            assert run.agent.refused("polite", "add", a=1, b=2)["message"] == f'MCP server "polite" failed: {why}'
        done = run.end()
    assert done.code == 0
    assert states(done, "polite")[-2:] == ["resting", "failed"]
    stage.roll.all_die()


def test_a_server_host_that_ends_while_acp_launch_is_replaced_by_the_same_is_started_again(
    stage: Stage, installed: Installed
) -> None:
    with play(stage, installed, **shared(stage)) as run:
        run.agent.start("polite", "wait", path=stage.fifo("never"))
        server = stage.roll.hear("polite")
        server.says("waiting")
        note = find_server_host(stage.launch.state)
        assert note is not None
        installed.remove()
        os.kill(note.pid, signal.SIGKILL)
        assert [answer["error"]["code"] for answer in run.agent.awaits()] == [-32010]
        run.agent.start("polite", "pid")
        installed.put_back()
        (answer,) = run.agent.awaits()
        assert answer["result"]["content"][0]["text"] != str(server.pid)
        assert run.end().code == 0
    note = find_server_host(stage.launch.state)
    if note is not None:
        until_ended(note.pid)
