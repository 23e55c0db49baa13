"""Compares what a reader has read with what the model holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from matrix.histories import HELD
from matrix.model import KEY, LOAD, Row, Version, Versioned


def marked(row: Mapping[str, Any], *, soft: bool) -> Row:
    found = {name: row.get(name) for name in HELD}
    return {**found, "deleted": row.get("deleted_at") is not None} if soft else found


def key_of(row: tuple[Any, ...]) -> int:
    return int(dict(row)[KEY].removeprefix("int:"))


def some(rows: Counter[tuple[Any, ...]]) -> str:
    return "; ".join(f"{count} x {dict(row)}" for row, count in list(rows.items())[:2]) or "nothing"


def different(rows: Sequence[Mapping[str, Any]], model: Versioned) -> dict[int, str]:
    """By key, how its versions differ from those of the model."""
    found: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row[KEY], []).append(row)
    expected = model.versions()
    wrong = {}
    for key in found.keys() | expected.keys():
        mine = sorted(found.get(key, []), key=lambda row: row["valid_from"])
        mine = [row for row in mine if row["valid_from"] != row["valid_to"]]  # the mark of a delete that came early
        if reason := _unlike(mine, expected.get(key, []), dated=bool(model.moment)):
            spans = [(version.since, version.until) for version in expected.get(key, [])]
            found_spans = [(str(row["valid_from"]), str(row["valid_to"])) for row in mine]
            rows_of = [dict(version.row) for version in expected.get(key, [])]
            wrong[key] = f"{reason}: {found_spans} instead of {spans}; {[_short(row) for row in mine]}, {rows_of}"
    return wrong


def _unlike(rows: Sequence[Mapping[str, Any]], versions: Sequence[Version], *, dated: bool) -> str:
    if len(rows) != len(versions):
        return f"{len(rows)} versions instead of {len(versions)}"
    for place, (row, version) in enumerate(zip(rows, versions, strict=True)):
        if {name: row.get(name) for name in HELD} != dict(version.row):
            return "another row"
        if row["is_current"] != (version.until is None) or (row["valid_to"] is None) != (version.until is None):
            return "current or not"
        if dated and row["valid_from"] != version.since and not _after_an_end(rows, versions, place):
            return "another beginning"
        if dated and version.until is not LOAD and row["valid_to"] != version.until:
            return "another end"
        if row["valid_to"] is not None and not row["valid_from"] < row["valid_to"]:
            return "a version that ends before it begins"
        if place + 1 < len(rows) and _apart(row, rows[place + 1], version, versions[place + 1], dated=dated):
            return "a gap or an overlap"
    return ""


def _after_an_end(rows: Sequence[Mapping[str, Any]], versions: Sequence[Version], place: int) -> bool:
    """Whether a load dated how the version before ended: what comes then may begin no earlier, whatever it says."""
    if not place or versions[place - 1].until is not LOAD:
        return False
    return bool(rows[place]["valid_from"] > rows[place - 1]["valid_to"])


def _apart(row: Mapping[str, Any], after: Mapping[str, Any], version: Version, then: Version, *, dated: bool) -> bool:
    """Whether there is time between two versions where there should be none, or none where there should be some.

    Where loads date versions, what happens to a key within one load may take no time.
    """
    if row["valid_to"] > after["valid_from"]:
        return True
    if version.until is LOAD or (not dated and version.until[0] == then.since[0]):
        return False
    return (row["valid_to"] == after["valid_from"]) != (version.until == then.since)


def _short(row: Mapping[str, Any]) -> str:
    held = {name: row.get(name) for name in HELD}
    return str(held)
