"""
The agent of a trace, for `replay`: it says again what the recorded agent said, and checks what the client sends.

It speaks ACP on stdin and stdout, like the agent that it plays, so a profile and its rules are tested without a model.
What may differ from run to run is not compared (docs/troubleshooting.md "Replay a trace"). An answer of the client is
compared when it comes; a request or a notification with the next one of the trace; and each is waited for where it
stands in the trace. So calls of the client that cross each other may come in another order.
"""

import json
import os
import re
import select
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from acp_launch.cli.verb import Argument
from acp_launch.errors import RemoteProtocolError, UsageError
from acp_launch.problem import ours

VERSION = 1  # of the traces that can be played, as `acp_launch.trace` writes them
SILENCE_SECONDS = 30.0  # within a turn that asks nothing, only a user who repeats an interruption needs time
SHOWN = 200  # characters of a value in a message
MASK = "***"
RECORD = "record it again: acp-launch run PROFILE PROMPT --trace FILE"
# Parts that are not compared, by method: members of params, and of the answer to a request of the agent.
FREE = {"initialize": {"clientInfo"}, "$/cancel_request": {"requestId"}}
FREE_OF_ANSWER = {"terminal/output": {"output", "truncated", "exitStatus"}}  # as far as the command is at that moment
ACTING = {"fs/write_text_file", "terminal/create"}  # requests that would do something else with a masked secret
IDS = {"sessionId", "terminalId"}
Message = dict[str, Any]


class Replay(NamedTuple):
    """Be the agent of a trace: say what it said, and check what the client sends."""

    file: Annotated[Path, Argument("TRACE", "A file that --trace of one run has written.")]

    def carry_out(self) -> int:
        """Play the trace; return the status with which its agent died, or 0."""
        try:
            return Player(self.file, read_script(self.file)).play()
        except RecursionError:
            raise _unfit(str(self.file), "a message is nested too deeply to be repeated") from None


# The trace.


class Step(NamedTuple):
    """A message of the agent's connection. `line` is its place in the trace; `text` is not JSON."""

    line: int
    is_expected: bool
    message: Message
    is_cut: bool = False
    text: str = ""


class Script(NamedTuple):
    """The steps of an agent's life, the status with which it ended, and the profile that it was recorded with."""

    steps: list[Step]
    status: int
    profile: str = ""


def read_script(file: Path) -> Script:
    """Read a trace; raise UsageError if it cannot be played."""
    entries = [(line, entry) for line, entry in _read_entries(file) if not entry.get("server")]
    profile = str(entries[0][1].get("profile") or "") if entries else ""
    starts = [str(line) for line, entry in entries if entry.get("type") == "start"]
    if not entries or entries[-1][1].get("type") != "end":
        raise _unfit(str(file), "the trace is cut: its run was killed, is still running, or could not write it")
    if len(starts) > 1:
        lives = f"{len(starts)} lives of its agent (lines {', '.join(starts)})"
        raise _unfit(str(file), f"it has {lives}; one can be played")
    steps = [_read_step(file, line, entry) for line, entry in entries if entry.get("type") == "message"]
    if not steps:
        raise _unfit(str(file), "it has no message of an agent")
    hows = [str(entry.get("how")) for _, entry in entries if entry.get("type") == "exit"]
    return Script(steps, int(*re.findall(r"^exited with status (\d{1,3})$", hows[-1] if hows else "")), profile)


def _read_entries(file: Path) -> Iterator[tuple[int, Message]]:
    try:
        with file.open("rb") as source:
            for line, written in enumerate(source, 1):
                entry = _decode(written)
                if line == 1 and entry.get("type") != "trace":
                    raise _unfit(str(file), "not a trace")
                if line == 1 and entry.get("version") != VERSION:
                    what = f"a trace of version {_show(entry.get('version'))}; version {VERSION} can be played"
                    raise _unfit(str(file), what)
                if not entry:
                    raise _unfit(f"{file}:{line}", "the trace is cut or damaged: this line cannot be read")
                yield line, entry
    except OSError as error:
        raise _unfit(str(file), f"cannot read it: {str(error.strerror).lower()}") from None


def _decode(written: bytes) -> Message:
    """Return the object on a line, empty if there is none."""
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _read_step(file: Path, line: int, entry: Message) -> Step:
    is_expected, message, place = entry.get("from") != "agent", entry.get("message"), f"{file}:{line}"
    if entry.get("size") and is_expected and isinstance(entry.get("method", ""), str):
        return Step(line, True, {name: entry[name] for name in ("id", "method") if name in entry}, is_cut=True)
    if entry.get("size"):
        size = f"{entry['size']:,}" if isinstance(entry["size"], int) else "unknown"
        raise _unfit(place, f"a message is cut in the trace ({size} bytes)")
    if not isinstance(message, dict) or not isinstance(message.get("method", ""), str):  # junk, or a list
        if is_expected:
            raise _unfit(place, "a message of the client that is not JSON-RPC")
        return Step(line, False, {}, text=str(entry.get("text") or json.dumps(message)))
    if not is_expected and message.get("method") in ACTING and MASK in json.dumps(message):
        raise _unfit(place, f"{message['method']} has a masked secret ({MASK}), so it cannot be repeated")
    return Step(line, is_expected, message)


def _unfit(place: str, reason: str) -> UsageError:
    return UsageError(f"{place}: {reason}", fix=RECORD)


# The comparison.


class Comparison:
    """Compares what came with the trace, and knows what stands for the ids and directories of the trace now."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._directories: dict[str, str] = {}

    def translate(self, value: Any, name: str = "") -> Any:
        """Return a part of a recorded message as it would be in this run."""
        if isinstance(value, dict):
            return {key: self.translate(each, key) for key, each in value.items()}
        if isinstance(value, list):
            return [self.translate(each, name) for each in value]
        if not isinstance(value, str):
            return value
        if name in IDS:
            return self._ids.setdefault(value, value)
        for recorded, now in self._directories.items():
            if recorded != os.sep:  # which is in every path
                value = now.join(re.split(rf"(?<![\w.~-]){re.escape(recorded)}(?![\w.-])", value))
        return value

    def find_difference(self, recorded: Any, came: Any, free: set[str], place: str) -> str:
        """Return where and how a value differs from the recorded one; empty if it fits."""
        name = place.rpartition(".")[2]
        if name in free or self._stands_for(name, recorded, came):
            return ""
        if name == "mcpServers":
            recorded, came = _shorten_servers(recorded), _shorten_servers(came)
        if isinstance(recorded, dict) and isinstance(came, dict):
            more = () if "clientCapabilities" in place else came  # a later version may offer more
            pairs = {f"{place}.{key}": (recorded.get(key), came.get(key)) for key in (*recorded, *more)}
            return self._find_first(pairs, free)
        if isinstance(recorded, list) and isinstance(came, list) and len(recorded) == len(came):
            items = enumerate(zip(recorded, came, strict=True))
            return self._find_first({f"{place}[{at}]": pair for at, pair in items}, free)
        expected = self.translate(recorded, name)
        if recorded == came or expected == came or _fits_mask(expected, came):
            return ""
        return f"{place}: {_show(expected)} in the trace, {_show(came)} now"

    def _find_first(self, pairs: dict[str, tuple[Any, Any]], free: set[str]) -> str:
        found = (self.find_difference(recorded, came, free, place) for place, (recorded, came) in pairs.items())
        return next(filter(None, found), "")

    def _stands_for(self, name: str, recorded: object, came: object) -> bool:
        """Whether an id or the session's directory stands for the recorded one, from its first appearance on."""
        if name not in {*IDS, "cwd"} or not isinstance(recorded, str) or not isinstance(came, str):
            return False
        known = self._ids if name in IDS else self._directories
        return known.setdefault(recorded, came) == came


def _shorten_servers(entries: Any) -> Any:
    """Keep what a shim, a port or a token does not change, nor whether the agent reaches ours over HTTP."""
    if not isinstance(entries, list):
        return entries
    return [
        {"name": each.get("name"), "type": None if _is_ours(each) else each.get("type")}
        for each in entries
        if isinstance(each, dict)
    ]


def _is_ours(entry: Message) -> bool:
    return entry.get("type") == "http" and re.match(r"http://127\.0\.0\.1:\d+/", str(entry.get("url"))) is not None


def _fits_mask(recorded: object, came: object) -> bool:
    """Whether a text fits one with masked secrets: a mask stands for any text."""
    if not isinstance(recorded, str) or not isinstance(came, str) or MASK not in recorded:
        return False
    first, *middle, last = map(re.escape, recorded.split(MASK))
    pattern = first + "".join(f"(?>.*?{each})" for each in middle) + ".*" + last
    return re.fullmatch(pattern, came, re.DOTALL) is not None


def _show(value: object) -> str:
    shown = "nothing" if value is None else json.dumps(value)
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}…"


# The play.


class Player:
    """Plays a script on stdin and stdout."""

    def __init__(self, file: Path, script: Script) -> None:
        self._file, self._script = file, script
        self._comparison = Comparison()
        self._calls: deque[Step] = deque()  # of the client, in order
        self._answers: dict[str, deque[Step]] = {}  # of the client, by the id of the question
        for step in script.steps:
            if step.is_expected and "method" in step.message:
                self._calls.append(step)
            elif step.is_expected:
                self._answers.setdefault(_show(step.message.get("id")), deque()).append(step)
        self._open: dict[str, Any] = {}  # requests without an answer: the client's id of each, by the recorded one
        self._asked: dict[str, str] = {}  # questions of the agent without an answer: the method of each, by its id
        self._came: set[int] = set()  # lines of the trace
        self._heard = b""

    def play(self) -> int:
        """Play it to the end of stdin; return the exit code."""
        with open(1, "wb", closefd=False) as stdout:
            for step in self._script.steps:
                if not step.is_expected:
                    stdout.write(self._make_line(step))
                    continue
                stdout.flush()
                while step.line not in self._came:
                    self._receive(step)
        if self._script.status and self._open:
            return self._script.status
        while self._receive(None):
            pass
        return 0

    def _make_line(self, step: Step) -> bytes:
        if step.text:
            return step.text.encode(errors="replace") + b"\n"
        message: Message = self._comparison.translate(step.message)
        id = _show(message.get("id"))
        if "id" in message and "method" in message:
            self._asked[id] = message["method"]
        elif "id" in message:
            message["id"] = self._open.pop(id, message["id"])
        return json.dumps(message, separators=(",", ":")).encode() + b"\n"

    def _receive(self, wanted: Step | None) -> bool:
        """Take the next message; False at the end of stdin. `wanted` is the step of the trace that waits for it.

        Raises:
            RemoteProtocolError: it is not what the trace has, or nothing comes although the trace goes on.
        """
        rest = f"the trace has {_name(wanted.message)}" if wanted else "the trace ends here"
        while b"\n" not in self._heard:
            if self._open and not self._asked and not select.select([0], [], [], SILENCE_SECONDS)[0]:
                raise self._differ(wanted, f"nothing came for {SILENCE_SECONDS:.0f} s, but {rest}")
            if not (chunk := os.read(0, 1 << 16)):
                if wanted:
                    raise self._differ(wanted, f"the client left, but {rest}")
                return False
            self._heard += chunk
        line, _, self._heard = self._heard.partition(b"\n")
        if came := _decode(line):
            self._check(came, wanted)
        return True

    def _check(self, came: Message, wanted: Step | None) -> None:
        """Compare a message with the one of the trace that it should be."""
        id = _show(came.get("id"))
        steps = self._calls if "method" in came else self._answers.get(id)
        if not steps:
            raise self._differ(wanted, f"{_name(came)} came, and the trace has no more of that")
        step = steps.popleft()
        self._came.add(step.line)
        recorded, name = step.message, _name(came)
        if "method" in came:
            if name != _name(recorded):
                raise self._differ(step, f"{name} came, but the trace has {_name(recorded)}")
            if "id" in came:
                self._open[_show(recorded.get("id"))] = came["id"]
            free = FREE.get(name, set())
        else:
            method = self._asked.pop(id, "")
            free, name = FREE_OF_ANSWER.get(method, set()), f"the answer to {method}"
            recorded, came = _keep_code(recorded), _keep_code(came)
        for part in ("params", "error", "result") if not step.is_cut else ():
            if difference := self._comparison.find_difference(recorded.get(part), came.get(part), free, part):
                raise self._differ(step, f"{name} differs from the trace", difference)

    def _differ(self, step: Step | None, what: str, *detail: str) -> RemoteProtocolError:
        line = (step or self._script.steps[-1]).line
        again = ours("run", profile, "PROMPT", "--trace", str(self._file)) if (profile := self._script.profile) else ""
        fix = f"undo what has changed since, or {f'record it again: {again}' if again else RECORD}"
        return RemoteProtocolError(f"{self._file}:{line}: {what}", detail=detail, fix=fix)


def _name(message: Message) -> str:
    return str(message.get("method") or f"an answer to request {_show(message.get('id'))}")


def _keep_code(answer: Message) -> Message:
    """Leave out the text of an error, which is for users and differs between versions."""
    error = answer.get("error")
    return {**answer, "error": {"code": error.get("code")}} if isinstance(error, dict) else answer
