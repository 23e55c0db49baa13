"""Plays a history: changes a real source, loads real tables, and compares both with the model after every load."""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from matrix import readers
from matrix.compare import different, key_of, marked, some
from matrix.histories import HIDDEN, Step
from matrix.model import LOAD, Event, Model, Row, Source, Stop, Table, Versioned, View, multiset
from matrix.shapes import Shape
from support.lake import QUICK
from tidegate.api import Project
from tidegate.core.outcome import Outcome
from tidegate.engine.events import Event as RunEvent
from tidegate.engine.events import Moment, Stage
from tidegate.testing import Crash, Remains, crash_at


class Place(Protocol):
    """A real source."""

    def connections(self) -> dict[str, Any]: ...

    def lakes(self) -> dict[str, Any]: ...

    def source(self, name: str) -> dict[str, Any]: ...

    def make(self) -> None: ...

    def change(self, events: Sequence[Event]) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A load whose table is not what the model says, or that ended as it must not."""

    shape: Shape
    step: int
    what: str
    keys: frozenset[int] = frozenset()
    verified: bool | None = None

    @property
    def kind(self) -> str:
        """What it says without a value."""
        return re.split(r"[\d'(\[{]", self.what, maxsplit=1)[0]

    def __str__(self) -> str:
        beside = f"verified: {self.verified}, keys {sorted(self.keys)[:8]}"
        return f"{self.shape.name}, step {self.step}: {self.what} ({beside})"


@dataclass(kw_only=True)
class Player:
    """One source, the streams that read it into one lake, and a model of each.

    Args:
        parallel: how many streams are loaded at a time.
        refused: while it is set, rows with these codes break a check and are set aside.
        aside: the keys of which a row may be set aside now, so that nobody says what the table holds of them.
        waited: the keys that were among these: a row that was deleted while it waited left no mark.
        saved: the rows of the source's copy.
        ended: the streams that have stopped for good, as the documents say that they do.
        forgotten: nobody remembers in which load each file was read.
    """

    folder: Path
    place: Place
    format: str
    shapes: Sequence[Shape]
    spark: Any
    view: View | None = None
    parallel: int = 2
    source: Source = field(default_factory=Source)
    models: dict[str, Model] = field(default_factory=dict)
    past: dict[str, dict[int, Model]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    loads: int = 0
    step: int = 0
    refused: Sequence[str] = ()
    aside: set[int] = field(default_factory=set)
    waited: set[int] = field(default_factory=set)
    saved: dict[int, Row] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    forgotten: bool = False

    def play(self, steps: Sequence[Step]) -> list[Failure]:
        """The first failure of each shape."""
        from matrix.steps import STEPS

        self.place.make()
        self.models = {shape.name: shape.model(self.view) for shape in self.shapes}
        self.project = self._opened()
        try:
            for self.step, (kind, what) in enumerate(steps):
                if self.alive:
                    self._draw_costs()
                    STEPS[kind](self, what)
        finally:
            self.project.close()
        return self.failures

    def _draw_costs(self) -> None:
        """What earlier loads took is drawn, so that `smart` goes every way, and the same ways when this is replayed."""
        if not self._registry.exists() or not any(shape.strategy == "smart" for shape in self.alive.values()):
            return
        drawn = random.Random(self.step)
        with closing(sqlite3.connect(self._registry, timeout=30)) as connection, connection:
            runs = connection.execute("SELECT rowid, outcome_payload FROM runs WHERE outcome = 'loaded'").fetchall()
            for number, text in runs:
                told = json.loads(text)
                told["seconds"]["total"] = round(drawn.uniform(0.1, 30), 1)
                connection.execute("UPDATE runs SET outcome_payload = ? WHERE rowid = ?", (json.dumps(told), number))

    def interrupted(self, name: str, boundary: tuple[Stage, Moment]) -> None:
        """A run of one stream that ends there as by Ctrl-C."""
        with suppress(Crash):
            self.project.run(name, on_event=crash_at(boundary))

    def killed(self, name: str, boundary: tuple[Stage, Moment]) -> None:
        """A run of one stream that is killed there: what it cleans up is put back, and nobody holds its lease."""
        left: list[Remains] = []

        def die(event: RunEvent) -> None:
            if not left and (event.stage, event.moment) == boundary:
                left.append(Remains(self.folder))
                raise Crash

        with suppress(Crash):
            self.project.run(name, on_event=die)
        if not left:
            return  # it ended before it got there
        self.project.close()
        left[0].put_back()
        with closing(sqlite3.connect(self._registry, timeout=30)) as connection, connection:
            connection.execute("DELETE FROM leases")
        self.project = self._opened()

    @property
    def _registry(self) -> Path:
        return self.folder / ".tidegate" / "registry.db"

    def reopen(self) -> None:
        """Opens the project again, with its settings as they are now."""
        self.project.close()
        self.project = self._opened()

    def _opened(self) -> Project:
        return Project.from_dict(self.settings(), folder=self.folder, spark=self.spark)

    def settings(self) -> dict[str, Any]:
        """The project file."""
        check = {"expression": f"code NOT IN ({', '.join(map(repr, self.refused))})", "on_fail": "quarantine"}
        checks = {"checks": [check]} if self.refused else {}
        streams = {shape.name: shape.stream(self.place.source(shape.name)) | checks for shape in self.shapes}
        lakes = {"lake": {"format": self.format}, **self.place.lakes()}
        return {"connections": self.place.connections(), "lakes": lakes, "spark": {"conf": QUICK}, "streams": streams}

    @property
    def alive(self) -> dict[str, Shape]:
        """The streams that have not failed yet."""
        out = {failure.shape.name for failure in self.failures} | self.ended
        return {shape.name: shape for shape in self.shapes if shape.name not in out}

    def change(self, events: Sequence[Event]) -> None:
        """What happens to the source."""
        self.place.change(events)
        self.source.tell(events)
        self.aside |= {event.key for event in events if event.row is not None and event.row["code"] in self.refused}

    def loaded(self, shape: Shape, outcome: Outcome) -> None:
        """A load has to end as the model says, and to leave the table that it says."""
        self.loads += 1
        table = self.models[shape.name].table
        if outcome.error is not None and outcome.error.code == "check_failed" and _begun_by_a_load(table):
            self.ended.add(shape.name)  # its row says that it is older than the load which began it
            return
        stopped = self._expect(shape)
        if (
            outcome.error is not None
            and outcome.error.code == "delete_fuse"
            and not (self.source.rows or table.current())
        ):
            self.compare(shape, outcome.verified)  # the summary of a commit may not tell that no row is left
            return
        if outcome.error is not None and "was never verified" in outcome.error.message and self._unseen(shape):
            self.ended.add(shape.name)  # on Delta a run after a crash compares the whole table, late changes included
            return
        if outcome.error is not None and (stopped is None or outcome.error.code == "internal"):
            self.fail(shape, f"{outcome.error.code}: {outcome.error.message}", verified=outcome.verified)
        elif outcome.error is None and stopped is not None:
            self.fail(shape, f"the load should have stopped: {stopped}", verified=outcome.verified)
        else:
            self.compare(shape, outcome.verified)
            self._remember(shape)

    def _unseen(self, shape: Shape) -> bool:
        """Whether a row of the source has changed, or is gone, in a way that the stream cannot see."""
        held = {row["id"]: row for row in self.models[shape.name].table.current()}
        return held != {row["id"]: row for row in self.meant(shape)}

    def _expect(self, shape: Shape) -> str | None:
        try:
            self.models[shape.name].load(self.source)
        except Stop as stop:
            return str(stop) or "for a reason"
        return None

    def _remember(self, shape: Shape) -> None:
        """What the model was when the version that is visible now became so."""
        current = next((version for version in self.project.versions(shape.name) if version.current), None)
        if current is not None and current.load is not None:
            self.past.setdefault(shape.name, {}).setdefault(current.load, deepcopy(self.models[shape.name]))

    def repairable(self) -> dict[str, Shape]:
        """The streams whose tables a repair can make equal, row by row."""
        return {n: s for n, s in self.alive.items() if self.comparable(s) and s.key and s.writer == "merge"}

    def comparable(self, shape: Shape) -> bool:
        """Whether `verify` has a source to compare the table with: a copy of what the source holds, or its files."""
        if shape.strategy == "files":  # in which load each was read only the registry remembers
            whole = None not in self.source.files
            return whole and shape.writer == "merge" and not self.forgotten
        return shape.strategy != "cdc" and shape.writer != "append" and not shape.lagging

    def meant(self, shape: Shape) -> list[Row]:
        """The rows of the source that the stream looks at; of files, of each key that of the last one."""
        if shape.strategy == "files":
            return list({key: row for held in self.source.files if held for key, row in held.items()}.values())
        return [row for row in self.source.rows.values() if shape.within(row)]

    def compare(self, shape: Shape, verified: bool | None) -> None:
        """Reads the table, by every reader that can."""
        rows, files = readers.READERS[self.format](self.folder, shape.name)
        self._same(shape, rows, verified, self.format)
        if files is not None and shape.name in self.alive:
            self._same(shape, readers.duck(files), verified, "duckdb")

    def _same(self, shape: Shape, rows: readers.Rows, verified: bool | None, reader: str) -> None:
        model = self.models[shape.name].table
        if any(HIDDEN in row for row in rows):
            self.fail(shape, f"{reader} reads an excluded column", verified=verified)
            return
        rows = [row for row in rows if row["id"] not in self.aside]
        if isinstance(model, Versioned):
            wrong = {key: what for key, what in different(rows, model).items() if key not in self.aside}
            if wrong:
                self.fail(shape, f"{reader} reads {wrong[min(wrong)]}", frozenset(wrong), verified)
            return
        found = multiset(row for row in (marked(row, soft=shape.soft) for row in rows) if self._told(row))
        expected = multiset(row for row in model.rows() if row["id"] not in self.aside and self._told(row))
        if found == expected:
            return
        more, fewer = found - expected, expected - found
        keys = frozenset(key_of(row) for row in [*more, *fewer])
        self.fail(shape, f"{reader} reads {some(more)} and should read {some(fewer)}", keys, verified)

    def _told(self, row: Row) -> bool:
        return not row.get("deleted") or row["id"] not in self.waited

    def fail(self, shape: Shape, what: str, keys: frozenset[int] = frozenset(), verified: bool | None = None) -> None:
        """The stream is not looked at any more."""
        self.failures.append(Failure(shape=shape, step=self.step, what=what, keys=keys, verified=verified))


def _begun_by_a_load(table: Table) -> bool:
    """Whether a row came back after a load had found it gone, so that the load's time dates it."""
    if not isinstance(table, Versioned) or not table.moment:
        return False
    ends = ([change.at is LOAD for change in changes] for changes in table.changes.values())
    return any(True in each and not each[-1] for each in ends)
