"""What a MariaDB session reads of tables that are emptied, swapped or rewritten in the moment of its snapshot."""

from __future__ import annotations

import pytest

from integration.source.mariadb.orders import Writers, source
from tidegate.core.slices import Everything
from tidegate.dialects.mariadb.session import BEGIN
from tidegate.errors import SourceMoved

pytest_plugins = ["support.mariadb"]

FILL = "INSERT INTO {} (name) SELECT seq FROM seq_1_to_{}"
WAYS = {
    "emptied and filled": ("TRUNCATE orders", FILL.format("orders", 7)),
    "swapped": (
        "CREATE TABLE fresh LIKE orders",
        FILL.format("fresh", 7),
        "RENAME TABLE orders TO stale, fresh TO orders",
    ),
    "rewritten": ("DELETE FROM orders", FILL.format("orders", 7), "ALTER TABLE orders FORCE, ALGORITHM=COPY"),
}
SOURCES = {"table": {"table": "orders"}, "view": {"table": "seen"}, "query": {"query": "SELECT id, name FROM orders"}}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_replaced_between_the_snapshot_and_its_first_row_is_not_read(
    shop: Writers, way: str, kind: str
) -> None:
    """The new table has no rows for an older snapshot, but the server says so instead of showing none."""
    write = shop.session()
    write(FILL.format("orders", 3))
    write("CREATE VIEW seen AS SELECT id, name FROM orders")
    with source(shop.url, **SOURCES[kind]).probe() as probe:
        ask = probe.session.outside_rows

        def outside_rows(sql: str) -> list:
            found = ask(sql)
            if sql == BEGIN:
                for statement in WAYS[way]:
                    write(statement)
            return found

        probe.session.outside_rows = outside_rows
        with pytest.raises(SourceMoved) as refused:
            probe.count(Everything())
        assert refused.value.retryable
