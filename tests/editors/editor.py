"""
An editor that a test writes the words of, and one conversation held twice: with an agent itself, and through `serve`.

What may differ between the two is what `serve` says it edits (docs/serve.md), and nothing else: see `of_editor` and
`of_agent`.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec

from acp_launch.protocol.jsonrpc import with_id
from acp_launch.protocol.splice import at
from tests.cli.launcher import MARK, ROOT, Json, Launcher, alive, kill_all
from tests.oracle import check_transcript
from tests.realservers.recorder import Recorder, Responder, result

CAPABILITIES: Json = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "elicitation": {"form": {}, "url": {}},
    "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
    "_meta": {"terminal-auth": True, "deep": [1.50, {"x": None}]},
}
ABOUT: Json = {"name": "editor", "title": "An editor", "version": "1.2.3"}


def allowed(params: Json) -> Json:
    """Allow once."""
    option = next(each["optionId"] for each in params["options"] if each["kind"] == "allow_once")
    return {"result": {"outcome": {"outcome": "selected", "optionId": option}, "_meta": {"by": "the user"}}}


ANSWERS: dict[str, Responder] = {
    "session/request_permission": allowed,
    "fs/read_text_file": result({"content": "Zeile 3 ü\n", "_meta": {"a": 1}}),
    "fs/write_text_file": result({}),
    "terminal/create": result({"terminalId": "t-1"}),
    "terminal/output": result({"output": "made", "truncated": False, "exitStatus": {"exitCode": 0, "signal": None}}),
    "terminal/wait_for_exit": result({"exitCode": 4294967295}),
    "terminal/kill": lambda params: {"error": {"code": -32002, "message": "gone", "data": {"terminalId": "t-1"}}},
    "terminal/release": result({}),
    "elicitation/create": result({"action": "accept", "content": {"which": "a", "code": "1234"}}),
    "_vendor/ask": result({"anything": [1, "2", None]}),
}


def initialize(editor: Recorder, capabilities: Json = CAPABILITIES) -> Json:
    params = {"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": ABOUT, "_meta": {"k": "v"}}
    editor.ask("initialize", "initialize", params)
    return editor.answer("initialize")


def new(editor: Recorder, cwd: Path, **more: object) -> str:
    """Open a session; its id."""
    answer = editor.request("session/new", {"cwd": str(cwd), "mcpServers": [], **more})
    return str(answer["result"]["sessionId"])


def prompt(session: str, text: str, **more: object) -> Json:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}], **more}


class Transcript(NamedTuple):
    """All that the editor and the agent were sent; a line each, in order."""

    editor: list[bytes]
    agent: list[bytes]


@dataclass
class Edited:
    """A connection to an agent, or to `serve` in front of it."""

    recorder: Recorder
    transcript: Path
    log: Path  # stderr

    def heard(self) -> list[bytes]:
        """What the agent was sent, once it has ended."""
        return self.transcript.read_bytes().splitlines() if self.transcript.exists() else []


@contextmanager
def edited(
    argv: Sequence[str],
    launch: Launcher,
    answers: Mapping[str, Responder] = ANSWERS,
    *,
    kind: type[Recorder] = Recorder,
    is_judged: bool = True,
    **env: str,
) -> Iterator[Edited]:
    """Connect an editor to this command; afterwards nothing of it lives, and the agent heard nothing but ACP."""
    mark = uuid4().hex
    transcript, log = (launch.project.parent / f"{what}-{mark}" for what in ("transcript", "stderr"))
    environment = {**launch.env, MARK: mark, "ACP_TEST_TRANSCRIPT": str(transcript), **env}
    try:
        with log.open("wb") as stderr:
            recorder = kind(argv, env=environment, cwd=launch.project, answers=answers, stderr=stderr)
        with recorder:
            yield Edited(recorder, transcript, log)
            assert recorder.end() == 0, log.read_text()
        left = alive(mark)
        assert left == [], left
    finally:
        kill_all(mark)
    if is_judged and transcript.exists():
        wrong = check_transcript(transcript)
        assert wrong == [], wrong


def serving(*arguments: str) -> list[str]:
    """The command that an editor is told to start."""
    return [sys.executable, "-m", "acp_launch", "serve", "--trust", *arguments]


Script = Callable[[Recorder, Path], None]


def transcripts(agent: Sequence[str], launch: Launcher, script: Script) -> tuple[Transcript, Transcript]:
    """What was said while the editor followed the script: with the agent itself, and through `serve`."""

    def leg(argv: Sequence[str]) -> Transcript:
        with edited(argv, launch) as found:
            script(found.recorder, launch.project)
            editor = found.recorder
        return Transcript(editor.lines, found.heard())

    with ThreadPoolExecutor(2) as both:
        legs = both.submit(leg, agent), both.submit(leg, serving("p"))
        first, second = (each.result() for each in legs)
    return first, second


def assert_same(agent: Sequence[str], launch: Launcher, script: Script) -> Transcript:
    """Both sides were sent the same lines in the same order, but for the edits; gives what they were sent directly."""
    command, *arguments = agent
    launch.write({"agent": {"command": command, "args": arguments}, "client": {"fs": True, "terminal": True}})
    direct, through = transcripts(agent, launch, script)
    assert_equal("the editor", of_editor(direct.editor), of_editor(through.editor))
    assert_equal("the agent", of_agent(direct.agent), of_agent(through.agent))
    return direct


def assert_equal(side: str, direct: list[bytes], through: list[bytes]) -> None:
    for number, (one, other) in enumerate(zip(direct, through, strict=False)):
        assert other == one, f"line {number} to {side} differs: {one[:2000]!r} directly, {other[:2000]!r} through serve"
    assert len(through) == len(direct), f"lines to {side}: {through[len(direct) :] or direct[len(through) :]!r}"


def of_editor(lines: Sequence[bytes]) -> list[bytes]:
    """Lines to an editor, without what `serve` edits: ids of the agent's requests; three members of `initialize`."""
    return _steady(lines, _initialized)


def of_agent(lines: Sequence[bytes]) -> list[bytes]:
    """Lines to an agent, without what `serve` edits: ids of requests; offers; servers and directories of a session."""
    return _steady(lines, _opening)


def _steady(lines: Sequence[bytes], edit: Callable[[Json], Json | None]) -> list[bytes]:
    """With ids of requests counted instead, also where a notification names one; other ids in one of many ways."""
    counted: dict[str, int] = {}  # the last request with an id
    numbers = count(1)
    found = []
    for line in lines:
        message = json.loads(line)
        if "id" in message and "method" in message:
            counted[json.dumps(message["id"])] = number = next(numbers)
            line = with_id(line, msgspec.Raw(b"%d" % number))
        elif "id" in message:
            line = with_id(line, msgspec.Raw(json.dumps(message["id"]).encode()))
        if message.get("method") == "$/cancel_request":
            number = counted[json.dumps(message["params"]["requestId"])]
            line = _replaced(line, ("params", "requestId"), b"%d" % number)
        edited = edit(json.loads(line))
        found.append(line if edited is None else json.dumps(edited, sort_keys=True).encode())
    return found


def _replaced(line: bytes, path: tuple[str, ...], value: bytes) -> bytes:
    place = at(line, path)
    assert place is not None
    return line[: place[0]] + value + line[place[1] :]


def _initialized(message: Json) -> Json | None:
    """The answer to `initialize`, without our part in it."""
    if "agentCapabilities" not in message.get("result", {}):
        return None
    answer = message["result"]
    offered = answer["agentCapabilities"].setdefault("mcpCapabilities", {})
    offered.pop("http", None), offered.pop("sse", None)
    answer.setdefault("_meta", {}).pop("acp-launch", None)
    for way in answer.get("authMethods", []):
        if way.get("type") == "terminal":
            way.pop("args", None), way.pop("env", None)
    return dict(message)


def _opening(message: Json) -> Json | None:
    if message.get("method") == "initialize":
        offered = message["params"].get("clientCapabilities", {})
        offered.pop("fs", None), offered.pop("terminal", None)
        return dict(message)
    if message.get("method") in {"session/new", "session/load", "session/resume"}:
        message["params"].pop("mcpServers", None)
        message["params"].pop("additionalDirectories", None)
        return dict(message)
    return None


def scripted(agent: str, *arguments: str) -> list[str]:
    """The command of one of tests/agents."""
    return [sys.executable, "-I", "-S", str(ROOT / "tests" / "agents" / f"{agent}.py"), *arguments]


def tapped(*argv: str) -> list[str]:
    """The command with all its lines kept, as the agents of tests do it themselves."""
    return [sys.executable, "-I", "-S", str(ROOT / "tests" / "editors" / "tap.py"), *argv]
