"""How connectors may be told to write numbers, times and bytes: each value is read exactly, or its event is refused.

Every mode has a column of its own, and every value an event of its own, so all of them are one batch of Spark.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from support.engines import debezium, number, unscaled
from support.envelopes import columns, told
from tidegate.core.log import REFUSED, Message
from tidegate.core.schema import BIGINT, BINARY, DATE, DOUBLE, TEXT, TIME, TIMESTAMP, TIMESTAMPTZ, Type, decimal
from tidegate.envelopes.debezium import Debezium

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]

UNFIT = object()
"""A value whose event is refused."""
CONNECT = "org.apache.kafka.connect.data"
NOON = 12 * 3_600 * 1_000_000
DIGITS = Decimal("1234567890123456789012345678.0123456789")


class Mode(NamedTuple):
    """How a column is written, the type that it gets unless another one is stated, and values: as written, as read."""

    field: dict[str, Any]
    type: Type
    values: Sequence[tuple[Any, Any]]
    stated: str | None = None


def base(value: bytes) -> str:
    return base64.b64encode(value).decode()


def variable(text: str) -> dict[str, Any]:
    scale = -int(Decimal(text).as_tuple().exponent)
    return {"scale": scale, "value": unscaled(Decimal(text), scale)}


PROPAGATED = {"parameters": {"__debezium.source.column.type": "BIGINT UNSIGNED"}}
MODES = {
    # decimal.handling.mode
    "money, precise": Mode(
        number(19, 4),
        decimal(19, 4),
        [
            (unscaled(Decimal("-922337203685477.5808"), 4), Decimal("-922337203685477.5808")),
            ("AQ==", Decimal("0.0001")),
        ],
    ),
    "decimal, precise": Mode(
        number(38, 10),
        decimal(38, 10),
        [(unscaled(DIGITS, 10), DIGITS), (unscaled(DIGITS.copy_negate(), 10), DIGITS.copy_negate())],
    ),
    "decimal, string": Mode({"type": "string"}, TEXT, [("-922337203685477.5808", "-922337203685477.5808")]),
    "decimal, string, stated": Mode(
        {"type": "string"},
        decimal(10, 2),
        [("10.50", Decimal("10.50")), ("1E+3", Decimal("1000.00")), ("1.005", UNFIT), ("", UNFIT), ("NaN", UNFIT)],
        "decimal(10,2)",
    ),
    "decimal, double": Mode({"type": "double"}, DOUBLE, [(10.1, 10.1), (1e300, 1e300)]),
    "decimal, double, stated": Mode(
        {"type": "double"},
        decimal(10, 2),
        [(10.1, Decimal("10.10")), (1.2345678e7, Decimal("12345678.00")), (0.005, UNFIT), ("NaN", UNFIT)],
        "decimal(10,2)",
    ),
    "NUMBER": Mode(
        debezium("struct", "data.VariableScaleDecimal"),
        TEXT,
        [
            (variable("1.250"), "1.250"),
            (variable("-0.0000001"), "-0.0000001"),
            ({"scale": -2, "value": "Bw=="}, "700"),
            ({"scale": 0, "value": ""}, "0"),
            (variable("9" * 38), "9" * 38),
            (variable("9" * 40), UNFIT),
            ({"value": "Bw=="}, UNFIT),
        ],
    ),
    "NUMBER, stated": Mode(
        debezium("struct", "data.VariableScaleDecimal"),
        decimal(12, 3),
        [
            (variable("1.25"), Decimal("1.250")),
            (variable("1.2505"), UNFIT),
            ({"scale": -2, "value": "Bw=="}, Decimal(700)),
        ],
        "decimal(12,3)",
    ),
    "NUMBER, stated as whole": Mode(
        debezium("struct", "data.VariableScaleDecimal"),
        decimal(19, 0),
        [(variable("9223372036854775808"), Decimal(2**63)), (variable("0.5"), UNFIT)],
        "decimal(19,0)",
    ),
    # bigint.unsigned.handling.mode
    "bigint unsigned, long": Mode({"type": "int64"}, BIGINT, [(2**63 - 1, 2**63 - 1), (2**63, UNFIT)]),
    "bigint unsigned, long, propagated": Mode(
        {"type": "int64", **PROPAGATED}, decimal(20, 0), [(2**63 - 1, Decimal(2**63 - 1)), (-1, UNFIT)]
    ),
    "bigint unsigned, precise": Mode(
        number(20, 0), decimal(20, 0), [(unscaled(Decimal(2**64 - 1), 0), Decimal(2**64 - 1))]
    ),
    # time.precision.mode
    "timestamp, adaptive": Mode(
        debezium("int64", "time.MicroTimestamp"),
        TIMESTAMP,
        [
            (-62_135_596_799_999_999, "0001-01-01 00:00:00.000001"),
            (-1, "1969-12-31 23:59:59.999999"),
            (253_402_300_799_999_999, "9999-12-31 23:59:59.999999"),
            (253_402_300_800_000_000, UNFIT),
        ],
    ),
    "date, connect": Mode(
        {"type": "int32", "name": f"{CONNECT}.Date"}, DATE, [(-719_162, "0001-01-01"), (2_932_897, UNFIT)]
    ),
    "time, connect": Mode(
        {"type": "int32", "name": f"{CONNECT}.Time"}, TIME, [(1, "00:00:00.001000"), (86_399_999, "23:59:59.999000")]
    ),
    "timestamp, connect": Mode(
        {"type": "int64", "name": f"{CONNECT}.Timestamp"},
        TIMESTAMP,
        [(-1, "1969-12-31 23:59:59.999"), (253_402_300_800_000, UNFIT)],
    ),
    "date, isostring": Mode(
        debezium("string", "time.IsoDate"),
        DATE,
        [("2025-01-31Z", "2025-01-31"), ("2025-02-30Z", UNFIT), ("+10000-01-01Z", UNFIT)],
    ),
    "time, isostring": Mode(
        debezium("string", "time.IsoTime"),
        TIME,
        [("12:00:00.5Z", "12:00:00.500000"), ("12:00Z", "12:00:00.000000"), ("12:00:00.1234567Z", UNFIT)],
    ),
    "timestamp, isostring": Mode(
        debezium("string", "time.IsoTimestamp"),
        TIMESTAMP,
        [
            ("2025-01-31T12:00:00.000001Z", "2025-01-31 12:00:00.000001"),
            ("2025-01-31T12:00:00.1234567Z", UNFIT),
            ("0000-01-01T00:00:00Z", UNFIT),
        ],
    ),
    "time, adaptive": Mode(
        debezium("int64", "time.MicroTime"),
        TIME,
        [(NOON + 1, "12:00:00.000001"), (-3_020_399_000_000, "-838:59:59.000000")],
    ),
    "timestamp, nanoseconds": Mode(
        debezium("int64", "time.NanoTimestamp"),
        TIMESTAMP,
        [(-1_000, "1969-12-31 23:59:59.999999"), (100, UNFIT), (-100, UNFIT)],
    ),
    "datetimeoffset": Mode(
        debezium("string", "time.ZonedTimestamp"),
        TIMESTAMPTZ,
        [
            ("2025-01-31T23:30:00.1-05:30", "2025-02-01 05:00:00.1"),
            ("9999-12-31T23:59:59.999999Z", "9999-12-31 23:59:59.999999"),
            ("2025-01-31T12:00:00.1234567Z", UNFIT),
            ("2025-01-31T12:00:00", UNFIT),
        ],
    ),
    # A zero date of MySQL.
    "zero date": Mode(debezium("int32", "time.Date"), DATE, [(None, None), (0, "1970-01-01")]),
    # binary.handling.mode
    "binary, bytes": Mode({"type": "bytes"}, BINARY, [(base(b"\x00\xff"), b"\x00\xff"), ("*", UNFIT)]),
    "binary, base64": Mode({"type": "string"}, TEXT, [("AP8=", "AP8=")]),
    "binary, base64, stated": Mode({"type": "string"}, BINARY, [("AP8=", UNFIT)], "binary as bytes"),
    "binary, hex": Mode({"type": "string"}, TEXT, [("00ff", "00ff")]),
}


WAYS = {
    "decimal(19,4) as bytes": "money, precise",
    "decimal(10,2) as string": "decimal, string, stated",
    "decimal(10,2) as double": "decimal, double, stated",
    "date": "zero date",
    "date as IsoDate": "date, isostring",
    "time as IsoTime": "time, isostring",
    "time as MicroTime": "time, adaptive",
    "timestamp as Timestamp": "timestamp, connect",
    "timestamp as IsoTimestamp": "timestamp, isostring",
    "timestamp as NanoTimestamp": "timestamp, nanoseconds",
    "timestamptz": "datetimeoffset",
    "binary as bytes": "binary, bytes",
}


def messages(names: Iterable[str], *, carried: bool) -> tuple[list[Any], dict[str, list[Any]]]:
    """One message for each value of these modes, with its schema or without, and the values that are read of each."""
    names = list(names)
    fields = [{"type": "int64", "field": "id"}]
    fields += [{**MODES[name].field, "optional": True, "field": name} for name in names]
    schema = {"type": "struct", "fields": [{"type": "struct", "fields": fields, "field": "after"}]}
    found: list[Any] = []
    for name in names:
        for written, _ in MODES[name].values:
            place = {"file": "b.000001", "pos": len(found), "row": 0}
            source = {"connector": "mysql", "db": "shop", "table": "orders", **place}
            after = {"id": len(found), **dict.fromkeys(names), name: written}
            payload = {"before": None, "after": after, "source": source, "op": "c"}
            found.append((None, {"schema": schema, "payload": payload} if carried else payload))
    return found, {name: [value for _, value in MODES[name].values] for name in names}


def read(session: SparkSession, envelope: Debezium, names: Iterable[str], written: list[Any]) -> dict[str, list[Any]]:
    events = iter(told(session, envelope, written))
    found: dict[str, list[Any]] = {}
    for name in names:
        of_mode = [next(events) for _ in MODES[name].values]
        found[name] = [UNFIT if event[REFUSED] is not None else columns(event)[name] for event in of_mode]
    return found


def test_a_value_is_read_exactly_or_refused(session):
    envelope = Debezium(columns={name: mode.stated for name, mode in MODES.items() if mode.stated})
    written, expected = messages(MODES, carried=True)
    found = envelope.schema([Message(key=None, value=json.dumps(written[0][1]).encode())])
    assert {column.name: column.type for column in found if column.name != "id"} == {
        name: mode.type for name, mode in MODES.items()
    }
    assert read(session, envelope, MODES, written) == expected


def test_a_value_without_a_schema_is_read_as_it_is_stated(session):
    envelope = Debezium(columns={"id": "bigint"} | {name: way for way, name in WAYS.items()})
    written, expected = messages(WAYS.values(), carried=False)
    assert read(session, envelope, WAYS.values(), written) == expected
