"""What `table:` and `query:` may be, and into how many parts a load is cut."""

from __future__ import annotations

import pytest

from tidegate.core.ids import Connection
from tidegate.dialects.postgresql import Postgresql
from tidegate.errors import ConfigError, UnknownPlugin
from tidegate.sources.database import Database
from tidegate.sources.database.slicing import slices_for
from tidegate.sources.database.source import dialect_of
from tidegate.sources.shared.relation import of_query, of_table, split_name

HERE = Connection(name="shop", url="postgresql://app:s3cr3t@127.0.0.1/shop")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("orders", ("orders",)),
        ("public.orders", ("public", "orders")),
        ('public."odd.name"', ("public", "odd.name")),
        ('"a""b"', ('a"b',)),
        ("`a``b`.c", ("a`b", "c")),
        ("raw data.🚢", ("raw data", "🚢")),
    ],
)
def test_names(text: str, parts: tuple[str, ...]) -> None:
    assert split_name(text) == parts


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", 'a."b', '"a"b', "a..b", '""'])
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError):
        split_name(text)


def test_table_of_three_parts() -> None:
    with pytest.raises(ConfigError, match="more parts"):
        of_table(Postgresql(), "shop.public.orders")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT * FROM a;",
        "WITH a AS (SELECT 1) SELECT * FROM a UNION ALL SELECT 2 -- the end",
        "SELECT 'a;b' AS x",
        "SELECT id FROM a; -- the end",
        "SELECT id /* a; b */ FROM a ;; /* the end */\n",
    ],
)
def test_queries(text: str) -> None:
    relation = of_query(Postgresql(), text)
    assert relation.sql.startswith("(\nSELECT" if text.startswith("SELECT") else "(\nWITH")
    assert relation.sql.endswith("\n) AS source_query")
    assert ";" not in relation.sql.replace("a;b", "").replace("a; b", "")
    assert not relation.parts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT 1; SELECT 2",
        "DELETE FROM a",
        "WITH gone AS (DELETE FROM a RETURNING *) SELECT * FROM gone",
        "SELECT * INTO b FROM a",
        "SELECT * FROM a FOR UPDATE",
        "DROP TABLE a",
        "SELECT 1) AS q; DROP TABLE a; --",
        "VACUUM",
    ],
)
def test_queries_that_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        of_query(Postgresql(), text)


def test_options() -> None:
    for options in (
        {},
        {"table": "a", "query": "SELECT 1"},
        {"table": "a", "slices": 0},
        {"table": "a", "fetch_size": 0},
    ):
        with pytest.raises(ConfigError):
            Database(connection=HERE, **options)
    assert "s3cr3t" not in repr(Database(connection=HERE, table="a"))
    assert Database(connection=HERE, table="a").jars() == ("org.postgresql:postgresql:42.7.13",)


@pytest.mark.parametrize("url", ["postgres://h/d", "postgresql+psycopg://h/d", "postgresql://h/d"])
def test_dialect_by_scheme(url: str) -> None:
    assert dialect_of(Connection(name="a", url=url)).kind == "postgresql"


def test_no_dialect() -> None:
    with pytest.raises(UnknownPlugin, match="informix"):
        dialect_of(Connection(name="a", url="informix://h/d"))
    with pytest.raises(ConfigError, match="rows cannot be read from spark"):
        dialect_of(Connection(name="a", url="spark://h/d"))


@pytest.mark.parametrize(
    ("rows", "row_bytes", "wanted", "slices"),
    [
        (0, 100, None, 1),
        (50_000, 1_000, None, 1),
        (50_000, 10_000, None, 8),
        (4_000, 2**20, None, 63),
        (50_001, 1, None, 2),
        (100_001, 1, None, 3),
        (60_000, 10_000, None, 9),
        (1_000_000, 1, None, 4),
        (5_000_000, 110, None, 9),
        (10**9, 1000, None, 200),
        (10, 1, 6, 6),
        (10**9, 1000, 1, 1),
    ],
)
def test_number_of_slices(rows: int, row_bytes: int, wanted: int | None, slices: int) -> None:
    assert slices_for(rows, row_bytes, wanted) == slices
