"""
`batch report --otlp`: a batch as a trace in OpenTelemetry's conventions for generative AI, made from its records.

The ids follow from the batch, so what is sent twice is one trace. Prompts, answers and titles of tool calls stay here.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib import import_module
from itertools import islice
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from acp_launch import __version__
from acp_launch.batch.model import Batch, Record
from acp_launch.batch.store import BatchDirectory
from acp_launch.console.stderr import tell
from acp_launch.errors import LaunchError, UsageError
from acp_launch.private import make_digest
from acp_launch.waits import FIRST_WORD, seconds, stretch

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

AT_ONCE = 500  # spans in a request
PATIENCE = 10.0  # seconds for a request and its repetitions
USAGE = {
    "inputTokens": "gen_ai.usage.input_tokens",
    "outputTokens": "gen_ai.usage.output_tokens",
    "cachedReadTokens": "gen_ai.usage.cache_read.input_tokens",
    "cachedWriteTokens": "gen_ai.usage.cache_creation.input_tokens",
}


class ToolCall(msgspec.Struct):
    id: str = msgspec.field(name="toolCallId")
    kind: str | None = None
    status: str | None = None


class ToolEvent(msgspec.Struct, tag_field="type", tag="update"):
    time: str
    update: ToolCall


class TracesError(LaunchError):
    """Raised when traces cannot be sent."""

    exit_code = 3


def send_traces(directory: BatchDirectory, url: str) -> int:
    """Send the trace of a batch to a collector; return the number of spans.

    Raises:
        UsageError: it is not an address of HTTP.
        TracesError: the SDK is not installed, or the collector does not take it all.
    """
    endpoint = _find_endpoint(url)
    try:
        exporter_module = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    except ImportError:
        fix = "pip install 'acp-launch[otlp]'"
        raise TracesError("traces need the OpenTelemetry SDK, which is not installed", fix=fix) from None
    limit = stretch(PATIENCE)
    exporter = exporter_module.OTLPSpanExporter(endpoint=endpoint, timeout=limit)
    spans, sent = _make_spans(directory), 0
    said = f"waiting for the collector at {endpoint}; a request may take {seconds(limit)}"
    (timer := Timer(FIRST_WORD, tell, [said])).start()
    try:
        while some := list(islice(spans, AT_ONCE)):
            _send(exporter, some, endpoint)
            sent += len(some)
    finally:
        timer.cancel()
        exporter.shutdown()
    return sent


def _send(exporter: Any, spans: "list[ReadableSpan]", endpoint: str) -> None:
    with _listening() as heard:
        try:
            is_taken = exporter.export(spans).name == "SUCCESS"
        except OSError as failure:  # older versions of the exporter raise those of their HTTP client
            is_taken = False
            heard.append(str(failure))
    if not is_taken:
        raise TracesError(
            f"the collector at {endpoint} did not take the traces", detail=heard[-2:]
        )  # with the last try


def _find_endpoint(url: str) -> str:
    """Return the address for traces below the one of a collector, as OTEL_EXPORTER_OTLP_ENDPOINT is read."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        fix = "write the address of a collector: http://localhost:4318"
        raise UsageError("--otlp: expected an address of HTTP", fix=fix)
    if "@" in parts.netloc or parts.query or parts.fragment:  # they would be in messages
        fix = "put credentials into OTEL_EXPORTER_OTLP_HEADERS"
        raise UsageError("--otlp: the address has more than a host and a path", fix=fix)
    path = parts.path.rstrip("/")
    return parts._replace(path=path if path.endswith("/v1/traces") else f"{path}/v1/traces").geturl()


@contextmanager
def _listening() -> Iterator[list[str]]:
    """Collect what the SDK logs, which it would write to stderr."""
    heard: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    listener, logger = Listener(), logging.getLogger("opentelemetry")
    was_propagated, logger.propagate = logger.propagate, False
    logger.addHandler(listener)
    try:
        yield heard
    finally:
        logger.removeHandler(listener)
        logger.propagate = was_propagated


# Spans.


class Maker:
    """Makes the spans of one batch."""

    def __init__(self, batch: Batch) -> None:
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource

        self._seed = (batch.name, batch.created)
        ours = Resource({"service.name": "acp-launch", "service.version": __version__})
        self._resource = ours.merge(OTELResourceDetector().detect())  # the user's variables win

    def make(
        self,
        operation: str,
        target: str,
        place: tuple[str, ...],
        times: tuple[str, str],
        attributes: Mapping[str, Any],
        error: str = "",
    ) -> "ReadableSpan":
        """Make the span at a place: below the batch an item's attempt, below it a tool call."""
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

        def locate(place: tuple[str, ...]) -> SpanContext:
            trace, span = make_digest(*self._seed), make_digest(*self._seed, *place)[:16]
            return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(1))

        known = {name: value for name, value in attributes.items() if value not in (None, "")}
        began, ended = map(_read_time, times)
        return ReadableSpan(
            f"{operation} {target}",
            locate(place),
            parent=locate(place[:-1]) if place else None,
            resource=self._resource,
            attributes={"gen_ai.operation.name": operation, **known, **({"error.type": error} if error else {})},
            status=Status(StatusCode.ERROR, error) if error else Status(),
            start_time=began,
            end_time=max(began, ended),
            instrumentation_scope=InstrumentationScope("acp-launch", __version__),
        )


def _make_spans(directory: BatchDirectory) -> Iterator["ReadableSpan"]:
    """Make the spans of all attempts, and that of the batch, whose times are known then."""
    batch, maker = directory.batch, Maker(directory.batch)
    began, ended = [batch.created], [batch.created]
    for record in directory.records():
        began, ended = [min(*began, record.started)], [max(*ended, record.ended)]
        yield _make_attempt(maker, record)
        yield from _make_tools(maker, record, directory.directory_of(record.item, record.attempt) / "events.ndjson")
    attributes = {"gen_ai.workflow.name": batch.name, "acp_launch.items": len(batch.items)}
    yield maker.make("invoke_workflow", batch.name, (), (began[0], ended[0]), attributes)


def _make_attempt(maker: Maker, record: Record) -> "ReadableSpan":
    agent = record.agent.name or record.profile
    cost = record.cost
    attributes = {
        "gen_ai.agent.name": agent,
        "gen_ai.agent.version": record.agent.version,
        "gen_ai.conversation.id": (record.session or {}).get("id"),
        "gen_ai.request.model": record.model,
        "gen_ai.response.finish_reasons": [record.stop_reason] if record.stop_reason else None,
        **{name: (record.usage or {}).get(key) for key, name in USAGE.items()},
        "gen_ai.usage.cost": cost.amount if cost and cost.currency == "USD" else None,  # not a convention; Langfuse's
        "acp_launch.cost.amount": cost.amount if cost else None,
        "acp_launch.cost.currency": cost.currency if cost else None,
        "acp_launch.item": record.item,
        "acp_launch.attempt": record.attempt,
        "acp_launch.task": record.task,
        "acp_launch.profile": record.profile,
        "acp_launch.sample": record.sample,
        "acp_launch.outcome": record.outcome,
        **{f"acp_launch.matrix.{name}": value for name, value in record.matrix.items()},
    }
    error = "" if record.outcome == "passed" else record.outcome
    place, times = (f"{record.item}/{record.attempt}",), (record.started, record.ended)
    return maker.make("invoke_agent", agent, place, times, attributes, error)


def _make_tools(maker: Maker, record: Record, events: Path) -> Iterator["ReadableSpan"]:
    """Make a span for each tool call; one that did not end lasts as long as the attempt."""
    begun: dict[str, tuple[str, str]] = {}  # kind and time by id
    ended: set[str] = set()
    for event in _read_events(events):
        call = event.update
        if call.id in ended:
            continue
        kind, began = begun.setdefault(call.id, (call.kind or "other", event.time))
        if call.status in ("completed", "failed"):
            ended.add(call.id)
            del begun[call.id]
            yield _make_tool(maker, record, call.id, kind, (began, event.time), call.status)
    for id, (kind, began) in begun.items():
        yield _make_tool(maker, record, id, kind, (began, record.ended), "unfinished")


def _make_tool(maker: Maker, record: Record, id: str, kind: str, times: tuple[str, str], status: str) -> "ReadableSpan":
    place = (f"{record.item}/{record.attempt}", id)
    attributes = {"gen_ai.tool.name": kind, "gen_ai.tool.call.id": id, "gen_ai.tool.type": "function"}
    return maker.make("execute_tool", kind, place, times, attributes, "" if status == "completed" else status)


def _read_events(events: Path) -> Iterator[ToolEvent]:
    """Read the events about tool calls; what is another one, or was cut off, is left out."""
    if events.is_file():
        with events.open("rb") as file:
            for line in file:
                with suppress(msgspec.MsgspecError, ValueError):
                    yield msgspec.json.decode(line, type=ToolEvent)


def _read_time(text: str) -> int:
    """Return a time of our events in nanoseconds since 1970."""
    return round(datetime.fromisoformat(text).timestamp() * 1000) * 1_000_000
