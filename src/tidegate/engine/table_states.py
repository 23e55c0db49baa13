"""Asks the tables of many streams at once what they are now, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from tidegate.core.ports.format import Format, TableState
from tidegate.engine.assemble.assemble import recorded_place
from tidegate.errors import TidegateError
from tidegate.registry.values import StreamStatus

AT_ONCE = 8


def table_states(lakes: Mapping[str, Format], streams: Sequence[StreamStatus]) -> dict[str, TableState | None]:
    """By the stream's name; None of a stream that was never loaded, and of a table that cannot be read."""
    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="tables") as pool:
        states = pool.map(lambda each: _state(lakes, each), streams)
        return dict(zip([each.stream for each in streams], states, strict=True))


def table_rows(lakes: Mapping[str, Format], streams: Sequence[StreamStatus]) -> dict[str, int | None]:
    """The rows of each stream's table by its metadata; None where that does not say, or cannot be read."""
    return {name: None if state is None else state.rows for name, state in table_states(lakes, streams).items()}


def _state(lakes: Mapping[str, Format], status: StreamStatus) -> TableState | None:
    place = recorded_place(status, lakes)
    if place is None or not status.sequence:
        return None
    try:
        return place.format.state(place.target, place.uid)
    except TidegateError:
        return None
