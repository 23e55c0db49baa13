"""`tidegate verify`: two sides proven equal, differences found down to their rows, and mended."""

import pytest

from support.shops import change, texts

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WRONG = {
    "changed": "UPDATE lake.shop.{table} SET {column} = 'wrong' WHERE id = 7",
    "lost": "DELETE FROM lake.shop.{table} WHERE id IN (11, 12)",
    "extra": "INSERT INTO lake.shop.{table} SELECT id + 100000, {column}{more} FROM lake.shop.{table} WHERE id = 3",
    "twice": "INSERT INTO lake.shop.{table} SELECT * FROM lake.shop.{table} WHERE id = 5",
}


def vandalize(workspace, spark, statement: str) -> None:
    """A foreign commit on the table, which carries no position."""
    with workspace.project(spark) as project:
        session = project.sessions.load_session()
        session.sql(statement)
        project.sessions.release(session)


def rows(workspace) -> list[tuple]:
    return texts(tuple(row.values()) for row in workspace.rows("shop.orders"))


def source(shop) -> list[tuple]:
    return texts(shop.rows("select * from orders"))


def verify(workspace, spark, *names, **options):
    with workspace.project(spark) as project:
        return project.verify(*(names or ("orders",)), **options)


@pytest.mark.parametrize("level", ["counts", "checksum", "rows"])
def test_equal_sides_are_equal(workspace, shop, engine, spark, level):
    workspace.run(spark=spark)
    report = verify(workspace, spark, "orders", "events", "regions", level=level)
    assert [stream.error for stream in report.streams] == [None] * 3
    assert [stream.equal for stream in report.streams] == [True] * 3
    assert report.exit_code == 0
    assert all(stream.source_rows == stream.target_rows > 0 for stream in report.streams)
    assert all(stream.rows_fetched == 0 for stream in report.streams)


@pytest.mark.parametrize("damage", WRONG)
def test_a_difference_is_found_and_mended(workspace, shop, engine, spark, damage):
    workspace.run("orders", spark=spark)
    vandalize(workspace, spark, WRONG[damage].format(table="orders", column="amount", more=", updated_at"))
    found = verify(workspace, spark)
    assert (found.exit_code, found.streams[0].equal, found.streams[0].rows_different) == (3, False, None)
    assert found.streams[0].slices_different >= 1
    exact = verify(workspace, spark, level="rows").streams[0]
    assert exact.rows_different == (2 if damage == "lost" else 1)
    mended = verify(workspace, spark, repair=True)
    assert mended.streams[0].error is None
    assert (mended.exit_code, mended.streams[0].equal) == (0, True)
    assert mended.streams[0].repaired_rows >= 1
    assert rows(workspace) == source(shop)
    assert verify(workspace, spark).exit_code == 0
    assert workspace.run("orders", spark=spark).streams[0].outcome == "unchanged"


def test_rows_that_the_next_load_brings_are_no_difference(workspace, shop, engine, spark):
    workspace.run("orders", spark=spark)
    change(shop, engine)
    for level in ("rows",):
        found = verify(workspace, spark, level=level).streams[0]
        assert (found.error, found.equal, found.rows_different) == (None, True, 0)


def test_a_table_that_was_loaded_from_a_day_on_is_compared_from_there(workspace, shop, engine, spark):
    strategy = {"kind": "checksum", "method": "by_date", "column": "day", "period": "day", "lookback": "20250103"}
    days = ", ".join(f"({number}, '2025-01-0{number}')" for number in range(1, 6))
    shop.sql("create table days (id integer primary key, day date)", f"insert into days values {days}, (9, null)")
    stream = {
        "source": {"connection": "shop", "table": "days"},
        "target": "lake.shop.days",
        "key": ["id"],
        "strategy": strategy,
        "write": "replace",
    }
    workspace.write({"days": stream}, connections={"shop": {"url": shop.url}})
    assert workspace.run("days", spark=spark).streams[0].rows_read == 4
    found = verify(workspace, spark, "days", level="rows").streams[0]
    assert (found.error, found.equal, found.source_rows, found.target_rows) == (None, True, 4, 4)
    shop.sql("update days set id = 50 where id = 5", "insert into days values (0, '2025-01-01')")
    assert workspace.run("days", spark=spark).streams[0].error is None
    assert verify(workspace, spark, "days", level="rows").streams[0].equal
