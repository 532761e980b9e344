"""An editor for a test: it starts `serve PROFILE` as editors do, and every message of ours is judged."""

import json
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.cli import forkserver
from tests.cli.launcher import MARK, Json, Launcher, alive, command, kill_all
from tests.oracle import Dialogue, check_transcript
from tests.patience import PATIENCE
from tests.realservers.recorder import Recorder, Responder, popen

ABLE: Json = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


class Editor(Recorder):
    """An editor with its agent, which is acp-launch. Its requests have ids of several kinds."""

    launcher: Launcher
    mark: str
    transcript: Path
    log: Path
    code: int | None = None

    def begin(self, **able: object) -> Json:
        """The result of the handshake."""
        about = {"name": "editor", "version": "1.0"}
        params = {"protocolVersion": 1, "clientCapabilities": ABLE | able, "clientInfo": about}
        return dict(self.request("initialize", params)["result"])

    def refused(self, method: str = "initialize", **params: object) -> str:
        """The text of an error that answers a request; its message is the first line."""
        given: Json = params or {"protocolVersion": 1, "clientCapabilities": {}}
        error = self.request(method, given)["error"]
        text = str((error.get("data") or {}).get("details", error["message"]))
        assert text.partition("\n")[0] == error["message"]
        return text

    def open(self, cwd: Path | None = None, **params: object) -> str:
        """The id of a new session."""
        opened = self.request("session/new", self.place(cwd) | params)
        assert "result" in opened, opened
        return str(opened["result"]["sessionId"])

    def place(self, cwd: Path | None = None) -> Json:
        return {"cwd": str(cwd or self.launcher.project), "mcpServers": []}

    def prompt(self, session: str, text: str) -> Json:
        return self.request("session/prompt", self.words(session, text))

    def words(self, session: str, text: str) -> Json:
        return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}

    def said(self, since: int = 0) -> str:
        """The agent's words so far."""
        told = [message.get("params", {}).get("update", {}) for message in self.heard("session/update", since)]
        chunks = [update["content"] for update in told if update.get("sessionUpdate") == "agent_message_chunk"]
        return "".join(chunk.get("text", "") for chunk in chunks)

    @property
    def told(self) -> str:
        """What acp-launch said on stderr."""
        return self.log.read_text()

    @property
    def agent_heard(self) -> list[Json]:
        return [json.loads(line) for line in self.transcript.read_bytes().splitlines()]

    def end(self) -> int:
        """Close its stdin, and return the exit code; nothing of it is left."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.ended()

    def ended(self) -> int:
        """Wait for its end, which was brought about otherwise."""
        self.code = self._process.wait(PATIENCE)
        left = alive(self.mark)
        assert left == [], left
        return self.code


def forked(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, stderr: IO[bytes]) -> forkserver.Process:
    """`python -m acp_launch` from the fork server, with pipes for its stdin and stdout."""
    return forkserver.start(argv[3:], env=env, cwd=cwd, stdin=subprocess.PIPE, stderr=stderr.fileno())


@contextmanager
def serving(
    launcher: Launcher,
    *options: str,
    name: str = "p",
    answers: Mapping[str, Responder] | None = None,
    is_valid: bool = True,
    trusts: bool = True,
    leaves_record: bool = False,
    apart: bool = False,
    **env: str,
) -> Iterator[Editor]:
    """Serve a profile while the block runs; then the editor ends, all its messages are judged, and nothing is left.

    Acp-launch comes from the fork server, unless it is to be `apart`: where it is killed, or looked at from outside.
    """
    mark = uuid.uuid4().hex
    transcript = launcher.project.parent / f"transcript-{mark}"
    log = launcher.project.parent / f"stderr-{mark}"
    environ = {**launcher.env, MARK: mark, "ACP_TEST_TRANSCRIPT": str(transcript), **env}
    argv = [word for word in command("serve", name, *options) if trusts or word != "--trust"]
    begin = popen if apart or not forkserver.suits(environ) else forked
    try:
        with log.open("wb") as stderr:
            editor = Editor(argv, env=environ, cwd=launcher.project, answers=answers, stderr=stderr, begin=begin)
        editor.launcher, editor.mark, editor.transcript, editor.log = launcher, mark, transcript, log
        with editor:
            yield editor
            if editor.code is None:
                assert editor.end() == 0, editor.told
        if is_valid:
            judged(editor)
        records = launcher.state / "launches"
        left = [record.read_bytes().split() for record in records.iterdir()] if records.exists() else []
        is_left = any(str(editor.pid).encode() in record for record in left)
        assert leaves_record or not is_left, "its record is left"
    finally:
        kill_all(mark)


def judged(editor: Editor) -> None:
    """Every line to the editor, and every line to the agent, is ACP."""
    if editor.transcript.exists():
        wrong = check_transcript(editor.transcript)
        assert wrong == [], wrong
    dialogue = Dialogue()
    for line in editor.sent:
        dialogue.expect(line, "client")
    wrong = [found for line in editor.lines for found in dialogue.agent(line + b"\n")]
    assert wrong == [], wrong
