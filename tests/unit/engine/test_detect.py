"""What of a position and of a registry is believed, before anything is read; the measure of the table is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.checks.not_null import NotNull
from tidegate.core.ledger import Entry, Ledger
from tidegate.core.policies.contract import Mode
from tidegate.core.policies.rules import Judges, Rule
from tidegate.core.ports.format import Layout, SinceLoad
from tidegate.core.position import Position
from tidegate.core.position_state import AS_LOADED
from tidegate.core.schema import TEXT, ChangeKind, Column
from tidegate.core.source_columns import SourceColumns
from tidegate.engine import column_backfill, partitions, untouched
from tidegate.engine.context import LoadContext
from tidegate.engine.stages.detect import detect
from tidegate.engine.stream import Stream, VerifyLevel
from tidegate.errors import PlanError
from tidegate.registry.store import Registry
from tidegate.strategies.checksum import Checksum, Method
from tidegate.strategies.full import Full
from tidegate.writers.merge import Merge
from tidegate.writers.replace import Replace
from unit.engine.sqlite_streams import Shop

BY_TEN = Checksum(method=Method.BY_INTEGER, column="id", modulus=10)


@contextmanager
def opened(shop: Shop, stream: Stream | None = None, **options: Any) -> Iterator[LoadContext]:
    stream = stream or shop.stream()
    with (
        Registry.open(f"sqlite:///{shop.folder / 'registry.db'}") as registry,
        stream.source.probe(None, stream.bound_request) as probe,
    ):
        registry.register(uid=stream.uid, name=stream.name, source=stream.source_name, target=str(stream.target))
        yield shop.work(registry, probe, stream, **options)


# Partitions


@pytest.fixture
def shop(tmp_path) -> Shop:
    """Forty rows in four partitions, all of them loaded; the registry knows them."""
    shop = Shop(folder=tmp_path, strategy=BY_TEN)
    shop.fill(40)
    ledger, state, digest = there(shop)
    shop.position = Position(sequence=1, load_id="one", kind="checksum", state=state, schema=digest)
    keep(shop, ledger)
    return shop


def there(shop: Shop, strategy: Checksum = BY_TEN) -> tuple[Ledger, dict[str, Any], str]:
    """The partitions that the source has now, the state of a load of them, and the digest of its columns."""
    with shop.stream().source.probe() as probe:
        changes = strategy.detect(probe, None, None)
        ledger = Ledger().loaded(changes.parts)
        return ledger, {**changes.state, **ledger.voucher()}, probe.schema().digest


def keep(shop: Shop, ledger: Ledger | None) -> None:
    with opened(shop) as work:
        method = BY_TEN.partitions.grouping(work.probe).to_dict()
        work.context.registry.keep_ledger("a1b2", method, ledger or Ledger())


def moved(shop: Shop, measured: Ledger | None = None) -> tuple[list[str], bool]:
    """The partitions to move, and whether the table had to be measured."""
    asked = []

    def measure(_work, grouping):
        asked.append(grouping)
        return measured

    with opened(shop) as work:
        changes, _ = detect(work, measure=measure)
    return sorted(part.label for part in changes.slices) if changes else [], bool(asked)


def test_a_registry_that_the_position_vouches_for_is_enough(shop):
    assert moved(shop) == ([], False)
    shop.sql("update t set at = '2025-02-01' where id in (5, 6, 39)")
    assert moved(shop) == (["0", "3"], False)


@pytest.mark.parametrize("known", [None, "older"])
def test_a_lost_or_older_registry_is_not_believed_and_the_table_is_measured(shop, known):
    loaded, _, _ = there(shop)
    older = Ledger(entries={**loaded.entries, "0": loaded.entries["1"]})
    keep(shop, older if known else None)
    assert moved(shop) == ([], False), "the sum of the source is the one that the position carries"
    shop.sql("update t set at = '2025-02-01' where id = 15", "delete from t where id >= 30")
    assert moved(shop, loaded) == (["1", "3"], True)
    assert moved(shop, older) == (["0", "1", "3"], True), "what the table holds decides"


def test_what_others_did_to_the_table_is_what_was_measured(shop):
    loaded, _, _ = there(shop)
    keep(shop, None)
    shop.position = replace(shop.position, state={**shop.position.state, "total": str(Ledger().total)})
    assert moved(shop, Ledger(entries={**loaded.entries, "9": Entry(fingerprint=loaded.total)})) == (["9"], True)
    with opened(shop) as work:
        changes, _ = detect(work, measure=lambda *_: loaded)
        assert (changes.slices, changes.rows, changes.reason) == ((), 0, "every partition matches the source")
        assert partitions.vouched(changes, loaded).state == there(shop)[1]


def test_another_method_is_measured_and_leaves_no_partition_of_the_old_one(shop):
    by_twenty = replace(BY_TEN, modulus=20)
    shop.strategy = by_twenty
    assert moved(shop) == ([], False), "the sum does not depend on how rows are cut"
    coarse, _, _ = there(shop, by_twenty)
    shop.sql("update t set at = '2025-02-01' where id = 35")
    assert moved(shop, coarse) == (["1"], True)


def test_a_position_that_was_rewound_vouches_for_nothing(shop):
    loaded, _, _ = there(shop)
    shop.position = replace(shop.position, state=BY_TEN.unclaimed(shop.position.state))
    older = Ledger(entries={**loaded.entries, "0": loaded.entries["1"]})
    assert moved(shop, older) == (["0"], True), "although the source is what it was at that load"


def test_a_ledger_counts_only_where_position_and_columns_vouch_for_it(shop):
    ledger, _, _ = there(shop)
    with opened(shop) as work:
        columns = work.probe.schema()
    more = replace(columns, columns=(*columns, Column(name="note", type=TEXT)))
    assert partitions.trusted(ledger, shop.position, columns) is ledger
    assert partitions.trusted(None, shop.position, columns) is None
    assert partitions.trusted(ledger, None, columns) is None
    assert partitions.trusted(ledger, shop.position, more) is None
    assert partitions.trusted(Ledger(), shop.position, columns) is None


def test_a_partition_by_a_column_that_the_table_does_not_have_cannot_be_measured(shop):
    with opened(shop) as work:
        grouping = BY_TEN.partitions.grouping(work.probe)
        with pytest.raises(PlanError, match="has no column 'id'") as refused:
            partitions.measure(SimpleNamespace(columns=["at"]), "lake.out.t", grouping, work.probe.schema())
    assert "--full-refresh" in refused.value.hint


def test_numbers_that_a_database_does_not_order_exactly_are_no_steps(tmp_path):
    shop = Shop(folder=tmp_path, strategy=replace(BY_TEN, column="price"))
    shop.sql("create table t (id integer primary key, price decimal(9,0))", "insert into t values (1, 7)")
    with opened(shop) as work, pytest.raises(PlanError, match="no exact order in this database"):
        detect(work)


# A table that is left alone because it is what its own load made of it


@pytest.fixture
def whole(tmp_path) -> Shop:
    """Three rows that strategy `full` has loaded."""
    shop = Shop(folder=tmp_path, strategy=Full(), writer=Replace(), key=())
    shop.fill(3)
    shop.position = Position(sequence=1, load_id="one", kind="full")
    with opened(shop) as work:
        changes, _ = detect(work)
        state = {**changes.state, AS_LOADED: {**changes.state[AS_LOADED], "load": "one"}}
        columns = work.probe.schema()
        shop.position = replace(shop.position, state=state, schema=columns.digest, source=work.probe.identity())
    return shop


def as_loaded(work: LoadContext, **state: Any) -> LoadContext:
    """The table as the load left it, but for what is given."""
    table = replace(work.recovered.table, schema=work.probe.schema(), since_load=SinceLoad(same_rows=True))
    return replace(work, recovered=replace(work.recovered, table=replace(table, **state)))


def policies(stream: Stream, **given: Any) -> Stream:
    return replace(stream, policies=replace(stream.policies, **given))


class Lookup:
    judges = Judges.LOOKUP


def doubt(shop: Shop, stream: Stream | None = None, *, proven: bool = True, **table: Any) -> str | None:
    with opened(shop, stream) as opened_work:
        work = as_loaded(opened_work, **table)
        recovered = replace(work.recovered, proven=proven)
        since, reason = untouched.trusted(replace(work, recovered=recovered), shop.position)
        assert ("fingerprint" in since.state) is (reason is None)
        return reason


def test_a_table_that_nobody_touched_is_left_alone(whole):
    assert doubt(whole) is None
    with opened(whole) as work:
        assert detect(as_loaded(work))[0] is None
    whole.sql("update t set at = '2025-02-01' where id = 1")
    with opened(whole) as work:
        changes, _ = detect(as_loaded(work))
    assert changes.reason == "every row is read: the fingerprint of the source is not the loaded one"


def test_every_setting_that_may_change_the_table_counts(whole):
    stream = whole.stream()
    changed = {
        "writer": replace(stream, writer=Merge()),
        "key": replace(stream, key=("id",)),
        "source": replace(stream, source=replace(stream.source, table="u")),
        "strategy": replace(stream, strategy=BY_TEN),
        "layout": policies(stream, layout=Layout(partition_by=("id",))),
        "checks": policies(stream, checks=(Rule(check=NotNull(columns=("at",)), name="n"),)),
        "verify": policies(stream, verify=VerifyLevel.COUNTS),
        "contract": policies(stream, contract={"rename": "keep"}),
    }
    known = untouched.settings(stream)
    assert known == untouched.settings(whole.stream())
    assert [name for name, other in changed.items() if untouched.settings(other) == known] == []


def test_what_makes_a_position_prove_nothing(whole):
    others = "others have changed the table since the last load"
    assert doubt(whole, since_load=SinceLoad(same_rows=False)) == others
    assert doubt(whole, since_load=SinceLoad(same_rows=True, partitioning=1)) == "the table's partitioning has changed"
    assert doubt(whole, proven=False) == "the last load was never verified"
    assert doubt(whole, replace(whole.stream(), writer=Merge())) == "settings of the stream have changed"
    with opened(whole) as work:
        columns = work.probe.schema()
    fewer = replace(columns, columns=columns.columns[:1])
    assert doubt(whole, schema=fewer) == "the table's columns are not those of the source"
    assert doubt(whole, schema=None) == "the table's columns are not those of the source"
    more = replace(columns, columns=(*columns, Column(name="kept", type=TEXT)))
    assert doubt(whole, schema=more) is None, "a column that the source lost may stay"
    with opened(whole) as work:
        changes, _ = detect(as_loaded(work, since_load=SinceLoad()))
    assert changes.reason == f"every row is read: {others}"
    whole.position = replace(whole.position, load_id="two")
    assert doubt(whole) == "the last load did not note what the whole source was"


def test_without_a_proof_of_the_load_its_rows_prove_nothing(whole):
    unverified = policies(whole.stream(), verify=VerifyLevel.NONE)
    seen = replace(unverified, format=replace(unverified.format, invisible=False))
    noted = {**whole.position.state[AS_LOADED], "settings": untouched.settings(unverified)}
    whole.position = replace(whole.position, state={**whole.position.state, AS_LOADED: noted})
    assert doubt(whole, unverified) is None, "what was published was written as a whole"
    assert doubt(whole, seen) == "with verify: none nothing shows whether the last load was written as a whole"


def test_a_check_of_another_table_is_asked_each_time(whole):
    looking = policies(whole.stream(), checks=(Rule(check=Lookup(), name="references"),))
    noted = {**whole.position.state[AS_LOADED], "settings": untouched.settings(looking)}
    whole.position = replace(whole.position, state={**whole.position.state, AS_LOADED: noted})
    assert doubt(whole, looking) == "a check of the stream looks at another table"


# Columns that are filled for rows that were loaded before them


def test_a_column_is_new_until_a_load_of_every_row_had_it(tmp_path):
    shop = Shop(folder=tmp_path)
    shop.fill(3)
    stream = policies(shop.stream(), contract={ChangeKind.ADD_COLUMN: Mode.FILL})

    def new() -> tuple[str, ...]:
        with opened(shop, policies(shop.stream(), contract=stream.policies.contract)) as work:
            found = column_backfill.new_columns(work)
            if found:
                changes, _ = detect(work)
                assert changes.rows == 3, "every row is read again"
                assert changes.reason.startswith(f"new in the source: {', '.join(found)}; every row is read again")
            return found

    with opened(shop) as work:
        columns = work.probe.schema()
    shop.position = replace(shop.loaded(), schema=columns.digest)
    assert new() == (), "the position says so, also where the registry was lost"
    shop.source_columns = SourceColumns.of(columns, None, columns)
    shop.sql("alter table t add column size integer default 7")
    assert new() == ("size",)
    with opened(shop) as work:
        wider = work.probe.schema()
    # A load of some rows alone has not filled it, nor has one of other columns after that.
    some = SourceColumns.of(wider, shop.source_columns, wider).of_some_rows(shop.source_columns)
    for told in (some, SourceColumns.of(wider, some, wider).of_some_rows(some)):
        shop.source_columns = SourceColumns.from_json(
            told.to_json({name: name for name in wider.names}), {name: name for name in wider.names}
        )
        assert new() == ("size",)
    stream = shop.stream()
    assert new() == (), "the contract does not ask for it"
    stream = policies(stream, contract={ChangeKind.ADD_COLUMN: Mode.FILL})
    shop.source_columns = None
    assert new() == ("id", "at", "size"), "no load said which columns it had"
    shop.position = None
    assert new() == (), "a first load reads every row anyway"
