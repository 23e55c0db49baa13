"""Random histories of a table's columns: each value belongs to a column of the source, whatever that is called.

A row of the source is a value for each *column*, which is a number here: what PostgreSQL, the tables and the project
call it changes, the column stays who it is. `Held` says what a stream's table must hold: the columns that it has ever
loaded, by number, each under the name that it had in the last load that was published.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from matrix.readers import READERS
from support.lake import QUICK
from tidegate.api import Project
from tidegate.core.outcome import Outcome, Result
from tidegate.engine.events import BOUNDARIES
from tidegate.errors import TidegateError
from tidegate.testing import Crash, crash_at

Number = int
Key = int
ID, AT, CODE, SECRET = 0, 1, 2, 3
FIXED = {ID: "id", AT: "at", CODE: "code"}
TYPES = {ID: "int primary key", AT: "timestamp not null", CODE: "text not null"}
CODES = ("x", "y", "z")
CURSOR = {"column": "at"}
STREAMS: dict[str, dict[str, Any]] = {
    "watermark_merge": {"strategy": {"kind": "watermark", **CURSOR}, "write": "merge"},
    "watermark_scd2": {"strategy": {"kind": "watermark", **CURSOR}, "write": "scd2"},
    "full_merge": {"strategy": "full", "write": "merge"},
    "smart_merge": {"strategy": "smart", "write": "merge"},
    "snapshot_diff_merge": {"strategy": "snapshot_diff", "write": "merge"},
    "snapshot_diff_scd2": {"strategy": "snapshot_diff", "write": "scd2"},
    "checksum_merge": {
        "strategy": {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 3},
        "write": "merge",
    },
}


@dataclass(kw_only=True)
class Held:
    """What a table must hold: its columns by number, each with its name, and the current row of each key."""

    names: dict[Number, str] = field(default_factory=dict)
    rows: dict[Key, dict[Number, Any]] = field(default_factory=dict)

    def load(self, names: dict[Number, str], rows: dict[Key, dict[Number, Any]], *, versions: bool) -> None:
        """Every column that is read has the source's value, every other one keeps its own; a new version has none."""
        self.names |= names
        for key, row in rows.items():
            kept = {} if versions and self._differs(key, row, names) else self.rows.get(key, {})
            self.rows[key] = {**kept, **_of(row, names)}

    def _differs(self, key: Key, row: dict[Number, Any], names: dict[Number, str]) -> bool:
        held = self.rows.get(key, {})
        return any(held.get(number) != row.get(number) for number in names)

    def named(self) -> list[dict[str, Any]]:
        return [{name: row.get(number) for number, name in self.names.items()} for _, row in sorted(self.rows.items())]


def _of(row: dict[Number, Any], names: dict[Number, str]) -> dict[Number, Any]:
    return {number: row.get(number) for number in names}


def _held(rows: Iterable[dict[str, Any]], names: Collection[str] | None, aside: set[Key]) -> list[dict[str, Any]]:
    """Rows with what they hold: a column without any value may be in a table or not."""
    return [
        {name: value for name, value in row.items() if value is not None and (names is None or name in names)}
        for row in rows
        if row["id"] not in aside
    ]


def _key(row: dict[str, Any]) -> Key:
    key: Key = row["id"]
    return key


@dataclass(kw_only=True)
class Columns:
    """One table of PostgreSQL, the streams that read it, and what each of their tables must hold."""

    seed: int
    url: str
    folder: Path
    spark: Any
    format: str
    streams: Sequence[str] = tuple(STREAMS)
    names: dict[Number, str] = field(default_factory=lambda: {**FIXED, SECRET: "secret", 4: "a", 5: "b", 6: "c"})
    rows: dict[Key, dict[Number, Any]] = field(default_factory=dict)
    tables: dict[str, Held] = field(default_factory=dict)
    past: dict[str, dict[int, Held]] = field(default_factory=dict)
    excluded: bool = True
    refused: tuple[str, ...] = ()
    aside: set[Key] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    exchanged: bool = False
    clock: datetime = datetime(2025, 1, 1)
    numbers: int = 100
    told: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def play(self, phases: int) -> list[str]:
        """What went wrong: the first thing of each stream."""
        self.chance = random.Random(self.seed)
        self.tables = {name: Held() for name in self.streams}
        columns = ", ".join(f"{name} {TYPES.get(number, 'text')}" for number, name in self.names.items())
        self._sql(f"create table t ({columns})")
        self.project = self._opened()
        try:
            self._write()
            self._load()
            for _ in range(phases):
                self._phase()
                if not self.alive:
                    break
        finally:
            self.project.close()
        return self.failures

    @property
    def alive(self) -> list[str]:
        return [name for name in self.streams if name in self.tables]

    def _phase(self) -> None:
        for step in self.chance.sample(self._steps(), self.chance.randint(1, 3)):
            self.told.append(step.__name__)
            step()
        if self.chance.random() < 0.8:
            self._write()
        if not self.exchanged and self.chance.random() < 0.3:
            self._interrupt()
            if self.chance.random() < 0.5:
                self._rename_back()
        self._load()
        if self.exchanged:
            self._exchange()
            self._load()
        if not self.refused and self.chance.random() < 0.3:
            self.chance.choice([self._roll_back, self._verify, self._rewind])()
        if self.refused and self.chance.random() < 0.5:
            self._accept()

    def _steps(self) -> list[Callable[[], None]]:
        return [
            self._rename,
            self._rename,
            self._add,
            self._drop,
            self._exchange,
            self._exclude,
            self._hold,
            self._repair,
        ]

    # What happens to the source

    def _sql(self, *statements: str) -> None:
        self.told += statements
        with psycopg.connect(self.url) as connection:
            for statement in statements:
                connection.execute(statement)

    def _write(self) -> None:
        """Some rows are written, and some are deleted where every stream can see that."""
        for key in self.chance.sample(range(1, 9), self.chance.randint(1, 4)):
            self.clock += timedelta(minutes=1)
            values = {number: f"{number}-{self.clock:%H%M}" for number in self.names if number not in FIXED}
            row = {ID: key, AT: self.clock, CODE: self.chance.choice(CODES), **values}
            if row[CODE] in self.refused:
                self.aside.add(key)
            self.rows[key] = row
            names = [self.names[number] for number in row]
            given = ", ".join(f"'{row[number]}'" for number in row)
            changed = ", ".join(f"{name} = excluded.{name}" for name in names)
            self._sql(f"insert into t ({', '.join(names)}) values ({given}) on conflict (id) do update set {changed}")

    def _any(self) -> Number | None:
        free = [number for number in self.names if number not in FIXED and number != SECRET]
        return self.chance.choice(free) if free else None

    def _fresh(self) -> str:
        self.numbers += 1
        return f"c{self.numbers}"

    def _rename(self) -> None:
        if (number := self._any()) is not None:
            self._renamed(number, self._fresh())

    def _renamed(self, number: Number, name: str) -> None:
        self._sql(f"alter table t rename column {self.names[number]} to {name}")
        self.names[number] = name

    def _rename_back(self) -> None:
        """A column is called again what some table calls it, after a load that did not get to the end."""
        for held in self.tables.values():
            for number, name in held.names.items():
                if number in self.names and self.names[number] != name and name not in self.names.values():
                    self._renamed(number, name)
                    return

    def _exchange(self) -> None:
        """Two columns exchange their names, one of them the excluded one: no load may follow that."""
        if self.exchanged:
            one, other = self.swapped
        else:
            found = self._any()
            if found is None or found not in next(iter(self.tables.values())).names:
                return
            if any(held.names.get(found) != self.names[found] for held in self.tables.values()):
                return  # which it would be called for another reason
            one, other = self.swapped = (found, SECRET)
        self.exchanged = not self.exchanged
        first, second = self.names[one], self.names[other]
        self._renamed(one, "between")
        self._renamed(other, first)
        self._renamed(one, second)

    def _add(self) -> None:
        self.numbers += 1
        number, name = self.numbers, self._fresh()
        self._sql(f"alter table t add column {name} text")
        self.names[number] = name

    def _drop(self) -> None:
        number = self._any()
        if number is None or self.exchanged or len(self.names) < 6:
            return
        self._sql(f"alter table t drop column {self.names[number]}")
        del self.names[number]
        for row in self.rows.values():
            row.pop(number, None)

    # What happens to the streams

    def _exclude(self) -> None:
        """The project leaves a column out, or reads it again: rows of the cursor's past keep what they had."""
        if not self.exchanged and "watermark" not in " ".join(self.streams):
            self.excluded = not self.excluded
            self._reopen()

    def _hold(self) -> None:
        if self.refused:
            return
        self.refused = tuple(self.chance.sample(CODES, 1))
        self.aside |= {key for key, row in self.rows.items() if row[CODE] in self.refused}
        self._reopen()

    def _accept(self) -> None:
        """Rows that were set aside are replayed: the table is what it were without the check."""
        self.refused = ()
        self.told.append("accept")
        self._reopen()
        for name in self.alive:
            try:
                self.project.quarantine(name).replay()
            except TidegateError as error:
                self._fail(name, f"replay: {error.code}: {error}")
            if name in self.tables:
                self.tables[name].load(self._read, self.rows, versions="scd2" in name)
        self.aside.clear()
        self._load()

    def _interrupt(self) -> None:
        boundary = self.chance.choice(BOUNDARIES)
        self.told.append(f"interrupted at {boundary}")
        for name in self.alive:
            with suppress(Crash):
                self.project.run(name, on_event=crash_at(boundary))

    def _load(self) -> None:
        self.told.append("load")
        for outcome in self.project.run(*self.alive, parallel=2).streams if self.alive else ():
            self._loaded(outcome)

    def _loaded(self, outcome: Outcome) -> None:
        name, error = outcome.stream, outcome.error
        if self.exchanged:
            nothing_read = "watermark" in name and outcome.outcome is Result.UNCHANGED
            if not nothing_read and (error is None or error.code != "schema_refused"):
                self._fail(name, f"exchanged names should have stopped the load: {error or outcome.outcome}")
        elif error is not None:
            self._fail(name, f"{error.code}: {error.message}")
        elif (
            outcome.outcome is Result.LOADED
        ):  # else no value has changed, and names follow with the next one that does
            waiting = {key for key, row in self.rows.items() if row[CODE] in self.refused}
            table = self.tables[name]
            if "watermark" not in name:  # who compares every row deletes that of a key that waits
                table.rows = {key: row for key, row in table.rows.items() if key not in waiting}
            passed = {key: row for key, row in self.rows.items() if key not in waiting}
            table.load(self._read, passed, versions="scd2" in name)
        self._compare(name)
        current = (
            next((one for one in self.project.versions(name) if one.current), None) if name in self.tables else None
        )
        if current is not None and current.load is not None and not self.exchanged:
            self.past.setdefault(name, {})[current.load] = deepcopy(self.tables[name])

    @property
    def _read(self) -> dict[Number, str]:
        return {number: name for number, name in self.names.items() if number != SECRET or not self.excluded}

    def _roll_back(self) -> None:
        """Each table shows the load before the last one, and the next load brings it back to the source."""
        for name in self.alive:
            known = self.past.get(name, {})
            found = [one for one in self.project.versions(name) if one.load in known and one.readable]
            older = [one for one in found if one.load != found[0].load]
            if older:
                self.told.append(f"roll back {name}")
                self.project.rollback(name, older[0].id)
                before, names = deepcopy(known[older[0].load]), self.tables[name].names
                if self.format == "iceberg":  # whose snapshots do not name columns
                    before.names = dict(names)
                else:  # whose version may be of before or after the names were changed
                    before.names = {number: names[number] for number in before.names if number in self.names}
                    self.unsure.add(name)
                self.tables[name] = before
        self._load()

    def _rewind(self) -> None:
        for name in self.alive:
            known = self.past.get(name, {})
            if len(known) > 1:
                self.told.append(f"rewind {name}")
                with suppress(TidegateError):
                    self.project.state.rewind(name, min(known))
        self._load()

    def _verify(self) -> None:
        self.told.append("verify")
        for found in self.project.verify(*self.alive).streams if self.alive else ():
            if not found.equal:
                self._fail(found.stream, "verify says that the table differs")

    def _repair(self) -> None:
        """A repair between a change of columns and the load that follows it."""
        if self.refused or self.exchanged:
            return
        self.told.append("repair")
        for name in self.alive:
            with suppress(TidegateError):  # it may ask for a load first
                self.project.verify(name, repair=True)

    # What must be true

    def _compare(self, name: str) -> None:
        if name not in self.tables:
            return
        held = self.tables[name]
        read, _ = READERS[self.format](self.folder, name)
        if "scd2" in name:
            kept = ("valid_from", "valid_to", "is_current")
            read = [{column: row[column] for column in row if column not in kept} for row in read if row["is_current"]]
        found = sorted(_held(read, held.names.values() if name in self.unsure else None, self.aside), key=_key)
        expected = sorted(_held(held.named(), None, self.aside), key=_key)
        if found != expected:
            wrong = [pair for pair in zip(found, expected, strict=False) if pair[0] != pair[1]][:2]
            self._fail(name, f"found and expected: {wrong or (found, expected)}")

    def _fail(self, name: str, what: str) -> None:
        self.failures.append(f"{name}, seed {self.seed}: {what}\n  " + "\n  ".join(self.told))
        self.tables.pop(name, None)

    def _opened(self) -> Project:
        check = {"expression": f"code NOT IN ({', '.join(map(repr, self.refused))})", "on_fail": "quarantine"}
        common = {
            "source": {"connection": "shop", "table": "public.t", **({"exclude": ["secret"]} if self.excluded else {})},
            "key": ["id"],
            "contract": {"rename": "evolve"},
            **({"checks": [check]} if self.refused else {}),
        }
        settings = {
            "connections": {"shop": {"url": self.url}},
            "lakes": {"lake": {"format": self.format}},
            "spark": {"conf": QUICK},
            "streams": {name: {"target": f"lake.s.{name}", **common, **STREAMS[name]} for name in self.streams},
        }
        return Project.from_dict(settings, folder=self.folder, spark=self.spark)

    def _reopen(self) -> None:
        self.project.close()
        self.project = self._opened()
