"""Events as Debezium's connectors of MySQL, SQL Server and Oracle write them, and what a table must hold of them.

The shapes are those of Debezium's documentation (3.6): no connector of these has run here.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

HOLDER = "__debezium_unavailable_value"
KEPT = object()
"""A value that the database did not log, because it did not change."""
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a column without a zone
MICRO = timedelta(microseconds=1)
MOMENTS = (datetime(1753, 1, 1, 0, 0, 0, 1), datetime(2025, 3, 9, 2, 30, 0, 123_456), datetime(1969, 12, 31, 23, 59))  # noqa: DTZ001 - as above
TEXTS = ("plain", "née 🚲", "", 'a "b" \\ c', "NULL", "1e5")
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column: its field in a message's schema, what may stand in it, how that is written and what a table holds."""

    field: Row
    values: Sequence[Any]
    written: Callable[[Any], Any] = lambda value: value
    held: Callable[[Any], Any] = lambda value: value


@dataclass(frozen=True, kw_only=True, eq=False)
class Engine:
    """A connector.

    Args:
        key: the key column's name and the column.
        columns: the others.
        place: the fields of `source` of an event, by the number of its commit and its place in the transaction.
        read: those of a row of a snapshot.
        lob: a column of which an update may not log the value.
        truncates: it writes an event for a table that is emptied.
    """

    name: str
    key: tuple[str, Column]
    columns: Mapping[str, Column]
    table: Row
    place: Callable[[int, int], Row]
    read: Row
    lob: str | None = None
    truncates: bool = True

    def message(self, event: Event) -> Row:
        """One event with its schema."""
        columns = {self.key[0]: self.key[1], **self.columns}
        fields = [{"optional": name != self.key[0], **each.field, "field": name} for name, each in columns.items()]
        parts = [{"type": "struct", "fields": fields, "optional": True, "field": part} for part in ("before", "after")]
        key = {self.key[0]: self.key[1].written(event.key)}
        after = (
            None if event.row is None else {**key, **{name: self._value(name, event.row[name]) for name in event.row}}
        )
        place = self.read if event.op == "r" else self.place(*event.order)
        source = {"version": "3.6.3.Final", "connector": self.name, "name": "erp", **self.table, **place}
        before = None if event.op == "t" else {**dict.fromkeys(columns), **key}
        payload = {"before": before, "after": after, "source": source, "op": event.op}
        return {"schema": {"type": "struct", "fields": [*parts, {"type": "string", "field": "op"}]}, "payload": payload}

    def _value(self, name: str, value: Any) -> Any:
        return value if value is None else HOLDER if value is KEPT else self.columns[name].written(value)

    def held(self, events: Iterable[Event]) -> dict[Any, Row]:
        """The rows that these events leave, by key, however often and in whatever order they came."""
        rows: dict[Any, Row] = {}
        ordered = sorted(set(events), key=lambda event: (event.op != "r", event.order, event.op != "d"))
        for event in ordered:
            if event.op == "t":
                rows.clear()
            elif event.row is None:
                rows.pop(event.key, None)
            else:
                before = rows.get(event.key, {})
                found = {name: before.get(name) if value is KEPT else value for name, value in event.row.items()}
                rows[event.key] = found
        return {
            key: {name: None if value is None else self.columns[name].held(value) for name, value in row.items()}
            for key, row in rows.items()
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Event:
    """What happened to a row: `c`, `u`, `d`, or `r` of a snapshot; `t` to all of them. No row where it ended."""

    op: str
    order: tuple[int, int]
    key: int
    row: Row | None


def history(engine: Engine, chance: random.Random, keys: int) -> list[Event]:
    """Transactions of several changes each, of rows that a snapshot had read and of others, in the log's order.

    A key that changes is a delete and an insert of one place in the log. Some rows pass their keys on to each other.
    """
    present = {key for key in range(1, keys + 1) if chance.random() < 0.3}
    events = [Event(op="r", order=(0, 0), key=key, row=_row(engine, chance)) for key in sorted(present)]
    for commit in range(1, 2 * keys):
        for within in range(chance.choice((1, 2, 3))):
            order, key = (commit, within), chance.randint(1, keys)
            op = "c" if key not in present else chance.choice("uuudm")
            if op == "m":
                free = min(set(range(1, keys + 2)) - present)
                events.append(Event(op="d", order=order, key=key, row=None))
                events.append(Event(op="c", order=order, key=free, row=_row(engine, chance)))
                present ^= {key, free}
                continue
            row = None if op == "d" else _row(engine, chance, kept=op == "u")
            present ^= {key} if op in "cd" else set()
            events.append(Event(op=op, order=order, key=key, row=row))
        if engine.truncates and commit == keys:
            events.append(Event(op="t", order=(commit, 3), key=0, row=None))
            present.clear()
    return events


def _row(engine: Engine, chance: random.Random, *, kept: bool = False) -> Row:
    row = {name: chance.choice((*column.values, None)) for name, column in engine.columns.items()}
    if kept and engine.lob and chance.random() < 0.5:
        row[engine.lob] = KEPT
    return row


def lines(engine: Engine, events: Iterable[Event]) -> bytes:
    """A file of them."""
    return "".join(json.dumps(engine.message(event), ensure_ascii=False) + "\n" for event in events).encode()


def unscaled(value: Decimal, scale: int) -> str:
    """The digits of a number with so many behind the point, as big-endian two's complement in base64."""
    sign, digits, exponent = value.as_tuple()
    whole = int("".join(map(str, digits)) + "0" * (scale + int(exponent))) * (-1 if sign else 1)
    return base64.b64encode(whole.to_bytes(whole.bit_length() // 8 + 1, "big", signed=True)).decode()


def number(precision: int, scale: int) -> Row:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters}


def exact(precision: int, scale: int, *texts: str) -> Column:
    values = [Decimal(text) for text in texts]
    return Column(field=number(precision, scale), values=values, written=lambda value: unscaled(value, scale))


def debezium(kind: str, name: str) -> Row:
    return {"type": kind, "name": f"io.debezium.{name}"}


def whole(kind: str, *values: int) -> Column:
    return Column(field={"type": kind}, values=values)


def moments(name: str, unit: timedelta, values: Sequence[datetime] = MOMENTS, per: int = 1) -> Column:
    """Times without a zone, as a number of units since 1970, each of them `per` of what is written."""
    return Column(
        field=debezium("int64", f"time.{name}"), values=values, written=lambda value: (value - EPOCH) // unit * per
    )


def zoned(*values: datetime) -> Column:
    return Column(
        field=debezium("string", "time.ZonedTimestamp"),
        values=values,
        written=lambda value: value.isoformat().replace("+00:00", "Z"),
        held=lambda value: value.astimezone(UTC),
    )


def clock(name: str, per: int) -> Column:
    return Column(
        field=debezium("int64", f"time.{name}"),
        values=(time(0, 0), time(23, 59, 59, 999_999), time(7, 5, 0, 10)),
        written=lambda at: per * (((at.hour * 60 + at.minute) * 60 + at.second) * 1_000_000 + at.microsecond),
        held=lambda at: f"{at:%H:%M:%S.%f}",
    )


def texts(field: Row | None = None, *values: str) -> Column:
    return Column(field=field or {"type": "string"}, values=values or TEXTS)


DAYS = Column(
    field=debezium("int32", "time.Date"),
    values=(date(1, 1, 1), date(2025, 2, 28), date(9999, 12, 31)),
    written=lambda day: (day - EPOCH.date()).days,
)
RAW = Column(
    field={"type": "bytes"}, values=(b"\x00\xff", b"", b"text"), written=lambda value: base64.b64encode(value).decode()
)
OK = Column(field={"type": "boolean"}, values=(True, False))
EAST = timezone(timedelta(hours=5, minutes=30))

MYSQL = Engine(
    name="mysql",
    key=("id", whole("int64")),
    columns={
        "big": exact(20, 0, "0", "18446744073709551615", "9223372036854775808"),
        "small": whole("int64", 4_294_967_295, 0),
        "price": exact(10, 2, "10.50", "-99999999.99", "0.00"),
        "wide": Column(
            field=number(65, 2),
            values=(Decimal("123456789012345678901234567890123456.78"), Decimal("-0.05")),
            written=lambda value: unscaled(value, 2),
            held=str,
        ),
        "made": moments("MicroTimestamp", MICRO),
        "seconds": moments("Timestamp", timedelta(milliseconds=1), (datetime(2025, 1, 31, 12),)),  # noqa: DTZ001 - as above
        "seen": zoned(datetime(2025, 1, 31, 17, 0, 0, 123_456, UTC), datetime(1970, 1, 1, 0, 0, 1, 0, UTC)),
        "at": clock("MicroTime", 1),
        "day": DAYS,
        "year": Column(field=debezium("int32", "time.Year"), values=(1901, 2155)),
        "ok": OK,
        "flags": Column(
            field={**debezium("bytes", "data.Bits"), "parameters": {"length": "9"}},
            values=("100000001", "000000000"),
            written=lambda bits: base64.b64encode(int(bits, 2).to_bytes(2, "little")).decode(),
        ),
        "doc": texts(debezium("string", "data.Json"), '{"a": 1}', "[1.50, null]"),
        "kind": texts({**debezium("string", "data.Enum"), "parameters": {"allowed": "a,b"}}, "a", "b"),
        "tags": texts({**debezium("string", "data.EnumSet"), "parameters": {"allowed": "x,y"}}, "x", "x,y", ""),
        "raw": RAW,
        "name": texts(),
    },
    table={"db": "shop", "table": "orders", "server_id": 223344, "gtid": None, "thread": 7},
    # From a file of six digits to one of seven, and from a short position to a long one.
    place=lambda commit, within: {
        "file": f"mysql-bin.{999_990 + commit // 4:06}",
        "pos": (4, 97, 1_034, 20_971_520)[commit % 4],
        "row": within,
    },
    read={"file": "mysql-bin.999990", "pos": 157, "row": 0, "server_id": 0, "snapshot": "true"},
)

SQLSERVER = Engine(
    name="sqlserver",
    key=("id", whole("int64")),
    columns={
        "amount": exact(19, 4, "922337203685477.5807", "-0.0001"),
        "made": moments("NanoTimestamp", MICRO, per=1000),
        "changed": moments("MicroTimestamp", MICRO, (*MOMENTS, datetime(9999, 12, 31, 23, 59, 59, 999_999))),  # noqa: DTZ001 - as above
        "old": moments("Timestamp", timedelta(milliseconds=1), (datetime(2025, 1, 31, 12, 0, 0, 3_000),)),  # noqa: DTZ001 - as above
        "seen": zoned(datetime(2018, 6, 20, 15, 13, 16, 945_104, EAST), datetime(1, 1, 2, 0, 0, 0, 0, UTC)),
        "at": clock("NanoTime", 1000),
        "day": DAYS,
        "code": texts(None, "6F9619FF-8B86-D011-B42D-00C04FC964FF"),
        "version": RAW,
        "ok": OK,
        "small": whole("int16", 0, 255),
        "ratio": Column(field={"type": "double"}, values=(0.1, -1e300)),
        "page": texts(debezium("string", "data.Xml"), "<a>é</a>"),
        "name": texts(),
    },
    table={"db": "shop", "schema": "dbo", "table": "orders"},
    place=lambda commit, within: {
        "commit_lsn": f"00000027:{commit + 250:08x}:0005",
        "change_lsn": f"00000027:{commit + 250:08x}:{1 + within // 2:04x}",
        "event_serial_no": str(1 + within % 2),
    },
    read={"commit_lsn": "00000f27:00000758:0005", "change_lsn": None, "event_serial_no": None, "snapshot": "true"},
    truncates=False,
)


def variable(*values: str) -> Column:
    """A NUMBER without precision; a table holds its text."""
    return Column(
        field=debezium("struct", "data.VariableScaleDecimal"),
        values=[Decimal(value) for value in values],
        written=lambda value: {
            "scale": -value.as_tuple().exponent,
            "value": unscaled(value, -value.as_tuple().exponent),
        },
        held=lambda value: f"{value:f}",
    )


ORACLE = Engine(
    name="oracle",
    key=("ID", Column(field=number(19, 0), values=(), written=lambda value: unscaled(Decimal(value), 0))),
    columns={
        "N": variable("1.25", "-12345678901234567890.5", "7"),
        "PRICE": exact(10, 2, "10.50", "-99999999.99"),
        "HUNDREDS": whole("int64", 100, -1_200),
        "SMALL": whole("int8", 1, -99),
        "RATIO": Column(field={"type": "float"}, values=(1.5, -0.25)),
        "MADE": moments("Timestamp", timedelta(milliseconds=1), (datetime(2025, 1, 31, 23, 59, 59),)),  # noqa: DTZ001 - as above
        "CHANGED": moments("NanoTimestamp", MICRO, per=1000),
        "SEEN": zoned(datetime(2025, 1, 31, 12, 0, 0, 1, EAST)),
        "FOR": texts(debezium("string", "time.Interval"), "P0Y0M3DT4H5M6.78S", "P1Y2M0DT0H0M0S"),
        "CODE": texts(None, "AB        "),
        "RAW": RAW,
        "NOTE": texts(None, "long" * 2_000, "é"),
    },
    table={"db": "ERPPDB1", "schema": "ERP", "table": "ORDERS"},
    # A transaction has one SCN, and an earlier one than others that were committed before it.
    place=lambda commit, within: {
        "commit_scn": str(95 + commit),
        "scn": str(90 - commit % 7),
        **(
            {"rs_id": f" 0x00004a.{commit:08x}.{8 * within:04x} ", "ssn": 0, "txSeq": within + 1}
            if commit % 2
            else {"rs_id": None, "ssn": 0, "txSeq": 9 + within}
        ),
    },
    read={"scn": "99999", "commit_scn": None, "rs_id": None, "ssn": 0, "txSeq": None, "snapshot": "true"},
    lob="NOTE",
)
ENGINES = {each.name: each for each in (MYSQL, SQLSERVER, ORACLE)}
