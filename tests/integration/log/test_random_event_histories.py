"""Random histories of many keys: the versions are those of the set of events, in whatever batches and order they came.

One table carries all keys; a model in plain Python says what it should hold, PyIceberg and delta-rs what it does.
"""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime, timedelta

import pytest

from support.scd2_model import Event, of_load, of_log
from tidegate.engine.events import Moment, Stage
from tidegate.testing import Crash, crash_at

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800), pytest.mark.slow]

COLUMNS = {"operation": "text", "sequence": "bigint", "id": "bigint", "name": "text", "note": "text", "at": "timestamp"}
START = datetime(2024, 1, 1)  # noqa: DTZ001 - a time without a zone is what is stored
LOADED = datetime(2100, 1, 1)  # noqa: DTZ001 - as above
FAR = "9999-12-31"
KEYS, LOADS, SEED = 40, 3, int(os.environ.get("TIDEGATE_SEED", "7"))


def history(rng, key):
    """Events of one key: inserts, updates, deletes and reinserts; some of one moment, some dated before others."""
    found, at, last = [], rng.randrange(1, 6), None
    for number in range(rng.randrange(1, 9)):
        at = rng.randrange(1, 20) if rng.random() < 0.25 else at + rng.choice((0, 0, 1, 1, 2))
        row = None
        if rng.random() < 0.65:
            row, last = {"name": rng.choice("abc"), "note": str(rng.randrange(3))}, at
        said = at if row is not None else rng.choice((None, last, at))
        found.append((key, number * 10 + rng.randrange(10), said, row))
    return found


def batches(events, rng, loads):
    """The events in no order, cut anywhere, each load with some that came before."""
    shuffled = sorted(events, key=lambda event: event[1] + rng.random() * 60)
    cuts = sorted(rng.randrange(len(shuffled)) for _ in range(loads - 1))
    for low, high in zip([0, *cuts], [*cuts, len(shuffled)], strict=True):
        again = rng.sample(shuffled[:high], high // 5)
        yield [*shuffled[low:high], *again]


class Project:
    """A stream of such events, and the model beside it."""

    def __init__(self, log, writer, moment):
        self.log, self.writer, self.moment = log, writer, moment
        self.loads, self.windows, self.known = [], [], {}

    def deliver(self, events, rng):
        """One more file, in no order."""
        rows = [
            {"operation": "D" if row is None else "U", "sequence": order, "id": key, "at": self.stated(at)}
            | (row or {"name": None, "note": None})
            for key, order, at, row in rng.sample(events, len(events))
        ]
        self.loads.append(events)
        self.log.events(f"{len(self.loads):04}.json", *rows)

    def run(self, *, crash=False):
        """One load; after a crash between the table's commit and the registry the next run finds out what landed."""
        began = datetime.now(UTC)
        if crash:
            with pytest.raises(Crash):
                self.log.run(on_event=crash_at((Stage.ADVANCE, Moment.START)))
        if crash and self.log.kind == "delta":
            outcome = self.log.run()
            assert (outcome.error, outcome.outcome) == (None, "unchanged"), "what was seen is proven, not done again"
        else:
            outcome = self.log.loaded()
        self.windows.append((began, datetime.now(UTC)))
        return outcome

    def stated(self, at):
        if at is None:
            return None
        return at if self.moment is int else (START + timedelta(days=at)).isoformat()

    def expected(self):
        tracked = self.writer.get("track_history")
        if "sequence_by" not in self.writer:
            return {key: one for key in self.keys() if (one := of_load(self.orders(key), tracked))}
        known = {}
        for number, load in enumerate(self.loads):
            new = [event for event in load if event[:2] not in known]
            greatest = max((at for _, _, at, _ in new if at is not None), default=None)
            for event in new:
                known[event[:2]] = (event, greatest if self.moment is int else LOADED + timedelta(days=number))
        step = 1 if self.moment is int else timedelta(microseconds=1)
        when = (
            (lambda at: at) if self.moment is int else (lambda at: None if at is None else START + timedelta(days=at))
        )
        found = {}
        for key in self.keys():
            events = [
                Event(order, when(at), row and {**row, "at": when(at)}, loaded)
                for (one, order, at, row), loaded in known.values()
                if one == key
            ]
            if versions := of_log(events, step, tracked):
                found[key] = versions
        return found

    def keys(self):
        return sorted({key for load in self.loads for key, *_ in load})

    def orders(self, key):
        return [
            [(order, row and {**row, "at": at}) for one, order, at, row in load if one == key] for load in self.loads
        ]

    def found(self):
        held = {}
        for row in self.log.read():
            if row["valid_from"] != row["valid_to"]:
                held.setdefault(row["id"], []).append(row)
        return {key: sorted(rows, key=lambda row: row["valid_from"]) for key, rows in sorted(held.items())}

    def when(self, value):
        if not isinstance(value, datetime):
            return value
        plain = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        if plain.year == 9999:
            return None
        for number, (began, ended) in enumerate(self.windows):
            if began <= plain <= ended:
                return LOADED + timedelta(days=number)
        return plain.replace(tzinfo=None)

    def compare(self):
        expected, found = self.expected(), self.found()
        if "sequence_by" not in self.writer:
            mine = {
                key: [(row["name"], row["note"], row["valid_to"] is None, row["valid_to"] == after) for row, after in
                      zip(rows, [*(row["valid_from"] for row in rows[1:]), None], strict=True)]
                for key, rows in found.items()
            }  # fmt: skip
            theirs = {
                key: [(one.row["name"], one.row["note"], one.until is None, one.until == after) for one, after in
                      zip(ones, [*(one.since for one in ones[1:]), None], strict=True)]
                for key, ones in expected.items()
            }  # fmt: skip
        else:
            mine = {
                key: [
                    (row["name"], row["note"], self.when(row["at"]), self.when(row["valid_from"]),
                     self.when(row["valid_to"]), row["is_current"], row.get("nr"))
                    for row in rows
                ]
                for key, rows in found.items()
            }  # fmt: skip
            theirs = {
                key: [
                    (one.row["name"], one.row["note"], one.row["at"], one.since, one.until, one.until is None,
                     number if "version" in self.writer else None)
                    for number, one in enumerate(ones, 1)
                ]
                for key, ones in expected.items()
            }  # fmt: skip
        for key in sorted({*mine, *theirs}):
            told = [event for load in self.loads for event in load if event[0] == key]
            assert mine.get(key) == theirs.get(key), f"key {key}: {told}"


CASES = {
    "dated": {"sequence_by": ["at"]},
    "dated, every column": {"sequence_by": ["at"], "version": "nr", "row_hash": "hash", "far_date": FAR},
    "dated, some tracked": {"sequence_by": ["at"], "track_history": ["name"]},
    "numbered": {"sequence_by": ["at"], "version": "nr"},
    "in the log's order": {},
    "in the log's order, some tracked": {"track_history": ["name"], "version": "nr"},
}


@pytest.mark.parametrize("kind", ["iceberg", pytest.param("delta", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("case", CASES)
def test_versions_are_a_function_of_the_set_of_events(log_of, kind, case):
    rng = random.Random(f"{case} {kind} {SEED}")
    moment = int if case == "numbered" else datetime
    columns = {**COLUMNS, "at": "bigint"} if moment is int else COLUMNS
    source = {"path": "events/*.json", "envelope": "rows", "columns": columns}
    strategy = {"kind": "cdc", "compact_after": 2}  # what is kept is rewritten between the loads
    log = log_of(kind, source=source, strategy=strategy, write={"kind": "scd2", **CASES[case]})
    project = Project(log, CASES[case], moment)
    events = [event for key in range(KEYS) for event in history(rng, key)]
    for number, load in enumerate(batches(events, rng, LOADS)):
        project.deliver(load, rng)
        project.run(crash=number == 1)
        project.compare()
        if number == 1 and kind == "iceberg":  # on Delta nobody could tell whether the last load was ever proven
            project.log.workspace.forget_registry()
    before = project.found()
    project.deliver([event for load in project.loads for event in load], rng)
    outcome = project.run()
    assert outcome.rows_superseded == outcome.rows_read
    assert project.found() == before, "a replay changes nothing"
