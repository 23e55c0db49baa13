"""Distinct values of every type that is not a list are counted, and then no more."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from tidegate.core.ids import Target
from tidegate.core.policies.maintenance import Maintenance, Step, Upkeep
from tidegate.formats.iceberg import Iceberg

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TARGET = Target(lake="lake", namespace=("shop",), table="kinds")
NOW = datetime(2025, 1, 31, 12, 30)  # noqa: DTZ001 - a column without zone
KINDS = {
    "a_boolean": (BooleanType(), True),
    "an_int": (IntegerType(), 1),
    "a_long": (LongType(), 2**40),
    "a_float": (FloatType(), 1.5),
    "a_double": (DoubleType(), 2.5),
    "a_decimal": (DecimalType(12, 2), 3),
    "a_date": (DateType(), NOW.date()),
    "a_time": (TimestampType(), NOW),
    "an_instant": (TimestamptzType(), NOW.replace(tzinfo=UTC)),
    "a_text": (StringType(), "é"),
    "some_bytes": (BinaryType(), b"\x00\x01"),
    "four_bytes": (FixedType(4), b"\x00\x01\x02\x03"),
    "an_id": (UUIDType(), uuid.UUID(int=7).bytes),
    "a_list": (ListType(element_id=100, element_type=LongType(), element_required=False), [1, 2]),
    "nothing": (LongType(), None),
}


def test_every_type_is_counted_or_left_out(spark, tmp_path: Path):
    (tmp_path / ".tidegate").mkdir()
    schema = Schema(*(NestedField(number, name, kind) for number, (name, (kind, _)) in enumerate(KINDS.items(), 1)))
    with SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/.tidegate/catalog.db", warehouse=f"file://{tmp_path}/w") as made:
        made.create_namespace("shop")
        table = made.create_table("shop.kinds", schema)
        row = {name: value for name, (_, value) in KINDS.items()}
        table.append(pa.Table.from_pylist([row, {}], schema=table.schema().as_arrow()))
        lake = Iceberg(name="lake", folder=tmp_path)
        session = spark.newSession()
        for name, value in lake.spark_conf().items():
            if name.startswith("spark.sql.catalog"):
                session.conf.set(name, value)
        upkeep = Upkeep(target=TARGET, uid="0" * 16, rules=Maintenance(statistics=True), now=datetime.now(UTC))
        assert [need.step for need in lake.survey(upkeep)] == [Step.STATISTICS]
        lake.maintain(session, upkeep, Step.STATISTICS)
        (found,) = table.refresh().metadata.statistics
    counted = {schema.find_column_name(blob.fields[0]): int(blob.properties["ndv"]) for blob in found.blob_metadata}
    assert counted == dict.fromkeys(KINDS.keys() - {"a_list", "nothing"}, 1) | {"nothing": 0}
    assert lake.survey(upkeep) == ()
