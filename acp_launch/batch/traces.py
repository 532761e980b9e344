"""
`batch report --otlp`: a batch as a trace in OpenTelemetry's conventions for generative AI, made from its records.

The ids follow from the batch, so what is sent twice is one trace. Prompts, answers and titles of tool calls stay here.
The module needs the extra `otlp`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import islice
from logging import getLogger
from logging.handlers import BufferingHandler
from typing import Any, NamedTuple

import msgspec
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from acp_launch import __version__
from acp_launch.app.stores import saying_waiting
from acp_launch.batch.model import Batch, Record
from acp_launch.batch.store import EVENTS, BatchDirectory
from acp_launch.errors import LaunchError, UsageError
from acp_launch.private import make_digest
from acp_launch.settings import address
from acp_launch.waits import stretch

AT_ONCE = 500  # spans in a request
PATIENCE = 10.0  # seconds for a request and its repetitions
USAGE = {
    "inputTokens": "gen_ai.usage.input_tokens",
    "outputTokens": "gen_ai.usage.output_tokens",
    "cachedReadTokens": "gen_ai.usage.cache_read.input_tokens",
    "cachedWriteTokens": "gen_ai.usage.cache_creation.input_tokens",
}
OURS = ("item", "attempt", "task", "profile", "sample", "outcome")  # members of a record without a convention


class ToolUpdate(msgspec.Struct):
    id: str = msgspec.field(name="toolCallId")
    kind: str | None = None
    status: str | None = None


class ToolEvent(msgspec.Struct, tag_field="type", tag="update"):
    time: str
    update: ToolUpdate


class ToolCall(NamedTuple):
    """A tool call; one that did not end lasts as long as the attempt."""

    kind: str
    began: str
    ended: str
    status: str = "unfinished"


class TracesError(LaunchError):
    """Raised when traces cannot be sent."""

    exit_code = 3


def send_traces(directory: BatchDirectory, url: str) -> int:
    """Send the trace of a batch to a collector; return the number of spans.

    Raises:
        UsageError: it is not an address of HTTP.
        TracesError: the collector does not take it all.
    """
    endpoint, limit = _find_endpoint(url), stretch(PATIENCE)
    exporter: Any = OTLPSpanExporter(endpoint=endpoint, timeout=limit)
    spans, sent = _make_spans(directory), 0
    try:
        while some := list(islice(spans, AT_ONCE)):
            with saying_waiting(f"collector at {endpoint}", limit):
                _send(exporter, some, endpoint)
            sent += len(some)
    finally:
        exporter.shutdown()
    return sent


def _send(exporter: Any, spans: Sequence[ReadableSpan], endpoint: str) -> None:
    with _listening() as listener:
        try:
            is_taken, said = exporter.export(spans).name == "SUCCESS", ""
        except OSError as failure:  # older versions of the exporter raise those of their HTTP client
            is_taken, said = False, str(failure)
    if not is_taken:
        detail = [*(record.getMessage() for record in listener.buffer), said]
        message = f"the collector at {endpoint} did not take the traces"
        raise TracesError(message, detail=list(filter(None, detail))[-2:])  # with the last try


def _find_endpoint(url: str) -> str:
    """Return the address for traces below the one of a collector, as OTEL_EXPORTER_OTLP_ENDPOINT is read."""
    try:
        address.read(url)
    except ValueError:  # its words might be credentials
        fix = "write the address of a collector: http://localhost:4318; credentials: OTEL_EXPORTER_OTLP_HEADERS"
        raise UsageError("--otlp: expected an address of HTTP with a host and a path only", fix=fix) from None
    return f"{url.rstrip('/').removesuffix('/v1/traces')}/v1/traces"


@contextmanager
def _listening() -> Iterator[BufferingHandler]:
    """Collect what the SDK logs, which it would write to stderr."""
    listener, logger = BufferingHandler(AT_ONCE), getLogger("opentelemetry")
    was_propagated, logger.propagate = logger.propagate, False
    logger.addHandler(listener)
    try:
        yield listener
    finally:
        logger.removeHandler(listener)
        logger.propagate = was_propagated


# Spans.


class Maker:
    """Makes the spans of one batch."""

    def __init__(self, batch: Batch) -> None:
        self._seed = (batch.name, batch.created)
        ours = Resource({"service.name": "acp-launch", "service.version": __version__})
        self._resource = ours.merge(OTELResourceDetector().detect())  # the user's variables win

    def make(
        self,
        name: tuple[str, str],
        place: tuple[str, ...],
        times: tuple[str, str],
        attributes: Mapping[str, Any],
        error: str = "",
    ) -> ReadableSpan:
        """Make the span at a place: below the batch an item's attempt, below it a tool call.

        `name` is an operation and its target.
        """
        known = {name: value for name, value in attributes.items() if value not in (None, "")}
        began, ended = map(_read_time, times)
        return ReadableSpan(
            " ".join(name),
            self._locate(place),
            parent=self._locate(place[:-1]) if place else None,
            resource=self._resource,
            attributes={"gen_ai.operation.name": name[0], **known, **({"error.type": error} if error else {})},
            status=Status(StatusCode.ERROR, error) if error else Status(),
            start_time=began,
            end_time=max(began, ended),
            instrumentation_scope=InstrumentationScope("acp-launch", __version__),
        )

    def _locate(self, place: tuple[str, ...]) -> SpanContext:
        trace, span = make_digest(*self._seed), make_digest(*self._seed, *place)[:16]
        return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(1))


def _make_spans(directory: BatchDirectory) -> Iterator[ReadableSpan]:
    """Make the spans of all attempts, and that of the batch, whose times are known then."""
    batch, maker = directory.batch, Maker(directory.batch)
    began = ended = batch.created
    for record in directory.records():
        began, ended = min(began, record.started), max(ended, record.ended)
        yield _make_attempt(maker, record)
        yield from _make_tools(maker, record, directory)
    attributes = {"gen_ai.workflow.name": batch.name, "acp_launch.items": len(batch.items)}
    yield maker.make(("invoke_workflow", batch.name), (), (began, ended), attributes)


def _make_attempt(maker: Maker, record: Record) -> ReadableSpan:
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
        **{f"acp_launch.{name}": getattr(record, name) for name in OURS},
        **{f"acp_launch.matrix.{name}": value for name, value in record.matrix.items()},
    }
    error = "" if record.outcome == "passed" else record.outcome
    place, times = (f"{record.item}/{record.attempt}",), (record.started, record.ended)
    return maker.make(("invoke_agent", agent), place, times, attributes, error)


def _make_tools(maker: Maker, record: Record, directory: BatchDirectory) -> Iterator[ReadableSpan]:
    calls: dict[str, ToolCall] = {}
    for event in _read_events(directory, record):
        update = event.update
        call = calls.setdefault(update.id, ToolCall(update.kind or "other", event.time, record.ended))
        if call.status == "unfinished" and update.status in ("completed", "failed"):
            calls[update.id] = call._replace(ended=event.time, status=update.status)
    for id, call in calls.items():
        place, times = (f"{record.item}/{record.attempt}", id), (call.began, call.ended)
        attributes = {"gen_ai.tool.name": call.kind, "gen_ai.tool.call.id": id, "gen_ai.tool.type": "function"}
        error = "" if call.status == "completed" else call.status
        yield maker.make(("execute_tool", call.kind), place, times, attributes, error)


def _read_events(directory: BatchDirectory, record: Record) -> Iterator[ToolEvent]:
    """Read the events about tool calls; what is another one, or was cut off, is left out."""
    with suppress(OSError), directory.open(directory.directory_of(record.item, record.attempt) / EVENTS) as file:
        for line in file:
            with suppress(msgspec.MsgspecError, ValueError):
                yield msgspec.json.decode(line, type=ToolEvent)


def _read_time(text: str) -> int:
    """Return a time of our events in nanoseconds since 1970."""
    return round(datetime.fromisoformat(text).timestamp() * 1000) * 1_000_000
