"""The streams of the matrix: what `check` accepts, and what the table of each must hold."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from typing import Any

from matrix import views
from matrix.histories import Kinds
from matrix.model import (
    CREATED,
    CURSOR,
    KEY,
    UID,
    Appended,
    Memory,
    Merged,
    Model,
    Replaced,
    Row,
    Table,
    Versioned,
    View,
)
from tidegate.engine.assemble.combinations import Combination, combinations

LOOKBACK, LAG = timedelta(hours=2), timedelta(minutes=15)
RECENT = date(2026, 1, 1)
OWN_LOGS = ("slot", "sqlserver capture instance", "sqlserver change tracking")
TUNED: Mapping[str, Any] = {"modulus": 7, "length": 1}
"""Options of a strategy that are made small, as the histories are."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One stream: how it finds what changed, how it writes, what it does about deletes.

    Args:
        writing: options of the writer.
        due: a strategy that looks at the whole table now and then does so in every load.
        added_to: the source has no clock and may get rows with the cursor that was the greatest.
    """

    strategy: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    writer: str
    writing: Mapping[str, Any] = field(default_factory=dict)
    detect: str = "none"
    apply: str = "hard"
    scope: str = "table"
    key: str | None = KEY
    due: bool = True
    added_to: bool = False

    @property
    def name(self) -> str:
        """Tells the shapes of a project apart; also the name of the table."""
        words = [self.strategy, self.method, "" if self.due else "now_and_then", self.writer, *self.writing]
        words += [
            {KEY: "", UID: "by_uid", None: "keyless"}[self.key],
            self.detect if self.key_diff else "",
            self.apply if self.soft else "",
        ]
        words += ["window" if self.windowed else ""]
        return "_".join(word.replace(" ", "_") for word in words if word).lower()

    def stream(self, source: Mapping[str, Any]) -> dict[str, Any]:
        """The stream as a project file has it."""
        options = {name: TUNED.get(name, value) for name, value in self.options.items()}
        if self.strategy == "smart" and self.due:
            options["full_every"] = "1ms"
        found: dict[str, Any] = {
            "source": dict(source),
            "target": f"lake.s.{self.name}",
            "strategy": {"kind": self.strategy, **options},
            "write": {"kind": self.writer, **self.writing},
        }
        if self.key:
            found["key"] = [self.key]
        if self.key_diff or self.soft:
            found["deletes"] = {"detect": self.detect, "apply": self.apply, "scope": self.scope, "max_fraction": 1}
        return found

    @property
    def soft(self) -> bool:
        return self.apply == "soft"

    @property
    def key_diff(self) -> bool:
        return self.detect == "key_diff"

    @property
    def windowed(self) -> bool:
        return self.scope == "window"

    @property
    def lagging(self) -> bool:
        """Whether the newest rows wait as long as the strategy's safety lag says, for want of a clock."""
        return self.added_to and self.method == "application"

    @property
    def moment(self) -> tuple[str, ...]:
        """The columns that date a version; empty where loads do."""
        if "sequence_by" in self.writing:
            return (CURSOR,)
        if self.strategy == "sequence":
            return (KEY,)
        if self.method == "fallback":
            return (CURSOR, CREATED)
        return (CURSOR,) if self.options.get("column") == CURSOR else ()

    @property
    def table(self) -> Table:
        match self.writer:
            case "append":
                return Appended()
            case "merge":
                return Merged(soft=self.soft)
            case "replace":
                return Replaced()
            case _:
                return Versioned(moment=self.moment)

    @property
    def view(self) -> View:
        match self.strategy:
            case "watermark":
                return views.watermark(
                    lag=LAG if self.lagging else timedelta(0),
                    lookback=LOOKBACK if self.method in ("lookback", "application") else None,
                    nulls=self.method == "nulls",
                    fallback=self.method == "fallback",
                    key_diff=self.detect == "key_diff",
                    windowed=self.windowed,
                    added_to=self.added_to,
                )
            case "sequence":
                return views.sequence(key_diff=self.key_diff)
            case "cdc":
                return views.log
            case "files":
                return views.files(removes=self.options.get("on_delete") == "remove")
            case "table_changes":
                return views.appended if self.writer == "append" else views.changed
            case "snapshot_diff" | "smart" if "significant" in self.method:
                return views.significant(least=2)
            case _:
                return views.whole(self.within)

    def within(self, row: Row) -> bool:
        """Whether the strategy looks at such a row at all."""
        recent = self.strategy == "checksum" and "lookback" in self.method
        return not recent or row["day"] is None or row["day"] >= RECENT

    def model(self, view: View | None = None) -> Model:
        return Model(view=view or self.view, table=self.table, memory=Memory())

    def bears(self, kinds: Kinds) -> bool:
        """Whether such histories have an end that the documents promise, other than that every load stops."""
        if self.strategy == "table_changes" and self.writer == "append":
            return not kinds.updates and not kinds.deletes
        if self.strategy == "sequence" and self.writer in ("append", "scd2"):
            # Every row of the source is held against the table after a load that was seen and not verified.
            return not kinds.updates and not kinds.deletes
        if self.strategy == "smart" and self.options.get("column") and not self.due:
            return not (kinds.late or kinds.nulls or kinds.deletes)
        if kinds.nulls and self.moment:
            return self.method == "fallback" and self.writer != "scd2"
        return not (kinds.late and self.moment and self.writer == "scd2" and self.strategy not in ("watermark", "cdc"))


def shapes_of(found: Combination, seed: int) -> Iterator[Shape]:
    """A combination as a stream; options that it leaves open take turns with the seed."""
    turn = (zlib.crc32(str(found).encode()) + seed) % 2 == 0
    writing: dict[str, Any] = {}
    dated = found.strategy != "sequence" and not found.flavour.endswith(
        (*OWN_LOGS, "debezium", "debezium_avro", "flat")
    )
    if found.writer == "scd2" and turn and dated:  # what these tell of a delete says no time of it
        writing = {"sequence_by": [CURSOR]}
    if found.writer == "merge" and found.strategy == "files":
        writing = {"order_by": [CURSOR]}
    yield Shape(
        strategy=found.strategy,
        method=found.method,
        options=found.options,
        writer=found.writer,
        writing=writing,
        detect=str(found.deletes.detect),
        apply=str(found.deletes.apply),
        scope=str(found.deletes.scope),
        key=_key(found, seed),
        added_to=found.source in ("files", "lake_table"),
        due=turn or found.strategy != "smart",
    )


def _key(found: Combination, seed: int) -> str | None:
    """A number or a uuid, by turns; a log of the database's own is followed by the primary key."""
    if not found.keyed:
        return None
    told = f"{found.strategy} {found.method} {found.writer} {found.deletes} {seed}"
    return KEY if found.flavour in OWN_LOGS else (KEY, UID)[zlib.crc32(told.encode()) % 2]


@cache
def shapes(source: str, flavour: str, table_format: str, seed: int) -> tuple[Shape, ...]:
    """Those that `check` accepts for one flavour of a source and one table format."""
    wanted = (source, flavour, table_format)
    found = (one for one in every() if (one.source, one.flavour, one.table_format) == wanted)
    return tuple(shape for one in found for shape in shapes_of(one, seed))


@cache
def every() -> tuple[Combination, ...]:
    return tuple(combinations())
