"""Values of Snowflake on fakesnow: the same fingerprints, and the same values in Spark by the real JDBC driver."""

from __future__ import annotations

import pytest

from integration.source import vectors
from integration.source.snowflake.tables import source
from integration.source.test_vectors import in_source, in_spark
from tidegate.core.slices import Everything
from tidegate.dialects.snowflake import Snowflake
from tidegate.errors import SchemaRefused

VECTORS = """c0 bigint, c1 number(38,4), c2 boolean, c3 date, c4 timestamp_ntz, c5 timestamp_tz, c6 varchar,
c7 varchar, c8 binary"""
READ_AS = {"C0": "bigint"}


def literal(value: str | None, place: int) -> str:
    """A value of the vectors for their column."""
    if value is None:
        return "NULL"
    text = Snowflake().string(value)
    shapes = {0: value, 1: value, 4: f"{text}::timestamp_ntz", 5: f"{text}::timestamp_tz"}
    return shapes.get(place, f"to_binary({text}, 'HEX')" if place == 8 else text)


def vectors_source(server):
    """The vectors in a table."""
    rows = [", ".join(map(literal, row["values"], range(9))) for row in vectors.VECTORS["rows"]]
    return source(server, server.table(VECTORS, *rows), columns=READ_AS)


def test_vectors(snowflake_server) -> None:
    assert in_source(vectors_source(snowflake_server)) == vectors.FINGERPRINT


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["America/New_York", "UTC"])
def test_vectors_to_spark(snowflake_server, spark, zone: str) -> None:
    assert in_spark(vectors_source(snowflake_server), spark, zone) == (vectors.FINGERPRINT, sorted(vectors.TEXTS))


@pytest.mark.parametrize(("kind", "value", "columns"), [("number(38,0)", "2147483648", {"X": "int"})])
@pytest.mark.spark
def test_value_that_does_not_fit_ends_the_load(snowflake_server, spark, kind, value, columns) -> None:
    there = source(snowflake_server, snowflake_server.table(f"x {kind}", value, "NULL"), columns=columns)
    with there.probe() as probe:
        with pytest.raises(SchemaRefused, match="column 'X' holds a value") as refused:
            probe.fingerprint(Everything())
        assert value not in str(refused.value)
        rows = there.read(spark, probe, [Everything()], probe.schema())
        with pytest.raises(Exception, match="Job aborted"):
            rows.collect()
