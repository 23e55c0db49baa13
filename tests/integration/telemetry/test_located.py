"""In which schema a table of PostgreSQL lies that the project names alone: the server's search path says it."""

import psycopg
import pytest

from tidegate import Project
from tidegate.telemetry.datasets import name_of

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.mark.parametrize(("path", "schema"), [(None, "public"), ("shop, public", "shop"), ("nowhere", None)])
def test_the_search_path_says_it(pg_url, tmp_path, path, schema):
    with psycopg.connect(pg_url, autocommit=True) as there:
        there.execute("CREATE SCHEMA shop")
        for each in ("public", "shop"):
            there.execute(f"CREATE TABLE {each}.orders (id bigint PRIMARY KEY)")
        database = there.info.dbname
        if path is not None:
            there.execute(f'ALTER DATABASE "{database}" SET search_path = {path}')
    entry = {
        "source": {"connection": "shop", "table": "orders"},
        "target": "lake.shop.orders",
        "key": ["id"],
        "strategy": "full",
        "write": "merge",
    }
    values = {"connections": {"shop": {"url": pg_url}}, "streams": {"orders": entry}}
    with Project.from_dict(values, folder=tmp_path) as project:
        (stream,) = project.streams("orders")
        found = name_of(stream.source.located())
    assert (found.name if found else None) == (f"{database}.{schema}.orders" if schema else None)
