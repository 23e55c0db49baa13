"""OpenTelemetry traces: one span a stream at work, and below it one for each stage.

Where they go, and as what service, is said by the `OTEL_…` variables, as everywhere. Statements and values of rows are
never part of a span.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tidegate.core.outcome import Outcome, Problem
from tidegate.engine.events import Event, Listener, Moment, Stage
from tidegate.engine.observers import Subject
from tidegate.errors import ConfigError
from tidegate.telemetry.datasets import database_attributes

log = logging.getLogger("tidegate")

LONGEST = 5.0
"""Seconds that the end of a process waits for spans that have not been sent."""
COUNTS = ("rows_read", "rows_inserted", "rows_updated", "rows_deleted", "rows_quarantined", "bytes_read")
ASKS = frozenset({Stage.DETECT, Stage.READ, Stage.VERIFY})
"""The stages that ask the source."""


def opened(environ: Mapping[str, str]) -> Traces:
    """The observer, with an exporter as the variables say.

    Raises:
        ConfigError: they ask for a protocol that is not part of the extra.
    """
    names = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next((environ[name] for name in names if environ.get(name)), "http/protobuf")
    if protocol != "http/protobuf":
        raise ConfigError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}, traces are sent by http/protobuf alone",
            hint="Set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf and an endpoint that takes it (port 4318).",
        )
    stated = environ.get("OTEL_SERVICE_NAME") or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({} if stated else {SERVICE_NAME: "tidegate"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Traces(provider, environ)


class Traces:
    """Makes the spans of every stream that it is told of.

    Args:
        provider: what takes the spans.
        environ: `TRACEPARENT` and `TRACESTATE` name the span that the run is a part of.
    """

    def __init__(self, provider: TracerProvider, environ: Mapping[str, str]) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("tidegate")
        carrier = {name: environ[name.upper()] for name in ("traceparent", "tracestate") if name.upper() in environ}
        self._parent = TraceContextTextMapPropagator().extract(carrier, Context())

    def __call__(self, subject: Subject) -> Listener:
        """The listener of one stream; its spans know their parents by themselves, whatever the thread."""
        return StreamTrace(self._tracer, self._parent, subject).tell

    def close(self) -> None:
        """Sends what was not sent, for five seconds at most."""
        sending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        sending.start()
        sending.join(LONGEST)
        if sending.is_alive():
            log.warning("traces: the endpoint did not take the last spans within %.0f seconds", LONGEST)


class StreamTrace:
    """The spans of one stream at work."""

    def __init__(self, tracer: trace.Tracer, parent: Context, subject: Subject) -> None:
        self._tracer, self._parent, self._subject = tracer, parent, subject
        self._source = database_attributes(subject.stream.source.origin())
        self._root: Span | None = None
        self._stages: dict[Stage, Span] = {}

    def tell(self, event: Event) -> None:
        """Starts and ends spans."""
        match event.moment:
            case Moment.BEGUN:
                self._root = self._begin()
            case Moment.START:
                self._start(event.stage)
            case Moment.DONE:
                self._done(event)
            case Moment.RETRY:
                self._close(event.detail)
                self._event("retry", {"tidegate.reason": event.detail, "tidegate.wait_seconds": event.seconds})
            case Moment.ENDED:
                error = event.outcome.error if event.outcome else event.error
                self._end(event.outcome, error)
            case Moment.INTERRUPTED:
                self._end(None, Problem(code="interrupted", message="the run was interrupted", hint=""))
            case _:
                pass

    def _begin(self) -> Span:
        stream = self._subject.stream
        attributes = {
            "tidegate.stream": stream.name,
            "tidegate.run_id": self._subject.run_id,
            "tidegate.target": str(stream.target),
            "tidegate.strategy": stream.strategy.kind,
            "tidegate.write": stream.writer.kind,
        }
        name = f"tidegate.{self._subject.command}"
        return self._tracer.start_span(name, self._parent, attributes=attributes, start_time=time.time_ns())

    def _start(self, stage: Stage) -> None:
        if self._root is None or stage in self._stages:
            return
        attributes = {"tidegate.stream": self._subject.stream.name, **(self._source if stage in ASKS else {})}
        within = trace.set_span_in_context(self._root, Context())
        self._stages[stage] = self._tracer.start_span(
            f"tidegate.{stage}", within, attributes=attributes, start_time=time.time_ns()
        )

    def _done(self, event: Event) -> None:
        span = self._stages.pop(event.stage, None)
        if span is not None:
            if event.rows is not None:
                span.set_attribute("tidegate.rows", event.rows)
            span.end(time.time_ns())

    def _close(self, error: str | None) -> None:
        """Ends the stages at work; an error that ended the stream ended them, too."""
        for span in self._stages.values():
            if error is not None:
                span.set_status(Status(StatusCode.ERROR, error))
            span.end(time.time_ns())
        self._stages = {}

    def _event(self, name: str, attributes: dict[str, Any]) -> None:
        if self._root is not None:
            self._root.add_event(name, attributes, time.time_ns())

    def _end(self, outcome: Outcome | None, error: Problem | None) -> None:
        self._close(str(error) if error else None)
        root = self._root
        if root is None:
            return
        if outcome is not None:
            counts = {f"tidegate.{name}": getattr(outcome, name) for name in COUNTS}
            root.set_attributes({"tidegate.outcome": str(outcome.outcome), **counts})
            if outcome.snapshot is not None:
                root.set_attribute("tidegate.snapshot", outcome.snapshot)
            if outcome.verified is not None:
                root.set_attribute("tidegate.verified", outcome.verified)
        if error is not None:
            root.set_attribute("error.type", error.code)
            root.set_status(Status(StatusCode.ERROR, str(error)))
        root.end(time.time_ns())
        self._root = None
