"""Random histories of a table's columns: each value belongs to a column of the source, whatever that is called.

A row of the source is a value for each *column*, which is a number here: what PostgreSQL, the tables and the project
call it changes, the column stays who it is. `Held` says what the table of a stream must hold, by the docs alone
(`docs/concepts/contract.md`). After a load that did not say whether it got to its end, it may be one of several.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
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
Id = tuple[str, datetime]
"""Who a column of a table is: its first name, and when it came."""

ID, AT, CODE = 0, 1, 2
FIXED = {ID: "id", AT: "at", CODE: "code"}
TYPES = {ID: "int primary key", AT: "timestamp not null", CODE: "text not null"}
CODES = ("x", "y", "z")
NEVER = datetime(1, 1, 1)
RESCUED: Id = ("_rescued", NEVER)
CURSOR = {"kind": "watermark", "column": "at"}
BUCKETS = {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 3}
LOADS: dict[str, dict[str, Any]] = {
    "watermark_merge": {"strategy": CURSOR, "write": "merge"},
    "watermark_scd2": {"strategy": CURSOR, "write": "scd2"},
    "full_merge": {"strategy": "full", "write": "merge"},
    "smart_merge": {"strategy": "smart", "write": "merge"},
    "snapshot_diff_merge": {"strategy": "snapshot_diff", "write": "merge"},
    "snapshot_diff_scd2": {"strategy": "snapshot_diff", "write": "scd2"},
    "checksum_merge": {"strategy": BUCKETS, "write": "merge"},
}
CONTRACTS = {
    "rename": ("evolve", "evolve", "keep", "stop"),
    "add_column": ("evolve", "evolve", "rescue", "discard", "stop"),
    "drop_column": ("keep", "keep", "keep", "stop"),
}
EVERYTHING = {kind: modes[0] for kind, modes in CONTRACTS.items()}
LEFT_OUT = ("rescue", "discard")
FAILING = (
    {"kind": "row_count", "min": 1000},
    {"kind": "row_count", "min": 1000, "of": "table"},
)


@dataclass(kw_only=True)
class Source:
    """The table in PostgreSQL, and which of its columns the project excludes."""

    relation: int = 0
    names: dict[Number, str] = field(default_factory=lambda: {**FIXED, 3: "secret", 4: "a", 5: "b", 6: "c"})
    excluded: set[str] = field(default_factory=lambda: {"secret"})
    refused: str | None = None
    rows: dict[Key, dict[Number, Any]] = field(default_factory=dict)

    @property
    def read(self) -> dict[Number, str]:
        return {number: name for number, name in self.names.items() if name not in self.excluded}


@dataclass(frozen=True, kw_only=True)
class Stream:
    """How a table is loaded."""

    name: str
    options: Mapping[str, Any]
    contract: Mapping[str, str]

    @property
    def looks_at_all(self) -> bool:
        return "watermark" not in self.name

    @property
    def versions(self) -> bool:
        return "scd2" in self.name


@dataclass(kw_only=True)
class Held:
    """What a table may hold: its columns, each with its name, and the current row of each key.

    Args:
        columns: the table's column of each column of the source.
        before: what the last load found at the source, without its rows.
        rows: as if no row had ever been set aside.
        waiting: keys whose last row was set aside.
        cursor: the greatest that was loaded.
        continues: the relation that the position continues.
        late: columns that came after the version that is shown.
    """

    names: dict[Id, str] = field(default_factory=dict)
    columns: dict[Number, Id] = field(default_factory=dict)
    before: Source | None = None
    rows: dict[Key, dict[Id, Any]] = field(default_factory=dict)
    waiting: set[Key] = field(default_factory=set)
    cursor: datetime = NEVER
    continues: int = 0
    late: set[Id] = field(default_factory=set)

    def load(self, source: Source, stream: Stream, at: datetime, *, reset: bool = False) -> Held | None:
        """The table after a load; None where the contract forbids it."""
        new = self.copy()
        if reset:
            new.rows, new.waiting, new.cursor = {}, set(), NEVER
        contract = dict(stream.contract)
        if reset or not self.names:
            left_out = self.names and contract["add_column"] in LEFT_OUT
            contract = {**EVERYTHING, **({"add_column": contract["add_column"]} if left_out else {})}
        if not new._fits(source, contract, at, reset=reset):
            return None
        new.before = replace(source, names=dict(source.names), excluded=set(source.excluded), rows={})
        new.continues, new.late = source.relation, set()
        for key, row in source.rows.items():
            if stream.looks_at_all or row[AT] > new.cursor:
                new._take(key, row, source, stream)
        new.cursor = max((row[AT] for row in source.rows.values()), default=new.cursor)
        return new

    def copy(self) -> Held:
        rows = {key: dict(row) for key, row in self.rows.items()}
        return replace(self, names=dict(self.names), columns=dict(self.columns), rows=rows, waiting=set(self.waiting))

    def _take(self, key: Key, row: dict[Number, Any], source: Source, stream: Stream) -> None:
        """Every column that is read has the source's value, every other one keeps its own; a new version has none."""
        loaded = self.loaded(source)
        values = {one: row.get(number) for number, one in loaded.items()}
        held = self.rows.get(key, {})
        kept = {} if stream.versions and any(held.get(one) != value for one, value in values.items()) else held
        if stream.contract["add_column"] == "rescue":
            apart = {name: row.get(number) for number, name in source.read.items() if number not in loaded}
            values[RESCUED] = {name: value for name, value in apart.items() if value is not None} or None
        self.rows[key] = {**kept, **values}
        (self.waiting.add if row[CODE] == source.refused else self.waiting.discard)(key)

    def loaded(self, source: Source) -> dict[Number, Id]:
        """The columns of the source whose values the table has, once it was loaded."""
        return {number: one for number, one in self.columns.items() if self.names[one] == source.read.get(number)}

    def _fits(self, source: Source, contract: Mapping[str, str], at: datetime, *, reset: bool) -> bool:
        """Whether the contract allows the source's columns; if so, the table has them."""
        rename, add, drop = (contract[kind] for kind in CONTRACTS)
        before = self.before if self.before and self.before.relation == source.relation else Source(names={})
        by_name = {name: one for one, name in self.names.items()}
        self.columns = {one: self.columns[one] for one in self.columns if one in before.names and one in source.names}
        if reset:  # the columns that are loaded get the source's names
            left_out = set(source.names) - set(source.read)
            left_out |= {one for one, name in source.read.items() if add in LEFT_OUT and name not in by_name}
            names = set(source.read.values())
            mine = {number: one for number, one in self.columns.items() if number in left_out}
            self.columns = {number: one for number, one in mine.items() if self.names[one] not in names}
        owners = {self.names[one]: number for number, one in self.columns.items()}
        new = []
        for number, name in source.names.items():
            one = self.columns.get(number)
            was, renamed = before.names.get(number, name), one is not None and self.names[one] != name
            discarded = name not in by_name and add == "discard"
            if discarded or number not in source.read:
                loaded = number in before.read and one is not None and self.names[one] == was
                if loaded and was != name and rename == "stop" and not reset:
                    return False
                if number not in before.names and name in by_name and name not in owners:
                    self.columns[number] = by_name[name]
                continue
            excluded = not reset and was != name and was in before.excluded and was in source.excluded
            another = name in by_name and (renamed or (one is None and was != name and not reset))
            if another and by_name[name] in self.late and (one is None or rename == "keep"):
                another, renamed, one = False, False, None
            if excluded or another or owners.get(name, number) != number:
                return False  # whatever the contract says
            if renamed and add != "rescue":
                if rename == "stop":
                    return False
                if rename == "evolve":
                    self.names[self.columns[number]] = name
                else:
                    new.append(number)
            elif one is None and name in by_name:
                self.columns[number] = by_name[name]
            elif one is None:
                new.append(number)
        gone = set(self.names.values()) - set(source.read.values())
        if (new and add == "stop") or (gone and drop == "stop"):
            return False
        if by_name and not before.names and new and gone and rename == "stop" and add != "rescue":
            return False  # it may be a rename
        for number in new if add != "rescue" else ():
            name = source.names[number]
            while (name, at) in self.names:
                at += timedelta(microseconds=1)
            self.columns[number] = (name, at)
            self.names[name, at] = name
        return True

    def equals(self, source: Source, stream: Stream) -> bool:
        """Whether the table is the source, as far as it was loaded."""
        return all(
            self.rows.get(key, {}).get(one) == row.get(number)
            for key, row in source.rows.items()
            if stream.looks_at_all or row[AT] <= self.cursor
            for number, one in self.loaded(source).items()
        )

    def matches(self, rows: list[dict[str, Any]], *, named: bool) -> bool:
        """Whether these are the rows; what has no value may be in a table or not, and a key that waits, too."""
        names = {**self.names, RESCUED: RESCUED[0]}
        found = {row["id"]: row for row in rows if row["id"] not in self.waiting}
        return found.keys() == self.rows.keys() - self.waiting and all(
            _same(row, {names[one]: value for one, value in self.rows[key].items()}, named=named)
            for key, row in found.items()
        )


def _same(found: Mapping[str, Any], wanted: Mapping[str, Any], *, named: bool) -> bool:
    known, held = ({name: value for name, value in row.items() if value is not None} for row in (found, wanted))
    return known == held or (not named and sorted(map(str, known.values())) == sorted(map(str, held.values())))


@dataclass(kw_only=True)
class Columns:
    """One table of PostgreSQL, the streams that read it, and what each of their tables may hold."""

    seed: int
    url: str
    folder: Path
    spark: Any
    format: str
    kinds: Sequence[str] = tuple(LOADS)
    source: Source = field(default_factory=Source)
    tables: dict[str, list[Held]] = field(default_factory=dict)
    past: dict[str, dict[int, Held]] = field(default_factory=dict)
    clock: datetime = datetime(2025, 1, 1)
    numbers: int = 100
    loads: int = 0
    told: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def play(self, *, phases: int, streams: int) -> list[str]:
        """What went wrong: the first thing of each stream."""
        self.chance = random.Random(self.seed)
        drawn = [self._stream(number) for number in range(streams)]
        self.streams = {one.name: one for one in drawn}
        self.tables = {name: [Held()] for name in self.streams}
        columns = ", ".join(f"{name} {TYPES.get(number, 'text')}" for number, name in self.source.names.items())
        self._sql(f"create table t ({columns})")
        self.project = self._opened()
        try:
            self._write()
            self._load()
            for _ in range(phases):
                self._phase()
        finally:
            self.project.close()
        return self.failures

    def _stream(self, number: int) -> Stream:
        kind = self.chance.choice(self.kinds)
        contract = {change: self.chance.choice(modes) for change, modes in CONTRACTS.items()}
        return Stream(name=f"{kind}_{number}", options=LOADS[kind], contract=contract)

    def _phase(self) -> None:
        changes = [self._rename, self._rename, self._add, self._drop, self._exchange, self._recreate, self._exclude]
        self._play(changes, self.chance.randint(1, 2))
        if self.chance.random() < 0.8:
            self._write()
        self._play(self._between(), self.chance.randint(0, 2))
        self._load()
        self._play(self._after(), 1)

    def _between(self) -> list[Callable[[], None]]:
        """What may come between changes at the source and the load that follows."""
        return [self._hold, self._repair, self._check, self._interrupt, self._set, self._forget]

    def _after(self) -> list[Callable[[], None]]:
        return [self._roll_back, self._verify, self._rewind, self._accept, self._load]

    def _play(self, steps: list[Callable[[], None]], count: int) -> None:
        for step in self.chance.sample(steps, count):
            self.told.append(step.__name__.strip("_"))
            step()

    # What happens to the source

    def _sql(self, *statements: str, told: str = "") -> None:
        self.told += [told] if told else statements
        with psycopg.connect(self.url) as connection:
            for statement in statements:
                connection.execute(statement)

    def _write(self) -> None:
        names = self.source.names
        for key in self.chance.sample(range(1, 9), self.chance.randint(1, 4)):
            self.clock += timedelta(minutes=1)
            values = {number: f"{number}-{self.clock:%H%M}" for number in names if number not in FIXED}
            row = {ID: key, AT: self.clock, CODE: self.chance.choice(CODES), **values}
            self.source.rows[key] = row
            given = ", ".join(f"'{row[number]}'" for number in names)
            changed = ", ".join(f"{name} = excluded.{name}" for name in names.values())
            into = f"insert into t ({', '.join(names.values())}) values ({given})"
            self._sql(
                f"{into} on conflict (id) do update set {changed}", told=f"write {key} ({row[CODE]}) {self.clock:%H%M}"
            )

    def _some(self, count: int = 1) -> list[Number]:
        return self.chance.sample([number for number in self.source.names if number not in FIXED], count)

    def _unused(self) -> str:
        """A new name, or that of a column that is gone."""
        self.numbers += 1
        used = {name for held in self.tables.values() for one in held for name in one.names.values()}
        return self.chance.choice([*sorted(used - set(self.source.names.values())), *[f"c{self.numbers}"] * 3])

    def _rename(self) -> None:
        self._renamed(*self._some(), self._unused())

    def _renamed(self, number: Number, name: str) -> None:
        """Also of a column that is not read: the project is corrected with it."""
        old = self.source.names[number]
        self._sql(f"alter table t rename column {old} to {name}")
        self.source.names[number] = name
        if old in self.source.excluded:
            self._reopen(excluded=self.source.excluded - {old} | {name})

    def _exchange(self) -> None:
        one, other = self._some(2)
        first, second = self.source.names[one], self.source.names[other]
        for statement in (f"{first} to between", f"{second} to {first}", f"between to {second}"):
            self._sql(f"alter table t rename column {statement}")
        self.source.names[one], self.source.names[other] = second, first

    def _add(self) -> None:
        name = self._unused()
        self._sql(f"alter table t add column {name} text")
        self.source.names[self.numbers] = name

    def _drop(self) -> None:
        if len(self.source.names) > 5:
            (number,) = self._some()
            name = self.source.names.pop(number)
            self._sql(f"alter table t drop column {name}")
            self._reopen(excluded=self.source.excluded - {name})
            for row in self.source.rows.values():
                row.pop(number, None)

    def _recreate(self) -> None:
        """Another table with the same columns and rows takes over the name."""
        if self.chance.random() < 0.5:
            moved = ["alter table t rename to old", "create table t (like old including all)"]
            self._sql(*moved, "insert into t select * from old", "drop table old")
        else:
            made = ["create table new (like t including all)", "insert into new select * from t"]
            self._sql(*made, "drop table t", "alter table new rename to t")
        self.source.relation += 1

    # What happens to the streams

    def _exclude(self) -> None:
        """The project leaves a column out, or reads it again."""
        (number,) = self._some()
        name = self.source.names[number]
        self._reopen(excluded=self.source.excluded ^ {name})

    def _hold(self) -> None:
        self._reopen(refused=self.chance.choice(CODES))

    def _accept(self) -> None:
        """Rows that were set aside are replayed: the table is what it were without the check."""
        self._reopen(refused=None)
        for name in list(self.tables):
            try:
                self.project.quarantine(name).replay()
            except TidegateError as error:
                if error.code != "schema_refused":
                    self._fail(name, f"replay: {error.code}: {error}")
                continue
            for held in self.tables[name]:
                held.waiting.clear()
            self._compare(name, named=False)
        self._load()

    def _check(self) -> None:
        """A load that fails a check publishes nothing."""
        self._reopen(check=self.chance.choice(FAILING))
        for outcome in self._run():
            if outcome.outcome is Result.LOADED:
                self._fail(outcome.stream, "a load was published that failed a check")
        self._reopen()

    def _interrupt(self) -> None:
        boundary = self.chance.choice(BOUNDARIES)
        self.told.append(f"interrupted at {boundary}")
        for name in self.tables:
            with suppress(Crash):
                self.project.run(name, on_event=crash_at(boundary))
            self.tables[name] += self._loads(name, [one for one in self.tables[name] if not self._stops(name, one)])

    def _stops(self, name: str, held: Held) -> bool:
        """Whether the source is another one than the position continues."""
        continues = not held.names or held.continues == self.source.relation
        return not continues and self.streams[name].options["strategy"] == CURSOR

    def _loads(self, name: str, held: list[Held], *, reset: bool = False) -> list[Held]:
        found = (one.load(self.source, self.streams[name], self.clock, reset=reset) for one in held)
        return [one for one in found if one is not None]

    def _run(self) -> tuple[Outcome, ...]:
        return self.project.run(*self.tables, parallel=2).streams if self.tables else ()

    def _load(self) -> None:
        self.told.append("load")
        for outcome in self._run():
            self._loaded(outcome)

    def _loaded(self, outcome: Outcome) -> None:
        name, error = outcome.stream, outcome.error
        code = error.code if error else None
        if error is not None:
            self.told.append(f"{name}: {code}: {error.message}")
        self.loads += 1
        held = [one for one in self.tables[name] if self._stops(name, one) is (code == "history_gone")]
        loads = self._loads(name, held)
        if not held:
            self._fail(name, f"the source is another one, or not: {error or outcome.outcome}")
        elif code == "history_gone":
            self.tables[name] = held
            if self.chance.random() < 0.7:
                self._resolve(name, error.hint if error else "")
        elif code == "schema_refused":
            self.tables[name] = [one for one in held if not self._loads(name, [one])]
            self._compare(name, named=False)
            if name in self.tables and self.chance.random() < 0.5:
                self._resolve(name, error.hint if error else "")
        elif error is not None:
            self._fail(name, f"{error.code}: {error.message}")
        elif outcome.outcome is Result.LOADED:
            self.tables[name] = loads
            self._compare(name, named=True)
        else:  # no value has changed, and names follow with the next one that does
            self.tables[name] = held + [one for one in loads if one not in held]
            self._compare(name, named=False)
        self._remember(name)

    def _remember(self, name: str) -> None:
        if len(self.tables.get(name, ())) == 1:
            current = next((one for one in self.project.versions(name) if one.current), None)
            if current is not None and current.load is not None:
                self.past.setdefault(name, {})[current.load] = self.tables[name][0].copy()

    def _resolve(self, name: str, hint: str) -> None:
        """Every row is loaded again, or the source is vouched for; where a hint says so, loads go on after that."""
        stopped = any(self._stops(name, held) for held in self.tables[name])
        if stopped and not self.streams[name].looks_at_all and self.chance.random() < 0.5:
            self._set_to(name, max(held.cursor for held in self.tables[name]))
            return
        self.told.append(f"refresh {name}")
        outcome = self.project.run(name, full_refresh=True).streams[0]
        if outcome.error is not None:
            self._fail(name, f"full refresh: {outcome.error.code}: {outcome.error.message}")
            return
        self.tables[name] = self._loads(name, self.tables[name], reset=True)
        self._compare(name, named=True)
        strict = self.streams[name].contract["drop_column"] == "stop"  # stops again for another reason
        if name in self.tables and "--full-refresh" in hint and not strict and not self._loads(name, self.tables[name]):
            self._fail(name, f"the next load stops, although this was followed: {hint}")

    def _set(self) -> None:
        for name in list(self.tables):
            if not self.streams[name].looks_at_all and all(held.names for held in self.tables[name]):
                self._set_to(name, self.chance.choice([row[AT] for row in self.source.rows.values()]))

    def _set_to(self, name: str, cursor: datetime) -> None:
        self.told.append(f"state set {name} {cursor}")
        self.project.state.set(name, f"{cursor:%Y-%m-%d %H:%M:%S.%f}")
        self._vouched(name, cursor)

    def _vouched(self, name: str, cursor: datetime) -> None:
        for held in self.tables[name]:
            held.cursor, held.continues = cursor, self.source.relation

    def _roll_back(self) -> None:
        """Each table shows an earlier load, and the next load brings it back to the source."""
        for name in self.tables:
            known = self.past.get(name, {})
            found = {one.load: one for one in self.project.versions(name) if one.load in known and one.readable}
            if len(found) > 1 and len(self.tables[name]) == 1:
                load, version = self.chance.choice(list(found.items())[1:])
                self.told.append(f"roll back {name} to load {load}")
                self.project.rollback(name, version.id)
                before = known[load or 0].copy()
                if self.format == "iceberg":  # whose snapshots do not name columns
                    now = self.tables[name][0].names
                    before.late, before.names = now.keys() - before.names.keys(), {**before.names, **now}
                self.tables[name] = [before]
        self._load()

    def _rewind(self) -> None:
        for name in self.tables:
            known = self.past.get(name, {})
            if known and not self.streams[name].looks_at_all:
                load = self.chance.choice(list(known))
                self.told.append(f"rewind {name} to load {load}")
                self.project.state.rewind(name, load)
                self._vouched(name, known[load].cursor)
        self._load()

    def _verify(self) -> None:
        for found in self.project.verify(*self.tables).streams if self.tables else ():
            held, stream = self.tables[found.stream], self.streams[found.stream]
            if len(held) == 1 and held[0].before and held[0].before.names == self.source.names:
                expected = held[0].equals(self.source, stream)
                if not self._stops(found.stream, held[0]) and found.equal is not expected:
                    self._fail(found.stream, f"verify says equal={found.equal}: {found.error}")

    def _repair(self) -> None:
        """Between a change of columns and the load that follows it; a load may have to come first."""
        for found in self.project.verify(*self.tables, repair=True).streams if self.tables else ():
            if found.error is None:
                self.tables[found.stream] += self._loads(found.stream, self.tables[found.stream])

    def _forget(self) -> None:
        """The registry is lost, or reset to what the tables say."""
        if self.chance.random() < 0.5:
            self.project.close()
            for path in (self.folder / ".tidegate").glob("registry.db*"):
                path.unlink()
            self.project = self._opened()
            self.past.clear()
        elif self.tables:
            self.project.state.repair(*self.tables)

    # What must be true

    def _compare(self, name: str, *, named: bool) -> None:
        rows = self._rows(name)
        if self.streams[name].versions:
            kept = ("valid_from", "valid_to", "is_current")
            rows = [{column: row[column] for column in row if column not in kept} for row in rows if row["is_current"]]
        for row in rows:
            if row.get(RESCUED[0]) is not None:
                row[RESCUED[0]] = json.loads(row[RESCUED[0]])
        may = self.tables[name]
        self.tables[name] = [held for held in may if held.matches(rows, named=named)]
        if not self.tables[name]:
            found = "\n    ".join(map(str, rows))
            wanted = "\n  or\n    ".join(
                "\n    ".join(str({one.names.get(i, i): v for i, v in row.items()}) for row in one.rows.values())
                for one in may
            )
            self._fail(name, f"found\n    {found}\n  and expected\n    {wanted}")

    def _rows(self, name: str) -> list[dict[str, Any]]:
        return READERS[self.format](self.folder, name)[0]

    def _fail(self, name: str, what: str) -> None:
        contract = dict(self.streams[name].contract)
        self.failures.append(f"{name}, seed {self.seed}, {contract}: {what}\n  " + "\n  ".join(self.told))
        self.tables.pop(name, None)

    def _opened(self, check: Mapping[str, Any] | None = None) -> Project:
        held = {"expression": f"code <> '{self.source.refused}'", "on_fail": "quarantine"}
        checks = [*([held] if self.source.refused else []), *([check] if check else [])]
        common = {
            "source": {
                "connection": "shop",
                "table": "public.t",
                **({"exclude": sorted(self.source.excluded)} if self.source.excluded else {}),
            },
            "key": ["id"],
            **({"checks": checks} if checks else {}),
        }
        settings = {
            "connections": {"shop": {"url": self.url}},
            "lakes": {"lake": {"format": self.format}},
            "spark": {"conf": QUICK},
            "streams": {
                name: {"target": f"lake.s.{name}", **common, **stream.options, "contract": dict(stream.contract)}
                for name, stream in self.streams.items()
            },
        }
        return Project.from_dict(settings, folder=self.folder, spark=self.spark)

    def _reopen(self, check: Mapping[str, Any] | None = None, **changed: Any) -> None:
        self.told.append(f"project with {changed or check}")
        for name, value in changed.items():
            setattr(self.source, name, value)
        self.project.close()
        self.project = self._opened(check)
