"""Messages written byte by byte from PostgreSQL's documentation of protocol version 1, not by an encoder of ours."""

import pytest

from tidegate.errors import SourceError
from tidegate.sources.change_log.slot.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Ignored,
    Insert,
    Relation,
    RelationColumn,
    Truncate,
    Update,
    parse,
)

LSN = "00000000016b3748"
TIME = "0002c2a1b9d4f000"
OID = "0000 4001"
ONE = "74 00000001 31"  # text, one byte, "1"
TWO = "74 00000001 32"


def of(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


BEGIN = f"42 {LSN} {TIME} 000002f1"
COMMIT = f"43 00 {LSN} 00000000016b3778 {TIME}"
RELATION = (
    f"52 {OID} 7075626c696300 6f726465727300 64 0002"  # public orders, default identity, two columns
    " 01 696400 00000014 ffffffff"  # id: key, int8
    " 00 c3a900 00000412 00000024"  # é: no key, bpchar, a modifier
)
INSERT = f"49 {OID} 4e 0003 {ONE} 6e 74 00000002 c3a9"
UPDATE = f"55 {OID} 4e 0002 {ONE} 75"
KEY_UPDATE = f"55 {OID} 4b 0002 {ONE} 6e 4e 0002 {TWO} 75"
WHOLE_UPDATE = f"55 {OID} 4f 0002 {ONE} {ONE} 4e 0002 {ONE} {TWO}"
DELETE = f"44 {OID} 4b 0002 {ONE} 6e"
WHOLE_DELETE = f"44 {OID} 4f 0002 {ONE} {TWO}"
TRUNCATE = f"54 00000002 03 {OID} 00004007"

RELATION_COLUMNS = (
    RelationColumn(name="id", key=True, type=20, modifier=-1),
    RelationColumn(name="é", key=False, type=1042, modifier=36),
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BEGIN, Begin(commit=0x16B3748, xid=753)),
        (COMMIT, Commit(commit=0x16B3748, end=0x16B3778)),
        (RELATION, Relation(oid=0x4001, schema="public", name="orders", identity="d", columns=RELATION_COLUMNS)),
        (INSERT, Insert(oid=0x4001, new=(b"1", None, "é".encode()))),
        (UPDATE, Update(oid=0x4001, old=None, whole=False, new=(b"1", UNCHANGED))),
        (KEY_UPDATE, Update(oid=0x4001, old=(b"1", None), whole=False, new=(b"2", UNCHANGED))),
        (WHOLE_UPDATE, Update(oid=0x4001, old=(b"1", b"1"), whole=True, new=(b"1", b"2"))),
        (DELETE, Delete(oid=0x4001, old=(b"1", None), whole=False)),
        (WHOLE_DELETE, Delete(oid=0x4001, old=(b"1", b"2"), whole=True)),
        (TRUNCATE, Truncate(oids=(0x4001, 0x4007))),
        ("4f 0000000000000001 6100", Ignored(kind="O")),
        ("59 00004009 7075626c696300 6d6f6f6400", Ignored(kind="Y")),
    ],
)
def test_every_message_of_the_protocol(text, message):
    assert parse(of(text)) == message


def test_an_empty_text_is_not_null():
    assert parse(of(f"49 {OID} 4e 0002 74 00000000 6e")) == Insert(oid=0x4001, new=(b"", None))


def test_a_relation_of_the_systems_schema_has_its_name_left_out():
    found = parse(of(f"52 {OID} 00 7400 6e 0000"))
    assert found == Relation(oid=0x4001, schema="pg_catalog", name="t", identity="n", columns=())


@pytest.mark.parametrize("text", [BEGIN, COMMIT, RELATION, INSERT, UPDATE, KEY_UPDATE, WHOLE_DELETE, TRUNCATE])
def test_bytes_that_are_cut_short_or_go_on_are_refused(text):
    whole = of(text)
    for end in range(1, len(whole)):
        with pytest.raises(SourceError, match="truncated or damaged"):
            parse(whole[:end])
    with pytest.raises(SourceError, match="continues"):
        parse(whole + b"\0")


@pytest.mark.parametrize("text", ["", "5300", f"49 {OID} 4b 0000", f"49 {OID} 4e 0001 62 00000001 31"])
def test_what_version_1_does_not_have_is_refused(text):
    """No message at all, a streamed transaction of version 2, an insert of a key, a binary value."""
    with pytest.raises(SourceError, match="protocol version 1"):
        parse(of(text))
