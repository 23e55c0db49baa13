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
