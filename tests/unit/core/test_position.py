import json

import pytest

from tidegate.core.position import Position

BEFORE = '{"clock":null,"kind":"full","load_id":"a","loaded_through":null,"schema":"","sequence":1,"source":"","state":{},"version":1}'  # noqa: E501 - as it was written
FULL = {"source": "shop", "schema": "0123", "writer": "scd2:1"}


def test_the_document_of_a_position_without_source_and_schema_is_the_one_of_older_versions():
    position = Position(sequence=1, load_id="a", kind="full")
    assert position.to_json() == BEFORE
    assert Position.from_json(BEFORE) == position


@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("written", ["no key", "", None])
def test_what_a_document_does_not_record_is_none(name, written):
    values = {**json.loads(BEFORE), **FULL}
    if written == "no key":
        del values[name]
    else:
        values[name] = written
    position = Position.from_json(json.dumps(values))
    assert {key: getattr(position, key) for key in FULL} == {**FULL, name: None}
    assert Position.from_json(position.to_json()) == position


def test_a_document_with_all_of_them_keeps_them():
    position = Position(sequence=1, load_id="a", kind="full", **FULL)
    assert Position.from_json(position.to_json()) == position
    assert json.loads(position.to_json()).items() >= FULL.items()
