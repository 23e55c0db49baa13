"""`tidegate connector`: what it prints by database and envelope, and how it changes a connector that exists."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from support.connect_api import connect_api
from tidegate.engine.kafka_connect import KafkaConnect
from tidegate.errors import SourceError, SourceUnavailable

SECRET = "dagster-s3cret"
LOSSLESS = {
    "binary.handling.mode": "bytes",
    "decimal.handling.mode": "precise",
    "time.precision.mode": "adaptive_time_microseconds",
}
"""Modes in which no value loses a digit, as `integration/topics/test_value_modes.py` reads them."""


def topic(table: str = "public.parking_data", **source: Any) -> dict[str, Any]:
    origin = {"connection": "events", "topic": f"parking.{table}", "envelope": "debezium", "database": "parking"}
    return {
        "source": {**origin, "table": table, **source},
        "target": f"lake.parking.{table.rpartition('.')[2]}",
        "key": ["id"],
        "strategy": "cdc",
        "write": "merge",
    }


@pytest.fixture
def project(tmp_path):
    def write(
        streams: dict[str, Any], url: str = "postgresql://dagster:{}@postgres/parking_cdc", **events: Any
    ) -> None:
        connections = {"events": {"kafka": "broker:9092", **events}, "parking": {"url": url.format(SECRET)}}
        text = yaml.safe_dump({"connections": connections, "streams": streams})
        (tmp_path / "tidegate.yaml").write_text(text, encoding="utf-8")

    return write


@pytest.fixture
def printed(tidegate):
    def call(stream: str = "parking", *words: str) -> dict[str, Any]:
        said = tidegate("connector", stream, *words)
        assert said.exit_code == 0, said.err
        assert SECRET not in said.out + said.err
        return json.loads(said.out)

    return call


def test_the_connector_of_a_parking_table_in_postgresql(project, printed):
    project({"parking": topic(connector={"name": "parking-cdc-connector"})})
    found = printed()
    assert found["name"] == "parking-cdc-connector"
    expected = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "postgres",
        "database.port": "5432",
        "database.user": "dagster",
        "database.password": "${env:PARKING_PASSWORD}",
        "database.dbname": "parking_cdc",
        "table.include.list": r"public.parking_data",
        "topic.prefix": "parking",
        "slot.name": "tidegate_parking",
        "publication.name": "tidegate_parking",
        "publication.autocreate.mode": "filtered",
        "skipped.operations": "none",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
        **LOSSLESS,
    }
    assert expected.items() <= found["config"].items()
    assert "provide.transaction.metadata" not in found["config"]
    assert all(isinstance(value, str) for value in found["config"].values())


def test_the_settings_of_the_stream_name_slot_and_publication(project, printed):
    project({"parking": topic(connector={"slot": "debezium", "publication": "dbz"}, transactions="parking.tx")})
    config = printed("parking", "--password", "${file:/run/secrets/parking.properties:password}")["config"]
    assert (config["slot.name"], config["publication.name"]) == ("debezium", "dbz")
    assert config["database.password"] == "${file:/run/secrets/parking.properties:password}"
    assert (config["provide.transaction.metadata"], config["topic.transaction"]) == ("true", "tx")


def test_every_table_of_a_connector_is_captured(project, printed):
    streams = {
        "parking": topic(),
        "zones": topic("public.zones"),
        "odd": topic('public."a+b"', topic="parking.public.a_b"),
    }
    other = topic("public.others", topic="other.public.others")
    project({**streams, "other": other})
    config = printed("zones")["config"]
    assert config["table.include.list"] == r"public.a\+b,public.parking_data,public.zones"
    assert printed("other")["config"]["table.include.list"] == "public.others"


@pytest.mark.parametrize(
    ("scheme", "connector", "ssl"),
    [
        ("mariadb", "io.debezium.connector.mariadb.MariaDbConnector", "trust"),
        ("mysql", "io.debezium.connector.mysql.MySqlConnector", "required"),
    ],
)
def test_mariadb_and_mysql(project, printed, scheme, connector, ssl):
    stream = topic("orders", topic="shop.shopdb.orders")
    project({"orders": stream}, f"{scheme}://app:{{}}@db/shopdb?sslmode=require", options={"security.protocol": "SSL"})
    config = printed("orders")["config"]
    expected = {
        "connector.class": connector,
        "database.ssl.mode": ssl,
        "database.include.list": "shopdb",
        "table.include.list": "shopdb.orders",
        "bigint.unsigned.handling.mode": "precise",
        "enable.time.adjuster": "false",
        "schema.history.internal.kafka.topic": "shop.schema-history",
        "schema.history.internal.kafka.bootstrap.servers": "broker:9092",
        "schema.history.internal.producer.security.protocol": "SSL",
        **LOSSLESS,
    }
    assert expected.items() <= config.items()
    assert "slot.name" not in config
    assert 10_000 <= int(config["database.server.id"]) < 2**32


def test_sql_server(project, printed):
    stream = topic("sales.orders", topic="erp.shopdb.sales.orders")
    project({"orders": stream}, "sqlserver://app:{}@db.example/shopdb")
    config = printed("orders")["config"]
    expected = {
        "connector.class": "io.debezium.connector.sqlserver.SqlServerConnector",
        "topic.prefix": "erp",
        "database.names": "shopdb",
        "table.include.list": "sales.orders",
        "driver.encrypt": "true",
        "driver.trustServerCertificate": "false",
        **LOSSLESS,
        "time.precision.mode": "microseconds",
        "snapshot.isolation.mode": "snapshot",
        "schema.history.internal.kafka.topic": "erp.schema-history",
    }
    assert expected.items() <= config.items()
    assert "database.server.id" not in config


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("oracle://app:{}@db/ERPPDB1?cdb=ERPCDB", {"database.dbname": "ERPCDB", "database.pdb.name": "ERPPDB1"}),
        ("oracle://app:{}@db/ERP", {"database.dbname": "ERP"}),
    ],
)
def test_oracle(project, printed, url, names):
    stream = topic("SALES.ORDERS", topic="erp.SALES.ORDERS", envelope="flat")
    project({"orders": stream}, url)
    config = printed("orders")["config"]
    expected = {
        "connector.class": "io.debezium.connector.oracle.OracleConnector",
        "topic.prefix": "erp",
        "table.include.list": "SALES.ORDERS",
        "lob.enabled": "true",
        "interval.handling.mode": "string",
        **LOSSLESS,
        "time.precision.mode": "microseconds",
        **names,
    }
    assert expected.items() <= config.items()
    assert ("database.pdb.name" in config) == ("database.pdb.name" in names)
    assert "source.commit_scn" in config["transforms.unwrap.add.fields"]


def test_avro_and_flattened_events(project, printed):
    project({"parking": topic(envelope="debezium_avro")}, registry=f"https://me:{SECRET}@registry:8081")
    config = printed()["config"]
    assert config["value.converter"] == "io.confluent.connect.avro.AvroConverter"
    assert config["value.converter.schema.registry.url"] == "https://registry:8081"
    assert config["key.converter.basic.auth.user.info"] == "${env:SCHEMA_REGISTRY_LOGIN}"
    project({"parking": topic(envelope={"kind": "flat", "prefix": "_c_"})})
    config = printed()["config"]
    assert config["transforms.unwrap.type"] == "io.debezium.transforms.ExtractNewRecordState"
    assert config["transforms.unwrap.add.fields.prefix"] == "_c_"
    assert "source.sequence" in config["transforms.unwrap.add.fields"]
    assert config["skipped.operations"] == "t"


@pytest.mark.parametrize(
    ("streams", "words", "reason"),
    [
        ({"parking": topic(topic="parking.public.other")}, (), "to a topic `PREFIX.public.parking_data`"),
        ({"parking": topic(transactions="other.tx")}, (), "no topic of the connector"),
        ({"parking": topic(), "zones": topic("public.zones", envelope="flat")}, (), "differ in `envelope:`"),
        (
            {"parking": topic(connector={"slot": "a"}), "zones": topic("public.zones", connector={"slot": "b"})},
            (),
            "differ in `connector:`",
        ),
        ({"parking": topic(connector={"slto": "a"})}, (), "'slto' is not a known key"),
        ({"parking": topic()}, ("--password", SECRET), "must be a reference"),
        ({"parking": topic()}, ("--yes",), "--yes confirms"),
        ({"parking": topic()}, ("--apply", "broker:8083"), "needs a URL"),
        ({"parking": topic('public."a,b"', topic="parking.public.a_b")}, (), "has a comma"),
    ],
)
def test_what_no_connector_could_do_is_refused(project, tidegate, streams, words, reason):
    project(streams)
    said = tidegate("connector", "parking", *words)
    assert said.exit_code == 2
    assert reason in " ".join(said.err.split())
    assert SECRET not in said.err


def test_a_stream_without_a_connector_is_refused(folder, tidegate):
    said = tidegate("connector", "orders")
    assert said.exit_code == 2
    assert "reads no topic that a connector of Debezium fills" in " ".join(said.err.split())


def test_a_connector_is_created_once_and_then_left_alone(project, tidegate, printed):
    project({"parking": topic()})
    with connect_api() as connect:
        created = printed("parking", "--apply", connect.url, "--json")
        assert {each["setting"] for each in created["changed"]} == set(connect.configs["parking"])
        assert connect.configs["parking"] == printed()["config"]
        again = tidegate("connector", "parking", "--apply", connect.url)
    assert "unchanged" in again.out
    assert connect.puts == 1


def test_tables_are_added_and_what_others_stated_stays(project, tidegate, printed):
    project({"parking": topic()})
    with connect_api() as connect:
        own = {"database.password": "pl4in-secret", "max.batch.size": "4096", "name": "parking"}
        connect.configs["parking"] = {**printed()["config"], **own}
        project({"parking": topic(), "zones": topic("public.zones")})
        said = tidegate("connector", "zones", "--apply", connect.url)
        assert said.exit_code == 0, said.err
        assert "public.parking_data -> public.parking_data,public.zones" in said.out
        now = connect.configs["parking"]
    assert now["table.include.list"] == "public.parking_data,public.zones"
    assert (now["database.password"], now["max.batch.size"]) == ("pl4in-secret", "4096")
    assert "pl4in" not in said.out + said.err


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("table.include.list", "public.parking_data,public.of_somebody_else"),
        ("slot.name", "debezium"),
        ("topic.prefix", "other"),
        ("transforms", "mask"),
        ("column.mask.with.5.chars", "public.parking_data.location"),
    ],
)
def test_what_could_lose_events_or_change_them_needs_a_confirmation(project, tidegate, printed, setting, value):
    project({"parking": topic()})
    with connect_api() as connect:
        connect.configs["parking"] = before = {**printed()["config"], setting: value}
        refused = tidegate("connector", "parking", "--apply", connect.url)
        assert (refused.exit_code, connect.puts) == (2, 0)
        assert setting in " ".join(refused.err.split())
        assert connect.configs["parking"] == before
        assert tidegate("connector", "parking", "--apply", connect.url, "--yes").exit_code == 0
        assert connect.configs["parking"] == printed()["config"]


def test_a_refusal_of_kafka_connect_is_passed_on_without_a_secret(project, tidegate, printed):
    project({"parking": topic()})
    with connect_api() as connect:
        connect.configs["parking"] = {**printed()["config"], "database.password": "pl4in-secret", "tasks.max": "2"}
        connect.refuses = "Invalid value {password} for database.password: no login"
        said = tidegate("connector", "parking", "--apply", connect.url)
    assert said.exit_code == 1
    assert "refuses with 400: Invalid value *** for database.password: no login" in " ".join(said.err.split())


def test_the_state_of_a_connector_is_that_of_its_task():
    with connect_api() as connect:
        asked = KafkaConnect(connect.url)
        assert asked.state("parking") is None
        connect.configs["parking"] = {}
        assert asked.state("parking").state == "RUNNING"
        connect.states = ("RUNNING", "FAILED")
        found = asked.state("parking")
        assert (found.state, found.reason) == ("FAILED", "org.Failure: the slot is in use[…]")
        url = connect.url
    with pytest.raises(SourceUnavailable, match="does not answer"):
        KafkaConnect(url).state("parking")


def test_no_login_of_a_url_is_shown():
    with pytest.raises(SourceError) as caught:
        KafkaConnect(f"http://me:{SECRET}@127.0.0.1:9").state("parking")
    assert SECRET not in str(caught.value)
