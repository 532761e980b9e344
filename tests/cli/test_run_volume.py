"""Much of everything: order kept, memory bounded, slow readers waited for, full disks named (docs/internals.md)."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.launcher import Launcher, Running, patient, trusting
from tests.patience import PATIENCE

MIB = 1 << 20
LAST_CHUNK = """
import json

def prompt(request):
    session = script.session_of(request)
    script.say(session, "x" * 50_000)
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "y" * 30_000}}
    update = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": chunk}}
    end = {"jsonrpc": "2.0", "id": request["id"], "result": {"stopReason": "end_turn"}}
    script.write("".join(json.dumps(message) + "\\n" for message in (update, end)).encode())

script.serve({"session/prompt": prompt})
"""
# ru_maxrss would count what the parent held before exec; the peak of the memory map alone does not.
PEAK = """
import re, sys
from acp_launch.cli.main import run
code = run(sys.argv[1:])
print("peak", re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1], file=sys.stderr)
sys.exit(code)
"""


def measured(launch: Launcher, out: Path, *arguments: str) -> int:
    """Run acp-launch into a file; the peak of its memory in MiB. It must end well."""
    with out.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-c", PEAK, *trusting(arguments)],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.PIPE,
            cwd=launch.project,
            env=launch.env,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(rb"peak (\d+)\n", done.stderr)
    assert found, done.stderr
    return int(found[1]) >> 10


def updates(out: Path) -> list[Any]:
    return [event for event in map(json.loads, out.read_bytes().splitlines()) if event["type"] == "update"]


@pytest.mark.sample(0, 1)
@pytest.mark.parametrize("output", ["json", "text", "quiet"])
def test_one_line_of_48_megabytes_comes_through_in_bounded_memory(
    launch: Launcher, tmp_path: Path, output: str
) -> None:
    """C-5."""
    launch.profile("flood", "1", str(48 * MIB))
    peak = measured(launch, tmp_path / "out", "run", "p", "hi", "--output", output)
    if output == "json":
        giant, last = updates(tmp_path / "out")
        assert len(giant["update"]["content"]["text"]) == 48 * MIB
        assert last["update"]["content"]["text"] == "done"
    else:
        assert (tmp_path / "out").stat().st_size == 48 * MIB + len("done\n")
    copies = 3 if output == "json" else 2  # the `result` event has the answer, too
    assert peak < 48 * copies + 50, "the line, what is made of it, and no second copy of that"


def test_a_hundred_thousand_updates_arrive_in_order_and_in_little_memory(launch: Launcher, tmp_path: Path) -> None:
    """C-10."""
    launch.profile("flood", "100000")
    peak = measured(launch, tmp_path / "out", "run", "p", "hi", "--output", "json")
    texts = [event["update"]["content"]["text"] for event in updates(tmp_path / "out")]
    assert len(texts) == 100_001
    assert set(texts[:-1]) == {"x" * 150}
    assert texts[-1] == "done"
    assert peak <= 60 + 15, "and the answer, for the `result` event"
    assert measured(launch, tmp_path / "out", "run", "p", "hi", "--output", "quiet") <= 60


@pytest.mark.sample(0, 1)
@pytest.mark.parametrize("way", ["file", "stdin", "dash"])
def test_a_prompt_of_ten_megabytes_reaches_the_agent_whole(launch: Launcher, way: str) -> None:
    launch.profile("big_paste")
    paste = launch.project / "paste.txt"
    paste.write_bytes(b"0123456789" * MIB)
    arguments = {"file": ["--file", str(paste)], "stdin": [], "dash": ["--file", "-"]}[way]
    done = launch("run", "p", *arguments, stdin=None if way == "file" else paste.read_bytes())
    assert (done.code, done.out, patient(done.err)) == (0, f"{10 * MIB} characters\n".encode(), "")


def test_the_end_of_a_turn_waits_for_what_the_reader_has_not_taken_yet(launch: Launcher) -> None:
    """The last update and the end come in one chunk, when our stdout has room for neither."""
    launch.scripted(LAST_CHUNK)
    with launch.start("run", "p", "hi", "--output", "json") as running:
        running.hears("session/prompt")
        running.gets_stuck()
        events = read_slowly(running)
    assert [event["type"] for event in events] == ["initialized", "session", "update", "update", "result"]


def read_slowly(running: Running) -> list[Any]:
    assert running.process.stdout is not None
    out = bytearray()
    while piece := os.read(running.process.stdout.fileno(), 3000):  # less than a pipe takes at once
        out += piece
    assert running.end().code == 0
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("output", ["text", "json", "quiet"])
def test_a_full_disk_behind_stdout_is_named_once(launch: Launcher, output: str) -> None:
    launch.profile("polite")
    with Path("/dev/full").open("wb") as full:
        done = launch("run", "p", "hi", "--output", output, out=full)
    assert (done.code, done.err) == (1, "acp-launch: cannot write to stdout: No space left on device\n")


def test_a_list_of_sessions_that_does_not_fit_is_named_too(launch: Launcher) -> None:
    launch.profile("polite")
    assert launch("run", "p", "hi").code == 0
    with Path("/dev/full").open("wb") as full:
        done = launch("session", "list", out=full)
    assert (done.code, done.err) == (1, "acp-launch: cannot write to stdout: No space left on device\n")
