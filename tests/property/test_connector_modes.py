"""The modes that `tidegate connector` prints are those whose events are read to the last digit.

Values are written as Debezium's documentation says of each mode, and read by the envelope of the stream.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from support.envelopes import PLACE_IN_LOG, columns, told
from support.lake import QUICK
from tidegate.core.ids import Connection
from tidegate.core.log import REFUSED
from tidegate.dialects.mariadb import Mariadb
from tidegate.dialects.postgresql import Postgresql
from tidegate.envelopes.debezium import Debezium
from tidegate.spark.session import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a column without a zone
MICRO = timedelta(microseconds=1)
POSTGRESQL = Postgresql().captured(Connection(name="shop", url="postgresql://app@db/shop")).settings
MARIADB = Mariadb().captured(Connection(name="shop", url="mariadb://app@db/shop")).settings

Row = dict[str, Any]
ROWS = st.fixed_dictionaries(
    {
        "amount": st.integers(1 - 10**38, 10**38 - 1),  # of ten digits behind the point
        "at": st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)),  # noqa: DTZ001 - as above
        "clock": st.integers(0, 86_399_999_999),
        "raw": st.binary(max_size=20),
        "big": st.integers(0, 2**64 - 1),
    }
)


def exact(whole: int, scale: int) -> Decimal:
    """A number of so many digits behind the point; Python's own operations round to 28 digits."""
    return Decimal((whole < 0, tuple(map(int, str(abs(whole)))), -scale))


def unscaled(whole: int) -> str:
    return base64.b64encode(whole.to_bytes(whole.bit_length() // 8 + 1, "big", signed=True)).decode()


def decimal_field(precision: int, scale: int) -> Row:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters}


def written(row: Row, modes: Mapping[str, str]) -> dict[str, tuple[Row, Any]]:
    """By column its field in the message's schema, and its value, as Debezium writes them in these modes."""
    micros, clock, raw = (row["at"] - EPOCH) // MICRO, row["clock"], base64.b64encode(row["raw"]).decode()
    match modes["decimal.handling.mode"]:
        case "precise":
            amount = (decimal_field(38, 10), unscaled(row["amount"]))
        case "string":
            amount = ({"type": "string"}, f"{exact(row['amount'], 10):f}")
        case "double":
            amount = ({"type": "double"}, float(exact(row["amount"], 10)))
    match modes["time.precision.mode"]:
        case "adaptive_time_microseconds":
            at = ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, micros)
            time = ({"type": "int64", "name": "io.debezium.time.MicroTime"}, clock)
        case "connect":
            at = ({"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"}, micros // 1000)
            time = ({"type": "int32", "name": "org.apache.kafka.connect.data.Time"}, clock // 1000)
    match modes["binary.handling.mode"]:
        case "bytes":
            binary = ({"type": "bytes"}, raw)
        case "base64":
            binary = ({"type": "string"}, raw)
    match modes.get("bigint.unsigned.handling.mode", "precise"):
        case "precise":
            big = (decimal_field(20, 0), unscaled(row["big"]))
        case "long":
            big = ({"type": "int64"}, row["big"] - 2**64 if row["big"] >= 2**63 else row["big"])
    return {"amount": amount, "at": at, "clock": time, "raw": binary, "big": big}


def read(session: SparkSession, rows: list[Row], modes: Mapping[str, str]) -> list[Row | None]:
    """The values of each row as they come out; None where the event is refused."""
    messages = []
    for number, row in enumerate(rows):
        parts = {"id": ({"type": "int32"}, number), **written(row, modes)}
        fields = [{**field, "field": name, "optional": True} for name, (field, _) in parts.items()]
        schema = {"type": "struct", "fields": [{"type": "struct", "fields": fields, "field": "after"}]}
        after = {name: value for name, (_, value) in parts.items()}
        payload = {"op": "c", "source": PLACE_IN_LOG, "after": after}
        messages.append(({"id": number}, json.dumps({"schema": schema, "payload": payload})))
    return [None if event[REFUSED] else columns(event) for event in told(session, Debezium(), messages)]


def expected(number: int, row: Row) -> Row:
    at = row["at"].replace(tzinfo=UTC)
    text = f"{at.year:04}-{at:%m-%d %H:%M:%S}" + (f".{at.microsecond:06}".rstrip("0") if at.microsecond else "")
    seconds, micros = divmod(row["clock"], 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
    return {
        "id": number,
        "amount": exact(row["amount"], 10),
        "at": text,
        "clock": clock,
        "raw": row["raw"],
        "big": Decimal(row["big"]),
    }


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    found = Sessions(borrowed=spark).load_session()
    for name, value in QUICK.items():
        found.conf.set(name, value)
    return found


@pytest.mark.parametrize("modes", [POSTGRESQL, MARIADB], ids=["postgresql", "mariadb"])
@settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.generate],  # each example is a job of Spark, and the rows that differ are shown
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows=st.lists(ROWS, min_size=20, max_size=40))
def test_every_value_is_read_to_the_last_digit(session, modes, rows):
    found = [(row, expected(number, rows[number])) for number, row in enumerate(read(session, rows, modes))]
    assert [(one, other) for one, other in found if one != other] == []


WITNESS = {
    "amount": 12345678901234567890123456780123456789,
    "at": datetime(2025, 1, 31, 23, 59, 59, 123457),  # noqa: DTZ001 - as above
    "clock": 86_399_999_999,
    "raw": b"\xff\x00",
    "big": 2**64 - 1,
}


@pytest.mark.parametrize(
    ("setting", "mode", "column"),
    [
        ("decimal.handling.mode", "double", "amount"),
        ("time.precision.mode", "connect", "at"),
        ("time.precision.mode", "connect", "clock"),
        ("binary.handling.mode", "base64", "raw"),
        ("bigint.unsigned.handling.mode", "long", "big"),
    ],
)
def test_other_modes_lose_digits_or_mean_another_value(session, setting, mode, column):
    (found,) = read(session, [WITNESS], {**MARIADB, setting: mode})
    assert found is None or found[column] != expected(0, WITNESS)[column]
