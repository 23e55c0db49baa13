"""Connections that others on the network can read are warned of: once each, and only those."""

from __future__ import annotations

import pytest

from tidegate.api import Project

TABLE = {"key": ["id"], "strategy": "full", "write": "replace"}
LOGIN = {"sasl.username": "app", "sasl.password": "s3cr3t-word"}


def warnings_of(caplog, *, kafka=None, **connections):
    streams = {
        f"{name}_{table}": {"source": {"connection": name, "table": f"a.{table}"}, "target": f"lake.a.{table}", **TABLE}
        for name in connections
        for table in ("orders", "lines")
    }
    if kafka:
        source = {"connection": "events", "topic": "a", "envelope": {"kind": "debezium", "columns": {"id": "bigint"}}}
        streams["log"] = {"source": source, "target": "lake.a.log", "key": ["id"], "strategy": "cdc", "write": "merge"}
    values = {"connections": {**connections, **({"events": kafka} if kafka else {})}, "streams": streams}
    caplog.clear()
    with Project.from_dict(values) as project:
        assert [problem for each in project.check() for problem in each.problems] == []
    return [record.getMessage() for record in caplog.records]


CLEAR, UNVERIFIED = "others on the network may read", "the server is not verified, so that somebody on the way"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://me:s3cr3t-word@db.example/shop?sslmode=disable", CLEAR),
        ("postgresql://me:s3cr3t-word@db.example/shop?sslmode=prefer", CLEAR),
        ("postgresql://me:s3cr3t-word@localhost,db.example/shop?sslmode=allow", CLEAR),
        ("postgresql://me:s3cr3t-word@db.example/shop?sslmode=require", UNVERIFIED),
        ("postgresql://me@db.example/shop?sslmode=require&sslrootcert=/ca.pem", None),
        ("postgresql://me@db.example/shop?sslmode=verify-ca", None),
        ("postgresql://me@db.example/shop", None),
        ("postgresql://me@127.0.0.1/shop?sslmode=disable", None),
        ("postgresql://me@127.0.0.1/shop?sslmode=require", None),
        ("postgresql://me@/shop?host=/run/postgresql&sslmode=disable", None),
        ("mariadb://me:s3cr3t-word@db.example/shop?sslmode=disable", CLEAR),
        ("mariadb://me:s3cr3t-word@db.example/shop?sslmode=require", UNVERIFIED),
        ("mariadb://me@db.example/shop", None),
        ("mariadb://me@localhost/shop?sslmode=disable", None),
        ("trino://me@trino.example:8080/lake", CLEAR),
        ("trino://me:s3cr3t-word@trino.example/lake?verify=false", UNVERIFIED),
        ("trino://me@trino.example/lake?ssl=true", None),
        ("trino://me@127.0.0.1:8080/lake", None),
        ("trino://me:pw@127.0.0.1/lake?verify=false", None),
        ("trino://me:pw@trino.example/lake?verify=/ca.pem", None),
        ("sqlserver://me:s3cr3t-word@db.example/shop?sslmode=require", UNVERIFIED),
        ("sqlserver://me@127.0.0.1/shop", None),
        ("teradata://me:s3cr3t-word@db.example/shop?sslmode=require", UNVERIFIED),
        ("sqlite:///shop.db", None),
    ],
)
def test_a_connection_that_others_can_read_or_take_over_is_warned_of_once(caplog, url, words):
    told = warnings_of(caplog, shop=url)
    assert len(told) == (words is not None)
    assert all(text.startswith(f"connection 'shop': {words}") and "s3cr3t" not in text for text in told)


def test_the_variable_of_libpq_counts_too(caplog, monkeypatch):
    monkeypatch.setenv("PGSSLMODE", "disable")
    assert len(warnings_of(caplog, shop="postgresql://me@db.example/shop")) == 1


@pytest.mark.parametrize(
    ("kafka", "words"),
    [
        ({"kafka": "broker:9092"}, "may read every message (security.protocol: PLAINTEXT); SSL encrypts"),
        ({"kafka": "127.0.0.1:9092,broker:9092", "options": {"client.id": "a"}}, "every message"),
        ({"kafka": "broker:9092", "options": {**LOGIN, "security.protocol": "SASL_PLAINTEXT"}}, "the login and every"),
        ({"kafka": "127.0.0.1:9092,localhost:9093"}, None),
        ({"kafka": "broker:9092", "options": LOGIN}, None),
        ({"kafka": "broker:9092", "options": {"security.protocol": "SSL"}}, None),
    ],
)
def test_brokers_in_the_clear(caplog, kafka, words):
    told = warnings_of(caplog, kafka=kafka)
    assert len(told) == (words is not None)
    assert all(words in text and "s3cr3t" not in text for text in told)
