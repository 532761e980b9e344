"""Ring 2 and 3. `batch report --otlp`: a batch as a trace, decoded by a collector on loopback."""

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from acp_launch.app import stores
from acp_launch.batch import traces
from acp_launch.batch.model import Cost
from acp_launch.batch.report import make_report
from acp_launch.batch.store import BatchDirectory
from acp_launch.batch.traces import TracesError, send_traces
from acp_launch.errors import MachineError, UsageError
from acp_launch.plan.installation import add_extra
from acp_launch.waits import format_time, stretch
from tests.batch.collector import Collector, collecting
from tests.batch.reported import (
    CREATED,
    OUTCOMES,
    add_record,
    make_batch,
    make_every_outcome,
    make_item,
    write_events,
    write_text,
)
from tests.patience import PATIENCE

SECRET_WORDS = "the words of a prompt"


@pytest.fixture
def directory(tmp_path: Path) -> BatchDirectory:
    """A batch of one item, whose agent called three tools."""
    item = make_item(0, "shop", "claude", matrix={"model": "opus"}, prompt=SECRET_WORDS)
    made = make_batch(tmp_path / "batch", (item,))
    facts: dict[str, Any] = {"usage": {"inputTokens": 7, "outputTokens": 5, "cachedReadTokens": 3}, "seconds": 9.0}
    add_record(
        made, item, "passed", answer=SECRET_WORDS, cost=Cost(amount=0.5, currency="USD"), model="opus-4", **facts
    )
    call = {"sessionUpdate": "tool_call", "title": SECRET_WORDS, "rawInput": {"command": SECRET_WORDS}}
    more = {"sessionUpdate": "tool_call_update"}
    updates: list[tuple[float, dict[str, Any]]] = [
        (1.0, {**call, "toolCallId": "a", "kind": "read"}),
        (2.0, {**call, "toolCallId": "b", "kind": "execute"}),
        (2.5, {**more, "toolCallId": "a", "status": "completed"}),
        (3.0, {**more, "toolCallId": "a", "status": "completed"}),
        (4.0, {**more, "toolCallId": "b", "status": "failed"}),
        (5.0, {**call, "toolCallId": "c"}),
    ]
    write_events(made, item, 1, *updates)
    return made


def read_attributes(span: Any) -> dict[str, Any]:
    def read(value: Any) -> Any:
        kind = value.WhichOneof("value")
        return [read(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)

    return {each.key: read(each.value) for each in span.attributes}


def find_spans(collector: Collector) -> dict[str, Any]:
    return {span.name: span for span in collector.spans}


def at(seconds: float) -> int:
    return round((CREATED + seconds) * 1000) * 1_000_000


def test_a_batch_is_a_workflow_of_agents_that_call_tools(directory: BatchDirectory) -> None:
    with collecting() as collector:
        assert send_traces(directory, collector.url) == 5
    assert [path for path, *_ in collector.requests] == ["/v1/traces"]
    spans = find_spans(collector)
    batch, attempt = spans["invoke_workflow nightly"], spans["invoke_agent demo-agent"]
    assert batch.parent_span_id == b"" and attempt.parent_span_id == batch.span_id
    assert {span.trace_id for span in collector.spans} == {batch.trace_id}
    assert (attempt.start_time_unix_nano, attempt.end_time_unix_nano) == (at(10), at(19))
    assert (batch.start_time_unix_nano, batch.end_time_unix_nano) == (at(0), at(19))
    assert read_attributes(batch) == {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": "nightly",
        "acp_launch.items": 1,
    }
    assert read_attributes(attempt) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "demo-agent",
        "gen_ai.agent.version": "1.2",
        "gen_ai.conversation.id": "session-1",
        "gen_ai.request.model": "opus-4",
        "gen_ai.response.finish_reasons": ["end_turn"],
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "gen_ai.usage.cost": 0.5,
        "acp_launch.cost.amount": 0.5,
        "acp_launch.cost.currency": "USD",
        "acp_launch.item": "shop.claude.opus",
        "acp_launch.attempt": 1,
        "acp_launch.task": "shop",
        "acp_launch.profile": "claude",
        "acp_launch.sample": 1,
        "acp_launch.outcome": "passed",
        "acp_launch.matrix.model": "opus",
    }
    tools = [spans[f"execute_tool {kind}"] for kind in ("read", "execute", "other")]
    assert [each.parent_span_id for each in tools] == [attempt.span_id] * 3
    assert [(each.start_time_unix_nano, each.end_time_unix_nano) for each in tools] == [
        (at(11), at(12.5)),
        (at(12), at(14)),
        (at(15), at(19)),
    ]
    assert [read_attributes(each).get("error.type") for each in tools] == [None, "failed", "unfinished"]


def test_prompts_answers_and_titles_are_not_sent(directory: BatchDirectory) -> None:
    with collecting() as collector:
        send_traces(directory, collector.url)
    assert collector.requests
    assert SECRET_WORDS not in str(collector.requests)


def test_a_batch_that_is_sent_twice_is_one_trace(directory: BatchDirectory, tmp_path: Path) -> None:
    with collecting() as collector:
        send_traces(directory, collector.url)
        send_traces(directory, collector.url)
        once, twice = ([span.span_id for span in collector.spans[part]] for part in (slice(5), slice(5, None)))
        send_traces(make_batch(tmp_path / "other", directory.batch.items, "other"), collector.url)
    assert once == twice and len(set(once)) == 5
    traces_sent = [span.trace_id for span in collector.spans]
    assert len(set(traces_sent[:10])) == 1 and traces_sent[10] != traces_sent[0]


def test_every_outcome_but_passed_is_an_error(tmp_path: Path) -> None:
    with collecting() as collector:
        send_traces(make_every_outcome(tmp_path / "batch"), collector.url)
    found = [read_attributes(span) for span in collector.spans]
    errors = {each.get("error.type") for each in found if each["gen_ai.operation.name"] == "invoke_agent"}
    assert errors == {None, *OUTCOMES} - {"passed"}
    cost = [each for each in found if each.get("acp_launch.outcome") == "refused"]
    assert cost and "acp_launch.cost.amount" not in cost[0] and "gen_ai.usage.cost" not in cost[0]


def test_many_spans_are_sent_in_parts(directory: BatchDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "AT_ONCE", 2)
    with collecting() as collector:
        assert send_traces(directory, collector.url) == 5
    assert len(collector.requests) == 3 and len(collector.spans) == 5


def test_events_that_were_cut_off_are_left_out(directory: BatchDirectory) -> None:
    events = directory.directory_of("shop.claude.opus", 1) / "events.ndjson"
    lines = events.read_text()
    odd = '{"type":"update","time":"' + format_time(CREATED) + '","update":null,"toolCallId":1}\n'
    write_text(directory, directory.batch.items[0], 1, "events.ndjson", odd + lines + '{"type":"update","toolCallId')
    with collecting() as collector:
        assert send_traces(directory, collector.url) == 5


def test_headers_and_resource_come_from_the_users_variables(
    directory: BatchDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20planted")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "evaluation")
    with collecting() as collector:
        send_traces(directory, f"{collector.url}/api/public/otel/")
    ((path, headers, asked),) = collector.requests
    assert (path, headers["authorization"]) == ("/api/public/otel/v1/traces", "Bearer planted")
    names = {each.key: each.value.string_value for each in asked.resource_spans[0].resource.attributes}
    assert names["service.name"] == "evaluation"


def test_an_address_for_traces_is_taken_as_it_is(directory: BatchDirectory) -> None:
    with collecting() as collector:
        send_traces(directory, f"{collector.url}/v1/traces")
    assert [path for path, *_ in collector.requests] == ["/v1/traces"]


@pytest.mark.parametrize("url", ["localhost:4318", "ftp://host", "http://", "http://[", "http://host:99999999"])
def test_something_else_than_an_address_is_refused(directory: BatchDirectory, url: str) -> None:
    with pytest.raises(UsageError, match="expected an address of HTTP"):
        send_traces(directory, url)


@pytest.mark.parametrize("url", ["http://user:planted@host", "http://host/?key=planted", "http://host/#planted"])
def test_credentials_in_the_address_are_refused_and_not_repeated(directory: BatchDirectory, url: str) -> None:
    with pytest.raises(UsageError) as refused:
        send_traces(directory, url)
    assert "planted" not in str(refused.value) and "OTEL_EXPORTER_OTLP_HEADERS" in refused.value.fix


def test_a_collector_that_refuses_is_one_message(directory: BatchDirectory, capfd: pytest.CaptureFixture[str]) -> None:
    with collecting(status=400) as collector, pytest.raises(TracesError) as refused:
        send_traces(directory, collector.url)
    assert refused.value.exit_code == 3
    assert refused.value.message == f"the collector at {collector.url}/v1/traces did not take the traces"
    (why,) = refused.value.detail
    assert "400" in why
    assert capfd.readouterr() == ("", "")


def test_a_dead_collector_is_one_message(
    directory: BatchDirectory, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(traces, "PATIENCE", 0.2)
    with collecting() as collector:
        url = collector.url
    with pytest.raises(TracesError) as refused:
        send_traces(directory, url)
    assert refused.value.message == f"the collector at {url}/v1/traces did not take the traces"
    assert refused.value.detail  # in the words of the SDK, whose tries depend on its clock
    assert capfd.readouterr() == ("", "")


def test_a_collector_that_is_slow_is_named(
    directory: BatchDirectory, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    told = threading.Event()
    exported = OTLPSpanExporter.export

    def export(exporter: Any, spans: Any) -> Any:
        assert told.wait(PATIENCE)
        return exported(exporter, spans)

    def say_waiting(what: str, waited: float, limit: float) -> None:
        stores_say_waiting(what, waited, limit)
        told.set()

    stores_say_waiting = stores.say_waiting
    monkeypatch.setattr(stores, "FIRST_WORD", 0.0)
    monkeypatch.setattr(stores, "say_waiting", say_waiting)
    monkeypatch.setattr(OTLPSpanExporter, "export", export)
    with collecting() as collector:
        send_traces(directory, collector.url)
    what = f"still waiting for the collector at {collector.url}/v1/traces (0 s; timeout {stretch(traces.PATIENCE):g} s)"
    assert capfd.readouterr().err == f"acp-launch: {what}\n"


def test_without_the_sdk_the_fix_is_how_to_install_it(
    directory: BatchDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "acp_launch.batch.traces", None)
    with pytest.raises(MachineError) as refused:
        make_report(directory.path, html=None, markdown=False, junit=None, otlp="http://127.0.0.1:4318")
    (problem,) = refused.value.problems
    assert (problem.fix, refused.value.exit_code) == (add_extra("otlp"), 3)


def test_the_report_says_how_many_spans_were_sent(
    directory: BatchDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    with collecting() as collector:
        assert make_report(directory.path, html=None, markdown=False, junit=None, otlp=collector.url) == 0
    assert capsys.readouterr().err == f"acp-launch: sent 5 spans to {collector.url}\n"
