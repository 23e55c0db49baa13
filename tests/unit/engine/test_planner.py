"""The plan of a load: columns, contract, position, mode."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar

import pytest

from tidegate.checks.not_null import NotNull
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import EFFECTS, Mirror, Upsert, WriteHint
from tidegate.core.grouping import Steps
from tidegate.core.ids import Connection
from tidegate.core.plan import KeyFacts, Mode, Reset, WriteChoice, WriteFacts
from tidegate.core.policies.rules import Rule
from tidegate.core.ports.format import TableState
from tidegate.core.position import Position
from tidegate.core.schema import (
    BIGINT,
    DOUBLE,
    INT,
    RESCUED,
    TEXT,
    UUID,
    ChangeKind,
    Column,
    ColumnIds,
    Schema,
    SchemaChange,
    Type,
    decimal,
)
from tidegate.core.slices import Everything, Range
from tidegate.core.source_columns import SourceColumn, SourceColumns, Use
from tidegate.engine.planner import PlanInputs, make_plan
from tidegate.engine.stream import Policies, Stream
from tidegate.errors import ColumnMissing, InternalError, SchemaRefused
from tidegate.formats.shared.statements import evolve, evolved
from tidegate.sources.database import Database
from tidegate.strategies.full import Full
from tidegate.writers.append import Append
from tidegate.writers.merge import Merge
from tidegate.writers.replace import Replace
from unit.engine.sqlite_streams import bare

NOW = datetime(2025, 1, 1, tzinfo=UTC)
WINDOW = Range(cursor=("at",), after="1", upto="2")


@dataclass(frozen=True, kw_only=True)
class Always(Append):
    """A writer that chooses what it was made with."""

    accepts = EFFECTS
    needs_key = True
    idempotent = True
    deletes_by_key = True

    kind: ClassVar[str] = "always"
    mode: Mode = Mode.MERGE_ON_READ

    def choose(self, facts: WriteFacts) -> WriteChoice:
        return WriteChoice(mode=self.mode, reason=f"{facts.rows} rows")


def schema(**columns: Type) -> Schema:
    return Schema(columns=tuple(Column(name=name, type=type_) for name, type_ in columns.items()))


def stream(*, key=("id",), **values) -> Stream:
    shop = Database(connection=Connection(name="shop", url="sqlite:///shop.db"), table="orders")
    return bare(Full(), Always(), key, source=shop, policies=Policies(**values))


def plan(
    columns: Schema,
    table: Schema | None = None,
    *,
    since: Position | None = None,
    last_sequence=0,
    unloaded=(),
    before=None,
    writer=Always(),
    reset=None,
    **values,
):
    found = PlanInputs(
        table=TableState(exists=table is not None, snapshot="9" if table else None, rows=5, schema=table),
        since=since,
        changes=ChangeSet(slices=(WINDOW,), effect=Upsert(), state={"value": "2"}, loaded_through="2", rows=3),
        columns=columns,
        identity="server/relation",
        clock=77,
        witness={},
        facts=WriteFacts(effect=Upsert(), rows=3, table_rows=5, reset=reset),
        last_sequence=last_sequence,
        unloaded=unloaded,
        before=before,
    )
    return make_plan(replace(stream(**values), writer=writer), found, now=NOW)


def test_a_first_load_makes_the_table_and_load_one():
    made = plan(schema(id=INT, name=TEXT))
    assert made.evolution.create
    assert made.base is None
    assert made.position.sequence == 1
    assert (made.position.source, made.position.clock, made.position.loaded_through) == ("server/relation", 77, "2")
    assert made.position.load_id == made.load_id
    assert made.write.reason == "3 rows"


def test_the_next_load_counts_on_from_the_table():
    since = Position(sequence=7, load_id="x", kind="full")
    made = plan(schema(id=INT), schema(id=INT), since=since)
    assert (made.position.sequence, made.base, made.evolution.create) == (8, "9", False)


def test_a_sequence_is_never_used_twice():
    since = Position(sequence=3, load_id="x", kind="full")
    assert plan(schema(id=INT), schema(id=INT), since=since, last_sequence=5).position.sequence == 6


def test_a_plan_is_json():
    document = json.loads(json.dumps(plan(schema(id=INT)).to_dict()))
    assert document["changes"]["slices"][0]["upto"] == "2"
    # What a registry keeps is flat: other releases read the plans that this one has saved.
    flat = "load_id stream uid target created_at base since position changes columns key schema_changes evolve write"
    assert set(document) == {*flat.split(), "create", "deletes", "most_deleted", "missing_keys", "added", "reset"}
    assert (document["stream"], document["create"], document["deletes"]["apply"]) == ("s", True, "hard")


def test_added_and_widened_columns_evolve_the_table():
    made = plan(schema(id=BIGINT, price=decimal(12, 2), note=TEXT), schema(id=INT, price=decimal(10, 2)))
    assert {(change.column, change.kind) for change in made.evolution.apply} == {
        ("id", ChangeKind.WIDEN),
        ("price", ChangeKind.WIDEN),
        ("note", ChangeKind.ADD_COLUMN),
    }


def test_a_dropped_column_is_kept_and_told():
    made = plan(schema(id=INT), schema(id=INT, gone=TEXT))
    assert [(change.column, change.kind) for change in made.evolution.seen] == [("gone", ChangeKind.DROP_COLUMN)]
    assert made.evolution.apply == ()


@pytest.mark.parametrize(
    ("source", "table", "kind"),
    [
        (schema(id=INT, x=TEXT), schema(id=INT, x=INT), "type_change"),
        (schema(id=INT, x=INT), schema(id=INT, x=BIGINT), "narrow"),
        (schema(id=INT, x=decimal(10, 3)), schema(id=INT, x=decimal(10, 2)), "type_change"),
        (schema(id=INT, x=DOUBLE), schema(id=INT, x=decimal(10, 2)), "type_change"),
    ],
)
def test_what_would_change_values_stops_and_names_the_column(source, table, kind):
    with pytest.raises(SchemaRefused) as caught:
        plan(source, table)
    assert f"x: {kind}" in caught.value.message
    assert caught.value.exit_code == 4


def test_what_is_left_out_is_told_once():
    left_out = (SchemaChange(kind=ChangeKind.TYPE_CHANGE, column="x", old="int", new="string"),)
    made = plan(schema(id=INT), schema(id=INT, x=INT, y=INT), unloaded=left_out)
    assert [(change.kind, change.column) for change in made.evolution.seen] == [
        ("drop_column", "y"),
        ("type_change", "x"),
    ]
    assert made.evolution.apply == ()


@pytest.mark.parametrize("mode", ["rescue", "discard"])
def test_a_key_of_another_type_stops_whatever_the_contract_says(mode):
    with pytest.raises(SchemaRefused, match="id: type_change"):
        plan(schema(id=TEXT), schema(id=INT), contract={"type_change": mode})


def numbered(columns: Schema, *numbers: str, relation: str = "77", **values) -> Schema:
    """The columns, of which the source has these numbers; all that it has if they are given by name."""
    ids = dict(zip(columns.names, numbers, strict=True)) if numbers else values.pop("ids")
    return replace(columns, ids=ColumnIds(relation=relation, columns=ids, **values))


def loaded(*names: str, relation: str = "77", **excluded: str) -> SourceColumns:
    """What a load said of these columns, which have the numbers from 1 on, and of some that were not read."""
    columns = [SourceColumn(id=str(number), name=name, target=name) for number, name in enumerate(names, 1)]
    unread = [SourceColumn(id=id_, name=name, target=None, use=Use.EXCLUDED) for name, id_ in excluded.items()]
    return SourceColumns(relation=relation, columns=(*columns, *unread))


RENAMED = (numbered(schema(id=INT, new=BIGINT), "1", "2"), schema(id=INT, old=INT))


def test_a_rename_that_the_source_tells_stops_or_becomes_the_tables():
    with pytest.raises(SchemaRefused, match="new: rename \\(old to new\\)"):
        plan(*RENAMED, before=loaded("id", "old"))
    made = plan(*RENAMED, before=loaded("id", "old"), contract={"rename": "evolve"})
    assert [(change.kind, change.column, change.old, change.new) for change in made.evolution.apply] == [
        ("rename", "new", "old", "new"),
        ("widen", "new", "int", "bigint"),
    ]
    assert made.evolution.source_columns == loaded("id", "new")
    kept = plan(*RENAMED, before=loaded("id", "old"), contract={"rename": "keep"})
    assert [(change.kind, change.column) for change in kept.evolution.seen] == [
        ("add_column", "new"),
        ("drop_column", "old"),
    ]


@pytest.mark.parametrize("ids", [True, False])
def test_a_type_that_only_a_load_that_stopped_has_widened_is_no_change_of_the_source(ids):
    def source(**columns) -> Schema:
        return numbered(schema(**columns), *map(str, range(len(columns)))) if ids else schema(**columns)

    before = SourceColumns.of(source(id=INT, size=INT), None, schema(id=INT, size=INT))
    assert before is not None
    before = SourceColumns.from_json(before.to_json({"id": "1", "size": "2"}), {"id": "1", "size": "2"})
    wide = schema(id=INT, size=BIGINT)
    made = plan(source(id=INT, size=INT, more=INT), wide, before=before)
    assert [(change.kind, change.column) for change in made.evolution.apply] == [("add_column", "more")]
    before = SourceColumns.of(source(id=INT, size=BIGINT), None, wide)
    with pytest.raises(SchemaRefused, match="size: narrow"):
        plan(source(id=INT, size=INT), wide, before=before)


def test_a_source_that_tells_columns_apart_is_believed_that_none_was_renamed():
    columns = numbered(schema(id=INT, new=INT), "1", "3")
    made = plan(columns, schema(id=INT, old=INT), before=loaded("id", "old"))
    assert [change.kind for change in made.evolution.apply] == ["add_column"]


@pytest.mark.parametrize("mode", ["stop", "evolve", "keep"])
def test_names_that_were_exchanged_stop_whatever_the_contract_says(mode):
    both = schema(id=INT, a=TEXT, b=TEXT)
    with pytest.raises(SchemaRefused, match="'a' at the source is the column that was 'b'"):
        plan(numbered(both, "1", "3", "2"), both, before=loaded("id", "a", "b"), contract={"rename": mode})
    # A column that holds rescued values has no number of its own.
    rescued = replace(both, columns=(*both, RESCUED))
    ids = {"id": "1", "a": "3", "b": "2", "x": "4"}
    with pytest.raises(SchemaRefused, match="'a' at the source is the column that was 'b'"):
        plan(numbered(rescued, ids=ids), rescued, before=loaded("id", "a", "b"), contract={"rename": mode})


@pytest.mark.parametrize(
    ("ids", "refused"),
    [
        ({"id": "1", "name": "3", "secret": "2"}, "'name' at the source is the column that was 'secret'"),
        ({"id": "1", "name": "3", "other": "2"}, "'name' at the source is the column that was 'secret'"),
        ({"id": "1", "name": "3"}, "'name' at the source is the column that was 'secret'"),
        ({"id": "1", "name": "4", "secret": "2"}, "'name' at the source is another column than before"),
        ({"id": "1", "name": "4", "secret": "3"}, None),  # dropped, and added again
        ({"id": "1", "name": "2", "secret": "3"}, None),
        ({"id": "1", "name": "2", "secret": "9"}, None),
    ],
)
@pytest.mark.parametrize("mode", ["stop", "evolve", "keep"])
def test_a_column_that_must_not_be_read_is_not_read_by_another_name(ids, refused, mode):
    table = schema(id=INT, name=TEXT)
    columns = numbered(table, ids=ids, takes=lambda name: name in ("id", "name"))
    known = loaded("id", "name", secret="3")
    if refused is None:
        plan(columns, table, before=known, contract={"rename": mode})
        return
    with pytest.raises(SchemaRefused, match=refused) as caught:
        plan(columns, table, before=known, contract={"rename": mode})
    assert "`source: {exclude: [name]}`" in caught.value.hint
    assert plan(columns, table, before=known, reset=Reset()).columns.names == ("id", "name")
    with pytest.raises(SchemaRefused, match=refused):  # of the contract, which nobody looks at
        plan(columns, table, before=known, reset=Reset(asked_by="contract: {type_change: replace}"))


@pytest.mark.parametrize("mode", ["stop", "evolve", "keep"])
def test_a_column_that_was_not_loaded_does_not_take_over_one_that_is_gone(mode):
    """The table has another column of its new name, which no column of the source has been for some time."""
    columns, table = numbered(schema(id=INT, name=TEXT), "1", "3"), schema(id=INT, name=TEXT)
    before = loaded("id", secret="3")
    with pytest.raises(SchemaRefused, match="was 'secret', and the table has another 'name'"):
        plan(columns, table, before=replace(before, kept=("name",)), contract={"rename": mode})
    # Without it then, a load that stopped has added the column since.
    assert not plan(columns, table, before=before, contract={"rename": mode}).evolution.apply


def test_a_column_that_a_load_has_added_before_it_stopped_is_the_one_that_is_kept_beside():
    columns, keep = numbered(schema(id=INT, new=TEXT), "1", "2"), {"rename": "keep"}
    table = schema(id=INT, old=TEXT, new=TEXT)
    made = plan(columns, table, before=loaded("id", "old"), contract=keep)
    assert made.evolution.source_columns == replace(loaded("id", "new"), kept=("old",))
    assert SourceColumns.from_json(
        made.evolution.source_columns.to_json({"id": "1", "old": "2", "new": "3"}), {"id": "1", "was": "2", "new": "3"}
    ) == replace(loaded("id", "new"), kept=("was",))
    with pytest.raises(SchemaRefused, match="both names are in use"):
        plan(columns, table, before=replace(loaded("id", "old"), kept=("new",)), contract=keep)
    with pytest.raises(SchemaRefused, match="both names are in use"):
        plan(columns, table, before=loaded("id", "old"), contract={"rename": "evolve"})


def test_a_column_that_is_left_out_by_its_new_name_is_a_rename():
    table = schema(id=INT, name=TEXT)
    columns = numbered(schema(id=INT), ids={"id": "1", "tmp_name": "2"}, takes=lambda name: name != "tmp_name")
    with pytest.raises(SchemaRefused, match="'name' is 'tmp_name' at the source now"):
        plan(columns, table, before=loaded("id", "name"))
    kept = plan(columns, table, before=loaded("id", "name"), contract={"rename": "keep"})
    assert [(change.kind, change.column) for change in kept.evolution.seen] == [("drop_column", "name")]
    # It is the table's column still, should the project read it again.
    (left_out,) = (each for each in kept.evolution.source_columns if each.id == "2")
    assert (left_out.target, left_out.use) == ("name", Use.EXCLUDED)
    # So is one that `discard` leaves out; the values of one that is rescued are kept.
    columns = numbered(schema(id=INT), ids={"id": "1", "tmp_name": "2"})
    discard = {"add_column": "discard"}
    with pytest.raises(SchemaRefused, match="'name' is 'tmp_name' at the source now, which `add_column: discard`"):
        plan(columns, table, before=loaded("id", "name"), contract=discard)
    plan(columns, table, before=loaded("id", "name"), contract={**discard, "rename": "evolve"})
    plan(columns, table, before=loaded("id", "name"), contract={"add_column": "rescue"})


def test_columns_of_a_table_that_was_made_anew_are_followed_by_name():
    again = numbered(schema(id=INT, city=TEXT, total=INT), "1", "2", "3", relation="78")
    made = plan(again, schema(id=INT, total=INT), before=loaded("id", "total"))
    assert [(change.kind, change.column) for change in made.evolution.apply] == [("add_column", "city")]
    with pytest.raises(SchemaRefused, match="'phone' was removed and 'email' of the same type was added"):
        plan(
            numbered(schema(id=INT, email=TEXT), "1", "2", relation="78"),
            schema(id=INT, phone=TEXT),
            before=loaded("id", "phone"),
        )


def test_the_table_knows_which_of_its_columns_a_load_that_stopped_has_renamed():
    """Names change before the commit; the number by which the format knows the column does not."""
    told = loaded("id", "a").to_json({"id": "10", "a": "11"})
    table = schema(id=INT, b=TEXT)
    before = SourceColumns.from_json(told, {"id": "10", "b": "11"})
    for name, changes in (("a", [("rename", "a")]), ("b", []), ("c", [("rename", "c")])):
        columns = numbered(schema(id=INT, **{name: TEXT}), "1", "2")
        made = plan(columns, table, before=before, contract={"rename": "evolve"})
        assert [(change.kind, change.column) for change in made.evolution.apply] == changes


def test_the_contract_decides():
    with pytest.raises(SchemaRefused):
        plan(schema(id=INT, new=TEXT), schema(id=INT), contract={"add_column": "stop"})
    added = plan(schema(id=INT, new=TEXT), schema(id=INT), contract={"add_column": "evolve"})
    assert (added.columns.names, [change.column for change in added.evolution.apply]) == (("id", "new"), ["new"])
    with pytest.raises(SchemaRefused):
        plan(schema(id=INT), schema(id=INT, gone=TEXT), contract={"drop_column": "stop"})
    assert plan(schema(id=INT, x=INT), schema(id=INT, x=BIGINT), contract={"narrow": "keep"}).evolution.apply == ()


def test_what_may_be_a_rename_stops_unless_it_is_allowed():
    with pytest.raises(SchemaRefused, match="'old' was removed and 'new'"):
        plan(schema(id=INT, new=TEXT), schema(id=INT, old=TEXT))
    allowed = plan(schema(id=INT, new=TEXT), schema(id=INT, old=TEXT), contract={"rename": "evolve"})
    assert [change.column for change in allowed.evolution.apply] == ["new"]
    assert [change.column for change in plan(schema(id=INT, new=BIGINT), schema(id=INT, old=TEXT)).evolution.apply] == [
        "new"
    ]


def test_types_that_a_table_keeps_as_text_are_no_change():
    assert plan(schema(id=INT, token=UUID), schema(id=INT, token=TEXT)).evolution.seen == ()


def test_a_key_column_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(ColumnMissing, match=r"'id'.*known: ident, name"):
        plan(schema(ident=INT, name=TEXT))


def test_names_that_differ_only_by_case_are_refused():
    with pytest.raises(SchemaRefused, match="differ only by case: Name, name"):
        plan(schema(id=INT, Name=TEXT, name=TEXT))
    with pytest.raises(SchemaRefused, match="'ID' and the table's column 'id'"):
        plan(schema(ID=INT), schema(id=INT), key=())


def test_a_column_in_another_case_is_renamed_by_its_number_or_with_all_rows():
    table, columns = schema(id=INT, Name=TEXT), numbered(schema(id=INT, name=TEXT), "1", "2")
    with pytest.raises(SchemaRefused, match="name: rename \\(Name to name\\)"):
        plan(columns, table, before=loaded("id", "Name"))
    with pytest.raises(SchemaRefused, match="differ only by case"):
        plan(columns, table, before=loaded("id", "Name"), contract={"rename": "keep"})
    followed = plan(columns, table, before=loaded("id", "Name"), contract={"rename": "evolve"})
    refreshed = plan(schema(id=INT, name=TEXT), table, reset=Reset())
    for made in (followed, refreshed):
        altered = evolved(made.evolution.apply, made.columns)
        assert list(evolve("t", altered)) == [
            "ALTER TABLE t RENAME COLUMN `Name` TO `_tidegate_renaming_name`",
            "ALTER TABLE t RENAME COLUMN `_tidegate_renaming_name` TO `name`",
        ]


def test_rules_are_held_against_the_columns_before_a_row_is_read():
    rule = Rule(check=NotNull(columns=("nmae",)), name="not_null(nmae)")
    with pytest.raises(ColumnMissing, match=r"check not_null\(nmae\) names the column 'nmae'.*did you mean 'name'"):
        plan(schema(id=INT, name=TEXT), schema(id=INT, name=TEXT), checks=(rule,))


def test_a_promise_of_no_null_that_the_source_gives_up_is_given_up_by_the_table_unless_the_contract_stops_it():
    required = Schema(columns=(Column(name="id", type=INT), Column(name="name", type=TEXT, nullable=False)))
    optional = schema(id=INT, name=TEXT)
    (change,) = plan(optional, required).evolution.apply
    assert (change.kind, change.column) == (ChangeKind.NULLABILITY, "name")
    with pytest.raises(SchemaRefused, match="forbids: name: nullability"):
        plan(optional, required, contract={"nullability": "stop"})
    assert plan(schema(id=INT), required, contract={"nullability": "stop"}).evolution.apply, "of a column that is gone"
    assert plan(required, optional).evolution.apply == ()


def test_a_cast_that_cannot_be_proven_stops_and_says_which_can():
    with pytest.raises(SchemaRefused, match="forbids: price: type_change") as caught:
        plan(schema(id=INT, price=DOUBLE), schema(id=INT, price=decimal(12, 2)), contract={"type_change": "cast"})
    assert "`cast` converts integers to decimals" in caught.value.hint


@pytest.mark.parametrize("writer", [Merge(), Replace()])
def test_what_is_cheaper_erases_no_value_of_a_column_that_the_load_does_not_write(writer):
    """A column that is gone, excluded, discarded, or another's."""

    def written(table: Schema, effect: Mirror) -> Mode:
        found = PlanInputs(
            table=TableState(exists=True, snapshot="9", rows=5, schema=table),
            since=None,
            changes=ChangeSet(slices=(Everything(),), effect=effect),
            columns=schema(id=INT, v=INT),
            identity="server/relation",
            clock=77,
            witness={},
            facts=WriteFacts(
                effect=effect, rows=3, table_rows=5, keys=KeyFacts(columns=("id",), unique=True), aligned=True
            ),
        )
        return make_plan(replace(stream(), writer=writer), found, now=NOW).write.mode

    by_id = Steps(column="id", width=10)
    for effect, keeps in (
        (Mirror(hint=WriteHint.REWRITE), Mode.MERGE_DIFFERENCES),
        (Mirror(hint=WriteHint.COMPARE), Mode.MERGE_DIFFERENCES),
        (Mirror(of=by_id), Mode.MERGE_PARTITIONS),
    ):
        assert written(schema(id=INT, v=INT, old=TEXT), effect) is keeps
    assert written(schema(id=INT, v=INT), Mirror(hint=WriteHint.REWRITE)) is Mode.OVERWRITE
    with pytest.raises(InternalError, match="must be kept"):
        plan(schema(id=INT), schema(id=INT, old=TEXT), writer=Always(mode=Mode.OVERWRITE))
