"""A source with several rows of a key: every command holds the table to the last one, in the stream's own order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from integration.deletes.conftest import Bench, bench_of, format_
from tidegate.core.backfill import Progress
from tidegate.engine.backfill.backfill import Request

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["bench_of", "format_"]

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.slow]

COLUMNS = "id integer, name text, at timestamp"
WATERMARK = {"kind": "watermark", "column": "at", "on_null": "include"}
DAY = "2025-01-0{} 00:00:00"


def put(bench: Bench, *rows: tuple[int | None, str, str | None]) -> None:
    for key, name, at in rows:
        values = ["NULL" if value is None else f"'{value}'" for value in (key, name, at)]
        bench.shop.sql(f"insert into t values ({', '.join(values)})")


def wanted(bench: Bench) -> dict[int, str]:
    """By key the name of the row with the greatest time; none comes before all others."""
    found: dict[int, tuple[str, str]] = {}
    for key, name, at in bench.shop.rows("select id, name, at from t"):
        found[key] = max(found.get(key, ("", "")), (at or "", name))
    return {key: name for key, (_, name) in found.items()}


def held(bench: Bench) -> dict[int, str]:
    rows = [row for row in bench.rows() if row.get("deleted_at") is None]
    names = {row["id"]: row["name"] for row in rows}
    assert len(names) == len(rows), rows
    return names


def sql(bench: Bench, *statements: str) -> None:
    """Foreign commits on the table."""
    with bench.workspace.project(bench.spark) as project:
        (stream,) = project.streams()
        session = project.sessions.load_session()
        table = str(stream.target)
        if stream.format.kind == "delta":
            table = f"delta.`{stream.format._location(stream.target)}`"
        for statement in statements:
            session.sql(statement.format(table=table))
        project.sessions.release(session)


def verified(bench: Bench, **options: Any) -> Any:
    with bench.workspace.project(bench.spark) as project:
        (found,) = project.verify(**options).streams
    return found


def test_the_last_row_of_each_key_is_what_all_commands_expect(
    bench_of: Callable[..., Bench], format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = "soft" if format_ == "delta" else "hard"
    deletes = {"apply": apply, "detect": "key_diff"} if apply == "soft" else {}
    bench = bench_of(format_=format_, columns=COLUMNS, strategy=WATERMARK, deletes=deletes)
    put(bench, *((key, f"old {key}", DAY.format(1 + key // 4)) for key in range(8)))
    bench.loaded()
    put(bench, *((key, f"new {key}", DAY.format(4)) for key in range(0, 8, 2)), (1, "twice", DAY.format(4)))
    put(bench, (1, "twice", DAY.format(4)))
    bench.loaded()
    assert held(bench) == wanted(bench)
    for level in ("counts", "checksum", "rows"):
        found = verified(bench, level=level)
        assert (found.error, found.equal, found.source_rows, found.target_rows) == (None, True, 8, 8)

    # A row without a time comes before those that have one, also those of earlier loads.
    put(bench, (2, "no time", None), (30, "no time", None))
    bench.loaded()
    assert held(bench) == wanted(bench)
    assert verified(bench, level="rows").equal

    # What people do to a table: lost, changed, too many, several times, without a key.
    mark = ", NULL" if apply == "soft" else ""
    extra = f"(77, 'extra', TIMESTAMP_NTZ '2025-01-01 00:00:00'{mark})"
    bare = f"(NULL, 'bare', TIMESTAMP_NTZ '2025-01-01 00:00:00'{mark})"
    sql(
        bench,
        "DELETE FROM {table} WHERE id = 3",
        "UPDATE {table} SET name = 'wrong' WHERE id IN (4, 5)",
        f"INSERT INTO {{table}} VALUES {extra}, {bare}, {bare}",
        "INSERT INTO {table} SELECT * FROM {table} WHERE id = 6",
        "INSERT INTO {table} SELECT * FROM {table} WHERE id = 6",
    )
    # 3 lost, 4 and 5 changed, 77 and two without a key too many, 6 there three times too often.
    assert verified(bench, level="rows").rows_different == 9
    mended = verified(bench, repair=True)
    assert (mended.error, mended.equal, mended.repaired_rows) == (None, True, 9)
    assert held(bench) == wanted(bench)
    assert verified(bench, level="rows").equal
    assert bench.run().outcome == "unchanged"

    # An older row that changes is no change of the table; one that stands for its key is.
    bench.shop.sql("update t set name = 'rewritten' where at < '2025-01-03'")
    with bench.workspace.project(bench.spark) as project:
        request = Request(begin="2025-01-01", end="2025-01-03", chunk=4, parallel=2)
        done = project.backfills.start("t", request)
    assert [chunk.error for chunk in done.chunks] == [None] * len(done.chunks)
    assert done.status is Progress.DONE
    assert held(bench) == wanted(bench)
    assert set(held(bench).values()) == {"rewritten", "new 0", "new 2", "new 4", "new 6", "twice", "no time"}
    assert verified(bench, level="rows").equal


def test_an_old_day_that_is_read_again_brings_no_older_row(bench_of: Callable[..., Bench]) -> None:
    """Of a lookback of several days only the day that changed is read; its keys may have later rows elsewhere."""
    strategy = {**WATERMARK, "lookback": ["1d", "3d"]}
    bench = bench_of(columns=COLUMNS, strategy=strategy)
    put(bench, *((key, f"old {key}", DAY.format(6)) for key in range(4)), (0, "new 0", DAY.format(7)))
    put(bench, (9, "last", DAY.format(9)))
    bench.loaded()
    put(bench, (1, "late", "2025-01-06 00:00:01"), (0, "older", "2025-01-06 00:00:02"))
    outcome = bench.run()
    assert outcome.error is None, outcome.error
    assert held(bench) == wanted(bench)
    assert held(bench)[0] == "new 0"
    assert held(bench)[1] == "late"
    assert verified(bench, level="rows").equal


def test_two_cursors_are_one_order(bench_of: Callable[..., Bench]) -> None:
    """The first time that a row has says which is later, within a load as between loads."""
    strategy = {"kind": "watermark", "column": "changed", "on_null": "fallback", "fallback": "at"}
    bench = bench_of(columns=f"{COLUMNS}, changed timestamp", strategy=strategy)
    bench.shop.sql(
        "insert into t values (1, 'older', '2025-01-01 00:00:00', '2025-01-02 00:00:00'), "
        "(1, 'newer', '2025-01-03 00:00:00', NULL)"
    )
    bench.loaded()
    assert held(bench) == {1: "newer"}
    assert verified(bench, level="rows").equal
