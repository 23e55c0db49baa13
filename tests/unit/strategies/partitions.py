"""A table in memory that answers questions about partitions, and a lake that follows what a strategy decides."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from support.probes import PartialProbe
from tidegate.core.changes import Action, ChangeSet
from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.grouping import CHARACTERS, Grouping, Period, Periods, Prefixes, Steps
from tidegate.core.ledger import Ledger
from tidegate.core.position import Position
from tidegate.core.schema import BIGINT, DATE, DOUBLE, TEXT, TIMESTAMPTZ, Column, Schema
from tidegate.core.slices import Partition, Slice
from tidegate.strategies.checksum import Checksum, Method

SCHEMA = Schema(
    columns=(
        Column(name="id", type=BIGINT, nullable=False),
        Column(name="day", type=DATE),
        Column(name="at", type=TIMESTAMPTZ),
        Column(name="code", type=TEXT),
        Column(name="weight", type=DOUBLE, native="float8"),
    )
)
NOW = datetime(2025, 3, 12, 15, 30, tzinfo=UTC)  # a Wednesday
Row = dict[str, str | None]


@dataclass(kw_only=True)
class Table(PartialProbe):
    """Rows by id, as canonical texts."""

    rows: dict[str, Row] = field(default_factory=dict)
    columns: Schema = SCHEMA
    today: datetime = NOW
    hashes: bool = False
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def put(self, number: int, **values: str | None) -> None:
        """Inserts or updates a row."""
        self.rows[str(number)] = {"id": str(number)} | values

    def schema(self) -> Schema:
        return self.columns

    def identity(self) -> str:
        return "memory"

    def now(self) -> datetime:
        return self.today

    def partitions(
        self, grouping: Grouping, *, since: Partition | None = None, only: Sequence[Slice] = ()
    ) -> Mapping[Slice, Fingerprint]:
        self.asked.append(("partitions", *sorted(part.label for part in only)))
        found = self._grouped(grouping, since)
        return {part: _fingerprint(rows) for part, rows in found.items() if not only or part in only}

    def quick_hashes(self, grouping: Grouping, *, since: Partition | None = None) -> Mapping[Slice, str] | None:
        self.asked.append(("quick_hashes",))
        if not self.hashes:
            return None
        found = self._grouped(grouping, since)
        return {part: hashlib.sha1(repr(rows).encode()).hexdigest() for part, rows in found.items()}

    def _grouped(self, grouping: Grouping, since: Partition | None) -> Mapping[Slice, list[Row]]:
        found: defaultdict[Slice, list[Row]] = defaultdict(list)
        column = self.columns.find(grouping.column) if grouping.column else None
        for row in self.rows.values():
            value = row.get(grouping.column) if grouping.column else ""
            if since is not None and since.low is not None and value is not None and value < since.low:
                continue
            found[grouping.part(grouping.coarse(_bucket(grouping, value)), column)].append(row)
        return found


def _bucket(grouping: Grouping, value: str | None) -> str | None:
    if value is None:
        return None
    match grouping:
        case Steps(width=width):
            return str(int(value) // width * width)
        case Periods(period=period):
            return value[: CHARACTERS[period]]
        case Prefixes(length=length):
            return value[:length]
        case _:
            return value


def _fingerprint(rows: list[Row]) -> Fingerprint:
    return Fingerprint.of_texts(row_text([row.get(name) for name in SCHEMA.names]) for row in rows)


@dataclass(kw_only=True)
class Lake:
    """A strategy, the table's position, and the registry's ledger."""

    table: Table
    strategy: Checksum
    position: Position | None = None
    ledger: Ledger | None = None

    def detect(self) -> ChangeSet | None:
        """What is decided now."""
        self.table.asked.clear()
        return self.strategy.detect(self.table, self.position, self.ledger)  # type: ignore[arg-type]

    def run(self) -> dict[str, str]:
        """One load: each part that is moved, or whose quick hash is learned, with what is done about it."""
        changes = self.detect()
        if changes is None:
            return {}
        assert changes.slices == tuple(part.slice for part in changes.parts if part.action is not Action.SKIP)
        assert changes.rows == sum(part.rows or 0 for part in changes.parts if part.action is not Action.SKIP)
        told = [part for part in changes.parts if part.action is not Action.SKIP or part.quick is not None]
        ledger = (self.ledger or Ledger()).loaded(told)
        self.ledger = ledger
        self.position = Position(
            sequence=self.position.sequence + 1 if self.position else 1,
            load_id="load",
            kind="checksum",
            state={**changes.state, **ledger.voucher()},
            schema=self.table.columns.digest,
        )
        return {part.slice.label: str(part.action) for part in told}

    def replace(self, **options: object) -> None:
        """The strategy with other options."""
        self.strategy = replace(self.strategy, **options)  # type: ignore[arg-type]


BY_DAY = Checksum(method=Method.BY_DATE, column="day", period=Period.DAY)


def lake(strategy: Checksum = BY_DAY, *, days: int = 4, hashes: bool = False) -> Lake:
    """Two rows a day from the 9th of March on, one without a day."""
    table = Table(hashes=hashes)
    for number in range(2 * days):
        table.put(number, day=f"2025-03-{9 + number // 2:02}", code=f"c{number}")
    table.put(99, day=None, code="null")
    return Lake(table=table, strategy=strategy)
