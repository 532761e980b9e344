"""Who writes down masks: the forms of secrets reach the process that records, and nothing that it writes shows one."""

import base64
import io
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acp_launch.batch import masks
from acp_launch.batch.figures import summarize
from acp_launch.batch.masks import Told, mask, tell_forms, tell_place
from acp_launch.batch.model import AgentFacts, CheckResult, ErrorFacts, Isolation
from acp_launch.batch.page import make_page
from acp_launch.batch.report import make_junit, make_markdown, make_text
from acp_launch.batch.store import open_batch
from acp_launch.plan.model import Direct, Mount, Place
from acp_launch.secret.redact import Redactor
from acp_launch.secret.value import Secret
from tests.batch.directories import make_record
from tests.batch.repositories import git, save
from tests.batch.test_item import ID, attempt, checked, made
from tests.batch.test_item import freeze as freeze_item
from tests.cli.conftest import launch
from tests.cli.launcher import Launcher

__all__ = ["launch"]  # a fixture
VALUE = "a1B2c3D4e5F6-tracker"
OTHER = "/another\"value'of 20"


@pytest.fixture
def sender(monkeypatch: pytest.MonkeyPatch) -> Redactor:
    """The redactor of the process of a run; that of `batch item` is another one."""
    monkeypatch.setattr("acp_launch.app.supply.protect_secrets", lambda: None)
    return Redactor()


@pytest.fixture(autouse=True)
def in_the_project(launch: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(launch.project)


@contextmanager
def pipe_of(sender: Redactor, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    source, sink = os.pipe()
    os.set_blocking(source, False)
    with monkeypatch.context() as patch:
        patch.setattr(masks, "redactor", sender)
        tell_forms(sink)
    monkeypatch.setattr(masks, "redactor", Redactor())
    try:
        yield source, sink
    finally:
        os.close(source)


def masking(text: str) -> str:
    """What `batch item` makes of a text."""
    redactor: Redactor = vars(masks)["redactor"]
    return redactor.text(text)


def test_forms_are_told_as_they_are_learnt(sender: Redactor, monkeypatch: pytest.MonkeyPatch) -> None:
    with pipe_of(sender, monkeypatch) as (source, sink):
        told = Told()
        assert told.read(source)
        assert masking(VALUE) == VALUE
        sender.register(Secret(VALUE), name="tracker")
        assert told.read(source)
        assert masking(f"<{VALUE}>") == "<***>"
        assert masking(OTHER) == OTHER
        sender.register(Secret(OTHER))
        os.close(sink)
        assert not told.read(source)
    for text in (VALUE, OTHER, json.dumps(OTHER)[1:-1], base64.b64encode(VALUE.encode()).decode().rstrip("=")):
        assert masking(text) == "***"


def test_more_forms_than_a_pipe_holds_arrive_whole(sender: Redactor, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [f"{number}-{'x' * 3000}" for number in range(12)]

    def send(sink: int) -> None:
        for value in values:
            sender.register(Secret(value))
        os.close(sink)

    with pipe_of(sender, monkeypatch) as (source, sink):
        told, thread = Told(), threading.Thread(target=send, args=(sink,))
        thread.start()
        os.set_blocking(source, True)
        assert not told.read(source)
        thread.join()
    assert masking(" ".join(values)) == " ".join(["***"] * 12)


def test_a_reader_that_is_gone_does_not_hold_the_run_up(sender: Redactor, monkeypatch: pytest.MonkeyPatch) -> None:
    with pipe_of(sender, monkeypatch) as (_, sink):
        pass
    sender.register(Secret(VALUE))
    os.close(sink)
    assert sender.text(VALUE) == "***"


def test_the_place_of_the_agent_is_told(sender: Redactor, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(
        program=Path("/usr/bin/bwrap"),
        mounts=(Mount(Path("/usr"), "read", "system"), Mount(Path("/p"), "write", "session")),
        links={Path("/bin"): Path("/usr/bin")},
        state=(Path("/home/me/.x"),),
        network="none",
        direct=Direct(Path("/usr/bin/x"), 2),
    )
    with pipe_of(sender, monkeypatch) as (source, sink):
        told = Told()
        assert told.place is None
        tell_place(sink, place)
        os.close(sink)
        told.read(source)
        assert told.place == place


def test_the_names_of_secrets_in_a_patch_are_found(sender: Redactor, monkeypatch: pytest.MonkeyPatch) -> None:
    with pipe_of(sender, monkeypatch) as (source, sink):
        told = Told()
        sender.register(Secret(VALUE), name="tracker")
        sender.register(Secret(OTHER), name="other")
        sender.register(Secret("a token of a login"))
        os.close(sink)
        told.read(source)
    monkeypatch.setattr(masks, "BLOCK_BYTES", 64)
    for padding in range(130):  # a form may lie across blocks
        text = b"+" * padding + VALUE.encode() + b"\n"
        assert told.find_secrets(io.BytesIO(text)) == ("tracker",)
    quoted = json.dumps(OTHER).encode()
    assert told.find_secrets(io.BytesIO(quoted + b"\n+a token of a login")) == ("of a login", "other")
    assert told.find_secrets(io.BytesIO(b"nothing")) == ()


def test_the_texts_of_a_record_are_masked_and_what_is_read_again_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor = Redactor()
    redactor.register(Secret(VALUE), Secret("passed"))
    monkeypatch.setattr(masks, "redactor", redactor)
    error = ErrorFacts(exit_code=4, message=f"<{VALUE}>", fix=VALUE, code=1, data={"a": [VALUE], VALUE: 1})
    record = make_record(
        answer=f"the key is {VALUE}",
        error=error,
        denied=VALUE,
        model=VALUE,
        agent=AgentFacts(name=VALUE, version="1"),
        check=CheckResult(command=("grep", VALUE), exit_code=1, seconds=1.0),
    )
    masked = mask(record)
    assert VALUE not in repr(masked)
    assert masked.error is not None
    assert masked.error.data == {"a": ["***"], "***": 1}
    assert (masked.outcome, masked.item, masked.mode) == ("passed", "a.demo", None)
    assert masked.answer == "the key is ***"


# With real processes.

TELLS = """
import os
from pathlib import Path
key = os.environ["KEY"]
def prompt(request):
    Path("made.txt").write_text(key)
    Path("encoded.txt").write_text(key.encode().hex())
    script.say(script.session_of(request), f"the key is {key}")
    script.refuse(request, -32603, f"no: {key}", key=key) if "error" in script.said(request) else script.end(request)
script.serve({"session/prompt": prompt})
"""
PRINT = 'cat made.txt; echo; base64 made.txt; echo {\\"$(cat made.txt)\\"}; exit 1'


@pytest.mark.parametrize("ends", ["well", "with an error"])
def test_a_secret_is_in_no_file_of_an_attempt_but_its_patch(launch: Launcher, ends: str) -> None:
    """The run's process has looked it up, and another one writes the check's output and the record."""
    launch.scripted(TELLS, env={"KEY": "${secret:tracker}"})
    git(launch.project, "init", "--quiet")
    batch = freeze_item(
        launch,
        check=checked("sh", "-c", PRINT),
        isolation=Isolation(kind="worktree"),
        item={"base_commit": save(launch.project), "prompt": ends},
    )
    done = attempt(launch, batch, ACP_LAUNCH_SECRET_TRACKER=VALUE)
    record = made(batch)
    assert (done.code, record.outcome) == (9, "failed" if ends == "well" else "agent_died")
    for file in batch.directory_of(ID, 1).iterdir():
        assert (VALUE.encode() in file.read_bytes()) == (file.name == "patch.diff"), file
        assert base64.b64encode(VALUE.encode())[:16] not in file.read_bytes(), file
    if ends == "well":
        assert (batch.directory_of(ID, 1) / "check.txt").read_text() == '***\n***=\n{"***"}\n'
        assert record.answer == "the key is ***"
    else:
        assert record.error is not None
        assert "no: ***" in record.error.message
    assert record.patch is not None
    assert record.patch.secrets == ("tracker",)
    warning = "patch.diff holds the secret tracker, unmasked"
    assert f"acp-launch: {ID}, attempt 1: {warning}\n" in done.err
    assert VALUE not in done.err
    batch.write_results()
    summary = summarize(open_batch(batch.path))
    page = make_page(batch, summary)
    assert f"left out: {warning}" in page
    for text in (
        page,
        make_junit(summary),
        make_markdown(summary),
        make_text(summary),
        (batch.path / "results.jsonl").read_text(),
    ):
        assert VALUE not in text
