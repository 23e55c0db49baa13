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


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cr3t-word@db.example/shop?sslmode=disable",
        "postgresql://me:s3cr3t-word@db.example/shop?sslmode=prefer",
        "postgresql://me:s3cr3t-word@localhost,db.example/shop?sslmode=allow",
        "mariadb://me:s3cr3t-word@db.example/shop?sslmode=disable",
        "trino://me@trino.example:8080/lake",
    ],
)
def test_a_connection_in_the_clear_is_warned_of_once(caplog, url):
    (text,) = warnings_of(caplog, shop=url)
    assert text.startswith("connection 'shop': others on the network may read")
    assert "s3cr3t" not in text


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me@db.example/shop",
        "postgresql://me@127.0.0.1/shop?sslmode=disable",
        "postgresql://me@/shop?host=/run/postgresql&sslmode=disable",
        "mariadb://me@db.example/shop",
        "mariadb://me@localhost/shop?sslmode=disable",
        "trino://me@trino.example/lake?ssl=true",
        "trino://me@127.0.0.1:8080/lake",
        "sqlite:///shop.db",
        "postgresql://me@127.0.0.1/shop?sslmode=require",
        "postgresql://me@db.example/shop?sslmode=require&sslrootcert=/ca.pem",
        "postgresql://me@db.example/shop?sslmode=verify-ca",
        "sqlserver://me@127.0.0.1/shop",
        "trino://me:pw@127.0.0.1/lake?verify=false",
        "trino://me:pw@trino.example/lake?verify=/ca.pem",
    ],
)
def test_others_are_not(caplog, url):
    assert warnings_of(caplog, shop=url) == []


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cr3t-word@db.example/shop?sslmode=require",
        "mariadb://me:s3cr3t-word@db.example/shop?sslmode=require",
        "sqlserver://me:s3cr3t-word@db.example/shop?sslmode=require",
        "teradata://me:s3cr3t-word@db.example/shop?sslmode=require",
        "trino://me:s3cr3t-word@trino.example/lake?verify=false",
    ],
)
def test_a_server_that_nobody_verifies_is_warned_of_once(caplog, url):
    (text,) = warnings_of(caplog, shop=url)
    assert text.startswith("connection 'shop': the server is not verified, so that somebody on the way")
    assert "s3cr3t" not in text


def test_the_variable_of_libpq_counts_too(caplog, monkeypatch):
    monkeypatch.setenv("PGSSLMODE", "disable")
    assert len(warnings_of(caplog, shop="postgresql://me@db.example/shop")) == 1


@pytest.mark.parametrize(
    ("kafka", "words"),
    [
        ({"kafka": "broker:9092"}, "may read every message (security.protocol: PLAINTEXT); SSL encrypts"),
        ({"kafka": "127.0.0.1:9092,broker:9092", "options": {"client.id": "a"}}, "every message"),
        ({"kafka": "broker:9092", "options": {**LOGIN, "security.protocol": "SASL_PLAINTEXT"}}, "the login and every"),
    ],
)
def test_brokers_in_the_clear(caplog, kafka, words):
    (text,) = warnings_of(caplog, kafka=kafka)
    assert words in text
    assert "s3cr3t" not in text


@pytest.mark.parametrize(
    "kafka",
    [
        {"kafka": "127.0.0.1:9092,localhost:9093"},
        {"kafka": "broker:9092", "options": LOGIN},
        {"kafka": "broker:9092", "options": {"security.protocol": "SSL"}},
    ],
)
def test_brokers_that_are_not(caplog, kafka):
    assert warnings_of(caplog, kafka=kafka) == []
