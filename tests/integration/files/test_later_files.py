"""Files of several loads hold versions of a key: the table, what verifies it and what repairs it know which one counts.

How files come, go and hold older rows is in the matrix; here, files are also rewritten, and nobody remembers the loads.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from integration.files.landing import good, idle, run, stream, write_csv
from support.lake import delta_rows
from support.workspace import Workspace

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

NAMES = ("id", "name", "at")
COLUMNS = {"id": "bigint", "name": "text", "at": "bigint"}
REMOVED = {"source": {"file_name": "source_file"}, "strategy": {"kind": "files", "on_delete": "remove"}}
Row = tuple[int, str, int]


@dataclass(kw_only=True)
class Shop:
    """A folder of files, a stream that merges them, and in a dictionary what its table must hold."""

    workspace: Workspace
    folder: Path
    spark: Any
    lake: str = "iceberg"
    files: dict[str, tuple[int, Sequence[Row]]] = field(default_factory=dict)
    load: int = 1

    def make(self, **changes: Any) -> None:
        settings = {"key": ["id"], "write": {"kind": "merge", "order_by": ["at"]}, **changes}
        source = {"columns": COLUMNS, **settings.pop("source", {})}
        streams = {"t": stream(f"{self.folder.name}/*.csv", source=source, **settings)}
        self.workspace.write(streams, lakes={"lake": {"format": self.lake}})

    def put(self, name: str, *rows: Row) -> None:
        write_csv(self.folder / f"{name}.csv", *rows, header=NAMES)
        self.files[name] = (self.load, rows)

    def remove(self, name: str) -> None:
        (self.folder / f"{name}.csv").unlink()
        del self.files[name]

    def loaded(self) -> None:
        good(self.workspace, "t", self.spark)
        self.load += 1
        assert self.held() == self.meant()

    def meant(self) -> list[Row]:
        """Of each key the row of the last load, and of one load that with the greatest time."""
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

    def same(self, *levels: str) -> None:
        """The table is what the model says, and so does `verify`."""
        rows = len(self.meant())
        assert self.held() == self.meant()
        for level in levels or ("rows",):
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

    def repaired(self, rows: int) -> None:
        found = self.verified(repair=True)
        assert (found.error, found.equal, found.repaired_rows) == (None, True, rows)
        self.same()

    def _location(self) -> str:
        with self.workspace.project(self.spark) as project:
            (stream,) = project.streams()
        return stream.format._location(stream.target)


@pytest.fixture
def shop(workspace, landing, spark):
    return Shop(workspace=workspace, folder=landing, spark=spark)


@pytest.mark.parametrize(
    ("lake", "changes"),
    [("iceberg", REMOVED), ("delta", {**REMOVED, "deletes": {"apply": "soft"}}), ("iceberg", {"write": "merge"})],
    ids=["hard", "soft", "by the loads alone"],
)
def test_what_differs_is_repaired_by_the_row_that_was_loaded_last(shop, lake, changes):
    """Within one load the greatest time counts, between two the later one, whatever its times are."""
    shop.lake = lake
    shop.make(**changes)
    shop.put("a", (1, "a", 90), (2, "a", 70), (6, "a", 1))
    # Without an order, no two files of one load may hold one key.
    tied = () if "write" in changes else ((6, "b", 2), (2, "older", 5))
    shop.put("b", (3, "b", 10), *tied)
    shop.loaded()
    shop.put("c", (1, "c", 10), (4, "c", 10), (3, "c", 5))
    shop.loaded()
    # Rewritten: it was loaded last now, and wins over c with smaller times.
    shop.put("b", (3, "b again", 1), (6, "b", 2), (7, "b", 1))
    shop.loaded()
    shop.same("counts", "checksum", "rows")
    shop.sql(
        "DELETE FROM {table} WHERE id = 1",
        "UPDATE {table} SET name = 'wrong' WHERE id IN (2, 3)",
        "INSERT INTO {table} SELECT * FROM {table} WHERE id = 4",
        "UPDATE {table} SET id = 99 WHERE id = 7",
    )
    assert shop.verified(level="rows").rows_different == 6  # 1 and 7 lost, 2 and 3 changed, 4 twice, 99 too many
    shop.repaired(6)
    idle(shop.workspace, "t")
    if "strategy" in changes:
        shop.remove("b")
        assert "missing" in shop.verified().error.message
        shop.loaded()
        shop.same()


def test_after_a_rollback_what_came_later_is_read_again_and_counts_as_later(shop):
    shop.make(write="merge")
    shop.put("a", (1, "a", 1), (2, "a", 1))
    shop.loaded()
    shop.put("b", (1, "b", 0), (3, "b", 0))
    shop.loaded()
    with shop.workspace.project(shop.spark) as project:
        *_, first = project.versions("t")
        project.rollback("t", first.id)
    assert len(shop.held()) == 2
    shop.loaded()
    shop.same()
    idle(shop.workspace, "t")


def test_histories_of_files_are_what_a_dictionary_makes_of_them(shop):
    shop.make(**REMOVED)
    chance = random.Random(1)
    for step in range(5):
        for number in range(chance.randint(1, 3)):
            names = sorted(shop.files)
            if len(names) > 2 and chance.random() < 0.5:
                shop.remove(chance.choice(names))
                continue
            keys = chance.sample(range(12), k=chance.randint(1, 6))
            name = chance.choice([*names, f"{step}{number}"])
            shop.put(name, *((key, f"{name} {step}.{number}", 10 * number + key) for key in keys))
        shop.loaded()
    shop.same()


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
