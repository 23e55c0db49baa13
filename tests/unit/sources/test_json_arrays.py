"""A large array of JSON, object by object, whatever the pieces in which it is read."""

from __future__ import annotations

import io
import json

import pytest

from tidegate.errors import FileUnreadable
from tidegate.sources.shared.files.json_scan import objects

DOCUMENTS = [{"id": 1, "t": 'a "q" \\ ] } é, {'}, {}, {"n": {"l": [{"x": "["}, []]}}, {"e": "\\"}]


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2])
def test_objects_are_what_json_says(piece, indent):
    text = json.dumps(DOCUMENTS, ensure_ascii=False, indent=indent).encode()
    for content in (
        text,
        b"\xef\xbb\xbf" + text if piece > 3 else text + b"\n",
        b" \r\n" + text if piece > 3 else text,
    ):
        found = list(objects(io.BytesIO(content), "a.json", piece=piece))
        assert [json.loads(each) for each in found] == DOCUMENTS
        assert not any(b"\n" in each for each in found)
    assert list(objects(io.BytesIO(b"[ ]"), "a.json")) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[{}",
        "[{},",
        "[{}]]",
        "[{}] {}",
        "[{} {}]",
        "[{},,{}]",
        "[,{}]",
        "[{},]",
        "[1]",
        '["a"]',
        "[[]]",
        "{}",
        "[{}}",
        '[{"a": "b\nc"}]',
        '[{"a": "b',
        "[{}, 1]",
        "[{}, null, {}]",
        "x[{}]",
        "[x{}]",
    ],
)
def test_what_is_no_array_of_objects_is_refused(text):
    with pytest.raises(FileUnreadable, match=r"a\.json") as refused:
        list(objects(io.BytesIO(text.encode()), "a.json"))
    assert "one array of objects" in refused.value.hint
