"""Schemas that messages carry: which are known once some of them were seen."""

from __future__ import annotations

import json

from tidegate.envelopes import _schemas as schemas
from tidegate.envelopes._connect import FieldEncoding

DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}


def message(*fields, payload=None):
    row = {"type": "struct", "fields": list(fields), "field": "after"}
    return json.dumps({"schema": {"fields": [row]}, "payload": payload}, separators=(",", ":")).encode()


def test_the_newest_schemas_are_known():
    values = [message({"type": kind, "field": "a"}) for kind in ("int8", "int16", "int32", "int64", "string", "bytes")]
    found = schemas.known([*values, values[-1], None, b"{", b"[]", b'{"op":"c"}'], "after")
    assert [each.way("a").type for each in found] == ["bytes", "string", "int64", "int32"]
    assert all(value.startswith(each.prefix) for value, each in zip(reversed(values), found, strict=False))
    assert found[0].prefix.endswith(b',"payload":')


def test_how_a_column_is_written():
    (found,) = schemas.known([message({**DECIMAL, "field": "price"})], "after")
    assert found.way("price") == FieldEncoding(type="bytes", name="Decimal", scale="2", length=None)
    assert found.way("other") == FieldEncoding(type=None, name="", scale=None, length=None)


def test_what_looks_like_a_payload_ends_no_schema():
    value = message({"type": "string", "default": ',"payload":{', "field": "a"}, payload={"op": "c"})
    nested = b'{"schema":{"fields":[{"field":"after","fields":[{"field":"a","x":1,"payload":2}]}]},"payload":{}}'
    for each in (value, nested):
        (found,) = schemas.known([each], "after")
        json.loads(each[len(b'{"schema":') : len(found.prefix) - len(b',"payload":')])
        assert set(found.fields) == {"a"}


def test_a_schema_without_the_row_tells_nothing():
    assert schemas.known([message({"type": "string", "field": "a"})], "before") == ()
