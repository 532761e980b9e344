"""
Ring 3. A server that its package runner downloads for the first time gets the time for it, and is named (ours).

The runner is tests/servers/fetcher.py under the name npx; it downloads until the test opens its fifo.
"""

import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.launcher import SERVERS, Ended, Json, Launcher

FETCHES = "acp-launch: mcp server notes is downloading: its package runner fetches it for the first time"
BRIEF = {"start": "1s"}  # less than the test takes; and than a download


@pytest.fixture
def fifo(launch: Launcher) -> Path:
    """Opened for writing it waits for the runner, and closed it ends the download."""
    fifo = launch.project / "download"
    os.mkfifo(fifo)
    return fifo


def fetched(launch: Launcher, fifo: Path | None, temper: str = "probe_polite", **more: Json) -> Json:
    """A server behind a fake npx."""
    file = launch.project / "npx"
    file.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -IS {shlex.quote(str(file))}.py "$@"\n')
    file.chmod(0o755)
    file.with_name("npx.py").write_text((SERVERS / "fetcher.py").read_text())
    args = ["-y", sys.executable, "-I", "-S", str(SERVERS / f"{temper}.py")]
    env = {"ACP_TEST_DOWNLOAD": str(fifo)} if fifo else {}
    return {"command": str(file), "args": args, "env": env, "timeouts": BRIEF, **more}


def downloaded(launch: Launcher, fifo: Path, *words: str) -> Ended:
    with launch.start(*words) as running:
        running.complains(FETCHES)
        assert b"session/new" not in bytes(running.raw)
        with fifo.open("wb"):
            pass
        done = running.end()
    assert done.code == 0, (done.out, done.err)
    return done


@pytest.mark.parametrize("words", [["run", "p", "notes"], ["mcp", "tools", "p", "notes"]])
def test_a_download_is_waited_for_beyond_the_start_timeout(launch: Launcher, fifo: Path, words: list[str]) -> None:
    launch.profile("polite", mcp_servers={"notes": fetched(launch, fifo)})
    assert "did not answer" not in downloaded(launch, fifo, *words).err


def test_a_download_has_a_limit_of_its_own_which_is_named(launch: Launcher, fifo: Path) -> None:
    limits: Json = {**BRIEF, "download": "1500ms"}
    restart: Json = {"policy": "never"}
    launch.profile("polite", mcp_servers={"notes": fetched(launch, fifo, timeouts=limits, restart=restart)})
    done = launch("run", "p", "hello")
    assert done.code == 8
    assert "was still downloading after 1.5 s" in done.err


def test_a_runner_whose_server_is_silent_gets_no_more_time(launch: Launcher) -> None:
    """The runner has done its part: its child is there."""
    launch.profile("polite", mcp_servers={"notes": fetched(launch, None, "mute")})
    done = launch("run", "p", "hello")
    assert done.code == 8
    assert "is downloading" not in done.err
    assert "1 s" in done.err


def test_doctor_names_a_download_and_counts_its_time_apart(launch: Launcher, fifo: Path) -> None:
    launch.profile("polite", mcp_servers={"notes": fetched(launch, fifo)})
    done = downloaded(launch, fifo, "doctor", "p")
    (line,) = [line for line in done.out.decode().splitlines() if "server notes" in line and "tools" in line]
    assert line.startswith("ok ") and line.endswith(", after a download")
