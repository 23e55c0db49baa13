"""Finds the messages of a topic that tell the columns of a load: the newest ones of its table, and the oldest it reads.

Reads no more of the topic than it takes to find some, a few of each partition at first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.log import Message
from tidegate.sources.change_log.topic.brokers import ReadMessage

SAMPLE = 20
"""Messages of each partition that are looked at first, and that are kept of each."""
WIDER = 10
"""How much further is looked each time that none of the table is found."""

Spans = Mapping[int, tuple[int, int]]
"""Of each partition the first offset and the one after the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSample:
    """What is looked at.

    Args:
        scan: the messages of spans of offsets, see `Brokers.scan`.
        own: which messages are events of the table.
        begins, ends: of the topic.
        before, upto: of the load; `before` is None where nobody has asked what is read.
    """

    scan: Callable[[Spans], Iterator[list[ReadMessage]]]
    own: Callable[[Sequence[Message]], list[bool]]
    begins: Mapping[int, int]
    ends: Mapping[int, int]
    before: Mapping[int, int] | None
    upto: Mapping[int, int]


def messages(of: TopicSample) -> list[Message]:
    """Messages of the table, the newest before the end of the load last; none where the topic has none.

    The oldest of the load are among them, which may have columns that are gone by its end. Where the table has no event
    up to that end, those after it tell.
    """
    found, seen = _backwards(of)
    if not found:
        return _in_order(_forwards(of, {part: (of.upto.get(part, end), end) for part, end in of.ends.items()}))
    before = {part: (start, seen[part]) for part, start in (of.before or {}).items() if start < seen[part]}
    oldest = _forwards(of, before) if before else []
    return [*_in_order(oldest), *_in_order(found)]


def _backwards(of: TopicSample) -> tuple[list[ReadMessage], dict[int, int]]:
    """The newest, and from which offset on each partition was looked at."""
    edges, size = dict(of.upto), SAMPLE
    while True:
        starts = {part: max(edge - size, of.begins.get(part, 0)) for part, edge in edges.items()}
        found = _own(of, {part: (starts[part], edge) for part, edge in edges.items()})
        if found or starts == edges:
            return [each for kept in found.values() for each in kept[-SAMPLE:]], starts
        edges, size = starts, size * WIDER


def _forwards(of: TopicSample, spans: Spans) -> list[ReadMessage]:
    """The oldest of these spans."""
    edges, size = {part: start for part, (start, _) in spans.items()}, SAMPLE
    while True:
        stops = {part: max(edge, min(edge + size, spans[part][1])) for part, edge in edges.items()}
        found = _own(of, {part: (edge, stops[part]) for part, edge in edges.items()})
        if found or stops == edges:
            return [each for kept in found.values() for each in kept[:SAMPLE]]
        edges, size = stops, size * WIDER


def _own(of: TopicSample, spans: Spans) -> dict[int, list[ReadMessage]]:
    """Of each partition the first and the last messages of the table."""
    found: dict[int, list[ReadMessage]] = {}
    for batch in of.scan({part: span for part, span in spans.items() if span[0] < span[1]}):
        for each, own in zip(batch, of.own([one.message for one in batch]), strict=True):
            if own:
                kept = found.setdefault(each.part, [])
                kept.append(each)
                del kept[SAMPLE:-SAMPLE]
    return found


def _in_order(found: Sequence[ReadMessage]) -> list[Message]:
    return [each.message for each in sorted(found, key=lambda each: each.at)]
