"""A measured query is one SELECT over the stream's table, by functions that run no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate.config import from_dict
from tidegate.config.project import Config
from tidegate.errors import ConfigError

PROGRAM = "has its rows transformed by a program"
SELECT = "is no query: a measured query is one SELECT"
MORE = "reads more than {table}"
REMARK = "has a remark, which a measured query may not have"


def read(folder: Path, query: str, *, trusted: bool = False, **rules: Any) -> Config:
    stream = {
        "source": {"connection": "shop", "table": "t"},
        "target": "lake.s.t",
        "strategy": "full",
        "write": "replace",
        "maintenance": {"measure_query": query, **rules},
    }
    connections = {"shop": "sqlite:///x.db", "tree": "trino://me@127.0.0.1:1/lake"}
    return from_dict({"connections": connections, "streams": {"t": stream}}, folder, environ={}, trusted=trusted)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("DROP TABLE {table}", SELECT),
        ("INSERT INTO {table} VALUES (99, 'evil')", SELECT),
        ("FROM {table} INSERT INTO x SELECT a", SELECT),
        ("WITH x AS (INSERT INTO {table} SELECT 1) SELECT * FROM x", SELECT),
        ("SELECT * INTO x FROM {table}", SELECT),
        ("EXPLAIN SELECT * FROM {table}", SELECT),
        ("SELECT * FROM {table}; DROP TABLE x", "is more than one statement"),
        ("CREATE TEMPORARY FUNCTION f AS 'x' USING JAR '/tmp/x.jar' -- {table}", REMARK),
        ("CREATE TEMPORARY FUNCTION {table} AS 'x' USING JAR '/tmp/x.jar'", PROGRAM),
        ("ADD JAR '/tmp/{table}'", "is n"),
        ("SET spark.x={table}", "is n"),
        ("SELECT TRANSFORM(id) USING 'rm' AS (x) FROM {table}", PROGRAM),
        ("SELECT TRANSFORM(id) ROW FORMAT DELIMITED USING 'rm' AS (x) FROM {table}", PROGRAM),
        ("FROM {table} MAP id USING 'rm' AS x", PROGRAM),
        ("SELECT * FROM text.`/etc/passwd`, {table}", MORE),
        ("SELECT * FROM {table} WHERE 'x' IN (SELECT value FROM text.`/etc/passwd`)", MORE),
        ("SELECT * FROM {table} UNION ALL SELECT value FROM csv.`people`", MORE),
        ("SELECT * FROM {table}, lake.shop.other", MORE),
        ("SELECT * FROM {table}, other", MORE),
        ("SELECT * FROM {table}, range(10)", MORE),
        ("SELECT '{table}' FROM (SELECT 1 AS a) AS x", "does not read {table}"),
        ("SELECT * FROM {table} /* + */", REMARK),
        ("SELECT * FROM {table}, $${spark.app.name}", "has a reference that Spark replaces"),
    ],
)
def test_what_is_no_select_over_the_table_alone_is_refused_also_for_those_who_are_trusted(
    tmp_path: Path, query: str, why: str
) -> None:
    for trusted in (False, True):
        with pytest.raises(ConfigError) as caught:
            read(tmp_path, query, trusted=trusted)
        assert f"streams.t.maintenance.measure_query: {why}" in caught.value.message
        assert "SELECT" in caught.value.hint


@pytest.mark.parametrize(
    "query",
    [
        "SELECT reflect('java.lang.System', 'getProperty', 'user.name') FROM {table}",
        "SELECT count(java_method('java.lang.System', 'exit', 7)) FROM {table}",
        "SELECT id, `reflect`('java.lang.System', 'exit', 7) FROM {table}",
        "SELECT session.mine(id) FROM {table}",
        "SELECT from_xml(v, 'a int') FROM {table}",
        "SELECT mine(id) FROM {table}",
    ],
)
def test_a_function_that_may_run_code_needs_trust(tmp_path: Path, query: str) -> None:
    with pytest.raises(ConfigError, match=r"maintenance\.measure_query: ") as caught:
        read(tmp_path, query)
    assert "--trust-project" in caught.value.hint
    assert read(tmp_path, query, trusted=True)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT day, count(*), sum(amount) FROM {table} WHERE day > DATE '2025-01-01' GROUP BY day",
        "SELECT sum(amount) FROM {table} WHERE day > '2025-01-01'",
        "WITH late AS (SELECT * FROM {table} WHERE id > (SELECT avg(id) FROM {table})) SELECT count(*) FROM late",
        "SELECT a.id FROM {table} AS a JOIN {table} AS b USING (id) WHERE a.id IN (1, 2) ORDER BY 1 LIMIT 3",
        "SELECT max(id) FROM (SELECT id FROM {table} UNION SELECT 1) AS x HAVING (max(id) > 1)",
        "SELECT row_number() OVER (PARTITION BY day ORDER BY id) FROM {table}",
    ],
)
@pytest.mark.parametrize("rules", [{}, {"measure_by": "tree"}])
def test_ordinary_queries_need_no_trust(tmp_path: Path, query: str, rules: dict[str, str]) -> None:
    assert read(tmp_path, query, **rules)


def test_trino_quotes_names_and_spark_texts(tmp_path: Path) -> None:
    assert read(tmp_path, 'SELECT "day" FROM {table}', measure_by="tree")
    for query in ('SELECT "reflect"(1) FROM {table}', 'SELECT "mine"(1) FROM {table}'):
        with pytest.raises(ConfigError, match="measure_query"):
            read(tmp_path, query, measure_by="tree")
    with pytest.raises(ConfigError, match=r"reads more than \{table\}"):
        read(tmp_path, 'SELECT * FROM {table}, "system"."runtime"."queries"', measure_by="tree")


def test_a_query_among_the_defaults_is_refused_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"defaults\.maintenance\.measure_query: is no query"):
        from_dict(
            {
                "connections": {"shop": "sqlite:///x.db"},
                "defaults": {"maintenance": {"measure_query": "DROP TABLE {table}"}},
                "streams": {
                    "t": {
                        "source": {"connection": "shop", "table": "t"},
                        "target": "lake.s.t",
                        "strategy": "full",
                        "write": "replace",
                    }
                },
            },
            tmp_path,
            environ={},
        )
