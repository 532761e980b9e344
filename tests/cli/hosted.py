"""A host for a test: brought up as a user does, and gone with all it has started when the block is left."""

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from acp_launch.served.connect import read_status
from acp_launch.served.registry import HostNote
from acp_launch.served.wire import HostStatus
from tests.cli.launcher import MARK, Ended, Json, Launcher, alive, command, kill_all, left_by_guards
from tests.patience import PATIENCE


@dataclass(frozen=True)
class Host:
    """A host that is up. `said` is what `up` has said on stderr."""

    launcher: Launcher
    mark: str
    transcript: Path
    said: str
    name: str

    @property
    def note(self) -> Json:
        """What the host says of itself."""
        (note,) = (self.launcher.state / "hosts").glob("*.json")
        found: Json = json.loads(note.read_bytes())
        return found

    @property
    def pid(self) -> int:
        return int(self.note["pid"])

    @property
    def status(self) -> HostStatus:
        return read_status(msgspec.convert(self.note, HostNote))

    @property
    def heard(self) -> list[Json]:
        """What the agent of the host was asked and told so far."""
        return [json.loads(line) for line in self.transcript.read_bytes().splitlines()]

    @property
    def methods(self) -> list[str]:
        return [message["method"] for message in self.heard if "method" in message]

    def run(self, *arguments: str, stdin: bytes | None = None) -> Ended:
        """Run a prompt; it starts no agent of its own."""
        done = self.launcher("run", self.name, *arguments, stdin=stdin)
        assert done.heard == [], "an agent was started beside that of the host"
        return done

    def alive(self) -> list[str]:
        return alive(self.mark)


def up(launcher: Launcher, *arguments: str, name: str = "p", is_killed: bool = False) -> AbstractContextManager[Host]:
    """Bring the profile up, and take it down afterwards, unless it `is_killed` by then; nothing is left."""
    return brought_up(launcher, "up", name, *arguments, name=name, is_killed=is_killed)


def marked(
    launcher: Launcher, mark: str, transcript: Path, *words: str, stdin: int = subprocess.DEVNULL
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command whose processes have this mark, and whose agent writes this transcript."""
    return subprocess.run(
        command(*words),
        env={**launcher.env, MARK: mark, "ACP_TEST_TRANSCRIPT": str(transcript)},
        cwd=launcher.project,
        stdin=stdin,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


@contextmanager
def brought_up(
    launcher: Launcher, *words: str, name: str = "p", is_killed: bool = False, stdin: int = subprocess.DEVNULL
) -> Iterator[Host]:
    """The same by another command."""
    mark = uuid.uuid4().hex
    transcript = launcher.project.parent / f"transcript-{mark}"
    try:
        began = marked(launcher, mark, transcript, *words, stdin=stdin)
        assert began.returncode == 0, began.stderr.decode()
        yield Host(launcher, mark, transcript, began.stderr.decode(), name)
        ended = launcher("down", "--all")
        assert ended.code == 0, ended.err
        left = left_by_guards(mark)
        assert left == [], left
    finally:
        kill_all(mark)
    if is_killed:
        return
    assert not os.listdir(launcher.state / "launches"), "a record is left"  # noqa: PTH208
