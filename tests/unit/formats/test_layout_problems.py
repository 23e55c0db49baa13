"""What a format refuses of a layout, against what PyIceberg knows of transforms and the Delta protocol of folders."""

import pytest
from pyiceberg import types as iceberg
from pyiceberg.transforms import parse_transform

from tidegate.core.ports.format import Layout
from tidegate.core.schema import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    JSON,
    REAL,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    Column,
    Schema,
    array,
    decimal,
)
from tidegate.formats.delta import ddl as delta
from tidegate.formats.iceberg import ddl

TYPES = {
    BOOLEAN: iceberg.BooleanType(),
    INT: iceberg.IntegerType(),
    BIGINT: iceberg.LongType(),
    decimal(10, 2): iceberg.DecimalType(10, 2),
    REAL: iceberg.FloatType(),
    DOUBLE: iceberg.DoubleType(),
    DATE: iceberg.DateType(),
    TIMESTAMP: iceberg.TimestampType(),
    TIMESTAMPTZ: iceberg.TimestamptzType(),
    TEXT: iceberg.StringType(),
    BINARY: iceberg.BinaryType(),
    # Kept as text.
    TIME: iceberg.StringType(),
    UUID: iceberg.StringType(),
    JSON: iceberg.StringType(),
    array(INT): iceberg.ListType(1, iceberg.IntegerType()),
}
TRANSFORMS = {
    "c": "identity",
    "years(c)": "year",
    "month(c)": "month",
    "days(c)": "day",
    "hours(c)": "hour",
    "bucket(4, c)": "bucket[4]",
    "truncate(3, c)": "truncate[3]",
}


def schema(kind):
    return Schema(columns=(Column(name="id", type=BIGINT), Column(name="c", type=kind)))


@pytest.mark.parametrize(("expression", "transform"), TRANSFORMS.items())
def test_a_transform_takes_the_types_that_iceberg_lists(expression, transform):
    layout = Layout(partition_by=(expression,))
    taken = {kind for kind in TYPES if not list(ddl.layout_problems(layout, schema(kind)))}
    assert taken == {kind for kind, theirs in TYPES.items() if parse_transform(transform).can_transform(theirs)}


def test_the_refusal_names_the_types_that_a_transform_takes():
    (found,) = ddl.layout_problems(Layout(partition_by=("hours(c)",)), schema(DATE))
    assert found == (
        "layout: partition_by 'hours(c)' transforms a column of type date; hours takes timestamp, timestamptz"
    )


def test_iceberg_sorts_by_single_values_and_delta_is_partitioned_by_what_a_folder_can_be_named_for():
    sorts, parts = Layout(sort_by=("c",)), Layout(partition_by=("c",))
    assert {kind for kind in TYPES if list(ddl.layout_problems(sorts, schema(kind)))} == {array(INT)}
    assert {kind for kind in TYPES if list(delta.layout_problems(parts, schema(kind)))} == {BINARY, array(INT)}


@pytest.mark.parametrize(
    ("layout", "told"),
    [
        (Layout(partition_by=("c", "c ")), "partition_by has c twice"),
        (Layout(partition_by=("c", "id")), "names every column of the table"),
        (Layout(partition_by=("week(c)",)), "'week(c)' is a transform, which Delta does not have"),
        (Layout(partition_by=("d",)), "partition_by names 'd', which is not a column of the table"),
        (Layout(format_version=3), "format_version is a setting of Iceberg tables"),
        (Layout(sort_by=("c",)), "sort_by is not supported on Delta"),
    ],
)
def test_delta_refuses_what_it_does_not_have(layout, told):
    (found,) = delta.layout_problems(layout, schema(DATE))
    assert told in found
