"""Published editors and clients against `serve demo`: they are sent what the demo agent itself sends them."""

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

from tests.cli.launcher import MARK, ROOT, Launcher, alive, kill_all
from tests.editors.editor import assert_equal, of_editor, serving, tapped
from tests.patience import PATIENCE
from tests.realservers.published import acpx, needs_npm, node, sdk

HERE = ROOT / "tests" / "editors"
DEMO = [sys.executable, "-I", "-m", "acp_launch.demo.agent"]
DRAWN = re.compile(rb"\b([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{12}|[0-9a-f]{32})\b")
TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z")
CHECKOUT = re.compile(rb"/(directly|through)\b")


def steady(lines: Sequence[bytes]) -> list[bytes]:
    """Without what differs between two runs of the demo agent: ids that it draws, times, and where it works."""
    seen: dict[bytes, bytes] = {}
    counted = [DRAWN.sub(lambda found: seen.setdefault(found[0], b"#%d" % len(seen)), line) for line in lines]
    return [CHECKOUT.sub(b"/project", TIME.sub(b"<time>", line)) for line in counted]


def held(
    launch: Launcher, side: str, editor: Callable[[Path, list[str]], list[list[str]]], agent: list[str]
) -> list[bytes]:
    """The lines to an editor that is run, once or more, in a project of its own. Nothing of it lives afterwards."""
    project = launch.project.parent / side
    project.mkdir()
    mark, kept = uuid4().hex, launch.project.parent / f"{side}.lines"
    env = {**launch.env, MARK: mark, "ACP_TEST_TRANSCRIPT": str(kept), "ACP_DEMO_HOME": str(project / "demo")}
    try:
        for command in editor(project, tapped(*agent)):
            done = subprocess.run(
                command,
                env=env,
                cwd=project,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
            assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
        deadline = time.monotonic() + PATIENCE  # an editor may not wait for its agent
        while left := alive(mark):
            assert time.monotonic() < deadline, left
    finally:
        kill_all(mark)
    return kept.with_name(kept.name + ".sent").read_bytes().splitlines()


def assert_same_for(launch: Launcher, editor: Callable[[Path, list[str]], list[list[str]]]) -> list[bytes]:
    """It was sent the same through `serve demo`; gives that."""
    with ThreadPoolExecutor(2) as both:
        legs = [
            both.submit(held, launch, *leg)
            for leg in (("directly", editor, DEMO), ("through", editor, serving("demo")))
        ]
        direct, through = (steady(of_editor(leg.result())) for leg in legs)
    assert_equal("the editor", direct, through)
    return through


def test_the_client_of_the_python_sdk(launch: Launcher) -> None:
    lines = assert_same_for(
        launch, lambda cwd, agent: [[sys.executable, str(HERE / "sdk_client.py"), str(cwd), *agent]]
    )
    assert any(b'"fs/write_text_file"' in line for line in lines)
    assert any(b'"terminal/create"' in line for line in lines)


@needs_npm
def test_the_client_of_the_npm_sdk(launch: Launcher) -> None:
    lines = assert_same_for(
        launch, lambda cwd, agent: [[node(), str(HERE / "client.mjs"), str(sdk()), str(cwd), *agent]]
    )
    assert any(b'"elicitation/create"' in line for line in lines)


@needs_npm
def test_acpx(launch: Launcher) -> None:
    """Which starts the agent for each prompt."""

    def commands(cwd: Path, agent: list[str]) -> list[list[str]]:
        options = ["--approve-all", "--cwd", str(cwd), "--agent", shlex.join(agent), "exec"]
        return [
            [*acpx(), *options, text]
            for text in ("hello", "edit note.txt a line", "shell echo said", "edit note.txt more")
        ]

    lines = assert_same_for(launch, commands)
    assert any(b'"session/request_permission"' in line for line in lines)
    assert any(b'"terminal/wait_for_exit"' in line for line in lines)
