"""Which lines of files tell the columns: every schema of the table's messages, however late it appears."""

from __future__ import annotations

import json

import pytest

from tidegate.core.log import Message
from tidegate.envelopes.debezium import Debezium
from tidegate.sources.change_log.line_sample import SAMPLE, LineSample


def line(*names, table="orders", spaces=False, **payload):
    fields = [{"field": name, "type": "int64"} for name in names]
    schema = {"fields": [{"field": "after", "fields": fields}]}
    source = {"db": "shop", "schema": "public", "table": table}
    message = {"schema": schema, "payload": {"op": "c", "source": source, **payload}}
    return json.dumps(message, separators=(", ", " : ") if spaces else (",", ":")).encode() + b"\n"


class Envelope:
    """An envelope that counts the messages it is asked about."""

    def __init__(self, **options):
        self.of = Debezium(**options)
        self.asked = 0

    def own(self, messages):
        self.asked += len(messages)
        return self.of.own(messages)


def names(envelope, *files):
    sample = LineSample(envelope.own)
    for lines in files:
        sample.take(lines)
    found = sample.messages()
    return envelope.of.schema(found).names if found else None


@pytest.mark.parametrize("spaces", [False, True])
def test_a_column_that_appears_late_is_found_and_its_schema_parsed_once(spaces):
    envelope = Envelope()
    lines = [line("id", spaces=spaces, after={"id": n}) for n in range(5000)]
    more = [line("id", "payload", "late", spaces=spaces, after={"id": n, "late": n}) for n in range(5000)]
    assert names(envelope, [*lines, *more, lines[0]]) == ("id", "payload", "late")
    assert envelope.asked == 2


def test_the_newest_schema_is_the_last():
    old, new = line("id", "old"), line("id", "new")
    assert names(Envelope(), [old, new, new]) == ("id", "new", "old")
    assert names(Envelope(), [new], [old]) == ("id", "old", "new")
    assert names(Envelope(), [old, new, old]) == ("id", "old", "new")


def test_lines_of_other_tables_tell_nothing_even_with_the_same_schema():
    foreign, same = line("id", "price", table="items"), line("id", table="items")
    own = line("id")
    assert names(Envelope(table="public.orders"), [foreign] * 1000, [own, foreign]) == ("id",)
    assert names(Envelope(table="public.orders"), [same] * (5 * SAMPLE) + [own]) == ("id",), "until one is found"
    assert names(Envelope(table="public.orders"), [foreign, same]) is None


def test_lines_without_a_schema_are_kept_from_the_beginning():
    bare = b'{"op":"c","source":{"schema":"public","table":"orders"},"after":{"payload":1}}\n'
    sample = LineSample(Debezium().own)
    sample.take([b"\n", *[bare] * 1000])
    assert sample.messages() == [Message(key=None, value=bare.strip())] * SAMPLE
    later = LineSample(Debezium(table="public.orders").own)
    later.take([*[bare.replace(b"orders", b"items")] * 1000, bare])
    assert [each.value for each in later.messages()] == [bare.strip()]
