"""Computes how far streams are behind their logs, from the log's end and the table's position.

Reads no rows and never starts Spark. A source that does not answer never hides the rest of the status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tidegate import plugins
from tidegate.config import Config
from tidegate.core.connector import ConnectorState
from tidegate.core.log import RESYNC
from tidegate.core.ports.format import Format
from tidegate.engine.assemble.assemble import streams
from tidegate.engine.assemble.selection import Choice
from tidegate.engine.kafka_connect import KafkaConnect
from tidegate.engine.outcome import failure
from tidegate.engine.stream import Stream
from tidegate.errors import HistoryGone, TidegateError
from tidegate.registry.values import StreamStatus


def with_lags(statuses: Sequence[StreamStatus], config: Config, lakes: dict[str, Format]) -> list[StreamStatus]:
    """The same, and of streams that apply a log how far they are behind it."""
    logs = {stream.uid: stream for stream in _of_logs(config, lakes)}
    return [_with_lag(each, logs[each.uid], config.redact) if each.uid in logs else each for each in statuses]


def _of_logs(config: Config, lakes: dict[str, Format]) -> Iterator[Stream]:
    """The streams of logs that can be made; `tidegate check` says why one cannot."""
    for entry in config.streams:
        if entry.is_pattern or not _of_a_log(entry.strategy.items["kind"].text()):
            continue
        try:
            (stream,) = streams(config, lakes, Choice(names=(entry.name,)))
        except TidegateError:
            continue
        yield stream


def _of_a_log(kind: str) -> bool:
    return bool(plugins.load("strategies", kind).applies_events)


def _with_lag(status: StreamStatus, stream: Stream, redact: Callable[[str], str]) -> StreamStatus:
    try:
        position = stream.format.state(stream.target, stream.uid).position
        state = position.state if position is not None and position.kind == stream.strategy.kind else None
        with stream.source.probe() as probe:
            if probe.log is None:
                return status
            lag = probe.log.lag(state)
        status = replace(status, lag_events=lag.events, lag_seconds=lag.seconds)
        return _with_connector(status, stream)
    except TidegateError as error:
        shown = HistoryGone(error.message, hint=RESYNC) if isinstance(error, HistoryGone) else error
        problem = failure(stream, shown, redact).error
        return replace(status, lag_error=problem.to_dict() if problem else None)


def _with_connector(status: StreamStatus, stream: Stream) -> StreamStatus:
    """With the replication slot that the stream or its connector reads, and the connector's state."""
    status = replace(status, slot=stream.source.retained())
    table = stream.source.captured
    if table is None or table.options.url is None:
        return status
    found = KafkaConnect(table.options.url, plain_http=table.options.plain_http).state(table.name)
    return replace(status, connector=found or ConnectorState(name=table.name, state="MISSING"))
