"""The history of keys in plain Python: what a set of changes means, however it came."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Moment = Any


class Change(NamedTuple):
    """One change of one key; a row of None is a delete."""

    at: Moment
    row: Mapping[str, Any] | None


class Version(NamedTuple):
    """A row and the time in which it held; `until` is None while it does."""

    since: Moment
    until: Moment | None
    row: Mapping[str, Any]


def versions(changes: Iterable[Change], tracked: Sequence[str] | None = None) -> list[Version]:
    """The versions of one key, by the sequence of its changes alone."""
    found: list[Version] = []
    for change in sorted(set_of(changes), key=lambda one: one.at):
        last = found[-1] if found and found[-1].until is None else None
        if change.row is None:
            if last is not None:
                found[-1] = last._replace(until=change.at)
        elif last is None:
            found.append(Version(change.at, None, change.row))
        elif seen(last.row, tracked) == seen(change.row, tracked):
            found[-1] = last._replace(row=change.row)
        else:
            found[-1] = last._replace(until=change.at)
            found.append(Version(change.at, None, change.row))
    return found


def set_of(changes: Iterable[Change]) -> list[Change]:
    """The same change again is the same change."""
    found: dict[Hashable, Change] = {}
    for change in changes:
        found[(change.at, change.row and tuple(sorted(change.row.items(), key=str)))] = change
    return list(found.values())


def seen(row: Mapping[str, Any], tracked: Sequence[str] | None) -> Mapping[str, Any]:
    """What of a row makes a version."""
    return row if tracked is None else {name: row[name] for name in tracked}


class Event(NamedTuple):
    """One event of a log.

    Args:
        order: where it stands in the log; two events of one order are one event.
        at: when it took effect, as it says itself; None for a delete that does not say.
        row: None for a delete.
        loaded: when it was first delivered; what dates a delete that does not say, in the same units as `at`.
    """

    order: int
    at: Moment | None
    row: Mapping[str, Any] | None
    loaded: Moment


def of_log(events: Iterable[Event], step: Any, tracked: Sequence[str] | None = None) -> list[Version]:
    """The versions of one key: a function of the set of its events, however often and in whatever order they came.

    Args:
        step: the least distance between two moments.
    """
    once: dict[int, Event] = {}
    for event in events:
        if event.order not in once:
            once[event.order] = event
    known = sorted(once.values(), key=lambda one: one.order)
    counts: dict[Moment, Event] = {}
    for event in known:
        at = event.at if event.row is not None else _went(event, known, step)
        if at is not None:
            counts[at] = event  # of one moment the later one in the log
    return versions([Change(at, event.row) for at, event in counts.items()], tracked)


def _went(event: Event, known: Sequence[Event], step: Any) -> Moment | None:
    """When a delete took effect; None for one that ends nothing.

    A delete whose moment is that of the row before it repeats what was there: that row was written then, not deleted.
    """
    before = [one.at for one in known if one.row is not None and one.order < event.order]
    after = [one.at for one in known if one.row is not None and one.order > event.order]
    if event.at is not None and event.at not in before:
        return event.at
    if not before:
        return None
    last = max(before)
    end = max(event.loaded, last + step)
    if not after:
        return end
    if after[0] < last:
        return None
    return min(end, *(at for at in after if at >= last))


def of_load(loads: Iterable[Iterable[tuple[int, Mapping[str, Any] | None]]], tracked: Any = None) -> list[Version]:
    """The versions of one key whose events state no moment: the log's order counts, and the load dates them.

    Args:
        loads: of each load the events, as order and row. One that is older than the newest one before it is superseded.
    """
    newest, changes = -1, []
    for load, events in enumerate(loads):
        new = sorted({order: row for order, row in events if order > newest}.items())
        rows = 0
        for number, (_, row) in enumerate(new):
            if row is not None or all(later is None for _, later in new[number:]):
                changes.append(Change((load, rows), row))
            rows += row is not None
        newest = max([newest, *(order for order, _ in new)])
    return versions(changes, tracked)
