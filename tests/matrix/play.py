"""Plays a history: changes a real source, loads real tables, and compares both with the model after every load."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from matrix import readers
from matrix.histories import TYPES, Step
from matrix.model import KEY, LOAD, Event, Merged, Mirror, Model, Row, Source, Stop, Version, Versioned, View, multiset
from matrix.shapes import Shape
from support.lake import QUICK
from support.workspace import Crash, crash_at
from tidegate.api import Project
from tidegate.engine.events import BOUNDARIES

FOREIGN = -77
"""The key of a row that no source has."""


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

    def __str__(self) -> str:
        beside = f"verified: {self.verified}, keys {sorted(self.keys)[:8]}"
        return f"{self.shape.name}, step {self.step}: {self.what} ({beside})"


@dataclass(kw_only=True)
class Player:
    """One source, the streams that read it into one lake, and a model of each."""

    folder: Path
    place: Place
    format: str
    shapes: Sequence[Shape]
    spark: Any
    view: View | None = None
    source: Source = field(default_factory=Source)
    models: dict[str, Model] = field(default_factory=dict)
    past: dict[str, dict[int, Model]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    loads: int = 0

    def play(self, steps: Sequence[Step]) -> list[Failure]:
        """The first failure of each shape."""
        self.place.make()
        self.models = {shape.name: shape.model(self.view) for shape in self.shapes}
        with self.project() as project:
            for number, (kind, what) in enumerate(steps):
                if self._alive:
                    getattr(self, f"_{kind}")(project, number, what)
        return self.failures

    def settings(self) -> dict[str, Any]:
        """The project file."""
        return {
            "connections": self.place.connections(),
            "lakes": {"lake": {"format": self.format}, **self.place.lakes()},
            "spark": {"conf": QUICK},
            "streams": {shape.name: shape.stream(self.place.source(shape.name)) for shape in self.shapes},
        }

    def project(self) -> Project:
        return Project.from_dict(self.settings(), folder=self.folder, spark=self.spark)

    @property
    def _alive(self) -> dict[str, Shape]:
        failed = {failure.shape.name for failure in self.failures}
        return {shape.name: shape for shape in self.shapes if shape.name not in failed}

    def _change(self, project: Project, number: int, events: Sequence[Event]) -> None:
        self.place.change(events)
        self.source.delivered += events
        for event in events:
            self.source.rows.pop(event.key, None)
            if event.row is not None:
                self.source.rows[event.key] = event.row

    def _load(self, project: Project, number: int, crashes: Mapping[str, int]) -> None:
        """Every stream once; those with a crash are interrupted at that boundary first."""
        alive = self._alive
        for name, boundary in crashes.items():
            if name in alive:
                with contextlib.suppress(Crash):
                    project.run(name, on_event=crash_at(BOUNDARIES[boundary]))
        for outcome in project.run(*alive, parallel=2).streams:
            self.loads += 1
            shape = alive[outcome.stream]
            stopped = self._expect(shape)
            if outcome.error is not None and (stopped is None or outcome.error.code == "internal"):
                self._fail(shape, number, f"{outcome.error.code}: {outcome.error.message}", verified=outcome.verified)
            elif outcome.error is None and stopped is not None:
                self._fail(shape, number, f"the load should have stopped: {stopped}", verified=outcome.verified)
            else:
                self._compare(shape, number, outcome.verified)
                self._keep(project, shape)

    def _keep(self, project: Project, shape: Shape) -> None:
        """What the model was when the version that is visible now became so."""
        current = next((version for version in project.versions(shape.name) if version.current), None)
        if current is not None and current.load is not None:
            self.past.setdefault(shape.name, {}).setdefault(current.load, deepcopy(self.models[shape.name]))

    def _rollback(self, project: Project, number: int, what: Any) -> None:
        """Every table goes back to what the load before the last one left, and its stream with it."""
        for name, shape in self._alive.items():
            known = self.past.get(name, {})
            found = [one for one in project.versions(name) if one.load in known and one.readable]
            older = [one for one in found if one.load != found[0].load]
            if older:
                project.rollback(name, older[0].id)
                self.models[name] = deepcopy(known[older[0].load])
                self._compare(shape, number, None)

    def _tamper(self, project: Project, number: int, seed: int) -> None:
        """Somebody changes tables that a repair can mend: a row is lost, one is another, one is too many."""
        session = project.sessions.load_session()
        for name in self._mended():
            table = self.models[name].table
            assert isinstance(table, Merged)
            at = f"lake.s.{name}" if self.format == "iceberg" else f"delta.`{self.folder / 'warehouse' / 's' / name}`"
            lost, other, *_ = [*random.Random(seed).sample(sorted(table.live), min(2, len(table.live))), None, None]
            if lost is not None:
                session.sql(f"DELETE FROM {at} WHERE id = {lost}")
                del table.live[lost]
            if other is not None:
                session.sql(f"UPDATE {at} SET code = 'tampered' WHERE id = {other}")
                table.live[other] = {**table.live[other], "code": "tampered"}
            session.sql(f"INSERT INTO {at} (id, code) VALUES ({FOREIGN}, 'tampered')")
            table.live[FOREIGN] = {**dict.fromkeys(TYPES), KEY: FOREIGN, "code": "tampered"}
        project.sessions.release(session)

    def _maintain(self, project: Project, number: int, what: Any) -> None:
        """Maintenance changes no row."""
        alive = self._alive
        for kept in project.maintain(*alive, force=True).streams:
            if kept.error is not None:
                self._fail(alive[kept.stream], number, f"maintain: {kept.error.code}: {kept.error.message}")
            else:
                self._compare(alive[kept.stream], number, None)

    def _verify(self, project: Project, number: int, what: Any) -> None:
        """A whole table is called equal exactly if it is."""
        alive = {name: shape for name, shape in self._alive.items() if self._comparable(shape)}
        if not alive:
            return
        for found in project.verify(*alive, level=what).streams:
            shape = alive[found.stream]
            equal = multiset(self.models[shape.name].table.current()) == multiset(self._meant(shape))
            if found.error is not None:
                self._fail(shape, number, f"verify: {found.error.code}: {found.error.message}")
            elif found.equal != equal and (what != "counts" or equal):
                self._fail(shape, number, f"verify says equal: {found.equal}, and it is {equal}")

    def _repair(self, project: Project, number: int, seed: int) -> None:
        """What differs is repaired and nothing else is touched."""
        alive = self._mended()
        if not alive:
            return
        for found in project.verify(*alive, level="rows", repair=True).streams:
            shape = alive[found.stream]
            if found.error is not None:
                self._fail(shape, number, f"repair: {found.error.code}: {found.error.message}")
                continue
            table = self.models[shape.name].table
            assert isinstance(table, Merged)
            table.apply(Mirror(rows=self._meant(shape)))
            self._compare(shape, number, found.equal)

    def _refresh(self, project: Project, number: int, what: Any) -> None:
        """A full refresh makes the table what a first load would have made it."""
        alive = self._alive
        for outcome in project.run(*alive, full_refresh=True, parallel=2).streams:
            shape = alive[outcome.stream]
            if outcome.error is not None:
                self._fail(shape, number, f"refresh: {outcome.error.code}: {outcome.error.message}")
                continue
            self.models[shape.name].refresh(self.source)
            self._compare(shape, number, outcome.verified)

    def _forget(self, project: Project, number: int, what: Any) -> None:
        """The registry is lost."""
        project.close()
        for path in (self.folder / ".tidegate").glob("registry.db*"):
            path.unlink()

    def _mended(self) -> dict[str, Shape]:
        """The streams whose tables a repair can make equal, row by row."""
        return {n: s for n, s in self._alive.items() if self._comparable(s) and s.keyed and s.writer == "merge"}

    def _comparable(self, shape: Shape) -> bool:
        """Whether `verify` has a source to compare the table with: a copy of what the source holds, or its files."""
        if shape.strategy == "files":  # in which load each was read only the registry remembers
            return shape.writer == "merge" and (self.folder / ".tidegate" / "registry.db").exists()
        return shape.strategy != "cdc" and shape.writer != "append" and not shape.lagging

    def _meant(self, shape: Shape) -> list[Row]:
        """The rows of the source that the stream looks at; of files, those that the model makes of them in order."""
        if shape.strategy == "files":
            return self.models[shape.name].table.current()
        return [row for row in self.source.rows.values() if shape.within(row)]

    def _expect(self, shape: Shape) -> str | None:
        try:
            self.models[shape.name].load(self.source)
        except Stop as stop:
            return str(stop) or "for a reason"
        return None

    def _compare(self, shape: Shape, number: int, verified: bool | None) -> None:
        rows, files = readers.READERS[self.format](self.folder, shape.name)
        self._same(shape, number, rows, verified, self.format)
        if files is not None and shape.name in self._alive:
            self._same(shape, number, readers.duck(files), verified, "duckdb")

    def _same(self, shape: Shape, number: int, rows: readers.Rows, verified: bool | None, reader: str) -> None:
        model = self.models[shape.name].table
        if isinstance(model, Versioned):
            wrong = different(rows, model)
            if wrong:
                self._fail(shape, number, f"{reader} reads {wrong[min(wrong)]}", frozenset(wrong), verified)
            return
        found = multiset(_marked(row, soft=shape.soft) for row in rows)
        expected = multiset(model.rows())
        if found == expected:
            return
        more, fewer = found - expected, expected - found
        keys = frozenset(_key(row) for row in [*more, *fewer])
        what = f"{reader} reads {_some(more)} and should read {_some(fewer)}"
        self._fail(shape, number, what, keys, verified)

    def _fail(
        self, shape: Shape, step: int, what: str, keys: frozenset[int] = frozenset(), verified: bool | None = None
    ) -> None:
        self.failures.append(Failure(shape=shape, step=step, what=what, keys=keys, verified=verified))


def _marked(row: Mapping[str, Any], *, soft: bool) -> Row:
    found = {name: row.get(name) for name in TYPES}
    return {**found, "deleted": row.get("deleted_at") is not None} if soft else found


def _key(row: tuple[Any, ...]) -> int:
    return int(dict(row)[KEY].removeprefix("int:"))


def _some(rows: Counter[tuple[Any, ...]]) -> str:
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
        if {name: row.get(name) for name in TYPES} != dict(version.row):
            return "another row"
        if row["is_current"] != (version.until is None) or (row["valid_to"] is None) != (version.until is None):
            return "current or not"
        if dated and row["valid_from"] != version.since:
            return "another beginning"
        if dated and version.until is not LOAD and row["valid_to"] != version.until:
            return "another end"
        if row["valid_to"] is not None and not row["valid_from"] < row["valid_to"]:
            return "a version that ends before it begins"
        if place + 1 < len(rows) and _apart(row, rows[place + 1], version, versions[place + 1], dated=dated):
            return "a gap or an overlap"
    return ""


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
    held = {name: row.get(name) for name in TYPES}
    return str(held)


def crashes(names: Sequence[str], chance: random.Random, share: float) -> dict[str, int]:
    """Which streams a load interrupts first, and where."""
    return {name: chance.randrange(len(BOUNDARIES)) for name in names if chance.random() < share}
