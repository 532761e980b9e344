"""The ways that users wait for go through few modules: a module is entered when one of its functions is called (ours).

The ceilings only fall: who needs a module more on a way puts its function where the way leads already.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE

RUN, FRONT, PROMPT, ITEM = 84, 40, 26, 83
PROMPTS = 4  # to an editor's session: between one and its answer a clock may come in

ENTERED = Path(__file__).parents[1] / "children" / "entered.py"
BATCH = "version: 1\nprofiles: [demo]\nisolation: none\ntasks: [{id: a, prompt: hello, repo: .}]\n"


class Place:
    """A home and a project for a process that counts."""

    def __init__(self, place: Path) -> None:
        self.project, self.counts = place / "project", place / "counts"
        self.project.mkdir()
        ours = {
            "HOME": str(place),
            "XDG_RUNTIME_DIR": str(place),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        }
        self.env = {name: text for name, text in os.environ.items() if not name.startswith("ACP_LAUNCH_")} | ours

    def command(self, *words: str, counts: bool = False) -> list[str]:
        how = [str(ENTERED), str(self.counts)] if counts else ["-m", "acp_launch"]
        return [sys.executable, "-P", *how, *words]

    def run(self, *words: str, counts: bool = False) -> None:
        command = self.command(*words, counts=counts)
        subprocess.run(command, env=self.env, cwd=self.project, timeout=PATIENCE, check=True, capture_output=True)

    def entered(self) -> list[set[str]]:
        return [set(line.split()) for line in self.counts.read_text().splitlines()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.run("run", "demo", "hello")  # from now on the profile is known
    return made


def test_a_run(place: Place) -> None:
    place.run("run", "demo", "hello", counts=True)
    (entered,) = place.entered()
    assert len(entered) <= RUN, sorted(entered)


def test_a_prompt_to_a_host(place: Place) -> None:
    place.run("up", "demo")
    try:
        for _ in range(3):  # one of the first says when the servers were ready
            place.run("run", "demo", "hello", counts=True)
    finally:
        place.run("down", "demo")
    entered = min(place.entered(), key=len)
    assert len(entered) <= FRONT, sorted(entered)


def test_the_run_of_an_item(place: Place) -> None:
    (place.project / "b.yaml").write_text(BATCH)
    place.run("batch", "prepare", "b.yaml", "--trust", "--out", "out")
    place.run("batch", "item", "out", "a.demo", counts=True)
    entered, _ = place.entered()  # before those of the item's own process
    assert len(entered) <= ITEM, sorted(entered)


def test_an_editors_prompt_with_a_tool_call(place: Place) -> None:
    with editor(place) as request:
        request("initialize", protocolVersion=1, clientCapabilities={})
        session = request("session/new", cwd=str(place.project), mcpServers=[])["sessionId"]
        for _ in range(PROMPTS):
            request("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "add 2 3"}])
    entered = min(place.entered()[1:PROMPTS], key=len)
    assert len(entered) <= PROMPT, sorted(entered)


@contextmanager
def editor(place: Place) -> Iterator[Any]:
    """Serve the profile; yield what sends a request and returns its result."""
    command = place.command("serve", "demo", counts=True)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=place.env, cwd=place.project, stdin=pipe, stdout=pipe) as served:
        assert served.stdin is not None and served.stdout is not None

        def request(method: str, **params: Any) -> Any:
            assert served.stdin is not None and served.stdout is not None
            line = json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
            served.stdin.write(line.encode() + b"\n")
            served.stdin.flush()
            while (said := json.loads(served.stdout.readline())).get("id") != method or "method" in said:
                pass
            return said["result"]

        yield request
        served.stdin.close()
        assert served.wait(PATIENCE) == 0
