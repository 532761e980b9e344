"""The trace: every message as a line of JSON, without a secret, in bounded memory, and never at the launch's cost."""

import asyncio
import json
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.errors import UsageError
from acp_launch.secret.forms import forms
from acp_launch.secret.redact import Redactor
from acp_launch.trace import BEGINNING_BYTES, MAX_WHOLE_BYTES, Trace, TracedTransport, tracing
from tests.secret.canaries import knowing

TOKEN = "sk-a1b2c3d4e5f6g7h8"


class Traced:
    """A trace in a file, and its lines."""

    def __init__(self, file: Path, source: Redactor) -> None:
        self.file, self.notes = file, list[str]()
        self.descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.trace = Trace(self.descriptor, self.notes.append, source)

    @property
    def lines(self) -> list[dict[str, Any]]:
        text = self.file.read_bytes()
        assert text.endswith(b"\n") or not text
        return [json.loads(line) for line in text.splitlines()]


@contextmanager
def traced(file: Path, source: Redactor | None = None) -> Iterator[Traced]:
    made = Traced(file, source or Redactor())
    try:
        yield made
    finally:
        os.close(made.descriptor)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


def test_each_message_is_a_line_with_its_time_and_its_two_sides(file: Path) -> None:
    with traced(file) as it:
        it.trace.message(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', "agent", "server", "github")
        it.trace.message(b'{"jsonrpc":"2.0","id":1,"result":{}}\r', "agent", "acp-launch")
    one, other = it.lines
    assert one["message"] == {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert {key: one[key] for key in ("type", "server", "from", "to")} == {
        "type": "message",
        "server": "github",
        "from": "agent",
        "to": "server",
    }
    assert one["time"].endswith("Z") and 0 <= one["at"] <= other["at"]
    assert "server" not in other and other["message"] == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize(
    "line",
    [
        b"Loading model...",
        b'{"jsonrpc":"2.0","id":1',
        b'{"a":"\xff"}',
        b'{"a":"\x01"}',
        b"17",
        b"[" * 5000 + b"]" * 5000,
        "🦊 done".encode(),
    ],
    ids=["text", "torn", "not UTF-8", "control", "number", "deep", "emoji"],
)
def test_a_line_that_is_no_message_is_text(file: Path, line: bytes) -> None:
    with traced(file) as it:
        it.trace.message(line, "agent", "acp-launch")
    assert it.lines[0]["text"] == line.decode(errors="replace")
    assert "message" not in it.lines[0]


def test_nothing_in_a_trace_drives_a_terminal(file: Path) -> None:
    with traced(file) as it:
        it.trace.message('{"a":"\x9b2J\u202e"}'.encode(), "agent", "acp-launch")
        it.trace.message(b"\x1b[2Jcleared\r", "agent", "acp-launch")
    raw = file.read_text()
    assert raw.replace("\n", "").isprintable()
    assert it.lines[0]["message"] == {"a": "\x9b2J\u202e"}
    assert it.lines[1]["text"] == "\x1b[2Jcleared\r"


@given(data=st.data())
def test_a_secret_shows_in_no_form(data: st.DataObject, tmp_path_factory: Any) -> None:
    form = data.draw(st.sampled_from(sorted(forms(TOKEN))))
    written = json.dumps({"jsonrpc": "2.0", "method": "x", "params": {"k": form, form: [form]}}).encode()
    line = data.draw(st.sampled_from([written, b"said: " + form.encode(), written[:-3]]))
    with traced(tmp_path_factory.getbasetemp() / "cut.jsonl", knowing(TOKEN)) as it:
        it.trace.message(line, "agent", "acp-launch")
        raw = it.file.read_text()
    assert len(it.lines) == 1 and "***" in raw
    assert not [one for one in forms(TOKEN) if one in raw or one in json.loads(raw).get("text", "")]


def test_a_secret_in_unneeded_escapes_does_not_show(file: Path) -> None:
    escaped = "".join(f"\\u{ord(mark):04x}" for mark in TOKEN)
    with traced(file, knowing(TOKEN)) as it:
        it.trace.message(f'{{"method":"x","params":"{escaped}"}}'.encode(), "agent", "acp-launch")
    assert it.lines[0]["message"]["params"] == "***"


def test_the_name_of_a_process_that_ended_and_its_end_are_redacted(file: Path) -> None:
    with traced(file, knowing(TOKEN)) as it:
        it.trace.started(17, "github")
        it.trace.started(17, "github")
        it.trace.ended(f"could not be started: {TOKEN}", "github")
        it.trace.ended("again", "github")
    assert [(line["type"], line.get("pid"), line.get("how")) for line in it.lines] == [
        ("start", 17, None),
        ("exit", None, "could not be started: ***"),
    ]


@pytest.mark.parametrize("at", [BEGINNING_BYTES + shift for shift in (-49, -30, -1, 2)])
def test_a_secret_where_a_long_message_is_cut_does_not_show(file: Path, at: int) -> None:
    """Neither whole nor by its beginning, plain or escaped."""
    for value in (TOKEN, "".join(f"\\u{ord(mark):04x}" for mark in TOKEN[:6]) + TOKEN[6:]):
        head = b'{"jsonrpc":"2.0","id":7,"result":{"text":"'
        line = head + b"x" * (at - len(head)) + value.encode() + b"y" * MAX_WHOLE_BYTES + b'"}}'
        with traced(file, knowing(TOKEN)) as it:
            it.trace.message(line, "agent", "acp-launch")
        text = it.lines[0]["text"]
        assert "sk-a1b" not in text and "\\u0073\\u006b" not in text
        assert text.startswith('{"jsonrpc":"2.0","id":7,"result":{"text":"xxx')


@pytest.mark.parametrize(
    ("line", "known"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":"%s"}', {"id": 7}),
        (b'{"result":"%s","jsonrpc":"2.0","id":"a-7"}', {"id": "a-7"}),
        (b'{"id":7,"method":"x/y","params":"%s"}', {"id": 7, "method": "x/y"}),
        (b'{"params":{"id":3},"other":"%s"}', {}),
    ],
)
def test_of_a_long_message_the_beginning_is_kept_and_what_tells_whose_answer_it_is(
    file: Path, line: bytes, known: dict[str, Any]
) -> None:
    whole = line % (b"x" * MAX_WHOLE_BYTES)
    with traced(file) as it:
        it.trace.message(whole, "agent", "acp-launch")
    (one,) = it.lines
    assert {key: one[key] for key in ("id", "method") if key in one} == known
    assert one["size"] == len(whole) and one["text"] == whole[:BEGINNING_BYTES].decode()


class Chunks:
    """A transport that gives these chunks, and then its end."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = [*chunks, b""]

    async def read(self) -> bytes:
        return self._chunks.pop(0)

    async def write(self, data: bytes) -> None:
        pass

    async def describe_end(self) -> tuple[str, tuple[str, ...]]:
        return "exited", ()


def test_chunks_of_a_connection_become_messages_and_the_last_needs_no_newline(file: Path) -> None:
    async def story(transport: TracedTransport) -> None:
        await transport.write(b'{"id":1,"method":"x"}\n{"id"')
        await transport.write(b":2}\n")
        while await transport.read():
            pass

    with traced(file) as it:
        asyncio.run(story(TracedTransport(Chunks(b'{"id":1}\nTrace', b"back"), it.trace)))
    assert [(line["from"], line["to"], line.get("message", line.get("text"))) for line in it.lines] == [
        ("acp-launch", "agent", {"id": 1, "method": "x"}),
        ("acp-launch", "agent", {"id": 2}),
        ("agent", "acp-launch", {"id": 1}),
        ("agent", "acp-launch", "Traceback"),
    ]


def test_a_full_disk_ends_the_trace_with_a_whole_line_and_is_said_once(file: Path) -> None:
    """A limit on the size of files refuses the write half way, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with traced(file) as it:
        it.trace.message(b'{"id":1}', "agent", "acp-launch")
        resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 20, before[1]))
        try:
            for _ in range(3):
                it.trace.message(b'{"id":2}', "agent", "acp-launch")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        it.trace.message(b'{"id":3}', "agent", "acp-launch")
    assert [line["message"] for line in it.lines] == [{"id": 1}]
    assert it.notes == ["cannot write the trace any further (file too large); the rest of this run is not in it"]


# The file.


def open_one(file: Path) -> None:
    with tracing(file, "run", "p", lambda text: None):
        pass


def test_a_trace_begins_and_ends_with_a_line_of_its_own_in_a_private_file(file: Path) -> None:
    open_one(file)
    head, end = map(json.loads, file.read_bytes().splitlines())
    assert (head["type"], head["version"], head["verb"], head["profile"]) == ("trace", 1, "run", "p")
    assert end["type"] == "end"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_earlier_trace_is_replaced_and_nothing_else(file: Path) -> None:
    open_one(file)
    file.chmod(0o644)
    open_one(file)
    assert len(file.read_bytes().splitlines()) == 2
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text("precious")
    with pytest.raises(UsageError, match="it holds something else, which is not overwritten"):
        open_one(file)
    assert file.read_text() == "precious"


def test_a_trace_is_not_written_through_a_link_a_pipe_or_into_a_directory(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "there")
    os.mkfifo(tmp_path / "pipe")
    for name, why in [
        ("link", "it is a link"),
        ("pipe", "it is not a regular file"),
        (".", "is a directory"),
        ("none/trace", "no such file or directory"),
    ]:
        with pytest.raises(UsageError, match=why):
            open_one(tmp_path / name)
    with pytest.raises(UsageError, match="stdout carries the answer"):
        open_one(Path("-"))
    assert not (tmp_path / "there").exists()


def test_two_runs_do_not_write_to_one_trace(file: Path) -> None:
    with tracing(file, "run", "p", lambda text: None) as trace:
        assert trace is not None
        with pytest.raises(UsageError, match="another run writes its trace to it"):
            open_one(file)
        trace.message(b'{"id":1}', "agent", "acp-launch")
    assert len(file.read_bytes().splitlines()) == 3
