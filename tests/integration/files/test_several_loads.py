"""Files of several loads hold versions of a key: whatever compares a table knows which one it is meant to have."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from integration.files.landing import good, idle, run, stream, write_csv
from support.lake import delta_rows
from support.workspace import Workspace
from tidegate.engine.events import Moment, Stage
from tidegate.testing import Crash, crash_at

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.slow]

NAMES = ("id", "name", "at")
COLUMNS = {"id": "bigint", "name": "text", "at": "bigint"}
Row = tuple[int, str, int]


def bare_csv(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def documents(path: Path, rows: Sequence[Row]) -> None:
    path.write_text("".join(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in rows), encoding="utf-8")


def columnar(path: Path, rows: Sequence[Row]) -> None:
    parquet.write_table(pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in rows]), path)


FORMS: Mapping[str, tuple[str, Mapping[str, Any], Callable[[Path, Sequence[Row]], None]]] = {
    "csv": ("csv", {}, lambda path, rows: write_csv(path, *rows, header=NAMES)),
    "bare": ("csv", {"options": {"header": False}, "columns": COLUMNS}, bare_csv),
    "json": ("json", {}, documents),
    "parquet": ("parquet", {}, columnar),
}


@dataclass(kw_only=True)
class Shop:
    """A folder of files, a stream that merges them, and in a dictionary what its table must hold."""

    workspace: Workspace
    folder: Path
    spark: Any
    form: str = "csv"
    lake: str = "iceberg"
    files: dict[str, tuple[int, Sequence[Row]]] = field(default_factory=dict)
    load: int = 1

    def make(self, **changes: Any) -> None:
        suffix, more, _ = FORMS[self.form]
        settings = {"key": ["id"], "write": {"kind": "merge", "order_by": ["at"]}, **changes}
        source = {"columns": COLUMNS, **more, **settings.pop("source", {})}
        streams = {"t": stream(f"{self.folder.name}/*.{suffix}", source=source, **settings)}
        self.workspace.write(streams, connections={}, lakes={"lake": {"format": self.lake}})

    def put(self, name: str, *rows: Row) -> None:
        suffix, _, write = FORMS[self.form]
        write(self.folder / f"{name}.{suffix}", rows)
        self.files[name] = (self.load, rows)

    def remove(self, name: str) -> None:
        (self.folder / f"{name}.{FORMS[self.form][0]}").unlink()
        del self.files[name]

    def loaded(self) -> None:
        good(self.workspace, "t", self.spark)
        self.load += 1

    def meant(self) -> list[Row]:
        last: dict[int, tuple[int, int, Row]] = {}
        for load, rows in self.files.values():
            for row in rows:
                last[row[0]] = max(last.get(row[0], (0, 0, row)), (load, row[2], row))
        return sorted(row for _, _, row in last.values())

    def held(self) -> list[Row]:
        """What PyIceberg or delta-rs reads, without rows that are marked as deleted."""
        found = self.workspace.rows("s.t") if self.lake == "iceberg" else delta_rows(self._location())
        return sorted(tuple(row[name] for name in NAMES) for row in found if row.get("deleted_at") is None)

    def verified(self, **options: Any) -> Any:
        with self.workspace.project(self.spark) as project:
            (found,) = project.verify("t", **options).streams
        return found

    def same(self) -> None:
        """The table is what the model says, and every level of `verify` says so."""
        assert self.held() == self.meant()
        rows = len(self.meant())
        for level in ("counts", "checksum", "rows"):
            found = self.verified(level=level)
            assert (found.error, found.equal, found.source_rows, found.target_rows) == (None, True, rows, rows), level

    def sql(self, *statements: str) -> None:
        """Commits of somebody else."""
        table = "lake.s.t" if self.lake == "iceberg" else f"delta.`{self._location()}`"
        with self.workspace.project(self.spark) as project:
            session = project.sessions.load_session()
            for statement in statements:
                session.sql(statement.format(table=table))
            project.sessions.release(session)

    def _location(self) -> str:
        with self.workspace.project(self.spark) as project:
            (stream,) = project.streams()
        return stream.format._location(stream.target)


@pytest.fixture
def shop(workspace, landing, spark):
    return Shop(workspace=workspace, folder=landing, spark=spark)


def fill(shop: Shop) -> None:
    """Three loads: within one the greatest time counts, between two the later one, whatever its times are."""
    shop.put("a", (1, "a", 90), (2, "older", 50), (2, "a", 70), (6, "a", 1))
    shop.put("b", (3, "b", 10), (6, "b", 2))
    shop.loaded()
    shop.put("c", (1, "c", 10), (4, "c", 10), (3, "c", 5))
    shop.loaded()
    # Rewritten: it was loaded last now, and wins over c with smaller times.
    shop.put("b", (3, "b again", 1), (6, "b", 2), (7, "b", 1))
    shop.loaded()


@pytest.mark.parametrize(
    ("form", "lake", "changes"),
    [
        ("csv", "iceberg", {}),
        ("bare", "delta", {"source": {"file_name": "source_file"}}),
        ("json", "delta", {}),
        ("parquet", "iceberg", {"source": {"file_name": "source_file"}}),
    ],
)
def test_what_differs_is_found_and_repaired_by_the_row_that_was_loaded_last(shop, form, lake, changes):
    shop.form, shop.lake = form, lake
    shop.make(**changes)
    fill(shop)
    shop.same()
    shop.sql(
        "DELETE FROM {table} WHERE id = 1",
        "UPDATE {table} SET name = 'wrong' WHERE id IN (2, 3)",
        "INSERT INTO {table} SELECT * FROM {table} WHERE id = 4",
        "UPDATE {table} SET id = 99 WHERE id = 7",
    )
    assert shop.verified(level="rows").rows_different == 6  # 1 and 7 lost, 2 and 3 changed, 4 twice, 99 too many
    found = shop.verified(repair=True)
    assert (found.error, found.equal, found.repaired_rows) == (None, True, 6)
    shop.same()
    idle(shop.workspace, "t")


def test_a_table_without_order_by_is_compared_by_the_loads_alone(shop):
    shop.make(write="merge")
    shop.put("a", (1, "a", 9), (2, "a", 9))
    shop.loaded()
    shop.put("b", (1, "b", 1))
    shop.loaded()
    shop.same()
    shop.sql("UPDATE {table} SET name = 'wrong'")
    assert shop.verified(repair=True).equal
    shop.same()


@pytest.mark.parametrize("apply", ["hard", "soft"])
def test_rows_of_files_that_are_gone_make_place_for_those_loaded_before(shop, apply):
    shop.make(
        source={"file_name": "source_file"},
        strategy={"kind": "files", "on_delete": "remove"},
        deletes={"apply": apply},
    )
    fill(shop)
    shop.remove("b")
    assert "missing" in shop.verified().error.message
    shop.loaded()
    shop.same()
    shop.sql("UPDATE {table} SET name = 'wrong'")
    assert shop.verified(repair=True).equal
    shop.same()


def test_a_load_that_was_never_verified_is_compared_by_the_row_that_was_loaded_last(shop):
    """On Delta a load is seen before it is verified, so the next one compares the table first."""
    shop.lake = "delta"
    shop.make()
    shop.put("a", (1, "a", 90), (2, "a", 1))
    shop.loaded()
    shop.put("b", (1, "b", 10))
    with pytest.raises(Crash):
        shop.workspace.run("t", spark=shop.spark, on_event=crash_at((Stage.VERIFY, Moment.START)))
    shop.load += 1
    shop.put("c", (2, "c", 0))
    shop.loaded()
    shop.same()


def test_bad_rows_are_those_that_were_loaded_last_also_when_others_are_repaired(shop):
    shop.make(checks=[{"not_null": "name", "on_fail": "quarantine"}])
    shop.put("a", (1, "a", 90), (2, "a", 1), (3, "a", 1))
    shop.loaded()
    shop.put("b", (1, None, 10), (2, "b", 0))
    shop.loaded()
    found = shop.verified(level="rows")
    assert (found.error, found.equal, found.rows_quarantined) == (None, True, 1)
    shop.put("c", (1, "c", 5))
    shop.loaded()
    shop.sql("UPDATE {table} SET name = 'wrong'")
    assert shop.verified(repair=True).equal
    shop.files["b"] = (2, [(2, "b", 0)])
    assert shop.held() == shop.meant()
    assert shop.verified(level="rows").equal


def test_where_nobody_remembers_the_loads_only_files_without_common_keys_are_compared(shop):
    shop.make()
    shop.put("a", (1, "a", 1), (1, "a", 2))
    shop.put("b", (2, "b", 1))
    shop.loaded()
    shop.put("c", (3, "c", 1))
    shop.loaded()
    shop.workspace.forget_registry()
    idle(shop.workspace, "t")
    shop.same()
    shop.put("d", (1, "d", 0))
    shop.loaded()  # its own number is known, and greater than that of any other
    shop.same()
    shop.workspace.forget_registry()
    for options in ({}, {"level": "counts"}, {"repair": True}):
        error = shop.verified(**options).error
        assert error.code == "plan", error
        assert "which of them was loaded last" in error.message
        assert "--full-refresh" in error.hint
    assert run(shop.workspace, "t", shop.spark, full_refresh=True).error is None
    shop.load = 1
    shop.files = {name: (1, rows) for name, (_, rows) in shop.files.items()}
    shop.same()
