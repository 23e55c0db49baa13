"""What Spark makes of single messages of Debezium: such that nobody can take, known schemas, rows and numbers."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pytest

from support.envelopes import as_bytes, bare, columns, told
from tidegate.core.log import RAW, REFUSED
from tidegate.dialects.spark.json_text import NO_CHARACTER
from tidegate.envelopes.debezium import Debezium

pytestmark = [pytest.mark.spark]


def test_what_cannot_be_taken_is_told_and_never_null(session):
    stated = {"id": "int", "n": "decimal(6,2) as bytes", "at": "timestamp as MicroTimestamp"}
    cases: list[tuple[Any, str | None]] = [
        (b"\xff\xfe", "it is not valid UTF-8"),
        ('{"op":"c"', "it is not a complete JSON object"),
        ('{"op":"c"} x', "it is not a complete JSON object"),
        ('{"op":"m"', "it is not a complete JSON object"),
        ("[]", "it is not a complete JSON object"),
        ('"text"', "it is not a complete JSON object"),
        ("", "it is not a complete JSON object"),
        ({"id": 1}, "it has no `op`, so it is not a Debezium event"),
        (bare("x"), "its `op` is not one that Debezium writes"),
        (bare(after=None), "it has no row"),
        (bare(after=[1]), "its row is not a JSON object"),
        ('{"op":"c","source":{},"after":{"id":"\ufdd01"}}', NO_CHARACTER),
        ('{"op":"c","source":{},"after":{"id":"\\ufdd01"}}', NO_CHARACTER),
        ('{"op":"c","source":{},"after":{"id":"\\ud83d"}}', NO_CHARACTER),
        (bare(after={"id": 2**31}), "column id: its value does not fit int"),
        (bare(after={"id": "x"}), "column id: its value does not fit int"),
        (bare(after={"id": 1, "n": "BBoBBoBBoBBo"}), "column n: its value does not fit decimal(6,2)"),
        (bare(after={"id": 1, "n": "*"}), "column n: its value does not fit decimal(6,2)"),
        (bare(after={"id": 1, "n": 10.505}), "column n: its value does not fit decimal(6,2)"),
        (bare(after={"id": 1, "at": 2**63 - 1}), "column at: its value does not fit timestamp_ntz"),
        (bare(after={"id": 1, "at": "soon"}), "column at: its value does not fit timestamp_ntz"),
        (bare(after={"id": 1}, source=None), "its `source` does not give its position in the database's log"),
        (bare(after={"id": 1, "n": "BBo=", "at": 0}), None),
        (bare(after={"id": 1, "n": 1050, "at": None}), None),
    ]
    assert told(session, Debezium(columns=stated), [('{"id":"\ufdd01"}', bare("d"))])[0][REFUSED] == NO_CHARACTER
    cases += [({"payload": value}, reason) for value, reason in cases if isinstance(value, dict)]
    found = told(session, Debezium(columns=stated), [({"id": 1}, value) for value, _ in cases])
    assert [event[REFUSED] for event in found] == [reason for _, reason in cases]
    for event, (value, reason) in zip(found, cases, strict=True):
        raw = base64.b64encode(value).decode() if isinstance(value, bytes) else as_bytes(value).decode()
        assert event[RAW] == (raw if reason else None)
    assert [event["n"] for event in found[-2:]] == [Decimal("10.50"), Decimal("1050.00")]


def carried(name: str, scale: int = 2) -> str:
    """The schema of a message of Connect whose row has one column beside its key."""
    parameters = {"scale": str(scale), "connect.decimal.precision": "9"}
    price = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters, "field": name}
    note = {"type": "string", "optional": True, "default": ',"payload":{', "field": "note"}
    fields = [{"type": "int32", "field": "id"}, price, note]
    row = [{"type": "struct", "fields": fields, "field": part} for part in ("before", "after")]
    return json.dumps({"type": "struct", "fields": [*row, {"type": "string", "field": "op"}]}, separators=(",", ":"))


def test_messages_of_known_schemas_among_others(session):
    old, new, strange = carried("n"), carried("n", scale=1), carried("m")
    event = json.dumps(bare(after={"id": 1, "n": "BBo=", "note": "x"}), separators=(",", ":"))
    whole = f'{{"schema":{old},"payload":{event}}}'
    cases: list[tuple[str, str | None, Any]] = [
        (whole, None, Decimal("10.50")),
        (f'{{"schema":{new},"payload":{event}}}', None, Decimal("105.00")),
        (f'{{"schema":{strange},"payload":{event}}}', "column n: its value does not fit decimal(6,2)", None),
        (f'{{"schema":{old},\n"payload":{event}}}', None, Decimal("10.50")),
        (event, None, Decimal("10.50")),
        (whole[:-1], "it is not a complete JSON object", None),
        (whole[:-3], "it is not a complete JSON object", None),
        (f'{{"schema":{old},"payload":[]}}', "it is not a complete JSON object", None),
        (f'{{"schema":{old},"payload":null}}', "it has no `op`, so it is not a Debezium event", None),
        (f'{{"schema":{old},"payload":{event},"more":{{}}}}', None, Decimal("10.50")),
    ]
    envelope = Debezium(columns={"id": "int", "n": "decimal(6,2) as bytes", "note": "text"})
    found = told(session, envelope, [({"id": 1}, value) for value, _, _ in cases])
    assert [event[REFUSED] for event in found] == [reason for _, reason, _ in cases]
    assert [event["n"] for event in found] == [value for _, _, value in cases]
    for event, (value, reason, _) in zip(found, cases, strict=True):
        assert event[RAW] == (value if reason else None)


def test_rows_that_the_parser_of_the_whole_message_does_not_find(session):
    after = {"_id": 1, "raw": "x", "place": 2}
    messages = [
        (None, bare("d", before=after, after=None)),
        (None, {"payload": bare("d", before=after, after=None)}),
        ({"_id": 1}, bare("d", after=None)),
        (None, bare(before=5, after=after)),
    ]
    found = told(session, Debezium(columns={"_id": "int", "raw": "text", "place": "int"}), messages)
    assert [event[REFUSED] for event in found] == [None] * len(messages)
    assert [columns(event) for event in found] == [
        {**after, "raw": None, "place": None} if n == 2 else after for n in range(len(messages))
    ], "a column may be called as a step of the decoding is"


def test_numbers_to_the_last_digit(session):
    stated = {
        "id": "int",
        "d": "decimal(38,0) as bytes",
        "s": "decimal(38,10) as string",
        "f": "decimal(12,3) as double",
    }
    most = 10**38 - 1
    wholes = [0, 1, -1, 127, 128, -128, -129, 2**63 - 1, -(2**63), 2**63, 2**64 + 5, -(2**96) - 7, most, -most]

    def encoded(number: int) -> str:
        size = max(1, (number.bit_length() + 8) // 8)
        return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()

    rows = [{"id": n, "d": encoded(number), "s": "-0.1234567890", "f": 1.25e3} for n, number in enumerate(wholes)]
    rows.append({"id": 99, "d": encoded(most + 1), "s": None, "f": None})
    *found, beyond = told(session, Debezium(columns=stated), [(None, bare(after=row)) for row in rows])
    assert [int(event["d"]) for event in found] == wholes
    assert {(event["s"], event["f"]) for event in found} == {(Decimal("-0.1234567890"), Decimal("1250.000"))}
    assert beyond[REFUSED] == "column d: its value does not fit decimal(38,0)"
