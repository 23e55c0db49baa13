"""Which events the messages of a slot are: order, keys that change, values that nobody sent, the ends of a range."""

import struct

import pytest

from tidegate.core.schema import BIGINT, INT, TEXT, Column, Schema, array
from tidegate.dialects.postgresql.output_functions import array_json
from tidegate.errors import HistoryGone, SourceError
from tidegate.sources.change_log.slot.events import SlotRead, completion, events, floor, lsn, number

SCHEMA = Schema(columns=tuple(Column(name=name, type=kind) for name, kind in (("id", BIGINT), ("name", TEXT))))
OURS, OTHER = 7, 8
DELETED, SAME = None, ...


def text(value) -> bytes:
    if value is SAME:
        return b"u"
    data = value if isinstance(value, bytes) else str(value).encode()
    return b"n" if value is None else b"t" + struct.pack("!i", len(data)) + data


def row(*values) -> bytes:
    return struct.pack("!h", len(values)) + b"".join(text(value) for value in values)


def relation(oid=OURS, name="orders", columns=("id", "name"), keys=("id",), identity="d") -> bytes:
    listed = (bytes([column in keys]) + column.encode() + b"\0" + struct.pack("!Ii", 25, -1) for column in columns)
    head = b"R" + struct.pack("!I", oid) + b"shop\0" + name.encode() + b"\0" + identity.encode()
    return head + struct.pack("!h", len(columns)) + b"".join(listed)


def insert(*values, oid=OURS) -> bytes:
    return b"I" + struct.pack("!I", oid) + b"N" + row(*values)


def update(new, key=None, old=None) -> bytes:
    before = b"K" + row(*key) if key else b"O" + row(*old) if old else b""
    return b"U" + struct.pack("!I", OURS) + before + b"N" + row(*new)


def delete(*key, mark=b"K") -> bytes:
    return b"D" + struct.pack("!I", OURS) + mark + row(*key)


def truncate(*oids) -> bytes:
    return b"T" + struct.pack("!IB", len(oids), 0) + struct.pack(f"!{len(oids)}I", *oids)


def transaction(commit: int, *changes: tuple[int, bytes]) -> list[tuple[int, bytes]]:
    begin = b"B" + struct.pack("!QqI", commit, 0, 99)
    end = b"C\0" + struct.pack("!QQq", commit, commit + 48, 0)
    return [(changes[0][0] if changes else commit, begin), *changes, (commit + 48, end)]


def told(*messages, schema=SCHEMA, identity=("id",), after=0, upto=10**6):
    wanted = SlotRead(
        slot="s",
        oid=OURS,
        columns=schema,
        places=lambda names: {name: place for place, name in enumerate(names)},
        identity=frozenset(identity),
        after=after,
        upto=upto,
    )
    return list(events([(1, relation()), *messages], wanted))


def short(found):
    return [(event.deleted, tuple(event.values), event.unknown) for event in found]


def test_rows_come_change_and_go():
    found = told(*transaction(500, (10, insert(1, "a")), (20, update((1, "b"))), (30, delete(1, None))))
    assert short(found) == [(False, ("1", "a"), ()), (False, ("1", "b"), ()), (True, ("1", None), ())]
    assert not any(event.clears or event.refused for event in found)
    assert found[0].origin == "slot s, LSN 0/A, transaction 99, event 0"


def test_the_order_is_of_commits_then_of_places_then_of_rows_of_one_place():
    late = transaction(900, (10, insert(1, "began first, commits last")))
    early = transaction(500, (600, insert(1, "a")), (600, insert(2, "b")), (700, insert(3, "c")))
    found = told(*early, *late)
    orders = [event.order for event in found]
    assert orders == sorted(orders)
    assert len({len(order) for order in orders}) == 1
    assert orders[:2] == [f"{500:016x}.{600:016x}.00000000", f"{500:016x}.{600:016x}.00000001"]
    assert orders[-1].startswith(f"{900:016x}")


def test_an_order_does_not_depend_on_other_tables_of_the_publication():
    ours = [(600, insert(1, "a")), (610, insert(2, "b"))]
    other = [(600, insert(5, oid=OTHER)), (605, insert(6, oid=OTHER))]
    described = (1, relation(OTHER, "lines", ("id",)))
    mixed = told(described, *transaction(500, other[0], ours[0], other[1], ours[1]))
    assert [event.order for event in mixed] == [event.order for event in told(*transaction(500, *ours))]


def test_a_range_takes_transactions_whose_commit_begins_in_it():
    three = [message for commit in (100, 200, 300) for message in transaction(commit, (commit - 9, insert(commit, "")))]
    assert [event.values[0] for event in told(*three, after=100, upto=300)] == ["100", "200"]
    assert [event.values[0] for event in told(*three, after=101, upto=301)] == ["200", "300"]
    assert told(*three, after=301) == []


def test_the_floor_is_below_what_commits_there_and_above_what_committed_before():
    found = told(*transaction(200, (190, insert(1, ""))))[0].order
    assert floor(200) < found < floor(201)


def test_a_value_stored_apart_is_not_known_and_never_written():
    assert short(told(*transaction(500, (10, update((1, SAME)))))) == [(False, ("1", None), ("name",))]


def test_a_key_that_changes_is_an_end_and_a_beginning():
    found = told(*transaction(500, (10, update((2, "a"), key=(1, None)))))
    assert short(found) == [(True, ("1", None), ()), (False, ("2", "a"), ())]
    assert found[0].order < found[1].order


def test_a_key_that_changes_without_a_value_leaves_it_unknown_whatever_is_told_later():
    """A version that was valid for a time must not show what its row became after it."""
    gone, came = told(*transaction(500, (10, update((2, SAME), key=(1, None)))))
    assert (gone.not_sent, came.not_sent, came.unknown) == ((), ("name",), ("name",))
    later = completion(came, SCHEMA, ("id",), {"name": "as it is now"})
    assert (later.values, later.unknown, later.not_sent) == (["2", "as it is now"], (), ())
    assert came.order < later.order < told(*transaction(500, (11, insert(3, "c"))))[0].order


def test_what_is_told_later_says_nothing_of_other_columns():
    schema = Schema(columns=(*SCHEMA.columns, Column(name="note", type=TEXT)))
    described = (1, relation(columns=("id", "name", "note")))
    _, came = told(described, *transaction(500, (10, update((2, SAME, "then"), key=(1, None, None)))), schema=schema)
    later = completion(came, schema, ("id",), {"name": "now"})
    assert (came.values, came.unknown) == (["2", None, "then"], ("name",))
    assert (later.values, later.unknown) == (["2", "now", None], ("note",))


def test_an_array_that_no_column_keeps_is_refused_also_as_it_is_now():
    schema = Schema(columns=(Column(name="id", type=BIGINT), Column(name="name", type=array(INT))))
    _, came = told(*transaction(500, (10, update((2, SAME), key=(1, None)))), schema=schema)
    assert completion(came, schema, ("id",), {"name": "{1,2}"}).values == ["2", "[1,2]"]
    assert completion(came, schema, ("id",), {"name": "{{1},{2}}"}).refused


@pytest.mark.parametrize(
    ("keys", "kind"),
    [(("name",), "i"), (("id", "name"), "d"), ((), "d"), ((), "n")],
    ids=["another index", "another primary key", "no primary key", "nothing"],
)
def test_rows_that_were_identified_by_something_else_for_a_time_are_an_end(keys, kind):
    """Such an update does not carry the key that the row had."""
    other = (15, relation(keys=keys, identity=kind))
    with pytest.raises(HistoryGone, match="not by id"):
        told(*transaction(500, (10, insert(1, "a")), other, (20, insert(2, "b"))))
    with pytest.raises(HistoryGone, match="not by the whole row"):
        told(other, *transaction(500, (20, insert(2, "b"))), identity=())


def test_rows_that_were_identified_by_all_of_their_columns_for_a_time_are_told_in_full():
    whole = (15, relation(keys=("id", "name"), identity="f"))
    found = told(*transaction(500, (10, insert(1, "a")), whole, (20, update((2, "b"), old=(1, "a")))))
    assert short(found)[1:] == [(True, ("1", "a"), ()), (False, ("2", "b"), ())]


def test_what_identified_rows_outside_the_range_does_not_matter():
    other = (15, relation(keys=("name",), identity="i"))
    again = (25, relation())
    loaded = transaction(400, other, (20, update((2, "b"))))
    assert len(told(*loaded, again, *transaction(500, (30, insert(3, "c"))), after=500)) == 1


def test_with_full_identity_the_old_row_tells_what_was_left_alone():
    whole = told(*transaction(500, (10, update((2, SAME), old=(1, "big")))))
    assert not any(event.not_sent for event in whole)
    assert short(whole) == [(True, ("1", "big"), ()), (False, ("2", "big"), ())]
    kept = told(*transaction(500, (10, update((1, SAME), old=(1, "big")))))
    assert short(kept) == [(False, ("1", "big"), ())]


def test_without_a_primary_key_every_change_is_an_end_and_a_beginning():
    whole = (5, relation(keys=("id", "name"), identity="f"))
    found = told(whole, *transaction(500, (10, update((1, "b"), old=(1, "a")))), identity=())
    assert short(found) == [(True, ("1", "a"), ()), (False, ("1", "b"), ())]
    same = told(whole, *transaction(500, (10, update((1, "a"), old=(1, "a")))), identity=())
    assert short(same) == [(False, ("1", "a"), ())]


def test_truncate_of_this_table_clears_and_of_another_does_not():
    described = (1, relation(OTHER, "lines", ("id",)))
    found = told(described, *transaction(500, (10, truncate(OTHER, OURS)), (20, truncate(OTHER))))
    assert [event.clears for event in found] == [True]


def test_columns_that_came_later_are_unknown_and_those_that_went_are_left_out():
    newer = Schema(columns=(*SCHEMA.columns, Column(name="note", type=TEXT)))
    found = told((1, relation(columns=("gone", "id", "name"))), *transaction(5, (1, insert("x", 1, "a"))), schema=newer)
    assert short(found) == [(False, ("1", "a", None), ("note",))]


def test_a_relation_that_changes_within_a_transaction_counts_from_there():
    other = (15, relation(columns=("name", "id")))
    found = told(*transaction(500, (10, insert(1, "a")), other, (20, insert("b", 2))))
    assert [tuple(event.values) for event in found] == [("1", "a"), ("2", "b")]


def test_bytes_that_are_no_text_are_refused_as_they_came():
    (found,) = told(*transaction(500, (10, insert(1, b"\xff"))))
    assert (found.refused, found.values) == ("a value is not valid UTF-8", (None, None))
    assert found.raw


@pytest.mark.parametrize(
    "messages",
    [[(10, insert(1, "a"))], transaction(500, (10, insert(1, "a")))[:-1], transaction(500, (10, insert(1, oid=99)))],
    ids=["outside a transaction", "half a transaction", "of a table that nobody described"],
)
def test_what_is_no_whole_transaction_is_an_error(messages):
    with pytest.raises(SourceError):
        told(*messages)


@pytest.mark.parametrize(
    ("given", "element", "expected"),
    [
        ("{}", TEXT, "[]"),
        ("{1,NULL,-3}", INT, "[1,null,-3]"),
        ('{a,"",NULL,"NULL","x,y","q\\"\\\\",é}', TEXT, '["a","",null,"NULL","x,y","q\\"\\\\","é"]'),
    ],
)
def test_arrays(given, element, expected):
    assert array_json(given, element) == expected


@pytest.mark.parametrize("given", ["{{1,2},{3,4}}", "[0:1]={1,2}"])
def test_an_array_that_no_column_keeps_is_refused(given):
    schema = Schema(columns=(Column(name="id", type=BIGINT), Column(name="name", type=array(INT))))
    (found,) = told(*transaction(500, (10, insert(1, given))), schema=schema)
    assert "column 'name'" in found.refused
    assert given not in found.refused


def test_places_of_the_log():
    assert [number(text) for text in ("0/0", "0/16B3748", "1A/F")] == [0, 0x16B3748, 0x1A0000000F]
    assert lsn(0x1A0000000F) == "1A/F"
